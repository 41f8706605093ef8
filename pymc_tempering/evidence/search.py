"""How far the modes of a run were searched for, and whether more of them are likely."""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.doubt import Doubt
from pymc_tempering.estimators.unseen import unseen_share
from pymc_tempering.references.necks import DEEP
from pymc_tempering.types import FloatArray

__all__ = ["search_arrays", "search_doubts", "search_line"]

MAX_MASS_ONCE = 0.5
"""Share of the fits' mass in modes that one start alone led to, beyond which as much is likely to
lie in modes that no start led to. Half, since replicas from a wide Gaussian find what lies among
modes that are known: on Boltzmann machine relaxations with a quarter of it log Z was right."""

MAX_MASS_ONCE_OF_FITS = 0.05
"""The same, where replicas come from the fits themselves and hardly find what these left out: as
much is missing from log Z then, as far as one can tell."""

FEW_HITS = 2
"""Starts of one mode: one as likely has none in one case of seven."""

MANY_STARTS = 100
"""Fewer are none that were to find all modes."""

_NAMES = ("starts", "modes", "left_out", "images", "mass_once", "hits", "necks", "rise_along",
          "rise", "rise_beyond", "log_mass", "log_mass_se")  # fmt: skip


def search_arrays(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Variables of the group ``tempering`` that say what was searched; by chain.

    Parameters
    ----------
    statistics : mapping of ndarray
        ``search_starts`` and others (chain, draw), where they were recorded.
    """
    if "search_starts" not in statistics:
        return {}
    # runs of earlier versions lack some of them
    known = [f"search_{name}" for name in _NAMES if f"search_{name}" in statistics]
    arrays = {name: statistics[name][:, 0] for name in known}
    counts = [statistics[f"search_{name}"][:, 0] for name in ("starts", "once", "twice")]
    shares = [unseen_share(*map(int, chain)) for chain in zip(*counts, strict=True)]
    arrays["search_unseen"], arrays["search_unseen_upper"] = np.transpose(shares)
    return arrays


def search_line(arrays: Mapping[str, FloatArray]) -> str | None:
    """Say in one line what was searched; None where that is not known, or nothing was.

    Examples
    --------
    >>> counts = {"starts": 1000, "modes": 3, "left_out": 1, "once": 1, "twice": 0}
    >>> counts |= {"mass_once": 0.0, "hits": np.array([700, 299, -1])}
    >>> recorded = {f"search_{name}": np.array([[value]]) for name, value in counts.items()}
    >>> search_line(search_arrays(recorded)).split(", 0.1")[0]
    '1000 starts led to 3 modes (700, 299 times; 1 of them without mass)'
    """
    if "search_starts" not in arrays or not arrays["search_starts"].any():
        return None
    # where chains of several runs were put together, the search that went furthest
    chain = int(np.argmax(arrays["search_starts"]))
    get = {name.removeprefix("search_"): values[chain] for name, values in arrays.items()}
    n_modes, n_left_out = int(get["modes"]), int(get["left_out"])
    hits = [str(int(n)) for n in get["hits"] if n >= 0]
    more = ", ..." if n_modes - n_left_out > len(hits) else ""
    without = f"; {n_left_out} of them without mass" if n_left_out else ""
    modes = f"{n_modes} mode{'s' if n_modes != 1 else ''}"
    n_images = int(get.get("images", 0))
    times = f"{', '.join(hits)}{more} times{without}"
    images = f" and images or surroundings of these to {n_images} more" if n_images else ""
    depth = float(get.get("necks", 0.0))
    necks = f"; necks {np.exp(depth):.1f} times narrower than the rest" if depth >= DEEP else ""
    return (
        f"{get['starts']:.0f} starts led to {modes} ({times}){images}, "
        f"{100 * get['unseen']:.2g} % (at most {100 * get['unseen_upper']:.2g} %) of such starts "
        f"to unknown ones{necks}"
    )


def search_doubts(arrays: Mapping[str, FloatArray], n_arrivals: int | None = 0) -> list[Doubt]:
    """Warning where the search says itself that it has missed modes that matter.

    Good and Turing's argument, for mass in place of starts: what was seen once stands for what was
    not seen. Replicas that come from a wide Gaussian are a search of their own, and a wider one.

    Parameters
    ----------
    arrays : mapping of ndarray
        From :func:`search_arrays`.
    n_arrivals : int or None
        Of such replicas, in all chains; None where replicas come from the fits of the search.

    Returns
    -------
    list of Doubt
        One at most.
    """
    if "search_starts" not in arrays or not (arrays["search_starts"] > 1).any():
        return []
    if n_arrivals is not None and n_arrivals >= MANY_STARTS:
        return []
    most_once = MAX_MASS_ONCE_OF_FITS if n_arrivals is None else MAX_MASS_ONCE
    share = float(np.max(arrays["search_mass_once"]))
    most_hits = int(np.max(arrays["search_hits"]))
    if share > most_once:
        found = (
            f"{100 * share:.0f} % of the mass, as far as local fits tell, is in modes that one of "
            f"{arrays['search_starts'].max():.0f} starts led to, so others that no start led to "
            "are likely to matter."
        )
    elif most_hits <= FEW_HITS and arrays["search_starts"].max() > MANY_STARTS:
        found = (
            f"At most {most_hits} of {arrays['search_starts'].max():.0f} starts led to any mode "
            "that may hold mass, so others as likely may have none."
        )
    else:
        return []
    reach = (
        "Replicas come from the fits of known modes, and hardly reach others."
        if n_arrivals is None
        else "Tempering finds those that are not much narrower than the rest."
    )
    return [
        Doubt(
            "modes_unseen",
            f"{found} {reach}",
            "Pass search='thorough', and compare.",
            {
                "search_mass_once": share,
                "search_unseen": float(np.max(arrays["search_unseen"])),
                "search_modes": int(np.max(arrays["search_modes"])),
            },
        )
    ]
