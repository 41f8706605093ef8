"""How often each chain came anew from the base into each group of its draws.

A round trip shows that the way is open, not that a mode's share is known: a share rests on
arrivals that are independent of one another, and on few of them where the mode is hard to reach.
"""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.doubt import Doubt
from pymc_tempering.evidence.agreement import MIN_SPLIT, scalar_series, split_in_two
from pymc_tempering.types import FloatArray

__all__ = ["MIN_ARRIVALS", "arrival_doubts", "restart_doubts"]

MIN_ARRIVALS = 10
"""Of a chain: the error of a share from so many is a third of it."""

FEWEST_IN_A_GROUP = 4
"""In one chain, where the mean over chains is enough: where 10 are expected, fewer happen once in
a hundred chains."""

MIN_SHARE = 0.05
"""Of the draws, for a group to matter: a smaller one is a twentieth of the evidence at most."""


def restart_doubts(restarts: FloatArray) -> list[Doubt]:
    """Warning about chains whose target replica was hardly ever renewed from the base.

    Parameters
    ----------
    restarts : ndarray of shape (n_chains,)
        Arrivals at the target from the base.
    """
    idle = np.flatnonzero(restarts < MIN_ARRIVALS).tolist()
    if not idle:
        return []
    counts = restarts[idle].astype(int).tolist()
    doubt = Doubt(
        "few_tempered_restarts",
        f"in chains {idle} the recorded replica was renewed from the base {counts} times, fewer "
        f"than {MIN_ARRIVALS}, so little says that every mode was found.",
        "Raise `tune` and `draws`.",
        {"n_tempered_restarts": counts, "chain": idle},
    )
    return [doubt]


def arrival_doubts(draws: Mapping[str, FloatArray], restarts: FloatArray | None) -> list[Doubt]:
    """Warning about a group of draws into which some chain hardly ever came from the base.

    Arrivals during a draw are counted for the group in which the draw is: right on average.
    Chains with few arrivals in all have a warning of their own, :func:`restart_doubts`.

    Parameters
    ----------
    draws : mapping of str to ndarray of shape (n_chains, n_draws, ...)
        Posterior draws by variable.
    restarts : ndarray of shape (n_chains, n_draws), or None
        Arrivals at the target from the base during each draw, where they were recorded.

    Returns
    -------
    list of Doubt
        One at most, of the group with fewest.

    Examples
    --------
    >>> x = np.repeat([[0.0, 9.0], [9.0, 0.0]], 50, axis=1) + np.linspace(0, 1, 100)
    >>> restarts = np.where(x > 5, 2, 0)
    >>> [doubt] = arrival_doubts({"x": x}, restarts)
    >>> doubt.code, doubt.measured["arrivals"]
    ('mode_hardly_reached', [0, 0])
    """
    if restarts is None or not (restarts.sum(axis=1) >= MIN_ARRIVALS).all():
        return []
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
    doubt = Doubt(
        "mode_hardly_reached",
        f"among the draws with {group_name} the replicas of each chain arrived "
        f"{arrivals.astype(int).tolist()} times from the base, where each should some "
        f"{MIN_ARRIVALS} times, so the share of these draws, and what they add to log Z, rest on "
        "few numbers.",
        "Raise `draws`, or pass a wider `base=`.",
        {"group": group_name, "arrivals": arrivals.astype(int).tolist()},
    )
    return [doubt]
