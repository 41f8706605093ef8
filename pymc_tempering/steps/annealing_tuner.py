"""Tuning of annealing: a pilot of parallel tempering, then rounds of annealing runs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_tempering.engine.ensembles.annealer import Annealer, AnnealingRecord, AnnealingSettings
from pymc_tempering.engine.ensembles.ladder import Ladder, LadderLike
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.state import Stateful
from pymc_tempering.engine.tally import counts_by_name, new_counts
from pymc_tempering.schedule.annealing import annealing_schedule, n_levels_for_gap
from pymc_tempering.schedule.grid import make_schedule
from pymc_tempering.steps.arguments import Requested
from pymc_tempering.steps.tuning import (
    PilotStart,
    overdisperse,
    read_pilot,
    resumed_pilot,
    round_lengths,
    start_pilot,
)
from pymc_tempering.types import FloatArray

__all__ = ["PILOT_SCANS", "AnnealingRequested", "AnnealingTuner"]

PILOT_SCANS = 16
"""Scans of a pilot's block, about the work of one draw of annealing."""


@dataclass(frozen=True, kw_only=True)
class AnnealingRequested(Requested):
    """What the user asked of annealing.

    ``n_levels`` is None where it adapts, ``betas`` is a schedule that is kept; ``schedule`` is as
    for :func:`pymc_tempering.schedule.annealing.annealing_schedule`.
    """

    n_levels: int | None
    betas: FloatArray | None
    schedule: str
    annealing: AnnealingSettings


class AnnealingTuner(Stateful):
    """One chain of annealing, with its tuning of ``n_steps`` blocks of scans; without any, nothing.

    A base that was fitted is to be widened, since it leaves out modes. ``annealer`` is None while
    the pilot runs; ``knots`` are betas, rejection rates and delta of its last round.
    """

    _changing = ("pilot_counts", "lengths", "round", "gaps", "knots")

    def __init__(
        self,
        start: PilotStart,
        options: AnnealingRequested,
        *,
        n_steps: int,
        widen: bool,
        rng: np.random.Generator,
    ) -> None:
        self.options = options
        if widen:
            wide = overdisperse(start.path.base, len(start.modes))
            start = start._replace(path=start.path.moved(wide))
        n_pilot = int(np.ceil(0.6 * n_steps))
        self.lengths = round_lengths(n_steps - n_pilot)[-4:]
        self.annealer: Annealer | None = None
        self.pilot_counts = counts_by_name(new_counts(1))
        self.pilot = start_pilot(
            start, betas=None, adapt_base=options.adapt_base, n_steps=n_pilot,
            settings=Hamiltonian(), rng=rng,
        )  # fmt: skip
        self.round = 0
        self.gaps: list[FloatArray] = []
        self.knots = (np.array([0.0, 1.0]), np.ones(1), np.zeros((1, 2)))
        if n_steps == 0:
            self._anneal_untuned(rng)

    @property
    def ensemble(self) -> Annealer | LadderLike:
        """What is moved now: the ladder of the pilot, then the particles."""
        return self.annealer or self.pilot.ladder

    @property
    def global_barrier(self) -> float:
        """Of the pilot run; nan before its end and without one."""
        _, rejection_rates, deltas = self.knots
        return float(rejection_rates.sum()) if len(deltas) > 1 else np.nan

    def run(self, n_scans: int, rng: np.random.Generator, *, adapt: bool) -> AnnealingRecord | None:
        """Run a block of scans; a block of the pilot returns None."""
        if self.annealer is None:
            self.pilot_counts = self.pilot.run(PILOT_SCANS, rng).counts
            if self.pilot.finished:
                self._end_pilot(rng)
            return None
        adapt = adapt and self.round < len(self.lengths)
        annealed = self.annealer.run(n_scans, rng, adapt=adapt)
        if adapt:
            self._update(annealed, rng)
        return annealed

    def _end_pilot(self, rng: np.random.Generator) -> None:
        result = read_pilot(self.pilot)
        self.knots = result.betas, result.rejection_rates, self.pilot.delta
        betas = self._schedule(self.options.n_levels or 64)
        self.annealer = Annealer(
            result.path, betas, result.step_sizes_at(betas), self.options.annealing,
            result.step_sizes[-1],
        )  # fmt: skip
        self.annealer.place(result.positions[-1], rng)

    def _schedule(self, n_levels: int) -> FloatArray:
        if self.options.betas is not None:
            return self.options.betas
        return annealing_schedule(self.options.schedule, n_levels, *self.knots)

    def _anneal_untuned(self, rng: np.random.Generator) -> None:
        ladder, betas = self.pilot.ladder, self.options.betas
        if betas is None:
            kind = self.options.schedule
            kind = "geometric" if kind in ("barrier", "ess") else kind
            betas = make_schedule(kind, self.options.n_levels or 128)
        assert isinstance(ladder, Ladder)
        sizes = np.full(betas.size, 0.2)
        self.annealer = Annealer(ladder.path, betas, sizes, self.options.annealing)
        self.annealer.place(ladder.target_position, rng)

    def _update(self, record: AnnealingRecord, rng: np.random.Generator) -> None:
        """Adapt the number of levels at the end of a round, but of the last one."""
        self.gaps.append(np.stack([record.log_weight_forward, record.log_weight_reverse]))
        annealer = self.annealer
        assert annealer is not None
        if len(self.gaps) < self.lengths[self.round]:
            return
        annealer.stop_adaptation()
        is_free = self.options.betas is None and self.options.n_levels is None
        if is_free and self.round < len(self.lengths) - 1:
            gap = _gap(np.concatenate(self.gaps, axis=1))
            # nats between reverse and forward log weights: where they have a variance V, acceptance
            # per level, V * 2 * Phi(-sqrt(V / 2)), is largest near V = 2.5, and the variance of the
            # mean weight per level, (exp(V) - 1) / V, favours small ones
            n_levels = n_levels_for_gap(annealer.n_levels, gap, 1.5, least=16, most=2000)
            annealer.change_schedule(self._schedule(n_levels))
        annealer.redraw_weight(rng)
        self.round, self.gaps = self.round + 1, []

    def stop(self, rng: np.random.Generator) -> None:
        """Fix everything, wherever tuning has got to."""
        if self.annealer is None:
            if self.pilot.blocks:
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
        cls, state: dict[str, Any], path: TemperedPath, options: AnnealingRequested
    ) -> "AnnealingTuner":
        """Rebuild from :meth:`state`; ``path`` may be in any coordinates."""
        self = cls.restored(state, options=options, annealer=None)
        if state["annealer"] is not None:
            self.annealer = Annealer.restored(
                state["annealer"], path=path, settings=options.annealing
            )
        else:
            self.pilot = resumed_pilot(
                state["pilot"], path, adapt_schedule=True, adapt_base=options.adapt_base,
                settings=Hamiltonian(),
            )  # fmt: skip
        return self


def _gap(log_weights: FloatArray) -> float:
    """Median reverse less median forward log weight, in nats; inf where no forward one is."""
    forward, reverse = log_weights
    forward = forward[np.isfinite(forward)]
    return float(np.median(reverse) - np.median(forward)) if forward.size else np.inf
