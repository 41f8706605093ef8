"""Tuning of annealing: a pilot of parallel tempering, then rounds of annealing runs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_tempering.engine.ensembles.annealer import Annealer, AnnealingRecord, AnnealingSettings
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.state import Stateful
from pymc_tempering.engine.tally import counts_by_name, new_counts
from pymc_tempering.schedule.annealing import annealing_schedule, n_levels_for_gap
from pymc_tempering.schedule.grid import make_schedule
from pymc_tempering.steps.pilot import Pilot, PilotResult, PilotStart
from pymc_tempering.steps.tuning import overdisperse, round_lengths
from pymc_tempering.types import FloatArray

__all__ = ["PILOT_SCANS", "PILOT_SETTINGS", "AnnealingTuner", "TunerOptions"]

TARGET_GAP = 1.5
"""Nats between reverse and forward log weights at which particles are best used.

For log weights of variance s2 the acceptance per level, s2 * 2 * Phi(-s / sqrt(2)), is largest near
2.5, and the variance of the mean weight per level, (exp(s2) - 1) / s2, favours small ones."""

LEAST_LEVELS, MOST_LEVELS = 16, 2000
_FIRST_LEVELS = 64
_UNTUNED_LEVELS = 128
_UNTUNED_STEP = 0.2

PILOT_SHARE = 0.6
PILOT_SCANS = 16
"""Scans of a pilot's block, about the work of one draw of annealing."""

PILOT_SETTINGS = Hamiltonian()


@dataclass(frozen=True)
class TunerOptions:
    """What the user fixed.

    Attributes
    ----------
    n_levels : int or None
        None adapts it.
    betas : ndarray of shape (n_levels,) or None
        A schedule that is kept.
    schedule : str
        See :func:`pymc_tempering.schedule.annealing.annealing_schedule`.
    adapt_base : bool
    moves : AnnealingSettings
    """

    n_levels: int | None
    betas: FloatArray | None
    schedule: str
    adapt_base: bool
    moves: AnnealingSettings


