"""The replicas of one chain: where they are, at which level, and how a block of scans is run."""

from typing import Any, NamedTuple

import numpy as np

from pymc_tempering.base.coordinates import Coordinates
from pymc_tempering.base.gaussian import GaussianBase, base_id
from pymc_tempering.kernels.adaptation import new_dual_averaging
from pymc_tempering.kernels.density import evaluate
from pymc_tempering.kernels.hmc import MAX_STEP_SIZE, log_base
from pymc_tempering.kernels.parallel import parallel_scans
from pymc_tempering.path.guard import density_guard
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["Replicas", "ScanRecord"]

N_COUNTS = 6
_MAX_START_TRIES = 100


class ScanRecord(NamedTuple):
    """What a block of scans reports.

    Attributes
    ----------
    delta : ndarray of shape (n_scans, n_levels)
        ``log_target - log_base`` in nats by level, after each scan.
    swap_acceptance_rate : ndarray of shape (n_levels - 1,)
        Mean swap probability of each pair of neighbours.
    acceptance_rate : ndarray of shape (n_levels,)
        Mean acceptance probability of the moves.
    n_round_trips, n_tempered_restarts, n_gradients, n_divergences : int
    n_target_divergences, n_zero_density : int
        Divergences at beta = 1; proposals that ran into zero density.
    target_positions : ndarray of shape (n_scans, D) or (0, D)
        Positions at beta = 1 as ``z``, if they were asked for.
    """

    delta: FloatArray
    swap_acceptance_rate: FloatArray
    acceptance_rate: FloatArray
    n_round_trips: int
    n_tempered_restarts: int
    n_gradients: int
    n_divergences: int
    n_target_divergences: int
    n_zero_density: int
    target_positions: FloatArray


