"""How many gradients a run took, and for what."""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.results.statistics import read_search
from pymc_tempering.types import FloatArray

__all__ = ["gradients_spent", "spent_arrays"]

_PARTS = ("search", "tuning", "draws")


def spent_arrays(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Variables of the group ``tempering`` that say what was spent; by chain.

    Parameters
    ----------
    statistics : mapping of ndarray
        ``search``, ``gradients_so_far`` and ``n_gradients`` (chain, draw), where they
        were recorded.

    Examples
    --------
    >>> from pymc_tempering.results.statistics import pack_search
    >>> counts = {"n_gradients": np.array([[5, 6]]), "gradients_so_far": np.array([[25, 31]])}
    >>> spent = spent_arrays(counts | {"search": pack_search({"gradients": 90})[None, None]})
    >>> gradients_spent(spent)
    {'search': 90, 'tuning': 20, 'draws': 11}
    """
    if not {"search", "gradients_so_far", "n_gradients"} <= set(statistics):
        return {}
    so_far, of_draw = statistics["gradients_so_far"], statistics["n_gradients"]
    return {
        "search_gradients": read_search(statistics)["search_gradients"],
        "tuning_gradients": so_far[:, 0] - of_draw[:, 0],
        "draws_gradients": of_draw.sum(axis=1),
    }


def gradients_spent(arrays: Mapping[str, FloatArray]) -> dict[str, int]:
    """Gradients of search, tuning and draws of all chains; empty where that is not known.

    Parameters
    ----------
    arrays : mapping of ndarray
        From :func:`spent_arrays`.
    """
    if not arrays:
        return {}
    search, tuning, draws = (arrays[f"{part}_gradients"] for part in _PARTS)
    # chains of one run share a search; where runs were put together, each had its own
    totals = np.unique(search).sum(), tuning.sum(), draws.sum()
    return dict(zip(_PARTS, map(int, totals), strict=True))
