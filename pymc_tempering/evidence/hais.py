"""The evidence of a HAIS run, from the weights of its forward and reverse annealing runs."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student_t

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.annealed import (
    annealed_forward,
    annealed_reverse,
    bidirectional,
)
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.uncertainty import StandardError, log_z_standard_error
from pymc_tempering.evidence.common import MethodEstimate, support_diagnostics
from pymc_tempering.numerics import MAX_PARETO_K
from pymc_tempering.types import FloatArray

__all__ = ["annealing_diagnostics", "collect", "deciding_pareto_k"]

MIN_WEIGHT_ESS = 20.0
MAX_GAP = 3.0
MIN_ACCEPTED = 0.02
MIN_PARTICLES = 25
"""The fewest that `pymc_tempering.numerics.pareto_k` fits a tail to."""
MAX_CROSSING = 4.0
"""Standard errors by which the lower bound may exceed the upper."""

_CROSSING_RATE = 0.02


def collect(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z of each chain from both directions by Bennett's ratio, with bounds.

    Every proposed particle counts, accepted or not. Where the target is zero on part of the base,
    its mass there is the share of forward particles of weight zero: no later move leaves the
    support.

    Parameters
    ----------
    statistics : mapping of ndarray
        ``log_weight_forward``, ``log_weight_reverse``, ``accepted`` (chain, draw, scan), ``betas``
        (chain, draw, knot), ``n_levels`` (chain, draw).

    Returns
    -------
    MethodEstimate
        ``lower`` and ``upper`` are those of all chains together, stochastic bounds each: in
        expectation, and by more than a nats on the wrong side with probability at most
        ``exp(-a)``.

    Raises
    ------
    DataError
        If a chain has draws from more than one schedule, as those of tuning are.
    """
    forward_all = statistics["log_weight_forward"]
    reverse_all = statistics["log_weight_reverse"]
    betas = statistics["betas"]
    n_chains = len(forward_all)
    for chain in range(n_chains):
        if np.isnan(forward_all[chain]).any() or np.ptp(statistics["n_levels"][chain]) > 0:
            raise DataError(
                f"Chain {chain} has draws of more than one schedule, or of the pilot run, so it "
                "mixes tuning with sampling. Pass the draws after tuning only."
            )
    names = ("support_mass", "weight_ess", "pareto_k_weights_forward", "pareto_k_weights_reverse",
             "log_z_forward", "log_z_reverse")  # fmt: skip
    arrays = {name: np.full(n_chains, np.nan) for name in names}
    arrays["betas"] = betas[:, 0]
    arrays["n_levels"] = statistics["n_levels"][:, 0].astype(float)
    arrays["acceptance_rate_particles"] = statistics["accepted"].mean(axis=(1, 2))
    log_z, influences = np.empty(n_chains), []
    for chain in range(n_chains):
        forward, reverse = forward_all[chain].ravel(), reverse_all[chain].ravel()
        mass = float(np.mean(np.isfinite(forward)))
        log_mass = np.log(mass) if mass > 0 else -np.inf
        up, down = annealed_forward(forward), annealed_reverse(reverse, log_mass)
        pair = bidirectional(forward, reverse, log_mass)
        log_z[chain] = pair.log_z
        influences.append(pair.forward_influence + pair.reverse_influence)
        for name, value in zip(
            names,
            (mass, up.weight_ess, up.pareto_k, down.pareto_k, pair.lower, pair.upper),
            strict=True,
        ):
            arrays[name][chain] = value
    mass = float(np.mean(np.isfinite(forward_all)))
    up = annealed_forward(forward_all.ravel())
    down = annealed_reverse(reverse_all.ravel(), np.log(mass) if mass > 0 else -np.inf)
    lower, upper = up.log_z, down.log_z
    diagnostics = annealing_diagnostics(
        weight_ess=float(arrays["weight_ess"].sum()),
        pareto_k=deciding_pareto_k(
            arrays["pareto_k_weights_forward"], arrays["pareto_k_weights_reverse"]
        ),
        gap=upper - lower,
        # both directions of a scan share its chain, so that their errors are added as they are
        gap_error=log_z_standard_error(
            np.zeros(n_chains), (up.influence - down.influence).reshape(n_chains, -1)
        ),
        support_mass=mass,
        n_particles=forward_all[0].size,
    )
    return MethodEstimate(
        log_z=log_z,
        influences=influences,
        per_method={
            "bar": float(log_z.mean()),
            "ais forward": float(lower),
            "ais reverse": float(upper),
        },
        lower=float(lower),
        upper=float(upper),
        warnings=[*diagnostics, *_acceptance_diagnostics(arrays["acceptance_rate_particles"])],
        arrays=arrays,
    )


