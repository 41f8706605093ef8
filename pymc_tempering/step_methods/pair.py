"""The tempered replica z and the target replica y of one chain, and how their scans are run."""

from typing import Any, NamedTuple

import numpy as np

from pymc_tempering.base.coordinates import Coordinates
from pymc_tempering.base.gaussian import base_id
from pymc_tempering.kernels.adaptation import averaged_step_sizes, new_dual_averaging
from pymc_tempering.kernels.continuous import continuous_scans
from pymc_tempering.kernels.coupled import N_COUNTS
from pymc_tempering.kernels.density import evaluate
from pymc_tempering.kernels.hmc import log_base
from pymc_tempering.kernels.simulated import simulated_scans
from pymc_tempering.path.guard import density_guard
from pymc_tempering.types import FloatArray

__all__ = ["ContinuousPair", "PairRecord", "SimulatedPair", "TemperedPair"]


class PairRecord(NamedTuple):
    """What a block of scans reports.

    Attributes
    ----------
    delta, target_delta : ndarray of shape (n_scans,)
        ``log_target - log_base`` in nats of z, just before beta is drawn, and of y.
    beta : ndarray of shape (n_scans,)
        Drawn at the end of each scan.
    level : ndarray of int of shape (n_scans,)
        -1 in continuous tempering.
    acceptance_rate : ndarray of shape (n_levels,) or (1,)
        Mean acceptance probability of the moves of z, by level or all together; nan at levels
        without a move.
    target_acceptance_rate, exchange_rate : float
        Of the moves of y, of the exchanges.
    base_acceptance_rate : float
        Of the draws from the base in continuous tempering; nan in simulated tempering.
    counts : tuple of int
        See :data:`pymc_tempering.kernels.coupled.N_COUNTS`.
    """

    delta: FloatArray
    target_delta: FloatArray
    beta: FloatArray
    level: np.ndarray
    acceptance_rate: FloatArray
    target_acceptance_rate: float
    exchange_rate: float
    base_acceptance_rate: float
    counts: tuple[int, ...]


