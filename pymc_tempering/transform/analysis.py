"""What tempered draws say: weights at beta = 1, log Z of every chain, and diagnostics; arrays only.

The statistics that these functions take are what :func:`.untempered.stored_statistics` reads:
``delta`` and ``beta`` (chain, draw); ``base_delta`` (chain, base_draw), at independent draws from
the base, different ones for each chain, ``-inf`` outside the support and nan beyond the number of
a chain; ``knots`` and ``bias`` (chain, knot); ``diverging`` (chain, draw) where it was recorded;
``position`` (chain, draw, D) in base coordinates, of fresh draws only, and ``base_mean_error``
(chain,), which is made from it.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from pymc_tempering.estimators.bar import bar
from pymc_tempering.estimators.continuous import continuous_tempering, log_beta_density
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.ladder import LadderEstimate
from pymc_tempering.estimators.stepping_stone import support_mass
from pymc_tempering.estimators.uncertainty import chain_standard_errors
from pymc_tempering.evidence.common import FULL_SUPPORT, MethodEstimate
from pymc_tempering.numerics import log_mean_exp, weight_ess
from pymc_tempering.transform.bias import Bias
from pymc_tempering.types import FloatArray

__all__ = ["bridged_log_z", "collect", "collect_bridge", "joint_diagnostics"]

# ends of beta between which round trips are counted
_COLD, _HOT = 0.9, 0.1
# a mean of fewer weights has an error that cannot be told
_MIN_WEIGHT_ESS = 100.0
_MIN_BASE_ESS = 30.0
# the largest of some hundred coordinates of several chains exceeds 6 errors once in 10^6 runs
_MAX_BASE_Z = 6.0
# single divergences are rejections; NUTS that fails on every tenth step has left out some place
_MAX_DIVERGING = 0.1
# of 10,000 draws from the base, 500 are enough for its end of log Z
_MIN_SUPPORT = 0.05


def collect(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Weigh tempered draws and estimate log Z of every chain."""
    delta, beta, base_delta = (statistics[name] for name in ("delta", "beta", "base_delta"))
    mass = support_mass(base_delta[~np.isnan(base_delta)]).log_mass
    pieces = _piecewise_linear(statistics)
    continuous = np.stack(
        [
            continuous_tempering(row, *bias, betas=knots, log_support_mass=mass).log_z
            for row, bias, knots in zip(delta, pieces, statistics["knots"], strict=True)
        ]
    )
    log_weights, log_weights_base = (
        np.stack([log_beta_density(row, *b, end) for row, b in zip(delta, pieces, strict=True)])
        for end in (1.0, 0.0)
    )
    arrays = {
        "log_z_levels": continuous,
        "log_z_continuous": continuous[:, -1],
        "weight_ess": np.array([weight_ess(row) for row in log_weights]),
        "base_weight_ess": np.array([weight_ess(row) for row in log_weights_base]),
        "n_round_trips": np.array([_round_trips(row) for row in beta], dtype=float),
        "n_divergences": np.full(len(delta), np.nan),
        "base_mean_error": np.full(len(delta), np.nan),
        "support_mass": np.full(len(delta), np.exp(mass)),
        "log_weights": log_weights,
    }
    arrays |= {n: statistics[n] for n in ("delta", "beta", "base_delta", "knots", "bias")}
    if "diverging" in statistics:
        arrays["diverging"] = statistics["diverging"]
        arrays["n_divergences"] = statistics["diverging"].sum(axis=1).astype(np.float64)
    if "position" in statistics:
        pairs = zip(statistics["position"], log_weights_base, strict=True)
        arrays["base_mean_error"] = np.array([_base_mean_error(u, row) for u, row in pairs])
    carried = {"base_mean_error", "base_mean", "base_scale", "tempered_draw"} & set(statistics)
    arrays |= {name: statistics[name] for name in sorted(carried)}
    parts = collect_bridge(statistics)
    parts.per_method.update(
        {
            "bridge": float(parts.log_z.mean()),
            "continuous tempering": float(continuous[:, -1].mean()),
        }
    )
    parts.arrays.update(arrays)
    parts.warnings.extend(joint_diagnostics(arrays))
    return parts