def _acceptance_diagnostics(rates: FloatArray) -> Iterator[Diagnostic]:
    idle = np.flatnonzero(rates < MIN_ACCEPTED).tolist()
    if idle:
        yield Diagnostic(
            "particles_hardly_accepted",
            f"in chains {idle} fewer than {100 * MIN_ACCEPTED:.0f} % of the new particles "
            "replaced the current one, so draws and upper bound rest on few of them.",
            "Raise `n_levels` or `tune`.",
            {"acceptance_rate_particles": rates[idle].tolist(), "chain": idle},
        )


def annealing_diagnostics(
    *,
    weight_ess: float,
    pareto_k: float,
    gap: float,
    gap_error: StandardError,
    support_mass: float,
    n_particles: int,
) -> Iterator[Diagnostic]:
    """What speaks against an estimate from annealing runs.

    Parameters
    ----------
    weight_ess : float
        Effective number of forward particles.
    pareto_k : float
        Tail index of the weights, of :func:`deciding_pareto_k`; nan where it is unknown.
    gap : float
        Upper minus lower bound, in nats; nan where only one direction was run.
    gap_error : StandardError
        Of `gap`.
    support_mass : float
        Share of the base on the support of the target.
    n_particles : int
        Weights that a tail was fitted to.
    """
    if n_particles < MIN_PARTICLES:
        yield Diagnostic(
            "too_few_particles",
            f"there are {n_particles} annealing weights in a direction, fewer than "
            f"{MIN_PARTICLES}, so nothing is known of their tail, and the error of log Z is "
            "itself uncertain.",
            "Raise the number of draws or particles.",
            {"number of weights": n_particles},
        )
    if weight_ess < MIN_WEIGHT_ESS:
        yield Diagnostic(
            "few_particles_hold_weight",
            f"the effective number of forward particles is {weight_ess:.1f}.",
            "Raise `n_levels`, or the number of draws or particles.",
            {"weight_ess": float(weight_ess)},
        )
    if pareto_k > MAX_PARETO_K:
        yield Diagnostic(
            "pareto_k_high",
            f"the annealing weights have heavy tails (k = {pareto_k:.2f}), so the error of "
            "log Z may be too small.",
            "Raise `n_levels`.",
            {"largest pareto_k_weights": float(pareto_k)},
        )
    if abs(gap) > MAX_GAP:
        yield Diagnostic(
            "bounds_far_apart",
            f"forward and reverse annealing differ by {gap:.1f} nats, so one of them has not "
            "seen what the other has.",
            "Raise `n_levels` or `tune`.",
            {"upper - lower": float(gap)},
        )
    # with few starting draws the error itself is uncertain
    allowed = max(MAX_CROSSING, float(student_t.isf(_CROSSING_RATE, gap_error.df)))
    if -gap > allowed * gap_error.se:
        yield Diagnostic(
            "bounds_crossed",
            f"the lower bound exceeds the upper by {-gap:.2g} nats, more than the error of "
            f"their difference, {gap_error.se:.2g}, explains, so the reverse particles did not "
            "start from draws of the whole posterior.",
            "Start them from more draws, of every mode, or raise `n_levels`.",
            {"upper - lower": float(gap), "its standard error": float(gap_error.se)},
        )
    yield from support_diagnostics(
        support_mass,
        "the particles started where there is no density under the model. The forward and the "
        "combined estimate account for it; the reverse one was corrected by the log of the base's "
        "mass on the support.",
    )


def deciding_pareto_k(forward: ArrayLike, reverse: ArrayLike) -> float:
    """Worst tail index of the direction that shows what is missing; nan where none is known.

    Where there are forward particles, they decide. Their heavy weights are those of the few that
    reached what most miss, the neck of a funnel for one; reverse particles that began in the bulk
    never saw it, and their weights look sound.

    Parameters
    ----------
    forward, reverse : array_like
        Of each chain, nan where unknown; empty for a direction that was not run.

    Examples
    --------
    >>> deciding_pareto_k([0.8, 0.3], [0.2, 0.2]), deciding_pareto_k([], [0.4, np.nan])
    (0.8, 0.4)
    """
    for values in (np.ravel(forward), np.ravel(reverse)):
        known = values[~np.isnan(values.astype(float))]
        if known.size:
            return float(known.max())
    return float("nan")
