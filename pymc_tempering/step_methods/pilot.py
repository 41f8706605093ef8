"""A short parallel tempering run during tuning, from which single-replica methods start.

It finds the modes, refines the base, and gives step sizes, barrier and log z(beta) at once. A
single tempered replica would have to learn each of these from the others.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from pymc_tempering.base.coordinates import Coordinates
from pymc_tempering.base.gaussian import GaussianBase
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.schedule.adapt import cumulative_barrier, equal_barrier_schedule
from pymc_tempering.schedule.grid import make_schedule
from pymc_tempering.step_methods.replicas import Replicas, ScanRecord
from pymc_tempering.step_methods.tuning import RoundTuner
from pymc_tempering.types import FloatArray

__all__ = ["Pilot", "PilotResult"]

MAX_LEVELS = 32
_FIRST_N_LEVELS = 12
# neighbours that never rejected still need room between them
_MIN_REJECTION = 1e-3


class PilotResult(NamedTuple):
    """What a pilot run found.

    Attributes
    ----------
    coordinates : Coordinates
        Of the base.
    betas : ndarray of shape (n_levels,)
        Schedule of the last round.
    rejection_rates : ndarray of shape (n_levels - 1,)
    log_z : ndarray of shape (n_levels,)
        In nats, relative to the base.
    step_betas, step_sizes : ndarray of shape (n_steps,)
        Tuned step sizes and where they hold; the base, where none is needed, is left out.
    positions : ndarray of shape (n_levels, D)
        ``z`` of the replica at each level of the final schedule.
    """

    coordinates: Coordinates
    betas: FloatArray
    rejection_rates: FloatArray
    log_z: FloatArray
    step_betas: FloatArray
    step_sizes: FloatArray
    positions: FloatArray

    @property
    def global_barrier(self) -> float:
        """Sum of the rejection rates."""
        return float(self.rejection_rates.sum())

    def equal_barrier(self, n_levels: int) -> tuple[FloatArray, FloatArray]:
        """Inverse temperatures at equal barrier, and log z there, both of shape (n_levels,)."""
        rates = np.maximum(self.rejection_rates, _MIN_REJECTION)
        barrier = cumulative_barrier(rates)
        betas = equal_barrier_schedule(self.betas, rates, n_levels)
        # log z is steep in beta near a wide base, but not in units of barrier
        log_z = PchipInterpolator(barrier, self.log_z)(np.linspace(0.0, barrier[-1], n_levels))
        return betas, np.asarray(log_z)


class Pilot:
    """Runs the replicas and rounds of parallel tempering and keeps what the last round says.

    Parameters
    ----------
    address : int
    base, anchor : GaussianBase
        To start from; the combined local fits.
    modes : ndarray of shape (n, D)
        Means of the local fits.
    betas : ndarray, optional
        A schedule that is kept; by default it adapts.
    adapt_base : bool
    n_steps : int
        Number of blocks of scans.
    options : dict
        Those of :class:`Replicas`.
    rng : numpy.random.Generator
    """

    def __init__(
        self,
        address: int,
        base: GaussianBase,
        anchor: GaussianBase,
        modes: FloatArray,
        *,
        betas: FloatArray | None,
        adapt_base: bool,
        n_steps: int,
        options: dict[str, Any],
        rng: np.random.Generator,
    ) -> None:
        first = make_schedule("geometric", _FIRST_N_LEVELS) if betas is None else betas
        self.replicas = Replicas(address, base, first, modes, rng, **options)
        self.tuner = RoundTuner(
            n_steps,
            max(MAX_LEVELS, first.size),
            anchor,
            len(modes),
            adapt_schedule=betas is None,
            adapt_base=adapt_base,
        )
        self._start_round()

    def _start_round(self) -> None:
        self.betas = self.replicas.betas.copy()
        self.deltas: list[FloatArray] = []
        self.swap_sum = np.zeros(self.betas.size - 1)

    @property
    def finished(self) -> bool:
        """Whether no round is left."""
        return self.tuner.finished

    def run(self, n_scans: int, rng: np.random.Generator) -> ScanRecord:
        """Run one block of scans, and adapt at the end of a round."""
        round_before = self.tuner.round
        record = self.replicas.run(
            n_scans, rng, adapt=True, keep_positions=self.tuner.base_may_change
        )
        self.deltas.append(record.delta)
        self.swap_sum += record.swap_acceptance_rate
        self.tuner.update(self.replicas, record)
        if self.tuner.round != round_before and not self.finished:
            self._start_round()
        return record

    def result(self) -> PilotResult:
        """What the last round says."""
        replicas = self.replicas
        replicas.stop_adaptation()
        return PilotResult(
            coordinates=replicas.coordinates,
            betas=self.betas,
            rejection_rates=1.0 - self.swap_sum / max(len(self.deltas), 1),
            log_z=ladder_log_z(np.concatenate(self.deltas), self.betas),
            step_betas=replicas.betas[1:].copy(),
            step_sizes=replicas.step_sizes[1:].copy(),
            positions=replicas.coordinates.from_base(replicas.u[replicas.replica_at]),
        )

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        return {
            "replicas": self.replicas.state(),
            "tuner": self.tuner.state(),
            "betas": self.betas.copy(),
            "deltas": [d.copy() for d in self.deltas],
            "swap_sum": self.swap_sum.copy(),
        }

    @classmethod
    def from_state(
        cls,
        state: dict[str, Any],
        address: int,
        *,
        adapt_schedule: bool,
        adapt_base: bool,
        options: dict[str, Any],
    ) -> "Pilot":
        """Rebuild from :meth:`state`."""
        self = cls.__new__(cls)
        self.replicas = Replicas.from_state(state["replicas"], address, **options)
        self.tuner = RoundTuner(
            0,
            max(MAX_LEVELS, self.replicas.n_levels),
            self.replicas.base,
            1,
            adapt_schedule=adapt_schedule,
            adapt_base=adapt_base,
        )
        self.tuner.set_state(state["tuner"])
        self.betas = np.array(state["betas"])
        self.deltas = [np.array(d) for d in state["deltas"]]
        self.swap_sum = np.array(state["swap_sum"])
        return self


def ladder_log_z(delta: FloatArray, betas: FloatArray) -> FloatArray:
    """Log z at every level by BAR, finite also between levels that share no draws.

    There the trapezium rule on medians says at least which way to go; a bias needs no more.

    Parameters
    ----------
    delta : ndarray of shape (n_scans, n_levels)
    betas : ndarray of shape (n_levels,)
    """
    increments = np.diff(bar_ladder(delta, betas).log_z)
    with np.errstate(invalid="ignore"):
        middle = np.median(np.where(np.isfinite(delta), delta, np.nan), axis=0)
    middle = np.nan_to_num(middle, nan=0.0)
    rough = 0.5 * np.diff(betas) * (middle[1:] + middle[:-1])
    increments = np.where(np.isfinite(increments), increments, rough)
    return np.concatenate([[0.0], np.cumsum(increments)])
