"""The annealing of one chain: schedule and step sizes, the state of the chain, blocks of scans."""

from typing import Any, NamedTuple

import numpy as np

from pymc_tempering.base.coordinates import Coordinates
from pymc_tempering.base.gaussian import GaussianBase
from pymc_tempering.kernels.adaptation import new_dual_averaging
from pymc_tempering.kernels.annealing import anneal_ensemble, target_chain
from pymc_tempering.kernels.annealing_moves import N_COUNTS, AnnealingMoves, AnnealingTally
from pymc_tempering.kernels.density import evaluate
from pymc_tempering.kernels.hais import hais_scans
from pymc_tempering.kernels.hmc import MAX_STEP_SIZE
from pymc_tempering.path.guard import density_guard
from pymc_tempering.types import BoolArray, FloatArray, IntArray

__all__ = ["Annealer", "AnnealingRecord"]

MAX_ROWS = 24
"""Step sizes tuned separately, each for an equal share of the levels."""


class AnnealingRecord(NamedTuple):
    """What a block of scans, or an ensemble, reports.

    Attributes
    ----------
    log_weight_forward, log_weight_reverse : ndarray of shape (n_scans,)
        In nats, both with the sign of the forward run; an ensemble fills one of them.
    accepted : ndarray of bool of shape (n_scans,)
        Whether the new particle replaced y; of an ensemble, empty.
    acceptance_rate : ndarray of shape (n_levels,)
        Mean acceptance probability of the transitions; nan at level 0.
    counts : ndarray of int of shape (4,)
        See :data:`pymc_tempering.kernels.annealing_moves.N_COUNTS`.
    positions : ndarray of shape (n_scans, D)
        ``z`` of y after each scan, if asked for, or of the ends of an ensemble.
    """

    log_weight_forward: FloatArray
    log_weight_reverse: FloatArray
    accepted: BoolArray
    acceptance_rate: FloatArray
    counts: IntArray
    positions: FloatArray


