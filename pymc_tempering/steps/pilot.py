"""A short parallel tempering run during tuning, from which single-replica methods start.

It finds the modes, refines the base, and gives step sizes, barrier and log z(beta) at once. A
single tempered replica would have to learn each of these from the others.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from scipy.interpolate import PchipInterpolator

from pymc_tempering.engine.ensembles.ladder import Ladder, ScanRecord
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.state import Stateful
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.schedule.adapt import cumulative_barrier, equal_barrier_schedule
from pymc_tempering.schedule.grid import make_schedule
from pymc_tempering.steps.tuning import RoundTuner
from pymc_tempering.types import FloatArray

__all__ = ["Pilot", "PilotResult", "PilotStart"]

MAX_LEVELS = 32
_FIRST_N_LEVELS = 12
# neighbours that never rejected still need room between them
_MIN_REJECTION = 1e-3


class PilotStart(NamedTuple):
    """What a pilot run starts from.

    Attributes
    ----------
    path : TemperedPath
    anchor : GaussianBase
        The combined local fits.
    modes : ndarray of shape (n, D)
        Means of the local fits.
    places : ndarray of shape (m, D)
        Where replicas start: the modes, and a start that the user gave.
    """

    path: TemperedPath
    pooled: GaussianBase
    modes: FloatArray
    places: FloatArray


class PilotResult(NamedTuple):
    """What a pilot run found.

    Attributes
    ----------
    path : TemperedPath
        In the coordinates of the last round.
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

    path: TemperedPath
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


class Pilot(Stateful):
    """Runs the ladder and rounds of parallel tempering and keeps what the last round says.

    Parameters
    ----------
    start : PilotStart
    betas : ndarray, optional
        A schedule that is kept; by default it adapts.
    adapt_base : bool
    n_steps : int
        Number of blocks of scans.
    settings : ExplorerSettings
    rng : numpy.random.Generator
    """

    _changing = ("betas", "deltas", "swap_sum")

    def __init__(
        self,
        start: PilotStart,
        *,
        betas: FloatArray | None,
        adapt_base: bool,
        n_steps: int,
        settings: ExplorerSettings,
        rng: np.random.Generator,
    ) -> None:
        first = make_schedule("geometric", _FIRST_N_LEVELS) if betas is None else betas
        self.ladder = Ladder(start.path, first, start.places, rng, settings=settings)
        self.tuner = RoundTuner(
            n_steps,
            max(MAX_LEVELS, first.size),
            start.pooled,
            len(start.modes),
            adapt_schedule=betas is None,
            adapt_base=adapt_base,
        )
        self._start_round()

    def _start_round(self) -> None:
        self.betas = self.ladder.betas.copy()
        self.deltas: list[FloatArray] = []
        self.swap_sum = np.zeros(self.betas.size - 1)

    @property
    def finished(self) -> bool:
        """Whether no round is left."""
        return self.tuner.finished

    def run(self, n_scans: int, rng: np.random.Generator, *, left: float = np.inf) -> ScanRecord:
        """Run one block of scans, and adapt at the end of a round.

        Parameters
        ----------
        n_scans : int
        rng : numpy.random.Generator
        left : float
            Gradients that the pilot run may take, these scans included.
        """
        round_before = self.tuner.round
        record = self.ladder.run(
            n_scans, rng, adapt=True, keep_positions=self.tuner.base_may_change
        )
        self.deltas.append(record.delta)
        self.swap_sum += record.swap_acceptance_rate
        left -= record.counts["n_gradients"]
        self.tuner.update(self.ladder, record, rng, left=left)
        if self.tuner.round != round_before and not self.finished:
            self._start_round()
        return record

    def result(self) -> PilotResult:
        """What the last round says."""
        ladder = self.ladder
        ladder.stop_adaptation()
        return PilotResult(
            path=ladder.path,
            betas=self.betas,
            rejection_rates=1.0 - self.swap_sum / max(len(self.deltas), 1),
            log_z=ladder_log_z(np.concatenate(self.deltas), self.betas),
            step_betas=ladder.betas[1:].copy(),
            step_sizes=ladder.scales[1:].copy(),
            positions=ladder.positions,
        )

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        parts = {"ladder": self.ladder.state(), "tuner": self.tuner.state()}
        return super().state() | parts

    @classmethod
    def from_state(
        cls,
        state: dict[str, Any],
        path: TemperedPath,
        *,
        adapt_schedule: bool,
        adapt_base: bool,
        settings: ExplorerSettings,
    ) -> Self:
        """Rebuild from :meth:`state`; ``path`` may be in any coordinates."""
        ladder = Ladder.restored(state["ladder"], path=path, settings=settings, swap_scheme=0)
        tuner = RoundTuner.restored(
            state["tuner"],
            max_levels=max(MAX_LEVELS, ladder.n_levels),
            adapt_schedule=adapt_schedule,
            adapt_base=adapt_base,
        )
        ladder.n_off_record = 0  # what it took to put replicas where they were
        return cls.restored(state, ladder=ladder, tuner=tuner)


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