def collect_bridge(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z as :func:`collect` does, and nothing else."""
    chains = [
        bridged_log_z(row, base[~np.isnan(base)], *bias)
        for row, base, bias in zip(
            statistics["delta"], statistics["base_delta"], _piecewise_linear(statistics),
            strict=True,
        )
    ]  # fmt: skip
    log_z = np.array([chain.log_z[-1] for chain in chains])
    return MethodEstimate(log_z, [chain.influence for chain in chains])


def bridged_log_z(
    delta: FloatArray, delta_base: FloatArray, knots: FloatArray, bias: FloatArray
) -> LadderEstimate:
    r"""Estimate log Z with Bennett's acceptance ratio between base and tempered marginal.

    With beta integrated out, tempered positions have the density :math:`b(z) N(z) / C`,
    :math:`N = \int_0^1 e^{\beta\delta - c(\beta)} d\beta`, and

    .. math:: \log Z = c(1) + \log \overline{p(1 \mid z)} + \log C,

    with log C, the log ratio of the normalisers of :math:`b N` and b, by
    :func:`pymc_tempering.estimators.bar.bar`. Eq. 21 of Graham & Storkey (2017) is the special
    case :math:`\log C = -c(0) - \log\overline{p(0 \mid z)}`. It rests on the few tempered draws
    near the base, although draws of the base itself cost nothing.

    `delta` (n_draws,) and `delta_base` (n_base,) are in nats, ``-inf`` outside the support; `knots`
    and `bias` (n_knots,) are of the piecewise linear bias. The influence has one entry per tempered
    draw, over which that of the base's draws is spread.
    """
    valid = np.isfinite(delta)
    log_p1 = log_beta_density(delta, knots, bias, 1.0)[valid]
    log_mean = float(log_mean_exp(log_p1))
    ratio = bar(
        _log_normaliser(delta_base, knots, bias), -_log_normaliser(delta[valid], knots, bias)
    )
    influence = np.zeros(delta.size)
    influence[valid] = np.expm1(log_p1 - log_mean) + ratio.reverse_influence
    influence *= delta.size / valid.sum()
    influence += _spread(ratio.forward_influence, delta.size)
    return LadderEstimate(np.array([bias[-1] + log_mean + ratio.log_ratio]), influence)


def _log_normaliser(delta: FloatArray, knots: FloatArray, bias: FloatArray) -> FloatArray:
    out = np.full(delta.size, -np.inf)
    valid = np.isfinite(delta)
    if valid.any():
        out[valid] = -bias[0] - log_beta_density(delta[valid], knots, bias, 0.0)
    return out


def _spread(influence: FloatArray, n: int) -> FloatArray:
    """Stretch or squeeze a series of independent terms to length n, keeping its mean's variance."""
    total = np.concatenate([[0.0], np.cumsum(influence)])
    at = np.interp(np.linspace(0, influence.size, n + 1), np.arange(influence.size + 1), total)
    return np.diff(at) * (n / influence.size)


def _piecewise_linear(
    statistics: Mapping[str, FloatArray],
) -> list[tuple[FloatArray, FloatArray]]:
    pairs = zip(statistics["knots"], statistics["bias"], strict=True)
    return [Bias(*pair).piecewise_linear() for pair in pairs]


def _round_trips(beta: FloatArray) -> int:
    """Count passages from the cold end to the hot one and back."""
    ends = np.where(beta >= _COLD, 1, np.where(beta <= _HOT, -1, 0))
    ends = ends[ends != 0]
    return int((np.diff(ends) != 0).sum() // 2)


def _base_mean_error(u: FloatArray, log_weights: FloatArray) -> float:
    """Largest error of the base's known mean by eq. 23, in standard errors, over coordinates."""
    if weight_ess(log_weights) < _MIN_BASE_ESS:
        return np.nan
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.mean()
    used = weights > 0.0
    u = np.where(used[:, None], u.reshape(len(u), -1), 0.0)
    means = (weights[:, None] * u).mean(axis=0)
    influences = (weights[:, None] * (u - means)).T
    errors = np.abs(means) / np.maximum(chain_standard_errors(influences), 1e-12)
    return float(errors.max())


def joint_diagnostics(arrays: Mapping[str, FloatArray]) -> Iterator[Diagnostic]:
    """What speaks against a run, from its variables in the group ``tempering``."""
    stuck = np.flatnonzero(arrays["n_round_trips"] < 1).tolist()
    if stuck:
        yield Diagnostic(
            "no_round_trips",
            f"in chains {stuck} beta never went from the posterior to the base and back, so "
            "modes may be missing.",
            "Raise `tune` and `draws`, or pass a wider `base`, or no `log_zeta`.",
            {"n_round_trips": arrays["n_round_trips"][stuck].tolist(), "chain": stuck},
        )
    ess = float(arrays["weight_ess"].sum())
    if ess < _MIN_WEIGHT_ESS:
        yield Diagnostic(
            "few_weights",
            f"posterior draws rest on {ess:.0f} effective weights, fewer than "
            f"{_MIN_WEIGHT_ESS:.0f}.",
            "Raise `draws`, or give a bias that lets beta spend more time near 1.",
            {"weight_ess": ess},
        )
    mass = float(arrays["support_mass"][0])
    # where the target has an edge, running into it is a harmless divergence, and the base is cut
    # off, so that its moments are not known
    full = mass > FULL_SUPPORT
    n_diverging, n_transitions = int(np.nansum(arrays["n_divergences"])), arrays["beta"].size
    if full and n_diverging > _MAX_DIVERGING * n_transitions:
        yield Diagnostic(
            "divergences",
            f"{n_diverging} of {n_transitions} transitions diverged.",
            "Raise `target_accept`, or use a method whose moves do not need gradients.",
            {"n_divergences": n_diverging, "transitions": n_transitions},
        )
    if mass < _MIN_SUPPORT:
        yield Diagnostic(
            "small_support",
            f"the target has density on only {mass:.2g} of the base.",
            "Pass a `base` inside the support.",
            {"support_mass": mass},
        )
    worst = np.nan_to_num(arrays["base_mean_error"])
    if full and worst.max(initial=0.0) > _MAX_BASE_Z:
        yield Diagnostic(
            "base_not_recovered",
            "draws weighted to beta = 0 miss the base's known mean by "
            f"{worst.max():.1f} standard errors in chain {int(worst.argmax())} (eq. 23), so "
            "the chain has not converged.",
            "Raise `tune` and `draws`.",
            {"base_mean_error": float(worst.max()), "chain": [int(worst.argmax())]},
        )
