"""Replicas on a ladder of inverse temperatures, moved by PyMC's step methods.

It has the swaps and the methods of :class:`pymc_tempering.engine.ensembles.ladder.Ladder`: what
tunes a ladder, records it, or estimates log Z from it does not see a difference. One set of step
methods serves all levels. What they tune and draw from belongs to a level: it is put in before a
move and taken out after it, as the sampling state that PyMC defines for each.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pytensor

from pymc_tempering.engine.ensembles.ladder import Ladder, ScanRecord
from pymc_tempering.engine.ensembles.swap import (
    begin_block,
    is_restarted,
    swap_probability,
    swap_sweep,
    track_trips,
)
from pymc_tempering.engine.path.gaussian import GaussianBase, base_id
from pymc_tempering.engine.state import Stateful, to_plain
from pymc_tempering.engine.tally import (
    DIVERGENCES,
    EVALUATIONS,
    TARGET_DIVERGENCES,
    count_reference_draw,
    counts_by_name,
    new_counts,
    zero_density_by_level,
)
from pymc_tempering.errors import ModelError
from pymc_tempering.model.powered import PoweredModel
from pymc_tempering.private.of_pymc import assigned_steps
from pymc_tempering.references.prior import PriorDraws
from pymc_tempering.types import FloatArray, IntArray

_ACCEPTANCE = ("mean_tree_accept", "accepted")
"""Statistics that say how often proposals are accepted; a Gibbs step or a slice has none."""


class PyMCMoves:
    """The step methods that PyMC assigns to a model, on its tempered copy; their state by level."""

    def __init__(self, powered: PoweredModel) -> None:
        self._powered = powered
        model, self._beta = powered.tempered()
        # a worker that compiles by itself has to draw alike, to the last bit
        with pytensor.config.change_flags(numba__fastmath=False):
            self._step = assigned_steps(model)
        self._leaves = list(_leaves(self._step))
        sizes = dict(zip(powered.points.names, powered.points.sizes, strict=True))
        # NUTS counts its evaluations; others make about one for each entry
        self._n_other = sum(
            sizes[value.name]
            for leaf in self._leaves
            if "tree_size" not in leaf.stats_dtypes_shapes
            for value in leaf.vars
        )
        self._fresh = self._step.sampling_state
        self.states: list[Any] = []

    # compiled functions share the power of the likelihood, which pickling them would take apart
    def __reduce__(self) -> tuple[Any, ...]:
        return PyMCMoves, (self._powered,)

    @property
    def assignment(self) -> str:
        """Which step method moves which variables, in words."""
        return ", ".join(
            f"{type(leaf).__name__} ({', '.join(value.name for value in leaf.vars)})"
            for leaf in self._leaves
        )

    def start(self, n_levels: int, rng: np.random.Generator) -> None:
        """Forget everything that was tuned, and give every level a stream of its own."""
        self.states = [self._fresh] * n_levels
        self._give_streams(rng)

    def rearrange(self, levels: IntArray, rng: np.random.Generator) -> None:
        """Continue with what is tuned at these levels, in this order, from new streams."""
        self.states = [self.states[level] for level in levels]
        self._give_streams(rng)

    def stop_tuning(self) -> None:
        """Fix what is tuned, at every level; every later move is exactly invariant."""
        for level, state in enumerate(self.states):
            self._step.sampling_state = state
            self._step.stop_tuning()
            self.states[level] = self._step.sampling_state

    def _give_streams(self, rng: np.random.Generator) -> None:
        for level, entropy in enumerate(rng.integers(2**63, size=(len(self.states), 4))):
            self._step.sampling_state = self.states[level]
            self._step.setup_chain(np.random.default_rng(entropy), 0, 0)
            self.states[level] = self._step.sampling_state

    def __call__(
        self, level: int, betas: FloatArray, z: FloatArray, counts: IntArray
    ) -> tuple[FloatArray, float]:
        """Move a replica at z, shape (D,), by every step method once; ``counts`` are incremented.

        The density at its level stays invariant. Gives the position and the mean acceptance rate of
        those step methods that may reject; 1 without any.
        """
        points = self._powered.points
        self._beta.set_value(betas[level])
        self._step.sampling_state = self.states[level]
        point, statistics = self._step.step(points.unravel(z))
        self.states[level] = self._step.sampling_state
        counts[EVALUATIONS] += self._n_other + sum(s.get("tree_size", 0) for s in statistics)
        n_diverging = sum(bool(s.get("diverging", False)) for s in statistics)
        counts[DIVERGENCES] += n_diverging
        counts[TARGET_DIVERGENCES] += n_diverging * (level == betas.size - 1)
        rates = [float(np.mean(s[name])) for s in statistics for name in _ACCEPTANCE if name in s]
        return points.ravel(point), float(np.mean(rates)) if rates else 1.0

    def state(self) -> list[Any]:
        """What is tuned at every level, as plain values."""
        return [to_plain(asdict(state)) for state in self.states]

    def set_state(self, states: list[Any]) -> None:
        """Continue from :meth:`state`."""
        self.states = [_like(self._fresh, state) for state in states]


def _leaves(step: Any) -> Iterator[Any]:
    """Step methods below one that is composed of several, however deep."""
    for method in getattr(step, "methods", ()):
        yield from _leaves(method)
    if not hasattr(step, "methods"):
        yield step


def _like(example: Any, value: Any) -> Any:
    """Sampling state of the types of another one, from those of its fields."""
    if is_dataclass(example) and not isinstance(example, type):
        named = {f.name: _like(getattr(example, f.name), value[f.name]) for f in fields(example)}
        return type(example)(**named)
    if isinstance(example, list | tuple) and len(example) == len(value):
        # a named tuple takes its entries one by one
        make = getattr(example, "_make", type(example))
        return make(map(_like, example, value))
    return value


MAX_START_DRAWS = 100
"""Of the prior, tried for starts with a density, which a likelihood may give to few."""


@dataclass(frozen=True)
class PriorPath:
    """From the prior of a model to its posterior."""

    target: PoweredModel
    prior: PriorDraws

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
        for z in self.path.prior.draw(MAX_START_DRAWS, rng):
            self._put(row, z)
            if np.isfinite(self.log_target[row]):
                return
        self._put(row, start)
        if not np.isfinite(self.log_target[row]):
            raise ModelError(
                f"The log density is not finite at the model's initial point nor at "
                f"{MAX_START_DRAWS} draws from the prior. Check the observed values against their "
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
        for scan, draw in enumerate(self.path.prior.draw(n_scans, rng)):
            ordered = self.delta[self.replica_at]
            gaps = zip(np.diff(self.betas), ordered[:-1], ordered[1:], strict=True)
            swap_sums += [swap_probability(gap, low, high) for gap, low, high in gaps]
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
            delta=delta, swap_acceptance_rate=swap_sums / n_scans,
            acceptance_rate=acceptance_sums / n_scans, counts=by_name,
            zero_density=zero_density_by_level(counts), target_positions=positions,
            from_component=np.array([[by_name["n_tempered_restarts"]], [n_scans]]),
            tempered_restart=is_restarted(self.last_end, int(self.replica_at[-1])),
        )  # fmt: skip

    def _move(self, level: int, row: int, draw: FloatArray, counts: IntArray) -> float:
        if level == 0:
            self._put(row, draw)
            count_reference_draw(counts, self.delta[row], False)
            return 1.0
        z, rate = self.moves(level, self.betas, self.z[row], counts)
        self._put(row, z)
        return rate

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


type AnyLadder = Ladder | CompoundLadder
"""Replicas that exchange places, however they move."""