class Replicas:
    """Replicas of one chain of parallel tempering on a density given by address.

    Knows nothing of PyMC. Every array that changes is part of :meth:`state`, so a chain can be
    stored and continued exactly.

    Parameters
    ----------
    address : int
        The target, see :func:`pymc_tempering.kernels.density.call_density`.
    base : GaussianBase
    betas : ndarray of shape (n_levels,)
    start : ndarray of shape (n, D)
        Points ``z`` of finite density, used in turn for replicas whose draw from the base has
        none, and for those of the upper half of the ladder.
    rng : numpy.random.Generator
    trajectory_length : float
        Longest simulated time of a transition, in base coordinates.
    max_steps : int
        Largest number of steps of a transition.
    target_accept : float
        Acceptance rate that tuning aims at.
    swap_scheme : int
        Position in :data:`pymc_tempering.kernels.swap.SWAP_SCHEMES`.
    """

    def __init__(
        self,
        address: int,
        base: GaussianBase,
        betas: FloatArray,
        start: FloatArray,
        rng: np.random.Generator,
        *,
        trajectory_length: float,
        max_steps: int,
        target_accept: float,
        swap_scheme: int = 0,
    ) -> None:
        self.address = address
        self.trajectory_length = trajectory_length
        self.max_steps = max_steps
        self.target_accept = target_accept
        self.swap_scheme = swap_scheme
        self.scan = 0
        self.step_sizes = np.full(betas.size, 0.2)
        self._set_coordinates(Coordinates.of(base))
        self._allocate(betas)
        start = np.atleast_2d(start)
        for level in range(betas.size):
            fallback = self.coordinates.to_base(start[level % len(start)])
            local = betas[level] > 0.5
            self._place(level, fallback if local else rng.standard_normal(base.dim), fallback, rng)
        self.restart_adaptation()

    @property
    def n_levels(self) -> int:
        """Number of levels, base and target included."""
        return int(self.betas.size)

    @property
    def target_position(self) -> FloatArray:
        """Position ``z`` of the replica at beta = 1, shape (D,)."""
        return self.coordinates.from_base(self.u[self.replica_at[-1]])

    @property
    def target_log_density(self) -> float:
        """Log target density of :attr:`target_position`, in nats."""
        return float(self.log_target[self.replica_at[-1]] - self._target.log_det_scale)

    def _set_coordinates(self, coordinates: Coordinates) -> None:
        self.coordinates = coordinates
        self.base = coordinates.base
        self._target = coordinates.target(self.address)
        self.base_id = base_id(self.base)

    def _allocate(self, betas: FloatArray) -> None:
        n, dim = betas.size, self.base.dim
        self.betas = betas
        self.u = np.zeros((n, dim))
        self.grad = np.zeros((n, dim))
        self.log_target = np.full(n, -np.inf)
        self.delta = np.full(n, -np.inf)
        self.replica_at = np.arange(n)
        self.last_end = np.zeros(n, dtype=np.int64)
        self._work = np.zeros((5, dim))

    def _place(
        self, replica: int, u: FloatArray, fallback: FloatArray, rng: np.random.Generator
    ) -> None:
        """Put a replica at ``u``, or nearby draws, or ``fallback``: wherever density is finite."""
        self.u[replica] = u
        self._evaluate(replica)
        for _ in range(_MAX_START_TRIES):
            if np.isfinite(self.log_target[replica]):
                return
            self.u[replica] = rng.standard_normal(self.base.dim)
            self._evaluate(replica)
        self.u[replica] = fallback
        self._evaluate(replica)

    def _evaluate(self, replica: int) -> None:
        self.log_target[replica] = evaluate(
            self._target, self.u[replica], self.grad[replica], self._work
        )
        self.delta[replica] = self.log_target[replica] - log_base(self.u[replica])

    def restart_adaptation(self) -> None:
        """Search step sizes afresh from the present ones."""
        self.dual_averaging = new_dual_averaging(self.step_sizes)

    def stop_adaptation(self) -> None:
        """Fix step sizes at their averages and count trips from here on."""
        if self.dual_averaging[:, 0].any():
            self.step_sizes = np.exp(self.dual_averaging[:, 2])
        self.last_end = np.zeros(self.n_levels, dtype=np.int64)

    @density_guard()
    def run(
        self,
        n_scans: int,
        rng: np.random.Generator,
        *,
        adapt: bool = False,
        keep_positions: bool = False,
    ) -> ScanRecord:
        """Run a block of scans in compiled code.

        Parameters
        ----------
        n_scans : int
        rng : numpy.random.Generator
        adapt : bool
            Adapt step sizes after every transition; such scans are not exactly invariant.
        keep_positions : bool
            Return the position at beta = 1 after each scan.
        """
        n, dim = self.u.shape
        delta = np.empty((n_scans, n))
        swaps, acceptance = np.zeros(n - 1), np.zeros(n)
        counts = np.zeros(N_COUNTS, dtype=np.int64)
        positions = np.empty((n_scans if keep_positions else 0, dim))
        parallel_scans(
            self._target, self.betas, self.step_sizes, self.trajectory_length, self.max_steps,
            self.swap_scheme, self.scan, self.u, self.grad, self.log_target, self.delta,
            self.replica_at, self.last_end, self._work, delta, swaps, acceptance, counts,
            self.dual_averaging if adapt else np.empty((0, 4)), self.target_accept, positions, rng,
        )  # fmt: skip
        self.scan += n_scans
        trips, restarts, gradients, divergences, at_target, zero = counts.tolist()
        return ScanRecord(
            delta=delta,
            swap_acceptance_rate=swaps / n_scans,
            acceptance_rate=acceptance / n_scans,
            n_round_trips=trips,
            n_tempered_restarts=restarts,
            n_gradients=gradients,
            n_divergences=divergences,
            n_target_divergences=at_target,
            n_zero_density=zero,
            target_positions=self.coordinates.from_base(positions) if keep_positions else positions,
        )

    def change_base(self, base: GaussianBase) -> None:
        """Keep the replicas where they are and describe them relative to another base."""
        z = self.coordinates.from_base(self.u)
        ratio = np.exp((self._target.log_det_scale - base.log_det_scale) / base.dim)
        self._set_coordinates(Coordinates.of(base))
        self.u = np.ascontiguousarray(self.coordinates.to_base(z))
        for replica in range(self.n_levels):
            self._evaluate(replica)
        self.step_sizes = np.clip(self.step_sizes * ratio, 1e-6, MAX_STEP_SIZE)
        self.restart_adaptation()

    def change_schedule(self, betas: FloatArray) -> None:
        """Move to another schedule; each new level starts from the replica of the nearest old one.

        Parameters
        ----------
        betas : ndarray of shape (n_levels,)
        """
        old_betas = self.betas
        old_u = self.u[self.replica_at]
        old_steps = self.step_sizes
        nearest = np.abs(betas[:, None] - old_betas[None, :]).argmin(axis=1)
        # only the base level may sit where the target has no density
        nearest[1:] = np.maximum(nearest[1:], 1)
        self._allocate(betas)
        self.u = np.ascontiguousarray(old_u[nearest])
        for replica in range(self.n_levels):
            self._evaluate(replica)
        self.step_sizes = np.exp(np.interp(betas, old_betas[1:], np.log(old_steps[1:])))
        self.restart_adaptation()

    def rescue_target(self) -> bool:
        """Move the replica at beta = 1 if it sits where no draw from the target could be.

        For tuning only. A replica that started far out can have a log density hundreds of nats
        below the others' and no step size with which to leave.

        Returns
        -------
        bool
            Whether it was moved, to the position with the highest density.
        """
        target, best = self.replica_at[-1], int(np.argmax(self.log_target))
        if self.log_target[target] > self.log_target[best] - 2.0 * self.base.dim - 50.0:
            return False
        self.u[target] = self.u[best]
        self._evaluate(target)
        self.step_sizes[-1] = self.step_sizes[1:].max()
        self.restart_adaptation()
        return True

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        arrays = ("betas", "u", "grad", "log_target", "delta", "replica_at", "last_end",
                  "step_sizes", "dual_averaging")  # fmt: skip
        return {name: getattr(self, name).copy() for name in arrays} | {
            "scan": self.scan,
            "base_mean": np.array(self.base.mean),
            "base_rows": np.array(self.coordinates.rows),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], address: int, **options: Any) -> "Replicas":
        """Rebuild from :meth:`state`; ``options`` are those of the constructor."""
        self = cls.__new__(cls)
        self.address = address
        self.swap_scheme = 0
        for name, value in options.items():
            setattr(self, name, value)
        self._set_coordinates(Coordinates.from_rows(state["base_mean"], state["base_rows"]))
        self._allocate(np.array(state["betas"]))
        for name, value in state.items():
            if not name.startswith("base_"):
                setattr(self, name, np.array(value) if isinstance(value, np.ndarray) else value)
        return self


def replica_levels(replica_at: IntArray) -> IntArray:
    """Level of each replica, the inverse permutation of the replica at each level."""
    levels = np.empty_like(replica_at)
    levels[replica_at] = np.arange(replica_at.size)
    return levels
