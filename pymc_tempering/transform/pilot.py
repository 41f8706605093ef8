"""A short parallel tempering run that supplies the base and the bias of a tempered model."""

from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import ModelError
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.numerics import one_blas_thread
from pymc_tempering.progress import Phases
from pymc_tempering.references.prepare import prepare, shared_generator
from pymc_tempering.schedule.adapt import cumulative_barrier
from pymc_tempering.steps.tuning import PilotStart, overdisperse, read_pilot, start_pilot
from pymc_tempering.transform.bias import Bias
from pymc_tempering.types import FloatArray

__all__ = ["BaseAndBias", "bias_from_levels", "run_pilot"]

_SCANS, _N_TUNE, _N_DRAWS = 32, 150, 100
"""Scans of a block, and blocks: enough to settle on a base and a schedule, and to know log z."""


class BaseAndBias(NamedTuple):
    """What a pilot run finds: with ``position`` (D,) a draw ``z`` at beta = 1, to start from."""

    base: GaussianBase
    bias: Bias
    position: FloatArray


def bias_from_levels(betas: FloatArray, log_z: FloatArray, rejection_rates: FloatArray) -> Bias:
    r"""Choose the bias under which beta spends its time where moving is hard.

    .. math:: c(\beta) = \log z(\beta) - \log\rho(\beta), \quad
              \rho(\beta) = \tfrac12 + \tfrac12\, \Lambda'(\beta) / \Lambda(1)

    with the cumulative barrier Lambda. A flat marginal (rho = 1) leaves a share of 1e-3 for what
    happens below beta = 1e-3, which from an over-dispersed base is a good part of the barrier, and
    eq. 21 of Graham & Storkey (2017) needs draws from there.

    Parameters
    ----------
    betas : ndarray of shape (n_levels,)
    log_z : ndarray of shape (n_levels,)
        At the levels, in nats.
    rejection_rates : ndarray of shape (n_levels - 1,)
        Of swaps between neighbours.

    Examples
    --------
    >>> bias = bias_from_levels(np.array([0, 0.5, 1]), np.array([0, -1.0, -2]), np.ones(2) / 4)
    >>> bias.values.tolist()
    [0.0, -1.0, -2.0]
    """
    barrier = cumulative_barrier(np.maximum(rejection_rates, 1e-6))
    density = PchipInterpolator(betas, barrier).derivative()(betas) / barrier[-1]
    values = log_z - np.log(0.5 + 0.5 * np.maximum(density, 0.0))
    return Bias(betas, values - values[0])


@density_guard()
def run_pilot(
    density: CompiledDensity,
    base: GaussianBase | None,
    rng: np.random.Generator,
    work: Phases | None = None,
) -> BaseAndBias:
    """Run parallel tempering for a moment, and take base and bias from it.

    A base that is given stays; by default it is the local fits of all modes found, over-dispersed,
    and refined during the run. Raises ModelError if neighbouring levels have no draws in common.
    """
    work = work or Phases()
    with one_blas_thread():
        found = prepare(density, density.start, shared_generator(rng), report=work.report)
        pooled, modes = found.pooled, found.modes
        phase = work.add("Pilot run", _N_TUNE + _N_DRAWS)
        path = TemperedPath.from_base(density, base or overdisperse(pooled, len(modes)))
        pilot = start_pilot(
            PilotStart(path, pooled, modes, modes), betas=None, adapt_base=base is None,
            n_steps=_N_TUNE, settings=Hamiltonian(), rng=rng,
        )  # fmt: skip
        while not pilot.finished:
            pilot.run(_SCANS, rng)
            phase.advance()
        ladder = pilot.ladder
        assert isinstance(ladder, Ladder)
        # a smooth curve wants more points than the exchanges do
        n_levels = max(9, 2 * ladder.n_levels - 1)
        ladder.change_schedule(read_pilot(pilot).equal_barrier(n_levels)[0])
        ladder.run(_SCANS * _N_DRAWS // 4, rng, adapt=True)
        ladder.stop_adaptation()
        record = ladder.run(_SCANS * _N_DRAWS, rng)
        phase.advance(_N_DRAWS)
        log_z = bar_ladder(record.delta, ladder.betas).log_z
    if not np.isfinite(log_z).all():
        raise ModelError(
            "The pilot run found no overlap between neighbouring levels: log z is "
            f"{np.round(log_z, 2).tolist()} at beta {np.round(ladder.betas, 4).tolist()}. Pass "
            "`base=` wide enough for the posterior, and `bias=` or `log_zeta=`."
        )
    return BaseAndBias(
        GaussianBase(ladder.base.mean, ladder.base.scale, float(log_z[-1])),
        bias_from_levels(ladder.betas, log_z, 1.0 - record.swap_acceptance_rate),
        ladder.target_position,
    )
