"""How often each chain came anew from the base into each group of its draws.

A round trip shows that the path is open, not that a mode's share is known: a share rests on
arrivals that are independent of one another, and on few of them where the mode is hard to reach.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from pymc_tempering.evidence.checks.chains import MIN_SPLIT, scalar_series, split_in_two
from pymc_tempering.evidence.checks.check import AtHand, Check, Finding
from pymc_tempering.evidence.checks.mode_missing import MIN_ARRIVALS
from pymc_tempering.types import FloatArray

__all__ = ["CHECKS"]

FEWEST_IN_A_GROUP = 4
"""In one chain, where the mean over chains is enough: where 10 are expected, fewer happen once in
a hundred chains."""

MIN_SHARE = 0.05
"""Of the draws, for a group to matter: a smaller one is a twentieth of the evidence at most."""


def component_arrivals(arrivals: FloatArray, share: FloatArray) -> list[Finding]:
    """A component of the base that holds many scans by few arrivals; the one with fewest.

    What a mixture covers thinly, through its wide component, is reached seldom and then held for
    long: the mean swap rate does not show it. `arrivals` and `share` of the scans are (chain,
    component), the wide component first.
    """
    worst, found = 1.0, None
    # chains that have other bases, or not this component, say nothing about it
    several = (arrivals > 0).sum(axis=1) > 1
    usual = several & (arrivals.sum(axis=1) >= MIN_ARRIVALS)
    for component in range(share.shape[1]):
        counted = np.flatnonzero(usual & (share[:, component] >= MIN_SHARE))
        # a chain that holds more of it by chance holds more of its own draws, not of the estimate
        if not counted.size or share[counted, component].sum() < MIN_SHARE * len(share):
            continue
        own = arrivals[counted, component]
        enough = min(own.mean() / MIN_ARRIVALS, own.min() / FEWEST_IN_A_GROUP)
        if enough < worst:
            worst, found = float(enough), (component, counted, own.astype(int).tolist())
    if found is None:
        return []
    component, counted, own = found
    name = "the wide component" if component == 0 else f"component {component}"
    return [
        Finding(
            f"in chains {counted.tolist()} {own} replicas came from {name} of the base, where each "
            f"chain should have some {MIN_ARRIVALS}. They hold up to "
            f"{100 * share[counted, component].max():.0f} % of the draws.",
            {"component": component, "arrivals": own, "chain": counted.tolist()},
            "component",
            "Raise `draws`.",
        )
    ]


def group_arrivals(
    draws: Mapping[str, FloatArray],
    restarts: FloatArray | None,
    tempered_restart: FloatArray | None = None,
) -> list[Finding]:
    """A group of draws into which some chain hardly ever came from the base; the one with fewest.

    Arrivals during a draw count for the group of the draw if the draw is of one of them: a replica
    that stays in its group may give way to others within a draw and be back at its end.

    `restarts` and `tempered_restart` are (chain, draw): arrivals at the target from the base, and
    whether the draw is of a replica that so arrived (by default all are).

    Examples
    --------
    >>> x = np.repeat([[0.0, 9.0], [9.0, 0.0]], 50, axis=1) + np.linspace(0, 1, 100)
    >>> [finding] = group_arrivals({"x": x}, np.where(x > 5, 2, 0))
    >>> finding.measured["arrivals"]
    [0, 0]
    >>> group_arrivals({"x": x}, np.full(x.shape, 2))
    []
    """
    # chains with few arrivals in all are named by the check of missing modes
    if restarts is None or not (restarts.sum(axis=1) >= MIN_ARRIVALS).all():
        return []
    if tempered_restart is not None:
        restarts = restarts * tempered_restart
    worst, found = 1.0, None
    for name, x in scalar_series(draws).items():
        # values of a discrete variable are no modes, and local moves go from one to another
        if x.shape != restarts.shape or np.array_equal(x, np.round(x)):
            continue
        threshold, explained = split_in_two(x.ravel())
        below = x < threshold
        if explained <= MIN_SPLIT or not MIN_SHARE <= below.mean() <= 1.0 - MIN_SHARE:
            continue
        for group, sign in ((below, "<"), (~below, ">")):
            arrivals = (restarts * group).sum(axis=1)
            enough = min(arrivals.mean() / MIN_ARRIVALS, arrivals.min() / FEWEST_IN_A_GROUP)
            if enough < worst:
                worst, found = float(enough), (f"{name} {sign} {threshold:.3g}", arrivals)
    if found is None:
        return []
    group_name, arrivals = found
    counts = arrivals.astype(int).tolist()
    return [
        Finding(
            f"among the draws with {group_name} replicas of each chain came {counts} times from "
            f"the base, where each should some {MIN_ARRIVALS} times.",
            {"group": group_name, "arrivals": counts},
            "group",
        )
    ]


def _look(run: AtHand) -> Iterator[Finding]:
    if "component_arrivals" in run.arrays:
        yield from component_arrivals(
            run.arrays["component_arrivals"], run.arrays["component_share"]
        )
    counts = (run.statistics.get(name) for name in ("n_tempered_restarts", "tempered_restart"))
    yield from group_arrivals(run.draws, *counts)


CHECKS = (
    Check(
        "mode_hardly_reached",
        "mode hardly reached",
        "A twentieth of the draws or more is in a group, or comes from one component of the base, "
        "into which some chain came from the base fewer than 4 times, or all of them fewer than 10 "
        "times on average. The share of these draws, and what they add to log Z, rest on few "
        "independent numbers, even where the chains agree.",
        "Raise `draws`, or pass a wider `base=`.",
        _look,
        ("parts", "draws"),
    ),
)
