"""The evidence from annealing: of a HAIS run, and of an ensemble of annealed particles."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.annealed import annealed_forward, annealed_reverse, bidirectional
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.estimators.uncertainty import StandardError, log_z_standard_error
from pymc_tempering.evidence.checks import diagnose
from pymc_tempering.evidence.checks.annealing import MIN_STARTS
from pymc_tempering.evidence.run import Annealed, MethodEstimate, Run
from pymc_tempering.types import FloatArray, IntArray


def collect(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z of each chain from both directions by Bennett's ratio, with bounds.

    Every proposed particle counts, accepted or not. Where the target is zero on part of the base,
    its mass there is the share of forward particles of weight zero: no later move leaves the
    support.

    ``lower`` and ``upper`` are stochastic bounds of all chains together: they hold in expectation,
    and are wrong by more than a nats with probability at most ``exp(-a)``. Refused with a DataError
    are draws from more than one schedule, as those of tuning are.
    """
    forward_all = statistics["log_weight_forward"]
    reverse_all = statistics["log_weight_reverse"]
    n_chains = len(forward_all)
    log_z, influences, rows = np.empty(n_chains), [], []
    for chain in range(n_chains):
        if np.isnan(forward_all[chain]).any() or np.ptp(statistics["n_levels"][chain]) > 0:
            raise DataError(
                f"Chain {chain} has draws of more than one schedule, or of the pilot run, so it "
                "mixes tuning with sampling. Pass the draws after tuning only."
            )
        forward, reverse = forward_all[chain].ravel(), reverse_all[chain].ravel()
        mass = float(np.mean(np.isfinite(forward)))
        log_mass = np.log(mass) if mass > 0 else -np.inf
        up, down = annealed_forward(forward), annealed_reverse(reverse, log_mass)
        pair = bidirectional(forward, reverse, log_mass)
        log_z[chain] = pair.log_z
        influences.append(pair.forward_influence + pair.reverse_influence)
        rows.append((mass, up.weight_ess, up.pareto_k, down.pareto_k, pair.lower, pair.upper))
    names = ("support_mass", "weight_ess", "pareto_k_weights_forward", "pareto_k_weights_reverse",
             "log_z_forward", "log_z_reverse")  # fmt: skip
    arrays = dict(zip(names, np.array(rows).T, strict=True))
    arrays["betas"] = statistics["betas"][:, 0]
    arrays["n_levels"] = statistics["n_levels"][:, 0].astype(float)
    arrays["acceptance_rate_particles"] = statistics["accepted"].mean(axis=(1, 2))
    mass = float(np.mean(np.isfinite(forward_all)))
    up = annealed_forward(forward_all.ravel())
    down = annealed_reverse(reverse_all.ravel(), np.log(mass) if mass > 0 else -np.inf)
    lower, upper = up.log_z, down.log_z
    annealed = Annealed(
        n_particles=forward_all[0].size,
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
        acceptance_rates=arrays["acceptance_rate_particles"],
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
        arrays=arrays,
        annealed=annealed,
    )


