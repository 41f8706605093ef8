"""Whether a mode is missing in log Z, or hardly reached: every piece of evidence in the run.

A round trip shows that the path is open, not that a mode's share is known: a share rests on
arrivals that are independent of one another, and on few of them where the mode is hard to reach.
"""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.uncertainty import chain_standard_errors
from pymc_tempering.evidence.checks.chains import MIN_SPLIT, scalar_series, split_in_two
from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings
from pymc_tempering.references.prepared import MOST_ONCE, N_SEARCHES
from pymc_tempering.types import FloatArray

MIN_ARRIVALS = 10
"""Of a chain from the base: the error of a share from so many is a third of it."""

MIN_SHARE = 0.05
"""Of the draws, for a group to matter: a smaller one is a twentieth of the evidence at most."""


def mode_without_draws(log_masses: FloatArray, log_z: FloatArray, n_draws: int) -> Findings:
    """A mode of known mass that no chain has a draw from: log Z lacks as much.

    `log_masses` (chain, mode) in nats, nan where a mode had a draw; `n_draws` of all chains.
    """
    # where one chain was in a mode, the check of chains says how they differ
    in_none = np.min(log_masses, axis=0)
    if np.isnan(in_none).all():
        return
    log_share = float(np.nanmax(in_none) - np.mean(log_z))
    # of ten expected independent draws none is missing by chance
    if not log_share > np.log(max(MIN_SHARE, 10.0 / n_draws)):
        return
    lacking = float(np.logaddexp(0.0, log_share))
    yield Finding(
        "no draw comes from a mode that the search found and that a Gaussian fits well; by "
        f"that fit log Z lacks {lacking:.2g} nats.",
        {"log_mass_unvisited": float(np.nanmax(in_none)), "lacking": lacking},
        "mode_without_draws",
        "Leave `base` away, or sample with method='pt' and base='mixture', for replicas to "
        "come from that mode as well.",
    )


def known_mass_missing(searched: Mapping[str, FloatArray], log_z: float, se: float) -> Findings:
    """Log Z below the importance-sampled evidence of the modes that Gaussians fit well.

    Draws may come from every mode, and from one of them far too seldom, in all chains alike.
    """
    if "search_log_mass" not in searched:
        return
    # where chains of several runs were put together, the search that knows most
    chain = int(np.argmax(searched["search_log_mass"]))
    log_mass = float(searched["search_log_mass"][chain])
    error = float(np.hypot(searched["search_log_mass_se"][chain], se))
    lacking = log_mass - log_z
    # right runs fall short by three errors once in 700, and 0.05 nats do not matter
    if lacking > 3.0 * error + 0.05:
        yield Finding(
            f"the modes that Gaussians fit well hold a log mass of {log_mass:.2f} by draws of "
            f"these fits. Log Z is less by {lacking:.2g} nats, with an error of {error:.2g}.",
            {"search_log_mass": log_mass, "lacking": lacking},
            "known_mass_missing",
            "Raise `tune` and `draws`, or sample with method='pt' and base='mixture'.",
        )


def mode_out_of_reach(n_modes: FloatArray) -> Findings:
    """Modes that no Gaussian fits, or far outside a fixed base, and that no draw comes from."""
    unreached = int(n_modes.max())
    if unreached >= 1:
        yield Finding(
            f"local fits found {unreached} mode(s) from which no draw comes. They are many "
            "standard deviations outside a fixed base, or of a shape that no Gaussian has and by "
            "height and curvature with much of the mass.",
            {"n_unreached_modes": unreached},
            "mode_out_of_reach",
            "Leave `adapt_base` on, give a wider base, or sample that mode by itself.",
        )


def legs_disagree(
    log_z: FloatArray, se: FloatArray, log_z_before: FloatArray, se_before: FloatArray
) -> Findings:
    """A log Z that is not the one from the wide Gaussian that tuning began with.

    That one is rough, from a few hundred scans, but of another path: a mode without a fit, which
    few levels from the mixture hardly ever reach, is missing in one of the two only. Arrays are
    (chain,), in nats; nan where a chain had one path alone.
    """
    known = np.isfinite(log_z) & np.isfinite(se) & np.isfinite(log_z_before) & (se_before > 0.0)
    n = int(known.sum())
    if n == 0:
        return
    own, other = float(log_z[known].mean()), float(log_z_before[known].mean())
    before = float(np.sum(se_before[known] ** 2)) / n**2
    if n > 1:
        before = max(before, float(np.var(log_z_before[known], ddof=1)) / n)
    error = float(np.sqrt(before + np.sum(se[known] ** 2) / n**2))
    # errors of so few scans are rough, and step sizes still adapted: five of them, and 0.1 nats
    if not abs(own - other) <= 5.0 * error + 0.1:
        yield Finding(
            f"from the mixture of the local fits log Z is {own:.2f}; from the wide Gaussian of "
            f"tuning it was {other:.2f}, with an error of {error:.2g}.",
            {"log_z_chain": own, "log_z_before": other, "error": error},
            "legs_disagree",
            'Pass `base="gaussian"`, and compare.',
        )


