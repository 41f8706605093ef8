"""Runs whose base has no density where the posterior has some."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.types import FloatArray

__all__ = ["base_reaches", "bounded", "overlap_diagnostics"]

_DELTAS = ("delta", "target_delta", "log_weight_reverse")

_BEYOND = 1e4
"""Nats above the largest finite delta: no weight of such a draw is felt at any other beta."""


def bounded(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Replace infinite deltas, which no estimator takes, by finite ones beyond all others.

    Parameters
    ----------
    statistics : mapping of str to ndarray
        Those without infinite deltas are the same arrays.

    Examples
    --------
    >>> bounded({"delta": np.array([np.inf, 2.0, -np.inf])})["delta"].tolist()
    [10002.0, 2.0, -inf]
    """
    finite = dict(statistics)
    for name in _DELTAS:
        values = statistics.get(name)
        if values is not None and np.isposinf(values).any():
            top = np.max(values, where=np.isfinite(values), initial=-np.inf)
            finite[name] = np.where(np.isposinf(values), max(top, 0.0) + _BEYOND, values)
    return finite


def overlap_diagnostics(statistics: Mapping[Any, Any]) -> list[Diagnostic]:
    """Warning about recorded positions where the base has no density and the posterior has.

    Parameters
    ----------
    statistics : mapping of str to array_like
        As they were recorded.

    Returns
    -------
    list of Diagnostic
        One at most.

    Examples
    --------
    >>> [diagnostic] = overlap_diagnostics({"target_delta": np.array([[np.inf, 1.0]])})
    >>> diagnostic.code, diagnostic.measured
    ('no_base_overlap', {'infinite target_delta': 1})
    """
    counts = {name: int(np.isposinf(np.asarray(statistics[name])).sum())
              for name in _DELTAS if name in statistics}  # fmt: skip
    found = {f"infinite {name}": count for name, count in counts.items() if count}
    if not found:
        return []
    diagnostic = Diagnostic(
        "no_base_overlap",
        f"at {sum(found.values())} recorded positions the posterior has a density and the base has "
        "none. No replica comes there from the base, so log Z cannot be trusted, and neither can "
        "the shares of modes.",
        "Leave `base` away for a Gaussian, which covers everything, or take a base that has the "
        "support of the posterior.",
        found,
    )
    return [diagnostic]


def base_reaches(statistics: Mapping[str, FloatArray]) -> bool:
    """Whether the base of a ladder is nowhere much thinner than the target where the target was.

    A base that was fitted with its tails draws excursions by itself, so that moves need not travel
    them. It reaches where the log ratio of the densities is nowhere beyond its median by more than
    the log of the number of scans: thinner than that, hardly one of as many draws comes there.

    Parameters
    ----------
    statistics : mapping of ndarray
        ``delta`` (chain, draw, scan, level) in nats, ``betas`` (chain, draw, level); unused levels
        and scans are nan.

    Returns
    -------
    bool
        False of runs without a ladder.

    Examples
    --------
    >>> delta = np.zeros((1, 100, 1, 2))
    >>> betas = np.tile([0.0, 1.0], (1, 100, 1))
    >>> base_reaches({"delta": delta, "betas": betas})
    True
    >>> delta[0, 7, 0, 1] = 5.0  # e^5 is more than 100
    >>> base_reaches({"delta": delta, "betas": betas})
    False
    """
    delta, betas = (statistics.get(name) for name in ("delta", "betas"))
    # one replica at a time has no levels beside it
    if delta is None or betas is None or delta.ndim < 4:
        return False
    of_target = delta[np.broadcast_to((betas == 1.0)[:, :, np.newaxis], delta.shape)]
    of_target = of_target[~np.isnan(of_target)]
    if of_target.size == 0:
        return False
    lead = of_target.max() - np.median(of_target)
    return bool(lead <= np.log(of_target.size))
