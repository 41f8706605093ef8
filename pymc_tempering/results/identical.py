"""Chains that are the same chain: what they agree on is no evidence of anything."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from pymc_tempering.errors import DataError
from pymc_tempering.types import FloatArray

__all__ = ["check_distinct_chains", "identical_chains"]

# what random numbers decide, by method; times and counts may coincide or differ for other reasons
_RANDOM = ("delta", "target_delta", "beta", "log_weight_forward", "lp")


def identical_chains(statistics: Mapping[str, FloatArray]) -> list[tuple[int, int]]:
    """Pairs of chains with the same recorded statistics, each with the first that it repeats.

    Parameters
    ----------
    statistics : mapping of ndarray of shape (n_chains, n_draws, ...)

    Returns
    -------
    list of (int, int)
        Positions (first, repeated). Chains whose statistics never change say nothing.

    Examples
    --------
    >>> identical_chains({"lp": np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]])})
    [(0, 2)]
    """
    arrays = [np.asarray(statistics[name]) for name in _RANDOM if name in statistics]
    if not arrays:
        return []
    seen: dict[str, int] = {}
    pairs = []
    for chain in range(len(arrays[0])):
        rows = [np.ascontiguousarray(array[chain]) for array in arrays]
        if not any(_varies(row) for row in rows):
            continue
        digest = hashlib.sha256(b"".join(row.tobytes() for row in rows)).hexdigest()
        if digest in seen:
            pairs.append((seen[digest], chain))
        seen.setdefault(digest, chain)
    return pairs


def check_distinct_chains(
    statistics: Mapping[str, FloatArray], names: Sequence[object] | None = None
) -> None:
    """Refuse chains that are copies of each other: they would make every error too small.

    Parameters
    ----------
    statistics : mapping of ndarray of shape (n_chains, n_draws, ...)
    names : sequence, optional
        What to call the chains; their positions by default.

    Raises
    ------
    DataError
        Naming the chains.
    """
    pairs = identical_chains(statistics)
    if not pairs:
        return
    listed = ", ".join(
        f"{b} repeats {a}" if names is None else f"{names[b]} repeats {names[a]}" for a, b in pairs
    )
    raise DataError(
        f"The same chain is there more than once: {listed} (chains in order). Copies carry no "
        "information, and log Z would get too small an error. Give every run a `random_seed` of "
        "its own, or leave the copies out, as in `idata.isel(chain=[0, 1])`."
    )


def _varies(row: FloatArray) -> bool:
    flat = row.reshape(len(row), -1)
    return bool((flat != flat[:1])[~np.isnan(flat)].any())