def few_restarts(arrays: Mapping[str, FloatArray]) -> Findings:
    """Chains without a round trip, or with few arrivals at the target from the base."""
    round_trips = arrays.get("n_round_trips", np.empty(0))
    restarts = arrays.get("n_tempered_restarts", np.empty(0))
    idle = np.flatnonzero(round_trips < 1).tolist()
    if idle:
        yield Finding(
            f"in chains {idle} no replica went from base to target and back.",
            {"n_round_trips": round_trips[idle].tolist(), "chain": idle},
            "no_round_trips",
            "Raise `tune` and `draws`, or `n_levels`; or pass a wider `base`.",
        )
    few = np.setdiff1d(np.flatnonzero(restarts < MIN_ARRIVALS), idle).tolist()
    if few:
        counts = restarts[few].astype(int).tolist()
        yield Finding(
            f"in chains {few} the recorded replica came anew from the base {counts} times, fewer "
            f"than {MIN_ARRIVALS}.",
            {"n_tempered_restarts": counts, "chain": few},
            "few_tempered_restarts",
            "Raise `tune` and `draws`.",
        )


def modes_unseen(searched: Mapping[str, FloatArray], n_arrivals: int | None = 0) -> Findings:
    """A search that has missed modes by its own count.

    Good and Turing's argument, for mass in place of starts: what one of several searches found
    stands for what none did. Replicas that come from a wide Gaussian are a search of their own, and
    a wider one: `n_arrivals` of them, None where replicas come from the fits of the search.
    """
    if "search_starts" not in searched or not (searched["search_starts"] > 1).any():
        return
    # a hundred starts or arrivals find what is not much narrower
    if n_arrivals is not None and n_arrivals >= 100:
        return
    # half: replicas from a wide Gaussian find what lies among known modes; on Boltzmann machine
    # relaxations with a quarter of the mass found once log Z was right
    most_once = MOST_ONCE if n_arrivals is None else 0.5
    share = float(np.max(searched["search_mass_once"]))
    # -1 fills what there is none of: of modes that no counted start led to, as along lines
    most_starts = int(np.max(searched["search_start_counts"], initial=0))
    if share > most_once:
        text = (
            f"{100 * share:.0f} % of the mass of the fits is in modes that one of {N_SEARCHES} "
            "searches alone found, so others that none found are likely to matter."
        )
    # one as likely as a mode with two starts has none in one case of seven
    elif most_starts <= 2 and searched["search_starts"].max() > 100:
        text = (
            f"At most {most_starts} of {searched['search_starts'].max():.0f} starts led to any "
            "mode that may hold mass, so others as likely may have none."
        )
    else:
        return
    reach = (
        "Replicas come from the fits of known modes, and hardly reach others."
        if n_arrivals is None
        else "Tempering finds those that are not much narrower than the rest."
    )
    measured = {"search_mass_once": share, "search_modes": int(np.max(searched["search_modes"]))}
    remedy = "Pass search='thorough', and compare."
    yield Finding(f"{text} {reach}", measured, "modes_unseen", remedy)


def arrivals_of_wide_base(statistics: Mapping[str, FloatArray]) -> int | None:
    """Arrivals in all chains from a Gaussian that knows the modes by their moments alone.

    0 where some chain hardly ever starts anew; None where one starts from fits of the modes.
    """
    if np.any(statistics.get("n_components", 0)):
        return None
    if "n_tempered_restarts" not in statistics:
        return 0
    by_chain = statistics["n_tempered_restarts"].sum(axis=1)
    return int(by_chain.sum()) if (by_chain >= MIN_ARRIVALS).all() else 0