class AnnealingTuner(Stateful):
    """One chain of annealing, with its tuning.

    Parameters
    ----------
    start : PilotStart
    options : TunerOptions
    n_steps : int
        Blocks of scans that tuning will have; without any, nothing is tuned.
    widen : bool
        Whether the base is made over-dispersed: a base that was fitted leaves out modes.
    rng : numpy.random.Generator
    """

    _changing = ("pilot_counts", "lengths", "round", "done", "gaps", "knots")

    def __init__(
        self,
        start: PilotStart,
        options: TunerOptions,
        *,
        n_steps: int,
        widen: bool,
        rng: np.random.Generator,
    ) -> None:
        self.options = options
        if widen:
            wide = overdisperse(start.path.base, len(start.modes))
            start = start._replace(path=start.path.moved(wide))
        n_pilot = int(np.ceil(PILOT_SHARE * n_steps))
        self.lengths = round_lengths(n_steps - n_pilot)[-4:]
        self.annealer: Annealer | None = None
        self.pilot_counts = counts_by_name(new_counts(1))
        self.pilot = Pilot(
            start, betas=None, adapt_base=options.adapt_base, n_steps=n_pilot,
            settings=PILOT_SETTINGS, rng=rng,
        )  # fmt: skip
        self._start_rounds()
        if n_steps == 0:
            self._anneal_untuned(rng)

    def _start_rounds(self) -> None:
        self.round, self.done = 0, 0
        self.gaps: list[FloatArray] = []
        self.knots: tuple[FloatArray, FloatArray, FloatArray] = (
            np.array([0.0, 1.0]),
            np.ones(1),
            np.zeros((1, 2)),
        )

    @property
    def base(self) -> GaussianBase:
        """The base in use."""
        return self.pilot.ladder.base if self.annealer is None else self.annealer.base

    @property
    def global_barrier(self) -> float:
        """Communication barrier of the pilot run; nan before its end and without one."""
        _, rejection_rates, deltas = self.knots
        return float(rejection_rates.sum()) if len(deltas) > 1 else np.nan

    @property
    def target_position(self) -> FloatArray:
        """Position ``z`` at beta = 1, shape (D,)."""
        return (self.annealer or self.pilot.ladder).target_position

    @property
    def target_log_density(self) -> float:
        """Log target density of :attr:`target_position`, in nats."""
        return (self.annealer or self.pilot.ladder).target_log_density

    def run(self, n_scans: int, rng: np.random.Generator, *, adapt: bool) -> AnnealingRecord | None:
        """Run a block of scans; a block of the pilot returns None."""
        if self.annealer is None:
            record = self.pilot.run(PILOT_SCANS, rng)
            self.pilot_counts = record.counts
            if self.pilot.finished:
                self._end_pilot(rng)
            return None
        adapt = adapt and self.round < len(self.lengths)
        annealed = self.annealer.run(n_scans, rng, adapt=adapt)
        if adapt:
            self._update(annealed, rng)
        return annealed

    def _end_pilot(self, rng: np.random.Generator) -> None:
        result = self.pilot.result()
        deltas = np.concatenate(self.pilot.deltas)
        self.knots = result.betas, result.rejection_rates, deltas
        n_levels = self.options.n_levels or _FIRST_LEVELS
        self._start_annealer(self._schedule(n_levels), result, rng)

    def _schedule(self, n_levels: int) -> FloatArray:
        if self.options.betas is not None:
            return self.options.betas
        return annealing_schedule(self.options.schedule, n_levels, *self.knots)

    def _start_annealer(
        self, betas: FloatArray, result: PilotResult, rng: np.random.Generator
    ) -> None:
        step_sizes = np.exp(np.interp(betas, result.step_betas, np.log(result.step_sizes)))
        self.annealer = Annealer(
            result.path, betas, step_sizes, self.options.moves, result.step_sizes[-1]
        )  # fmt: skip
        self.annealer.place(result.positions[-1], rng)

    def _anneal_untuned(self, rng: np.random.Generator) -> None:
        ladder = self.pilot.ladder
        betas = self.options.betas
        if betas is None:
            n_levels = self.options.n_levels or _UNTUNED_LEVELS
            kind = self.options.schedule
            betas = make_schedule(kind if kind not in ("barrier", "ess") else "geometric", n_levels)
        self.annealer = Annealer(
            ladder.path, betas, np.full(betas.size, _UNTUNED_STEP), self.options.moves
        )  # fmt: skip
        self.annealer.place(ladder.target_position, rng)

    def _update(self, record: AnnealingRecord, rng: np.random.Generator) -> None:
        self.gaps.append(np.stack([record.log_weight_forward, record.log_weight_reverse]))
        self.done += 1
        if self.done < self.lengths[self.round]:
            return
        annealer = self.annealer
        assert annealer is not None
        annealer.stop_adaptation()
        is_free = self.options.betas is None and self.options.n_levels is None
        if is_free and self.round < len(self.lengths) - 1:
            gap = _gap(np.concatenate(self.gaps, axis=1))
            n_levels = n_levels_for_gap(
                annealer.n_levels, gap, TARGET_GAP, LEAST_LEVELS, MOST_LEVELS
            )
            annealer.change_schedule(self._schedule(n_levels))
        annealer.redraw_weight(rng)
        self.round, self.done, self.gaps = self.round + 1, 0, []

    def stop(self, rng: np.random.Generator) -> None:
        """Fix everything, wherever tuning has got to."""
        if self.annealer is None:
            if self.pilot.deltas:
                self._end_pilot(rng)
            else:
                self._anneal_untuned(rng)
        assert self.annealer is not None
        self.annealer.stop_adaptation()
        self.annealer.redraw_weight(rng)
        self.round = len(self.lengths)

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        return super().state() | {
            "pilot": self.pilot.state() if self.annealer is None else None,
            "annealer": None if self.annealer is None else self.annealer.state(),
        }

    @classmethod
    def from_state(
        cls, state: dict[str, Any], path: TemperedPath, options: TunerOptions
    ) -> "AnnealingTuner":
        """Rebuild from :meth:`state`; ``path`` may be in any coordinates."""
        self = cls.restored(state, options=options, annealer=None)
        if state["annealer"] is not None:
            self.annealer = Annealer.restored(state["annealer"], path=path, settings=options.moves)
        else:
            self.pilot = Pilot.from_state(
                state["pilot"], path, adapt_schedule=True, adapt_base=options.adapt_base,
                settings=PILOT_SETTINGS,
            )  # fmt: skip
        return self


def _gap(log_weights: FloatArray) -> float:
    forward, reverse = log_weights
    forward = forward[np.isfinite(forward)]
    if forward.size == 0:
        return np.inf
    return float(np.median(reverse) - np.median(forward))
