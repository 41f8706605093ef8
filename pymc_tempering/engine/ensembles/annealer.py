"""The annealing of one chain: schedule and step sizes, the state of the chain, blocks of scans."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.ensembles.annealing_runs import (
    Annealing,
    AnnealingLog,
    AnnealingMoves,
    AnnealingTally,
    anneal_ensemble,
    annealing_scans,
    target_chain,
)
from pymc_tempering.engine.ensembles.ensemble import Ensemble
from pymc_tempering.engine.explorers.adaptation import new_dual_averaging
from pymc_tempering.engine.explorers.hamiltonian import MAX_STEP_SIZE
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.path.replicas import Replicas, new_replicas
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.tally import new_counts, zero_density_by_level
from pymc_tempering.types import BoolArray, FloatArray, IntArray

MAX_ROWS = 24
"""Step sizes tuned separately, each for an equal share of the levels."""


@dataclass(frozen=True)
class AnnealingSettings:
    """Transitions of an annealing run."""

    kind: int  # position in `annealing_runs.TRANSITIONS`
    n_leapfrog: int  # steps in each transition
    short_steps: bool  # make one step in five up to 20 times shorter, for funnels
    target_accept: float  # acceptance rate that tuning of the transitions aims at
    target: ExplorerSettings  # how y moves at beta = 1


class AnnealingRecord(NamedTuple):
    """What a block of scans reports."""

    log_weight_forward: FloatArray  # (n_scans,), nats
    log_weight_reverse: FloatArray  # (n_scans,), nats, with the sign of the forward run
    accepted: BoolArray  # (n_scans,), whether the new particle replaced y
    acceptance_rate: FloatArray  # (n_levels,), mean of the transitions; nan at level 0
    counts: dict[str, int]  # see `tally.counts_by_name`
    zero_density: IntArray  # (n_levels,), see `tally.zero_density_by_level`


class Particles(NamedTuple):
    """What an ensemble of n independent annealing runs reports."""

    log_weights: FloatArray  # (n,), nats, with the sign of the forward run
    positions: FloatArray  # (n, D), z of the ends
    acceptance_rate: FloatArray  # (n_levels,), as of scans
    counts: dict[str, int]  # see `tally.counts_by_name`; of JAX, gradients alone


class Annealer(Ensemble):
    """Annealing runs along a path, and the chain that is made of them.

    ``betas`` and step sizes ``scales`` in the path's coordinates, both (n_levels,); the scale of
    level 0 is not used. ``target_scale`` is that of the move of y.
    """

    _changing = ("coordinates", "mixture", "betas", "scales", "target_scale", "dual_averaging", "u",
                 "log_weight")  # fmt: skip
    _target_row = 1

    def __init__(
        self, path: TemperedPath, betas: FloatArray, scales: FloatArray,
        settings: AnnealingSettings, target_scale: float = 0.2,
    ) -> None:  # fmt: skip
        self.path = path
        self.settings = settings
        self.betas = np.array(betas)
        self.scales = np.clip(scales, 1e-6, MAX_STEP_SIZE)
        self.target_scale = float(target_scale)
        self.u = np.zeros((2, path.dim))
        self.log_weight = np.full(1, -np.inf)
        self.restart_adaptation()

    def _annealing(self, replicas: Replicas, *, adapt: bool = False) -> Annealing:
        options = self.settings
        moves = AnnealingMoves(
            self.betas, self.scales, options.n_leapfrog, options.kind, options.short_steps,
            options.target.packed, self.target_scale,
        )  # fmt: skip
        tally = AnnealingTally(
            np.zeros(self.n_levels),
            new_counts(self.n_levels),
            self.dual_averaging if adapt else np.empty((0, 5)),
            options.target_accept,
        )
        return Annealing(self.path.view, moves, replicas, tally)

    def place(self, z: FloatArray, rng: np.random.Generator) -> None:
        """Put y at ``z`` of finite density and draw its weight by a reverse run."""
        self.u = np.tile(self.coordinates.to_base(z), (2, 1))
        self.redraw_weight(rng)

    def redraw_weight(self, rng: np.random.Generator) -> None:
        """Draw log W given y, needed whenever schedule or step sizes have changed."""
        run = self.ensemble(rng, positions=self.target_position[None])
        self.log_weight[0] = run.log_weights[0]

    @density_guard()
    def run(
        self, n_scans: int, rng: np.random.Generator, *, adapt: bool = False
    ) -> AnnealingRecord:
        """Run a block of scans in compiled code; while adapting they are not exactly invariant."""
        self.path.view.faults[:] = 0
        log = AnnealingLog(
            self.log_weight, np.empty(n_scans), np.empty(n_scans),
            np.zeros(n_scans, dtype=np.bool_),
            self.path.draws_and_origins(n_scans, rng, self.betas[1])[0],
        )  # fmt: skip
        annealing = self._annealing(self.replicas, adapt=adapt)
        annealing_scans(annealing, log, rng)
        n_runs = n_scans + np.isfinite(log.log_weight_forward).sum()
        return AnnealingRecord(
            log.log_weight_forward,
            log.log_weight_reverse,
            log.accepted,
            *self._reported(annealing.tally, n_runs),
            zero_density_by_level(annealing.tally.counts),
        )

    @density_guard()
    def ensemble(
        self, rng: np.random.Generator, *, n_particles: int = 0,
        positions: FloatArray | None = None, adapt: bool = False,
    ) -> Particles:  # fmt: skip
        """Anneal independent particles, `n_particles` from the reference, or in reverse.

        Reverse runs start from `positions` (n_particles, D), draws ``z`` of the target. Runs that
        adapt step sizes are for tuning.
        """
        self.path.view.faults[:] = 0
        if positions is not None:
            ends = np.ascontiguousarray(self.coordinates.to_base(positions))
        else:
            ends = self.path.draws_and_origins(n_particles, rng, self.betas[1])[0]
            ends = ends if ends.size else np.empty((n_particles, self.path.dim))
        log_weights = np.empty(len(ends))
        particle = new_replicas(self.path.view, np.zeros((1, self.path.dim)))
        annealing = self._annealing(particle, adapt=adapt)
        anneal_ensemble(positions is not None, annealing, ends, log_weights, rng)
        reported = self._reported(annealing.tally, np.isfinite(log_weights).sum())
        return Particles(log_weights, self.coordinates.from_base(ends), *reported)

    def _reported(self, tally: AnnealingTally, n_runs: int) -> tuple[FloatArray, dict[str, int]]:
        rates = tally.acceptance_sums / max(int(n_runs), 1)
        rates[0] = np.nan
        return rates, self._counted(tally.counts)

    @density_guard()
    def continue_draws(
        self, draws: FloatArray, n: int, n_moves: int, rng: np.random.Generator
    ) -> FloatArray:
        """Extend draws ``z`` of the target, shape (n_draws, D), to n by a chain at beta = 1.

        Row ``i`` descends from draw ``i % n_draws``. Of more than n draws, n evenly spaced ones are
        taken: the first may be those of one chain.
        """
        if len(draws) >= n:
            return draws[np.arange(n) * len(draws) // n]
        positions = np.empty((n, self.path.dim))
        positions[: len(draws)] = self.coordinates.to_base(draws)
        mover = self._annealing(new_replicas(self.path.view, positions[:1]))
        target_chain(mover, n_moves, len(draws), positions, rng)
        return self.coordinates.from_base(positions)

    def change_schedule(self, betas: FloatArray) -> None:
        """Move to another schedule; step sizes follow, log-linear in beta."""
        old = self.betas[1:], np.log(self.scales[1:])
        self.scales = np.exp(np.interp(betas, *old))
        self.betas = np.array(betas)
        self.restart_adaptation()

    def restart_adaptation(self) -> None:
        """Search step sizes afresh from the present ones."""
        n_rows = min(MAX_ROWS, self.n_levels - 1)
        first = _rows(self.n_levels, n_rows)
        sizes = np.array([np.exp(np.log(self.scales[1:][first == r]).mean())
                          for r in range(n_rows)])  # fmt: skip
        self.dual_averaging = np.column_stack([new_dual_averaging(sizes), sizes])

    def stop_adaptation(self) -> None:
        """Fix step sizes at their averages, interpolated between the middles of the rows."""
        if not self.dual_averaging[:, 0].any():
            return
        n_rows = len(self.dual_averaging)
        level = np.arange(1, self.n_levels)
        row = _rows(self.n_levels, n_rows)
        middles = [level[row == r].mean() for r in range(n_rows)]
        self.scales[1:] = np.exp(np.interp(level, middles, self.dual_averaging[:, 2]))
        self.restart_adaptation()


def _rows(n_levels: int, n_rows: int) -> IntArray:
    """Row of the step sizes that each level from 1 on belongs to, as in the kernel."""
    return np.arange(n_levels - 1) * n_rows // (n_levels - 1)
