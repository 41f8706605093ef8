"""Whether neighbouring densities of the path, and base and posterior, share their draws."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings
from pymc_tempering.types import FloatArray

MIN_SWAP_RATE = 0.05
"""Mean swap probability of a pair of levels; tuning aims at a half for all of them."""

_DELTAS = ("delta", "target_delta", "base_delta", "log_weight_reverse")


def bounded(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Replace infinite deltas, which no estimator takes, by finite ones above all others.

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
            # no weight of a draw so far above is felt at any other beta
            finite[name] = np.where(np.isposinf(values), max(top, 0.0) + 1e4, values)
    return finite


def base_reaches(statistics: Mapping[str, FloatArray]) -> bool:
    """Whether the base of a ladder is nowhere much thinner than the target where the target was.

    A base that was fitted with its tails draws excursions by itself, so that moves need not travel
    them. It reaches where the log ratio of the densities is nowhere above its median by more than
    the log of the number of scans: thinner than that, hardly one of as many draws comes there.
    False of runs without a ladder.
    """
    delta, betas = (statistics.get(name) for name in ("delta", "betas"))
    # methods with one replica have no levels beside it
    if delta is None or betas is None or delta.ndim < 4:
        return False
    of_target = delta[np.broadcast_to((betas == 1.0)[:, :, np.newaxis], delta.shape)]
    of_target = of_target[~np.isnan(of_target)]
    if of_target.size == 0:
        return False
    return bool(of_target.max() - np.median(of_target) <= np.log(of_target.size))


def infinite_deltas(recorded: Mapping[Any, Any]) -> Findings:
    """Recorded positions where the base has no density and the posterior has."""
    counts = {name: int(np.isposinf(np.asarray(recorded[name])).sum())
              for name in _DELTAS if name in recorded}  # fmt: skip
    found = {f"infinite {name}": count for name, count in counts.items() if count}
    if found:
        yield Finding(
            f"at {sum(found.values())} recorded positions the posterior has a density and the base "
            "has none. No replica comes there from the base, so log Z cannot be trusted, and "
            "neither can the shares of modes.",
            found,
            "outside_base",
        )


def _support(run: AtHand) -> Findings:
    if run.idata is not None and "sample_stats" in run.idata.children:
        yield from infinite_deltas(run.idata["sample_stats"].dataset)
    if run.parts is not None and run.support_mass < run.parts.least_support:
        yield Finding(
            f"{100 * (1 - run.support_mass):.1f} % of the base's draws have no density under the "
            "model. The estimate accounts for it, at the price of precision.",
            {"support_mass": float(run.support_mass)},
            "outside_target",
            "With a small mass, choose a transform that keeps the sampler inside, or a `base` "
            "inside the support.",
        )


def _no_overlap(run: AtHand) -> Findings:
    if run.kept is not None and not run.kept.size:
        return  # chains contradict each other, each with an estimate
    if not np.isfinite(np.mean(run.parts.log_z)) or not np.isfinite(run.estimate.se):
        yield Finding(
            "neighbouring levels share no draws, so there is no estimate.",
            {"log_z_chain": np.asarray(run.parts.log_z, dtype=float).tolist()},
        )


def _swap_rates(run: AtHand) -> Findings:
    rates = run.arrays.get("swap_acceptance_rate")
    if rates is None:
        return
    chain, pair = np.unravel_index(np.nanargmin(rates), rates.shape)
    if rates[chain, pair] < MIN_SWAP_RATE:
        low, high = run.arrays["betas"][chain, pair : pair + 2]
        yield Finding(
            f"{rates[chain, pair]:.3f} between beta = {low:.3g} and {high:.3g} in chain {chain}.",
            {
                "swap_acceptance_rate": float(rates[chain, pair]),
                "betas": [float(low), float(high)],
                "chain": [int(chain)],
            },
        )


def _visits(run: AtHand) -> Findings:
    if (share := run.arrays.get("level_probability")) is not None:
        name, remedy = "level", "Raise `tune`, or leave `log_level_weights` at 'adapt'."
        relative = np.nanmin(share, axis=1) * np.isfinite(share).sum(axis=1)
    elif (occupancy := run.arrays.get("lowest_occupancy")) is not None:
        name, remedy = "part", "Raise `tune`, or leave `log_zeta` at 'adapt'."
        relative = occupancy
    else:
        return
    # share of time over an equal share; a level with a twentieth of it is hardly passed
    low = np.flatnonzero(relative < 0.05).tolist()
    if low:
        yield Finding(
            f"in chains {low} one {name} has less than 5 % of its share.",
            {"lowest_occupancy": relative[low].tolist(), "chain": low},
            remedy=remedy,
        )


CHECKS = (
    Check(
        "no_overlap",
        "Neighbouring levels, or the draws and the Gaussian fitted to them, share no draws. There "
        "is no estimate (`nan`).",
        "Raise `n_levels` and `tune`; or write the model in coordinates that the data determine by "
        "themselves: the mean longitude, where the mean anomaly of a nearly circular orbit winds "
        "around.",
        _no_overlap,
        ("parts", "estimate"),
        refuses=True,
    ),
    Check(
        "swap_rate_near_zero",
        "Two neighbouring levels of parallel tempering swap with a probability below 0.05: "
        "replicas hardly pass between them.",
        "Raise `tune`, so that the schedule adapts, or `n_levels`.",
        _swap_rates,
        ("parts",),
    ),
    Check(
        "levels_hardly_visited",
        "Simulated tempering hardly visits a level, or continuous tempering a part of the range of "
        "beta: the weights, or the bias, do not balance the path.",
        "Raise `tune`, or leave `log_level_weights` or `log_zeta` at 'adapt'.",
        _visits,
        ("parts",),
    ),
    Check(
        "no_base_overlap",
        "The base lacks a part of the posterior (`outside_base`): no replica comes there from it, "
        "so log Z and the shares of modes cannot be trusted. A Gaussian covers everything; this "
        "concerns references of your own. Or much of the base has no density under the model "
        "(`outside_target`), as across a hard edge: the estimate accounts for it and is less "
        "precise. Parallel tempering warns where nine draws in ten are lost, joint continuous "
        "tempering where 19 of 20, other methods where one in a hundred.",
        "Leave `base` away for a Gaussian, which covers everything, or take a base that has the "
        "support of the posterior.",
        _support,
        (),
        words="base and posterior overlap in part",
    ),
)
