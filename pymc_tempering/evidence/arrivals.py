"""How often each chain came anew from the base into each group of its draws.

A round trip shows that the way is open, not that a mode's share is known: a share rests on
arrivals that are independent of one another, and on few of them where the mode is hard to reach.
"""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.agreement import MIN_SPLIT, scalar_series, split_in_two
from pymc_tempering.types import FloatArray

__all__ = [
    "MIN_ARRIVALS",
    "arrival_diagnostics",
    "arrivals_of_wide_base",
    "component_diagnostics",
    "restart_diagnostics",
]

MIN_ARRIVALS = 10
"""Of a chain: the error of a share from so many is a third of it."""

FEWEST_IN_A_GROUP = 4
"""In one chain, where the mean over chains is enough: where 10 are expected, fewer happen once in
a hundred chains."""

MIN_SHARE = 0.05
"""Of the draws, for a group to matter: a smaller one is a twentieth of the evidence at most."""


def arrivals_of_wide_base(statistics: Mapping[str, FloatArray]) -> int | None:
    """Count arrivals from a Gaussian that knows the modes by their moments alone.

    Parameters
    ----------
    statistics : mapping of ndarray
        ``n_tempered_restarts`` and ``n_components`` (chain, draw), where they were recorded.

    Returns
    -------
    int or None
        Of all chains; 0 where some chain hardly ever starts anew, None where one starts from fits
        of the modes.

    Examples
    --------
    >>> restarts = np.ones((4, 30))
    >>> arrivals_of_wide_base({"n_tempered_restarts": restarts})
    120
    >>> from_fits = {"n_tempered_restarts": restarts, "n_components": 2 * restarts}
    >>> arrivals_of_wide_base(from_fits) is None
    True
    """
    if np.any(statistics.get("n_components", 0)):
        return None
    if "n_tempered_restarts" not in statistics:
        return 0
    by_chain = statistics["n_tempered_restarts"].sum(axis=1)
    return int(by_chain.sum()) if (by_chain >= MIN_ARRIVALS).all() else 0


def restart_diagnostics(restarts: FloatArray) -> list[Diagnostic]:
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
    diagnostic = Diagnostic(
        "few_tempered_restarts",
        f"in chains {idle} the recorded replica was renewed from the base {counts} times, fewer "
        f"than {MIN_ARRIVALS}, so little says that every mode was found.",
        "Raise `tune` and `draws`.",
        {"n_tempered_restarts": counts, "chain": idle},
    )
    return [diagnostic]


def component_diagnostics(arrivals: FloatArray, share: FloatArray) -> list[Diagnostic]:
    """Warning about a component of the base that holds many scans by few arrivals.

    What a mixture covers thinly, through its wide component, is reached seldom and then held for
    long: the mean swap rate does not show it.

    Parameters
    ----------
    arrivals : ndarray of shape (n_chains, n_components)
        At the target, from each component; the wide one first.
    share : ndarray of shape (n_chains, n_components)
        Of the scans, in which the replica at the target had come from the component.

    Returns
    -------
    list of Diagnostic
        One at most, of the component with fewest.

    Examples
    --------
    >>> arrivals, share = np.array([[3.0, 400.0]] * 4), np.array([[0.1, 0.9]] * 4)
    >>> [diagnostic] = component_diagnostics(arrivals, share)
    >>> diagnostic.code, diagnostic.measured["arrivals"]
    ('mode_hardly_reached', [3, 3, 3, 3])
    >>> component_diagnostics(10.0 * arrivals, share)
    []
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
    name = "its wide component" if component == 0 else f"its component {component}"
    diagnostic = Diagnostic(
        "mode_hardly_reached",
        f"in chains {counted.tolist()} {own} replicas came from the base by {name}, where each "
        f"chain should have some {MIN_ARRIVALS}, and they hold up to "
        f"{100 * share[counted, component].max():.0f} % of the draws, so the share of these, and "
        "what they add to log Z, rest on few numbers.",
        "Raise `draws`.",
        {"component": component, "arrivals": own, "chain": counted.tolist()},
    )
    return [diagnostic]


def arrival_diagnostics(
    draws: Mapping[str, FloatArray],
    restarts: FloatArray | None,
    tempered_restart: FloatArray | None = None,
) -> list[Diagnostic]:
    """Warning about a group of draws into which some chain hardly ever came from the base.

    Arrivals during a draw are counted for the group in which the draw is, if the draw is of one of
    them: a replica that stays in its group, and was there from the beginning, may give way to
    others within a draw and be back at its end. Chains with few arrivals in all have a warning of
    their own, :func:`restart_diagnostics`.

    Parameters
    ----------
    draws : mapping of str to ndarray of shape (n_chains, n_draws, ...)
        Posterior draws by variable.
    restarts : ndarray of shape (n_chains, n_draws), or None
        Arrivals at the target from the base during each draw, where they were recorded.
    renewed : ndarray of bool of shape (n_chains, n_draws), optional
        Whether the draw is of a replica that so arrived; by default all are.

    Returns
    -------
    list of Diagnostic
        One at most, of the group with fewest.

    Examples
    --------
    >>> x = np.repeat([[0.0, 9.0], [9.0, 0.0]], 50, axis=1) + np.linspace(0, 1, 100)
    >>> restarts = np.where(x > 5, 2, 0)
    >>> [diagnostic] = arrival_diagnostics({"x": x}, restarts)
    >>> diagnostic.code, diagnostic.measured["arrivals"]
    ('mode_hardly_reached', [0, 0])
    >>> arrival_diagnostics({"x": x}, np.full(x.shape, 2))
    []
    >>> [diagnostic] = arrival_diagnostics({"x": x}, np.full(x.shape, 2), renewed=x < 5)
    >>> diagnostic.measured["arrivals"]
    [0, 0]
    """
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
    diagnostic = Diagnostic(
        "mode_hardly_reached",
        f"among the draws with {group_name} the replicas of each chain arrived "
        f"{arrivals.astype(int).tolist()} times from the base, where each should some "
        f"{MIN_ARRIVALS} times, so the share of these draws, and what they add to log Z, rest on "
        "few numbers.",
        "Raise `draws`, or pass a wider `base=`.",
        {"group": group_name, "arrivals": arrivals.astype(int).tolist()},
    )
    return [diagnostic]