def _look(run: AtHand) -> Findings:
    arrays, parts, estimate = run.arrays, run.parts, run.estimate
    without = []
    if "log_mass_unvisited" in arrays:
        n_draws = int(np.prod(run.statistics["log_mass_unvisited"].shape[:2]))
        without = [*mode_without_draws(arrays["log_mass_unvisited"], parts.log_z, n_draws)]
    # that no draw comes from a mode says as much as its missing mass
    yield from without or known_mass_missing(arrays, estimate.log_z, estimate.se)
    if "n_unreached_modes" in arrays:
        yield from mode_out_of_reach(arrays["n_unreached_modes"])
    yield from few_restarts(arrays)
    if "log_z_before" in arrays:
        yield from legs_disagree(
            parts.log_z,
            chain_standard_errors(parts.influences),
            arrays["log_z_before"],
            arrays["log_z_se_before"],
        )
    yield from modes_unseen(arrays, arrivals_of_wide_base(run.statistics))


def _enough(arrivals: FloatArray) -> float:
    """How near the arrivals in a group, of each chain, are to what is enough; 1 or more where so.

    In one chain 4 are, where the mean is enough: where 10 are expected, fewer happen once in a
    hundred chains.
    """
    return float(min(arrivals.mean() / MIN_ARRIVALS, arrivals.min() / 4))


def component_arrivals(arrivals: FloatArray, share: FloatArray) -> Findings:
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
        if (enough := _enough(own)) < worst:
            worst, found = enough, (component, counted, own.astype(int).tolist())
    if found is None:
        return
    component, counted, own = found
    name = "the wide component" if component == 0 else f"component {component}"
    yield Finding(
        f"in chains {counted.tolist()} {own} replicas came from {name} of the base, where each "
        f"chain should have some {MIN_ARRIVALS}. They hold up to "
        f"{100 * share[counted, component].max():.0f} % of the draws.",
        {"component": component, "arrivals": own, "chain": counted.tolist()},
        "component",
        "Raise `draws`.",
    )


def group_arrivals(
    draws: Mapping[str, FloatArray],
    restarts: FloatArray | None,
    tempered_restart: FloatArray | None = None,
) -> Findings:
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
    >>> [*group_arrivals({"x": x}, np.full(x.shape, 2))]
    []
    """
    # chains with few arrivals in all are named by the check of missing modes
    if restarts is None or not (restarts.sum(axis=1) >= MIN_ARRIVALS).all():
        return
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
            if (enough := _enough(arrivals)) < worst:
                worst, found = enough, (f"{name} {sign} {threshold:.3g}", arrivals)
    if found is None:
        return
    group_name, arrivals = found
    counts = arrivals.astype(int).tolist()
    yield Finding(
        f"among the draws with {group_name} replicas of each chain came {counts} times from "
        f"the base, where each should some {MIN_ARRIVALS} times.",
        {"group": group_name, "arrivals": counts},
        "group",
    )


def _arrivals(run: AtHand) -> Findings:
    if "component_arrivals" in run.arrays:
        yield from component_arrivals(
            run.arrays["component_arrivals"], run.arrays["component_share"]
        )
    counts = (run.statistics.get(name) for name in ("n_tempered_restarts", "tempered_restart"))
    yield from group_arrivals(run.draws, *counts)


CHECKS = (
    Check(
        "mode_hardly_reached",
        "A twentieth of the draws or more is in a group, or comes from one component of the base, "
        "into which some chain came from the base fewer than 4 times, or all of them fewer than 10 "
        "times on average. The share of these draws, and what they add to log Z, rest on few "
        "independent numbers, even where the chains agree.",
        "Raise `draws`, or pass a wider `base=`.",
        _arrivals,
        ("parts", "draws"),
    ),
    Check(
        "mode_missing",
        "Log Z may lack the mass of a mode. The standard error knows nothing of it, so the "
        "estimate prints as a lower bound. The text lists the evidence: no draw comes from a mode "
        "that the search fitted well (`mode_without_draws`), or from one of another shape "
        "(`mode_out_of_reach`); log Z is less than the mass of the modes that are fitted well "
        "(`known_mass_missing`); replicas hardly travelled between base and target "
        "(`no_round_trips`, `few_tempered_restarts`); two bases of one run give different log Z "
        "(`legs_disagree`); the search found many modes once, so not all (`modes_unseen`).",
        "Raise `tune` and `draws`, or pass a wider `base`.",
        _look,
        ("parts", "estimate"),
        mass_missing=True,
        words="a mode may be missing",
    ),
)
