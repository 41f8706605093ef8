"""Tuning of a ladder in rounds that double: reference, number of levels, schedule, step sizes.

After each round the swap rejection rates give the barrier, and the barrier the next schedule (Syed
et al. 2021, algorithm 4). Early rounds also refine the Gaussian from the draws at beta = 1 (the
"bootstrap" at the end of section 6 of Graham & Storkey 2017), and choose the reference. Parallel
tempering goes on with the ladder. Methods with one tempered replica start from a short run, the
pilot, whose last round gives base, step sizes, barrier and log z(beta) at once.
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
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.numerics import one_blas_thread
from pymc_tempering.references.fit import base_from_draws, expand_to_draws, match_moments
from pymc_tempering.references.own import not_covered
from pymc_tempering.references.prepared import Prepared
from pymc_tempering.schedule.adapt import cumulative_barrier, equal_barrier_schedule, n_levels_for
from pymc_tempering.schedule.grid import make_schedule
from pymc_tempering.steps.compound_ladder import AnyLadder
from pymc_tempering.steps.reference import (
    LEAST_RESTARTS,
    RESTARTS_PER_MODE,
    ReferenceChoice,
    log_reference,
)  # fmt: skip
from pymc_tempering.steps.round import Round
from pymc_tempering.types import FloatArray, IntArray

FIRST_LEVELS, MIXTURE_LEVELS = 12, 4
"""Levels with which a path begins, from a wide Gaussian and from a mixture."""


def round_lengths(n_steps: int) -> IntArray:
    """Split ``n_steps`` blocks of scans into at most eight rounds that double in length.

    Examples
    --------
    >>> round_lengths(100)
    array([ 1,  2,  3,  6, 13, 25, 50])
    """
    if n_steps <= 0:
        return np.zeros(0, dtype=np.int64)
    ends = np.floor(n_steps / 2.0 ** np.arange(8)[::-1]).astype(np.int64)
    ends[-1] = n_steps
    lengths = np.diff(np.concatenate([[0], ends]))
    return lengths[lengths > 0]


def overdisperse(base: GaussianBase, n_modes: int) -> GaussianBase:
    """Widen a base by a fifth, and where several modes are known by 1.3.

    A mode many standard deviations out in one narrow direction is reached too rarely to weigh it.
    On a Boltzmann machine relaxation exact moments gave errors of log Z of 1 nat and more, and
    scales widened by 1.35 of 0.11 at most, for a fifth more barrier (benchmarks/bases.py).
    """
    factor = 1.3 if n_modes > 1 else 1.2
    return GaussianBase(base.mean, factor * base.scale, base.log_zeta)


class Tuner(Stateful):
    """Tunes the ladder of one chain in ``n_steps`` blocks of scans, round by round.

    It adapts step sizes, and if it ``adapts_schedule`` and ``adapts_base`` these, with at most
    ``max_levels`` levels.
    ``pooled`` are the combined local fits of ``n_modes`` modes: what is known before any tempering,
    if anything. With a choice of the reference tuning stops when it is good enough; without it the
    chain keeps its Gaussian, and tuning takes all its steps. ``blocks`` are of the round under way;
    of the last one, once all are over. ``barrier`` is that of the round before, ``scan_variance``
    the variance of log Z of a chain times its scans, nats², inf where levels do not overlap, and
    ``scan_cost`` the gradients of a scan on the ladder that it left.
    """

    _changing = (
        "max_levels", "adapts_schedule", "adapts_base", "pooled", "n_modes", "lengths", "round",
        "blocks", "n_arrivals", "n_scans", "barrier", "scan_variance", "scan_cost",
    )  # fmt: skip

    def __init__(
        self, ladder: AnyLadder, n_steps: int, pooled: GaussianBase | None, n_modes: int,
        choice: ReferenceChoice | None = None, *, max_levels: int, adapts_schedule: bool = True,
        adapts_base: bool = True,
    ) -> None:  # fmt: skip
        self.ladder, self.choice, self.max_levels = ladder, choice, max_levels
        self.adapts_schedule, self.adapts_base = adapts_schedule, adapts_base
        self.pooled, self.n_modes = pooled, n_modes
        self.lengths = round_lengths(n_steps)
        self.round = self.n_arrivals = self.n_scans = 0
        self.blocks: list[dict[str, Any]] = []
        self.barrier = self.scan_variance = self.scan_cost = np.nan

    @classmethod
    def resumed(cls, state: dict[str, Any], ladder: AnyLadder) -> Self:
        """Rebuild from :meth:`state` and a ladder that was rebuilt from its own part of it."""
        ladder.n_off_record = 0  # what it took to put replicas where they were
        choice = state["choice"] and ReferenceChoice.restored(state["choice"])
        return cls.restored(state, ladder=ladder, choice=choice)

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        choice = self.choice and self.choice.state()
        return super().state() | {"ladder": self.ladder.state(), "choice": choice}

    @property
    def finished(self) -> bool:
        """Whether no round is left."""
        return self.round >= len(self.lengths)

    @property
    def base_may_change(self) -> bool:
        """Whether the round under way may end with another reference.

        The last round never does, so that a full round follows each change.
        """
        return self.adapts_base and self.round < len(self.lengths) - 1

    @property
    def delta(self) -> FloatArray:
        """``log_target - log_reference`` of the round under way, shape (n_scans, n_levels)."""
        return np.concatenate([block["delta"] for block in self.blocks])

    @property
    def rejection_rates(self) -> FloatArray:
        """Of swaps in the round under way, shape (n_levels - 1,)."""
        swaps, lengths = zip(*((b["swaps"], len(b["delta"])) for b in self.blocks), strict=True)
        return 1.0 - np.average(swaps, axis=0, weights=lengths)

    def choice_counted(self) -> int:
        """Evaluations since the last call that choosing the reference took."""
        return 0 if self.choice is None else self.choice.counted()

    def run(self, n_scans: int, rng: np.random.Generator, *, left: float = np.inf) -> ScanRecord:
        """Run a block of scans and adapt; `left` are the gradients that it may take, and tuning."""
        record = self.ladder.run(n_scans, rng, adapt=True, keep_positions=self.base_may_change)
        self.update(record, rng, left=left - record.counts["n_gradients"])
        return record

    def update(self, record: ScanRecord, rng: np.random.Generator, *, left: float = np.inf) -> None:
        """Take note of a block of scans, and adapt at the end of a round.

        Without gradients ``left`` to tuning the round ends here, as the last one. Raises BaseError
        if a replica went where the reference has no density.
        """
        if np.isposinf(record.delta).any():
            raise not_covered("at positions that were found while tuning")
        if self.finished:
            return
        self.n_scans += len(record.delta)
        self.blocks.append({
            "betas": self.ladder.betas, "delta": record.delta,
            "swaps": record.swap_acceptance_rate, "positions": record.target_positions,
            "n_restarts": record.counts["n_tempered_restarts"],
            "n_gradients": record.counts["n_gradients"],
        })  # fmt: skip
        done = len(self.blocks)
        if left <= 0.0 and done < self.lengths[self.round :].sum():
            self.lengths = np.append(self.lengths[: self.round], done)
        if done == self.lengths[self.round]:
            with one_blas_thread():
                self._end_round(rng, left)

    def _end_round(self, rng: np.random.Generator, left: float) -> None:
        ladder, delta, rates = self.ladder, self.delta, self.rejection_rates
        n_restarts, n_gradients = (
            sum(block[name] for block in self.blocks) for name in ("n_restarts", "n_gradients")
        )
        barrier = float(rates.sum())
        with np.errstate(all="ignore"):
            estimate = bar_ladder(delta, ladder.betas)
        log_z = float(estimate.log_z[-1])
        se = float(log_z_standard_error(estimate.log_z[-1:], [estimate.influence]).se)
        ladder.stop_adaptation()
        self.n_arrivals += n_restarts
        if self._good_enough(barrier, n_restarts):
            # one more round, in which only schedule and step sizes adapt, is all it takes
            self.lengths = np.append(self.lengths[: self.round + 1], self.lengths[self.round])
        if self.adapts_schedule:
            most = self.max_levels
            n_levels = n_levels_for(barrier, most, min(self._least_levels(), most))
            ladder.change_schedule(equal_barrier_schedule(ladder.betas, rates, n_levels))
        if self.base_may_change:
            positions = np.concatenate([block["positions"] for block in self.blocks])
            if self.choice is not None and isinstance(ladder, Ladder):
                self.choice.look(ladder.path.target, positions, left)
            self._refine(positions, delta[:, -1], rates, n_restarts, (log_z, se), rng)
        self.round += 1
        # neighbours that share no draws make an estimate with no number of scans
        overlaps = np.isfinite(log_z) or not self.finished
        self.barrier, self.scan_variance = barrier, se**2 * len(delta) if overlaps else np.inf
        n_moves = max(delta.shape[1] - 1, 1)
        self.scan_cost = n_gradients / len(delta) * (ladder.n_levels - 1) / n_moves
        if not self.finished:
            self._afford(left, max(self.scan_cost * len(delta) / len(self.blocks), 1.0))
            self.blocks = []

    def _afford(self, left: float, block_cost: float) -> None:
        """Have the next round be the last one, where gradients are not enough for one after it."""
        wanted = int(self.lengths[self.round])
        # a round that may change the reference is worth it if half of it can follow
        after = 0.5 if self.base_may_change else 0.0
        if np.isfinite(left) and (1.0 + after) * wanted * block_cost > left:
            length = int(np.clip(left // block_cost, 1, wanted))
            self.lengths = np.append(self.lengths[: self.round], length)

    def _least_levels(self) -> int:
        """Levels below which an early round could miss what is in between."""
        early = self.round < len(self.lengths) - 2
        if self.ladder.mixture is not None:
            return 3 if early else 2
        return 3 if not early else 6 if self.n_modes > 1 else 4

    def _good_enough(self, barrier: float, n_restarts: int) -> bool:
        """Whether the reference is settled, enough replicas arrived, and the barrier is stable."""
        enough, n_arrivals = 30, self.n_arrivals
        if self.ladder.mixture is not None:
            n_modes = (self.choice and self.choice.n_in_use) or self.n_modes
            enough, n_arrivals = max(enough, RESTARTS_PER_MODE * n_modes), n_restarts
        return (
            self.choice is not None
            and self.choice.settled
            and self.round < len(self.lengths) - 1
            and n_arrivals >= enough
            and abs(barrier - self.barrier) <= 0.1 + 0.15 * barrier
        )

    def _refine(
        self, positions: FloatArray, delta: FloatArray, rejection_rates: FloatArray,
        n_restarts: int, log_z_and_se: tuple[float, float], rng: np.random.Generator,
    ) -> None:  # fmt: skip
        """Refine the Gaussian from the draws at beta = 1, and have the reference chosen."""
        ladder, choice, orbit = self.ladder, self.choice, self.choice and self.choice.orbit
        base = self._next_base(orbit.shuffled(positions, rng) if orbit else positions, n_restarts)
        if choice is None or not isinstance(ladder, Ladder):
            if base is not None:
                ladder.change_base(base)
        else:
            log_target = delta + log_reference(ladder.path, positions)
            ended = Round(ladder.coordinates, positions, log_target, rejection_rates, n_restarts,
                          self.n_scans, *log_z_and_se)  # fmt: skip
            if base is not None:
                ladder.change_base(base)
            if choice.end_of_round(ladder, ended, rng):
                self._begin_anew()
        # one that came from the reference is where draws are, be it far below others in a funnel
        if not n_restarts:
            ladder.rescue_target()

    def _begin_anew(self) -> None:
        """Another path wants few levels and short rounds first, as at the start."""
        done, left = np.split(self.lengths, [self.round + 1])
        self.lengths = np.concatenate([done, round_lengths(int(left.sum()))])
        of_mixture = self.ladder.mixture is not None
        kind, n = ("linear", MIXTURE_LEVELS) if of_mixture else ("geometric", FIRST_LEVELS)
        self.ladder.change_schedule(make_schedule(kind, min(n, self.max_levels)))

    def _next_base(self, positions: FloatArray, n_restarts: int) -> GaussianBase | None:
        """Gaussian of the draws of this round, weighed against the local fits; None of too few.

        A base from a chain that saw one mode confirms itself: only arrivals from the base are
        evidence of having looked elsewhere, and each counts as one observation of the target. The
        local fits enter afresh each time, so that narrowing does not compound.
        """
        if n_restarts < LEAST_RESTARTS:
            return None
        observed = base_from_draws(positions)
        if self.pooled is None:
            return overdisperse(observed, self.n_modes)
        if self.n_modes == 1 and not self.pooled.is_diagonal:
            # a full-rank fit of the only mode knows its narrow directions better than draws do
            n_effective = min(len(positions), 4 * n_restarts)
            return overdisperse(expand_to_draws(self.pooled, positions, n_effective), 1)
        known = min(RESTARTS_PER_MODE * self.n_modes, 100) if self.n_modes > 1 else 2
        weights = np.array([known, n_restarts]) / (known + n_restarts)
        return overdisperse(match_moments([self.pooled, observed], np.log(weights)), self.n_modes)


MAX_LEVELS = 32
"""Levels that a pilot comes to at most: room for a barrier of 15."""


class PilotResult(NamedTuple):
    """What the last round says.

    The path in its coordinates; at its levels ``betas`` and ``log_z`` (n_levels,), in nats relative
    to the base, with swap ``rejection_rates`` between; tuned ``step_sizes`` at ``step_betas``,
    without the base, which needs none; ``positions`` ``z`` (n_levels, D) on the final schedule.
    """

    path: TemperedPath
    betas: FloatArray
    rejection_rates: FloatArray
    log_z: FloatArray
    step_betas: FloatArray
    step_sizes: FloatArray
    positions: FloatArray

    def equal_barrier(self, n_levels: int) -> tuple[FloatArray, FloatArray]:
        """Inverse temperatures at equal barrier, and log z there, both of shape (n_levels,)."""
        rates = np.maximum(self.rejection_rates, 1e-3)  # or neighbours would coincide
        barrier = cumulative_barrier(rates)
        betas = equal_barrier_schedule(self.betas, rates, n_levels)
        # log z is steep in beta near a wide base, but not in units of barrier
        log_z = PchipInterpolator(barrier, self.log_z)(np.linspace(0.0, barrier[-1], n_levels))
        return betas, np.asarray(log_z)

    def step_sizes_at(self, betas: FloatArray) -> FloatArray:
        """Step sizes at other inverse temperatures, of their shape."""
        return np.exp(np.interp(betas, self.step_betas, np.log(self.step_sizes)))


def start_pilot(  # noqa: PLR0913 - what is known, and what a step asks for
    path: TemperedPath, known: Prepared, places: FloatArray, rng: np.random.Generator, *,
    n_steps: int, adapt_base: bool, settings: ExplorerSettings, betas: FloatArray | None = None,
    uses_fits: bool = False,
) -> Tuner:  # fmt: skip
    """Ladder of a pilot and its tuner, for so many blocks of scans; `betas`, if given, are kept.

    Replicas start at ``places`` (m, D). If it ``uses_fits`` the pilot may end with a mixture as its
    reference, or begin with one.
    """
    choice = ReferenceChoice(known) if uses_fits else None
    first = make_schedule("geometric", FIRST_LEVELS) if betas is None else betas
    if choice is not None and choice.at_start is not None:
        path, first = path.starting_from(choice.at_start), make_schedule("linear", MIXTURE_LEVELS)
    ladder = Ladder(path, first, places, rng, settings=settings)
    return Tuner(
        ladder, n_steps, known.pooled, len(known.modes), choice,
        max_levels=max(MAX_LEVELS, first.size), adapts_schedule=betas is None,
        adapts_base=adapt_base,
    )  # fmt: skip


def resumed_pilot(state: dict[str, Any], path: TemperedPath, settings: ExplorerSettings) -> Tuner:
    """Rebuild a pilot from its state; ``path`` may be in any coordinates."""
    ladder = Ladder.restored(state["ladder"], path=path, settings=settings, swap_scheme=0)
    return Tuner.resumed(state, ladder)


def read_pilot(pilot: Tuner) -> PilotResult:
    """What the round under way says, or the last one."""
    ladder, betas = pilot.ladder, pilot.blocks[0]["betas"]
    assert isinstance(ladder, Ladder)
    ladder.stop_adaptation()
    return PilotResult(
        ladder.path, betas, pilot.rejection_rates, _ladder_log_z(pilot.delta, betas),
        ladder.betas[1:].copy(), ladder.scales[1:].copy(), ladder.positions,
    )  # fmt: skip


def _ladder_log_z(delta: FloatArray, betas: FloatArray) -> FloatArray:
    """Log z at every level by BAR; between levels that share no draws from their medians.

    ``delta`` has the shape (n_scans, n_levels). A bias needs to know which way to go, no more.
    """
    increments = np.diff(bar_ladder(delta, betas).log_z)
    with np.errstate(invalid="ignore"):
        middle = np.median(np.where(np.isfinite(delta), delta, np.nan), axis=0)
    middle = np.nan_to_num(middle, nan=0.0)
    rough = 0.5 * np.diff(betas) * (middle[1:] + middle[:-1])
    return np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(increments), increments, rough))])
