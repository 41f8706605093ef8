"""The evidence of a parallel tempering run, from its recorded statistics."""

from collections.abc import Mapping, Sequence

import numpy as np

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.estimators.controls import Controlled, with_controls
from pymc_tempering.estimators.ladder import LadderEstimate
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.estimators.stepping_stone import (
    SteppingStoneEstimate,
    stepping_stone,
    stepping_stone_reverse,
    support_mass,
)
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.evidence.checks.few_draws import LEAST_CONTROLLED, MIN_ESS
from pymc_tempering.evidence.common import MethodEstimate, ladders
from pymc_tempering.types import FloatArray

MOST_LOG_WEIGHT = float(np.log(5.0))
"""Of a reference that covers, in nats: a mixture that is exact has log(1 / 0.85), and log K more
where one of K modes has all the mass."""


def collect(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z of each chain by MBAR, and others beside it.

    Of ``delta`` (chain, draw, scan, level), ``betas`` (chain, draw, level) and others; unused
    levels are nan. Chains from a mixture have controls, of ``component_excess`` (chain, draw,
    component), see :mod:`pymc_tempering.estimators.controls`. Refused with a DataError are draws
    from more than one schedule or base, as those of tuning are.
    """
    betas_all = statistics["betas"]
    n_chains, _, n_most = betas_all.shape
    shape = (n_chains, n_most)
    arrays = {
        "betas": betas_all[:, 0],
        "log_z_levels": np.full(shape, np.nan),
        "swap_acceptance_rate": statistics["swap_acceptance_rate"].mean(axis=1),
        "cumulative_barrier": np.full(shape, np.nan),
        "pareto_k_forward": np.full((n_chains, n_most - 1), np.nan),
        "pareto_k_reverse": np.full((n_chains, n_most - 1), np.nan),
        "support_mass": np.full(n_chains, np.nan),
        "n_round_trips": statistics["n_round_trips"].sum(axis=1).astype(float),
        "n_tempered_restarts": statistics["n_tempered_restarts"].sum(axis=1).astype(float),
        # absent from runs of other implementations and from synthetic ones
        "n_components": np.max(
            statistics.get("n_components", np.zeros(betas_all.shape[:2])), axis=1
        ).astype(float),
    }
    arrays |= {
        name: np.asarray(statistics[name][:, 0], dtype=np.float64)
        if name in statistics
        else np.full(n_chains, np.nan)
        for name in ("log_z_before", "log_z_se_before")
    }
    chains, others = [], []
    for chain, (delta, betas) in enumerate(ladders(statistics)):
        _check_schedule(betas_all[chain], statistics["base_id"][chain], chain)
        n = betas.size
        estimate = mbar(delta, betas)
        forward, reverse = stepping_stone(delta, betas), stepping_stone_reverse(delta, betas)
        chains.append((estimate, delta, betas))
        by_others = (estimate, bar_ladder(delta, betas), forward, reverse)
        others.append([float(other.log_z[-1]) for other in by_others])
        arrays["log_z_levels"][chain, :n] = estimate.log_z
        rejection = 1.0 - arrays["swap_acceptance_rate"][chain, : n - 1]
        arrays["cumulative_barrier"][chain, :n] = np.concatenate([[0.0], np.cumsum(rejection)])
        arrays["pareto_k_forward"][chain, : n - 1] = forward.pareto_k
        arrays["pareto_k_reverse"][chain, : n - 1] = reverse.pareto_k
        arrays["support_mass"][chain] = np.exp(support_mass(delta[:, 0]).log_mass)
    log_z, influences, n_controls = _resting_on_enough(statistics, chains)
    arrays["n_controls"] = n_controls
    if "component_arrivals" in statistics:
        scans = np.maximum(statistics["component_scans"], 0).sum(axis=1)
        arrays["component_arrivals"] = np.maximum(statistics["component_arrivals"], 0).sum(axis=1)
        arrays["component_share"] = scans / np.maximum(scans.sum(axis=1, keepdims=True), 1)
    arrays["global_barrier"] = np.nanmax(arrays["cumulative_barrier"], axis=1)
    names = ("mbar", "bar", "stepping stone forward", "stepping stone reverse")
    means = [float(np.mean(values)) for values in zip(*others, strict=True)]
    per_method = dict(zip(names, means, strict=True))
    if n_controls.any():
        per_method["with controls"] = float(log_z.mean())
    # with less of the base on the support of the target swaps with it are rare; above, a hard edge
    # costs nothing (25 of 25 default runs with shares near a half were right, 2026-11-22)
    return MethodEstimate(log_z, influences, per_method, arrays=arrays, least_support=0.1)


def collect_bar(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z of each chain by BAR between neighbours, for a trace, and nothing else."""
    chains = [(bar_ladder(*ladder), *ladder) for ladder in ladders(statistics)]
    log_z, influences, _ = _resting_on_enough(statistics, chains)
    return MethodEstimate(log_z, influences)


type _Chain = tuple[LadderEstimate, FloatArray, FloatArray]
"""Estimate of a chain, its delta (scan, level) and its betas."""


def _resting_on_enough(
    statistics: Mapping[str, FloatArray], chains: Sequence[_Chain]
) -> tuple[FloatArray, list[FloatArray], FloatArray]:
    """Log z, influences and numbers of controls of chains, with controls where draws are enough."""
    taken = [_controlled(statistics, i, *chain) for i, chain in enumerate(chains)]
    n_draws = len(chains) * statistics["betas"].shape[1]
    if n_draws < LEAST_CONTROLLED and any(chain.n_controls for chain in taken):
        error = log_z_standard_error(
            [chain.log_z for chain in taken], [chain.influence for chain in taken]
        )
        if not error.ess >= MIN_ESS:
            taken = [_plain(estimate) for estimate, _, _ in chains]
    return (
        np.array([chain.log_z for chain in taken]),
        [chain.influence for chain in taken],
        np.array([float(chain.n_controls) for chain in taken]),
    )


def _plain(estimate: LadderEstimate | SteppingStoneEstimate) -> Controlled:
    return Controlled(float(estimate.log_z[-1]), estimate.influence, 0)


def _controlled(
    statistics: Mapping[str, FloatArray],
    chain: int,
    estimate: LadderEstimate,
    delta: FloatArray,
    betas: FloatArray,
) -> Controlled:
    """Estimate of a chain, with what its reference's components say where it is a mixture."""
    plain = _plain(estimate)
    # absent from runs of other implementations and from synthetic ones
    if "component_excess" not in statistics:
        return plain
    excess = np.nan_to_num(statistics["component_excess"][chain])
    n_scans = np.isfinite(statistics["delta"][chain][..., betas.size - 1]).sum(axis=1)
    if not excess.any() or not _covers(delta, plain.log_z):
        return with_controls(*plain[:2], excess, n_scans)
    # what controls explain of weights is exact where it comes first
    better = with_controls(*_plain(stepping_stone(delta, betas))[:2], excess, n_scans, plain[:2])
    # without controls it is not the better one
    return better if better.n_controls else plain


def _covers(delta: FloatArray, log_z: float) -> bool:
    """Whether weights of the reference's own draws are as good as any, without levels between.

    Where its tails are too light no draw of it may show that; then one of the target does.
    """
    if delta.shape[1] != 2:
        return False
    if delta.max() - log_z >= MOST_LOG_WEIGHT:
        return False
    return bool(np.exp(delta[:, 0] - log_z).var() <= 1.0)


def _check_schedule(betas: FloatArray, base_id: FloatArray, chain: int) -> None:
    # a fixed schedule does not show tuning, but delta is relative to a base that changes
    same = np.array_equal(betas.min(axis=0), betas.max(axis=0), equal_nan=True)
    if not same or base_id.min() != base_id.max():
        raise DataError(
            f"Chain {chain} has draws from more than one schedule or base, so it mixes tuning "
            "with sampling. Pass the draws after tuning only."
        )
