"""Replicas on a ladder of inverse temperatures whose moves are Python code.

A :class:`pymc_tempering.engine.ensembles.ladder.LadderLike` with the swaps of all others: what
tunes a ladder, records it, or estimates log Z from it does not see a difference.
"""

from dataclasses import dataclass

import numpy as np

from pymc_tempering.engine.ensembles.ladder import ScanRecord
from pymc_tempering.engine.ensembles.swap import (
    begin_block,
    is_restarted,
    swap_probability,
    swap_sweep,
    track_trips,
)
from pymc_tempering.engine.path.gaussian import GaussianBase, base_id
from pymc_tempering.engine.state import Stateful
from pymc_tempering.engine.tally import (
    count_reference_draw,
    counts_by_name,
    new_counts,
    zero_density_by_level,
)
from pymc_tempering.errors import ModelError
from pymc_tempering.model.powered import PoweredModel
from pymc_tempering.references.prior import PriorDraws
from pymc_tempering.steps.pymc_moves import PyMCMoves
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["CompoundLadder", "PriorPath"]

_MAX_START_TRIES = 100


@dataclass(frozen=True)
class PriorPath:
    """From the prior of a model to its posterior."""

    target: PoweredModel
    draws: PriorDraws

    @property
    def dim(self) -> int:
        """Number D of values."""
        return self.target.dim

    @property
    def base(self) -> GaussianBase:
        """Gaussian of the coordinates, which are the values themselves."""
        return GaussianBase(np.zeros(self.dim), np.ones(self.dim))

    @property
    def base_id(self) -> int:
        """Identity of :attr:`base` as a number that a statistic can hold."""
        return base_id(self.base)