class Annealer:
    """Annealing runs on a density given by address, and the chain that is made of them.

    Knows nothing of PyMC. Every array that changes is part of :meth:`state`.

    Parameters
    ----------
    address : int
        The target, see :func:`pymc_tempering.kernels.density.call_density`.
    base : GaussianBase or Coordinates
    betas, step_sizes : ndarray of shape (n_levels,)
        Step sizes in base coordinates; that of level 0 is not used.
    n_leapfrog : int
    kind : int
        Position in :data:`pymc_tempering.kernels.annealing_moves.TRANSITIONS`.
    short_steps : bool
    target_step_size, trajectory_length, max_steps
        Of the move of y at beta = 1.
    target_accept : float
        Acceptance rate that tuning of the transitions aims at.
    """

    _arrays = ("betas", "step_sizes", "u", "grad", "log_densities", "dual_averaging")

    def __init__(
        self,
        address: int,
        base: GaussianBase | Coordinates,
        betas: FloatArray,
        step_sizes: FloatArray,
        **options: Any,
    ) -> None:
        coordinates = base if isinstance(base, Coordinates) else Coordinates.of(base)
        self._configure(address, coordinates, options)
        self.betas = np.array(betas)
        self.step_sizes = np.clip(step_sizes, 1e-6, MAX_STEP_SIZE)
        self.u, self.grad = np.zeros(self.base.dim), np.zeros(self.base.dim)
        self.log_densities = np.full(2, -np.inf)
        self.restart_adaptation()

    def _configure(self, address: int, coordinates: Coordinates, options: dict[str, Any]) -> None:
        self.address = address
        self.coordinates, self.base = coordinates, coordinates.base
        self.options = dict(options)
        self.n_leapfrog = int(options["n_leapfrog"])
        self.kind = int(options["kind"])
        self.short_steps = bool(options["short_steps"])
        self.target_step_size = float(options.get("target_step_size", 0.2))
        self.trajectory_length = float(options["trajectory_length"])
        self.max_steps = int(options["max_steps"])
        self.target_accept = float(options["target_accept"])
        self._target = coordinates.target(address)
        self._buffers = np.zeros((8, self.base.dim))

    @property
    def n_levels(self) -> int:
        """Number of levels, base and target included."""
        return int(self.betas.size)

    @property
    def _moves(self) -> AnnealingMoves:
        return AnnealingMoves(
            self.betas, self.step_sizes, self.n_leapfrog, self.kind, self.short_steps
        )

    def _tally(self, adapt: bool) -> AnnealingTally:
        return AnnealingTally(
            np.zeros(self.n_levels),
            np.zeros(N_COUNTS, dtype=np.int64),
            self.dual_averaging if adapt else np.empty((0, 5)),
            self.target_accept,
        )

    @property
    def target_position(self) -> FloatArray:
        """Position ``z`` of y, shape (D,)."""
        return self.coordinates.from_base(self.u)

    @property
    def target_log_density(self) -> float:
        """Log target density of :attr:`target_position`, in nats."""
        return float(self.log_densities[0] - self._target.log_det_scale)

    def place(self, z: FloatArray, rng: np.random.Generator) -> None:
        """Put y at ``z`` of finite density and draw its weight by a reverse run."""
        self.u = np.ascontiguousarray(self.coordinates.to_base(z))
        self.log_densities[0] = evaluate(self._target, self.u, self.grad, self._buffers[3:])
        self.redraw_weight(rng)

    def redraw_weight(self, rng: np.random.Generator) -> None:
        """Draw log W given y, needed whenever schedule or step sizes have changed."""
        record = self.ensemble(rng, positions=self.target_position[None])
        self.log_densities[1] = record.log_weight_reverse[0]

    @density_guard()
    def run(
        self,
        n_scans: int,
        rng: np.random.Generator,
        *,
        adapt: bool = False,
        keep_positions: bool = False,
    ) -> AnnealingRecord:
        """Run a block of scans in compiled code; while adapting they are not exactly invariant."""
        forward, reverse = np.empty(n_scans), np.empty(n_scans)
        accepted = np.zeros(n_scans, dtype=np.bool_)
        tally = self._tally(adapt)
        positions = np.empty((n_scans if keep_positions else 0, self.base.dim))
        hais_scans(
            self._target, self._moves, self.target_step_size, self.trajectory_length,
            self.max_steps, self.u, self.grad, self.log_densities, self._buffers, forward, reverse,
            accepted, tally, positions, rng,
        )  # fmt: skip
        n_runs = n_scans + np.isfinite(forward).sum()
        return AnnealingRecord(
            forward,
            reverse,
            accepted,
            _rates(tally, n_runs),
            tally.counts,
            self.coordinates.from_base(positions),
        )

    @density_guard()
    def ensemble(
        self,
        rng: np.random.Generator,
        *,
        n_particles: int = 0,
        positions: FloatArray | None = None,
        adapt: bool = False,
    ) -> AnnealingRecord:
        """Anneal independent particles.

        Parameters
        ----------
        rng : numpy.random.Generator
        n_particles : int
            Forward particles, which start from the base.
        positions : ndarray of shape (n_particles, D), optional
            Draws ``z`` of the target; the particles then run in reverse from there.
        adapt : bool
            Adapt step sizes; such runs are for tuning.
        """
        is_reverse = positions is not None
        if positions is None:
            ends = np.empty((n_particles, self.base.dim))
        else:
            ends = np.ascontiguousarray(self.coordinates.to_base(positions))
        log_weights = np.empty(len(ends))
        tally = self._tally(adapt)
        anneal_ensemble(is_reverse, self._target, self._moves, ends, log_weights, tally, rng)
        empty = np.empty(0)
        return AnnealingRecord(
            empty if is_reverse else log_weights,
            log_weights if is_reverse else empty,
            np.empty(0, dtype=np.bool_),
            _rates(tally, np.isfinite(log_weights).sum()),
            tally.counts,
            self.coordinates.from_base(ends),
        )

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
        positions = np.empty((n, self.base.dim))
        positions[: len(draws)] = self.coordinates.to_base(draws)
        target_chain(
            self._target, self.target_step_size, self.trajectory_length, self.max_steps, n_moves,
            len(draws), positions, rng,
        )  # fmt: skip
        return self.coordinates.from_base(positions)

    def change_schedule(self, betas: FloatArray) -> None:
        """Move to another schedule; step sizes follow, log-linear in beta."""
        old = self.betas[1:], np.log(self.step_sizes[1:])
        self.step_sizes = np.exp(np.interp(betas, *old))
        self.betas = np.array(betas)
        self.restart_adaptation()

    def restart_adaptation(self) -> None:
        """Search step sizes afresh from the present ones."""
        n_rows = min(MAX_ROWS, self.n_levels - 1)
        first = _rows(self.n_levels, n_rows)
        sizes = np.array([np.exp(np.log(self.step_sizes[1:][first == r]).mean())
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
        self.step_sizes[1:] = np.exp(np.interp(level, middles, self.dual_averaging[:, 2]))
        self.restart_adaptation()

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        return {name: getattr(self, name).copy() for name in self._arrays} | {
            "target_step_size": self.target_step_size,
            "base_mean": np.array(self.base.mean),
            "base_rows": np.array(self.coordinates.rows),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], address: int, **options: Any) -> "Annealer":
        """Rebuild from :meth:`state`; ``options`` are those of the constructor."""
        self = cls.__new__(cls)
        coordinates = Coordinates.from_rows(state["base_mean"], state["base_rows"])
        options = options | {"target_step_size": state["target_step_size"]}
        self._configure(address, coordinates, options)
        for name in cls._arrays:
            setattr(self, name, np.array(state[name]))
        return self


def _rows(n_levels: int, n_rows: int) -> IntArray:
    """Row of the step sizes that each level from 1 on belongs to, as in the kernel."""
    return np.arange(n_levels - 1) * n_rows // (n_levels - 1)


def _rates(tally: AnnealingTally, n_runs: int) -> FloatArray:
    rates = tally.acceptance_sums / max(int(n_runs), 1)
    rates[0] = np.nan
    return rates