class TemperedPair:
    """Two replicas on a density given by address; see the subclasses for what moves beta.

    Knows nothing of PyMC. Every array that changes is part of :meth:`state`.

    Parameters
    ----------
    address : int
        The target, see :func:`pymc_tempering.kernels.density.call_density`.
    coordinates : Coordinates
        Of the base.
    betas : ndarray of shape (n,)
        Knots of the bias, or levels.
    bias : ndarray of shape (n,)
        In nats; minus the log level weights.
    grid, step_sizes : ndarray of shape (n_grid,)
        Where step sizes are tuned, and from which to start.
    z, y : ndarray of shape (D,)
        Points of finite density.
    trajectory_length : float
    max_steps : int
    target_accept : float
    """

    _arrays = ("betas", "bias", "grid", "step_sizes", "u", "grad", "log_target", "delta",
               "holder", "last_end", "beta", "level", "dual_averaging")  # fmt: skip

    def __init__(
        self,
        address: int,
        coordinates: Coordinates,
        betas: FloatArray,
        bias: FloatArray,
        grid: FloatArray,
        step_sizes: FloatArray,
        z: FloatArray,
        y: FloatArray,
        **options: Any,
    ) -> None:
        self._configure(address, coordinates, options)
        self.betas, self.bias = np.array(betas), np.array(bias)
        self.grid, self.step_sizes = np.array(grid), np.array(step_sizes)
        self.u = np.ascontiguousarray(coordinates.to_base(np.stack([z, y, y])))
        self.grad = np.zeros_like(self.u)
        self.log_target = np.full(3, -np.inf)
        self.delta = np.full(3, -np.inf)
        self.holder = np.arange(3)
        self.last_end = np.zeros(3, dtype=np.int64)
        self.beta = np.ones(1)
        self.level = np.array([betas.size - 1])
        for row in range(3):
            self.log_target[row] = evaluate(self._target, self.u[row], self.grad[row], self._work)
            self.delta[row] = self.log_target[row] - log_base(self.u[row])
        self.dual_averaging = new_dual_averaging(self.step_sizes)

    def _configure(self, address: int, coordinates: Coordinates, options: dict[str, Any]) -> None:
        self.address = address
        self.coordinates = coordinates
        self.base_id = base_id(coordinates.base)
        self.trajectory_length = options["trajectory_length"]
        self.max_steps = options["max_steps"]
        self.target_accept = options["target_accept"]
        self._target = coordinates.target(address)
        self._work = np.zeros((5, coordinates.base.dim))

    @property
    def target_position(self) -> FloatArray:
        """Position ``z`` of the replica at beta = 1, shape (D,)."""
        return self.coordinates.from_base(self.u[self.holder[1]])

    @property
    def target_log_density(self) -> float:
        """Log target density of :attr:`target_position`, in nats."""
        return float(self.log_target[self.holder[1]] - self._target.log_det_scale)

    def set_bias(self, bias: FloatArray) -> None:
        """Change the bias, in nats, shape (n,); for tuning only."""
        self.bias = np.array(bias)

    def redraw(self, rng: np.random.Generator) -> None:
        """Put z at a level drawn uniformly, as after an initial iteration; for tuning only."""
        level = rng.integers(self.betas.size)
        # only the base level may sit where the target has no density
        self.level[0] = level if np.isfinite(self.delta[self.holder[0]]) else 0
        self.beta[0] = self.betas[self.level[0]]

    def stop_adaptation(self) -> None:
        """Fix step sizes at their averages and count trips from here on."""
        if self.dual_averaging[:, 0].any():
            self.step_sizes = averaged_step_sizes(self.grid, self.dual_averaging)
        self.last_end = np.zeros(3, dtype=np.int64)

    @density_guard()
    def run(self, n_scans: int, rng: np.random.Generator, *, adapt: bool = False) -> PairRecord:
        """Run a block of scans in compiled code.

        Parameters
        ----------
        n_scans : int
        rng : numpy.random.Generator
        adapt : bool
            Adapt step sizes after every transition; such scans are not exactly invariant.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        return {name: getattr(self, name).copy() for name in self._arrays} | {
            "base_mean": np.array(self.coordinates.base.mean),
            "base_rows": np.array(self.coordinates.rows),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], address: int, **options: Any) -> "TemperedPair":
        """Rebuild from :meth:`state`; ``options`` are those of the constructor."""
        self = cls.__new__(cls)
        coordinates = Coordinates.from_rows(state["base_mean"], state["base_rows"])
        self._configure(address, coordinates, options)
        for name in self._arrays:
            setattr(self, name, np.array(state[name]))
        return self


class ContinuousPair(TemperedPair):
    """The pair of Gibbs continuous tempering; ``betas`` are the knots of the bias."""

    @density_guard()
    def run(self, n_scans: int, rng: np.random.Generator, *, adapt: bool = False) -> PairRecord:
        """Run a block of scans in compiled code; see :meth:`TemperedPair.run`."""
        delta, target_delta, beta = np.empty((3, n_scans))
        sums, counts = np.zeros(4), np.zeros(N_COUNTS, dtype=np.int64)
        continuous_scans(
            self._target, self.betas, self.bias, self.grid, self.step_sizes, self.trajectory_length,
            self.max_steps, self.u, self.grad, self.log_target, self.delta, self.beta, self.holder,
            self.last_end, self._work, delta, target_delta, beta, sums, counts,
            self.dual_averaging if adapt else np.empty((0, 4)), self.target_accept, rng,
        )  # fmt: skip
        rates = sums / n_scans
        return PairRecord(
            delta,
            target_delta,
            beta,
            np.full(n_scans, -1),
            rates[:1],
            float(rates[1]),
            float(rates[2]),
            float(rates[3]),
            tuple(int(c) for c in counts),
        )


class SimulatedPair(TemperedPair):
    """The pair of simulated tempering; ``betas`` are the levels, and the grid is the same."""

    def _configure(self, address: int, coordinates: Coordinates, options: dict[str, Any]) -> None:
        super()._configure(address, coordinates, options)
        self.level_update = options["level_update"]

    @density_guard()
    def run(self, n_scans: int, rng: np.random.Generator, *, adapt: bool = False) -> PairRecord:
        """Run a block of scans in compiled code; see :meth:`TemperedPair.run`."""
        n = self.betas.size
        delta, target_delta = np.empty((2, n_scans))
        level, visits = np.empty(n_scans, dtype=np.int64), np.zeros(n, dtype=np.int64)
        acceptance, sums = np.zeros(n), np.zeros(2)
        counts = np.zeros(N_COUNTS, dtype=np.int64)
        simulated_scans(
            self._target, self.betas, -self.bias, self.step_sizes, self.trajectory_length,
            self.max_steps, self.level_update, self.u, self.grad, self.log_target, self.delta,
            self.level, self.holder, self.last_end, self._work, delta, target_delta, level,
            acceptance, visits, sums, counts, self.dual_averaging if adapt else np.empty((0, 4)),
            self.target_accept, rng,
        )  # fmt: skip
        with np.errstate(invalid="ignore"):
            acceptance = acceptance / np.where(visits > 0, visits, np.nan)
        rates = sums / n_scans
        return PairRecord(
            delta,
            target_delta,
            self.betas[level],
            level,
            acceptance,
            float(rates[0]),
            float(rates[1]),
            np.nan,
            tuple(int(c) for c in counts),
        )