def ensemble_estimate(
    forward: FloatArray,
    reverse: FloatArray,
    support_mass: float = 1.0,
    n_support_draws: int = 1,
    starts: IntArray | None = None,
) -> LogZEstimate:
    """Estimate log Z from annealing in one or both directions, with its error and bounds.

    `forward` and `reverse` are log weights (particle,) in nats, both with the sign of the forward
    run, or empty. Forward particles are independent; reverse ones may come from a chain of draws.
    `support_mass` is the base's mass on the support of the target, from `n_support_draws` draws;
    where there are forward particles, they say it. `starts` (particle,) is the draw of the target,
    from 0 on, that each reverse particle descends from: particles of one draw may share its mode,
    so the error is that of means by draw. Default: every particle from a draw of its own.

    From forward particles alone it is the lower bound itself, from reverse ones the upper, from
    both Bennett's ratio.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> w = rng.normal(size=(2, 2000))
    >>> estimate = ensemble_estimate(w[0] - 0.5, w[1] + 0.5)
    >>> bool(abs(estimate.log_z) < 4 * estimate.se)
    True
    """
    if forward.size:
        support_mass = float(np.mean(np.isfinite(forward)))
    log_mass = float(np.log(support_mass)) if support_mass > 0 else -np.inf
    up = annealed_forward(forward) if forward.size else None
    down = annealed_reverse(reverse, log_mass) if reverse.size else None
    per_method: dict[str, float] = {}
    errors: list[StandardError] = []
    if up is not None:
        per_method["ais forward"] = up.log_z
        errors.append(_error(up.influence))
    if down is not None:
        per_method["ais reverse"] = down.log_z
        errors.append(_error(down.influence, starts))
    # of the bounds, before both are combined
    gap_error = _sum(errors)
    if up is not None and down is not None:
        pair = bidirectional(forward, reverse, log_mass)
        per_method["bar"] = pair.log_z
        errors = [_error(pair.forward_influence), _error(pair.reverse_influence, starts)]
    lower, upper = per_method.get("ais forward"), per_method.get("ais reverse")
    direction, log_z = list(per_method.items())[-1]
    error = _sum(errors)
    variance = error.se**2
    if not forward.size and support_mass > 0:
        variance += (1.0 - support_mass) / (support_mass * n_support_draws)
    sides = [side for side in (up, down) if side is not None]
    annealed = Annealed(
        n_particles=max(forward.size, reverse.size),
        weight_ess=sides[0].weight_ess,
        pareto_k=deciding_pareto_k(*([side.pareto_k] for side in sides)),
        gap=np.nan if lower is None or upper is None else upper - lower,
        gap_error=gap_error,
        support_mass=support_mass,
        n_starts=int(starts.max()) + 1 if reverse.size and starts is not None else None,
    )
    parts = MethodEstimate(np.array([log_z]), [], annealed=annealed)
    return LogZEstimate(
        log_z=log_z, se=float(np.sqrt(variance)), method=f"hais, {direction.removeprefix('ais ')}",
        per_chain=parts.log_z, warnings=diagnose(Run(parts=parts)), ess=error.ess, df=error.df,
        lower=lower, upper=upper, per_method=per_method,
    )  # fmt: skip


def _error(influence: FloatArray, starts: IntArray | None = None) -> StandardError:
    """Error of the mean of an influence, of particles that come in groups by their start."""
    alone = log_z_standard_error([0.0], [influence])
    n_groups = influence.size if starts is None else int(starts.max()) + 1
    # descendants of one draw are one chain: its autocorrelation is all that can be known
    if starts is None or n_groups in (1, influence.size):
        return alone
    by_start = np.bincount(starts, influence, n_groups) * (n_groups / influence.size)
    if n_groups >= MIN_STARTS:
        return log_z_standard_error([0.0], [by_start])
    se = float(by_start.std(ddof=1) / np.sqrt(n_groups))
    return StandardError(float(np.maximum(se, alone.se)), n_groups - 1.0, float(n_groups))


def _sum(errors: list[StandardError]) -> StandardError:
    """Error of a sum of parts, which are independent given the model (Welch & Satterthwaite)."""
    se = np.array([error.se for error in errors])
    df = np.array([error.df for error in errors])
    parts = np.sum(se**4 / df)
    total = float(np.sum(se**2))
    return StandardError(
        float(np.sqrt(total)),
        float(total**2 / parts) if parts != 0.0 else np.inf,
        float(sum(error.ess for error in errors)),
    )


def deciding_pareto_k(*directions: ArrayLike) -> float:
    """Worst tail index of the direction that shows what is missing; nan where none is known.

    Where there are forward particles, they decide: their heavy weights are those of the few that
    reached what most miss. Reverse ones that began in the bulk never saw it, and look sound. Given
    are indices of each chain, nan where unknown, of the directions that were run, forward first.

    Examples
    --------
    >>> deciding_pareto_k([0.8, 0.3], [0.2, 0.2]), deciding_pareto_k([0.4, np.nan])
    (0.8, 0.4)
    """
    for direction in directions:
        values = np.ravel(direction)
        known = values[~np.isnan(values)]
        if known.size:
            return float(known.max())
    return float("nan")