class CompoundLadder(Stateful):
    """Replicas at inverse temperatures from 0 to 1, moved by PyMC's step methods.

    The reference is the prior: at beta = 0 every scan draws from it. Replicas whose draws from the
    prior have no likelihood begin at the rows of ``start``, shape (n, D), in turn.
    """

    _changing = ("betas", "scan", "z", "delta", "log_target", "replica_at", "last_end", "tuning",
                 "moves_state")  # fmt: skip

    path: PriorPath
    moves: PyMCMoves
    swap_scheme: int
    n_off_record = 0
    """Not counted: chains of these moves have no bound on their evaluations."""
    mixture = None
    """The path starts at the prior, not at a mixture."""

    def __init__(
        self,
        path: PriorPath,
        moves: PyMCMoves,
        betas: FloatArray,
        start: FloatArray,
        rng: np.random.Generator,
        *,
        swap_scheme: int = 0,
    ) -> None:
        self.path, self.moves, self._rng = path, moves, rng
        self.swap_scheme = swap_scheme
        self.scan = 0
        self.tuning = True
        self._allocate(betas, np.resize(start, (betas.size, path.dim)))
        for row in range(betas.size):
            self._place(row, self.z[row].copy(), rng)
        moves.start(betas.size, rng)

    @property
    def n_levels(self) -> int:
        """Number of levels, reference and target included."""
        return int(self.betas.size)

    @property
    def base(self) -> GaussianBase:
        """Gaussian of the coordinates."""
        return self.path.base

    @property
    def scales(self) -> FloatArray:
        """Not known: each step method has its own, shape (n_levels,)."""
        return np.full(self.n_levels, np.nan)

    @property
    def target_position(self) -> FloatArray:
        """Position ``z`` of the replica at beta = 1, shape (D,)."""
        return self.z[self.replica_at[-1]].copy()

    @property
    def target_log_density(self) -> float:
        """Log target density of :attr:`target_position`, in nats."""
        return float(self.log_target[self.replica_at[-1]])

    @property
    def moves_state(self) -> list[object]:
        """What the step methods have tuned at each level."""
        return self.moves.state()

    @moves_state.setter
    def moves_state(self, states: list[object]) -> None:
        self.moves.set_state(states)

    def _allocate(self, betas: FloatArray, z: FloatArray) -> None:
        self.betas = betas
        self.z = z
        self.delta, self.log_target = np.empty(betas.size), np.empty(betas.size)
        for row in range(betas.size):
            self._put(row, z[row])
        self.replica_at = np.arange(betas.size)
        self.last_end = np.zeros(betas.size, dtype=np.int64)

    def _put(self, row: int, z: FloatArray) -> None:
        log_prior, log_likelihood = self.path.target.log_densities(z)
        self.z[row] = z
        self.delta[row] = log_likelihood
        self.log_target[row] = log_prior + log_likelihood

    def _place(self, row: int, start: FloatArray, rng: np.random.Generator) -> None:
        """Put a replica at a draw from the prior that has a likelihood, or at the start."""
        for z in self.path.draws(_MAX_START_TRIES, rng):
            self._put(row, z)
            if np.isfinite(self.log_target[row]):
                return
        self._put(row, start)
        if not np.isfinite(self.log_target[row]):
            raise ModelError(
                f"The log density is not finite at the model's initial point nor at "
                f"{_MAX_START_TRIES} draws from the prior. Check the observed values against their "
                "distributions, or set `initval=`."
            )

    def stop_adaptation(self) -> None:
        """Count trips from here on; the step methods stop tuning with the first scan after it."""
        self.last_end = np.zeros(self.n_levels, dtype=np.int64)

    def run(
        self,
        n_scans: int,
        rng: np.random.Generator,
        *,
        adapt: bool = False,
        keep_positions: bool = False,
    ) -> ScanRecord:
        """Run a block of scans; see :meth:`pymc_tempering.engine.ensembles.ladder.Ladder.run`."""
        self._rng = rng
        begin_block(self.last_end)
        if self.tuning and not adapt:
            self.moves.stop_tuning()
            self.tuning = False
        n, counts = self.n_levels, new_counts(self.n_levels)
        delta, swap_sums, acceptance_sums = np.empty((n_scans, n)), np.zeros(n - 1), np.zeros(n)
        positions = np.empty((n_scans if keep_positions else 0, self.path.dim))
        for scan, draw in enumerate(self.path.draws(n_scans, rng)):
            swap_sums += self._swap_probabilities()
            swap_sweep(
                self.swap_scheme, self.scan + scan, self.betas, self.delta, self.replica_at, rng
            )
            track_trips(self.replica_at, self.last_end, counts[0])
            for level, row in enumerate(self.replica_at.tolist()):
                acceptance_sums[level] += self._move(level, row, draw, counts[level])
            delta[scan] = self.delta[self.replica_at]
            if keep_positions:
                positions[scan] = self.target_position
        self.scan += n_scans
        by_name = counts_by_name(counts)
        return ScanRecord(
            delta=delta,
            swap_acceptance_rate=swap_sums / n_scans,
            acceptance_rate=acceptance_sums / n_scans,
            counts=by_name,
            zero_density=zero_density_by_level(counts),
            target_positions=positions,
            from_component=np.array([[by_name["n_tempered_restarts"]], [n_scans]]),
            tempered_restart=is_restarted(self.last_end, int(self.replica_at[-1])),
        )

    def _move(self, level: int, row: int, draw: FloatArray, counts: IntArray) -> float:
        if level == 0:
            self._put(row, draw)
            count_reference_draw(counts, self.delta[row], False)
            return 1.0
        z, rate = self.moves(level, self.betas, self.z[row], counts)
        self._put(row, z)
        return rate

    def _swap_probabilities(self) -> FloatArray:
        ordered = self.delta[self.replica_at]
        gaps = zip(np.diff(self.betas), ordered[:-1], ordered[1:], strict=True)
        return np.array([swap_probability(gap, low, high) for gap, low, high in gaps])

    def change_schedule(self, betas: FloatArray) -> None:
        """Move to another schedule; a new level starts from the replica of the nearest old one."""
        nearest = np.abs(betas[:, None] - self.betas[None, :]).argmin(axis=1)
        # only the first level may sit where the target has no density
        nearest[1:] = np.maximum(nearest[1:], 1)
        self._allocate(betas, self.z[self.replica_at][nearest])
        self.moves.rearrange(nearest, self._rng)

    def change_base(self, base: GaussianBase) -> None:
        """Keep everything: the reference is the prior, and the step methods scale their moves."""

    def rescue_target(self) -> bool:
        """Never: replicas start at draws from the prior, or where the model says."""
        return False
