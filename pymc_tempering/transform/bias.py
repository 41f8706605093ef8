"""The bias c(beta) of the joint density, and the pilot run that finds it, with a base."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.numerics import one_blas_thread
from pymc_tempering.options import as_numbers, check_betas
from pymc_tempering.progress import Phases
from pymc_tempering.references.prepare import prepare, shared_generator
from pymc_tempering.schedule.adapt import cumulative_barrier
from pymc_tempering.steps.tuning import overdisperse, read_pilot, start_pilot
from pymc_tempering.types import FloatArray


@dataclass(frozen=True, eq=False)
class Bias:
    r"""Smooth bias through given values: piecewise cubic, monotone between knots (PCHIP).

    With two knots it is linear: :math:`c(\beta) = \beta \log\zeta` is the published form of Graham
    & Storkey (2017, eq. 17). With more, :math:`c = \log z(\beta)` makes the marginal density of
    beta flat, and :math:`c = \log z(\beta) - \log\rho(\beta)` makes it proportional to rho.

    Parameters
    ----------
    knots : array_like of shape (n_knots,)
        Increasing from 0 to 1.
    values : array_like of shape (n_knots,)
        c at the knots, in nats; ``values[0]`` need not be 0.

    Raises
    ------
    ScheduleError
        If the knots are no schedule.
    OptionError
        If the values are not finite or not one per knot.

    Examples
    --------
    >>> bias = Bias([0.0, 0.5, 1.0], [0.0, -2.0, -3.0])
    >>> bias(np.array([0.0, 0.5, 1.0])).tolist()
    [0.0, -2.0, -3.0]
    """

    knots: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        knots = np.array(check_betas(self.knots))
        values = as_numbers("values of a bias", self.values)
        if values.shape != knots.shape or not np.isfinite(values).all():
            raise OptionError(
                f"The values of a bias have shape {values.shape}, "
                f"{int((~np.isfinite(values)).sum())} of them not finite; expected {knots.size} "
                "finite numbers, one per knot, in nats."
            )
        knots.setflags(write=False)
        values.setflags(write=False)
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "values", values)

    @classmethod
    def linear(cls, log_zeta: float) -> "Bias":
        """Published form ``c = beta log_zeta``, one slope in nats."""
        return cls(np.array([0.0, 1.0]), np.array([0.0, float(log_zeta)]))

    @property
    def is_linear(self) -> bool:
        """Whether there is one slope only."""
        return self.knots.size == 2

    def _interpolant(self) -> PchipInterpolator:
        return PchipInterpolator(self.knots, self.values)

    def __call__(self, beta: ArrayLike) -> FloatArray:
        """Evaluate c at ``beta`` in [0, 1], any shape; nats."""
        return np.asarray(self._interpolant()(np.asarray(beta, dtype=np.float64)))

    def slope(self, beta: ArrayLike) -> FloatArray:
        """Evaluate the derivative of c at ``beta``, any shape; continuous."""
        return np.asarray(self._interpolant().derivative()(np.asarray(beta, dtype=np.float64)))

    def graph(self, beta: Any) -> Any:
        """Write c of a scalar PyTensor variable, differentiable in it."""
        if self.is_linear:
            return self.values[0] + beta * (self.values[1] - self.values[0])
        coefficients = self._interpolant().c
        # a count of knots passed has no gradient, and every backend can compile it
        piece = pt.ge(beta, pt.constant(self.knots[1:-1])).sum()
        x = beta - pt.constant(self.knots)[piece]
        c3, c2, c1, c0 = (pt.constant(np.ascontiguousarray(row))[piece] for row in coefficients)
        return ((c3 * x + c2) * x + c1) * x + c0

    def piecewise_linear(self, tolerance: float = 1e-5) -> tuple[FloatArray, FloatArray]:
        """Knots and values of a piecewise linear function within ``tolerance`` nats of c.

        For it the density of beta given a position has a closed form. The error of
        ``log p(beta | z)`` is at most twice the tolerance, at any position, since numerator and
        normaliser are each wrong by a factor of at most ``exp(tolerance)``.
        """
        if self.is_linear:
            return np.array(self.knots), np.array(self.values)
        curvature = self._interpolant().derivative(2)
        widths = np.diff(self.knots)
        # a cubic's second derivative is largest at the ends of its piece
        inside = 1e-9 * widths
        steepest = np.maximum(
            np.abs(curvature(self.knots[:-1] + inside)), np.abs(curvature(self.knots[1:] - inside))
        )
        splits = np.sqrt(steepest * widths**2 / (8.0 * tolerance)) + 1.0
        n_splits = np.clip(np.ceil(splits), 1, 4096).astype(int)
        pieces = zip(self.knots[:-1], self.knots[1:], n_splits, strict=True)
        inner = [np.linspace(left, right, n, endpoint=False) for left, right, n in pieces]
        knots = np.unique(np.concatenate([*inner, np.ones(1)]))
        return knots, self(knots)


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
    eq. 21 of Graham & Storkey (2017) needs draws from there. `betas` and `log_z` (nats) have the
    shape (n_levels,), `rejection_rates` of swaps between neighbours (n_levels - 1,).

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
    density: CompiledDensity, base: GaussianBase | None, rng: np.random.Generator, work: Phases
) -> BaseAndBias:
    """Run parallel tempering for a moment, and take base and bias from it.

    A base that is given stays; by default it is the local fits of all modes found, over-dispersed,
    and refined during the run. Raises ModelError if neighbouring levels have no draws in common.
    """
    # scans of a block, and blocks: enough to settle on a base and a schedule, and to know log z
    n_scans, n_tune, n_draws = 32, 150, 100
    with one_blas_thread():
        known = prepare(density, density.start, shared_generator(rng), report=work.report)
        phase = work.add("Pilot run", n_tune + n_draws)
        wide = base or overdisperse(known.pooled, len(known.modes))
        path = TemperedPath.from_base(density, wide)
        pilot = start_pilot(
            path, known, known.modes, rng, n_steps=n_tune, adapt_base=base is None,
            settings=Hamiltonian(),
        )  # fmt: skip
        while not pilot.finished:
            pilot.run(n_scans, rng)
            phase.advance()
        ladder = pilot.ladder
        assert isinstance(ladder, Ladder)
        # a smooth curve wants more points than the exchanges do
        n_levels = max(9, 2 * ladder.n_levels - 1)
        ladder.change_schedule(read_pilot(pilot).equal_barrier(n_levels)[0])
        ladder.run(n_scans * n_draws // 4, rng, adapt=True)
        ladder.stop_adaptation()
        record = ladder.run(n_scans * n_draws, rng)
        phase.advance(n_draws)
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
