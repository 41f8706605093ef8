"""Tuning rounds of parallel tempering: base, number of levels, schedule and step sizes.

Rounds double in length. After each, the swap rejection rates give the barrier, and the barrier the
next schedule (Syed et al. 2021, algorithm 4). Early rounds also refine the base from the draws at
beta = 1, the "bootstrap" at the end of section 6 of Graham & Storkey (2017).
"""

import numpy as np

from pymc_tempering.engine.ensembles.ladder import Ladder, ScanRecord
from pymc_tempering.engine.ensembles.ladder_like import LadderLike
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.state import Stateful
from pymc_tempering.engine.threads import one_blas_thread
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.references.fit import base_from_draws
from pymc_tempering.references.moments import expand_to_draws, match_moments
from pymc_tempering.references.own import not_covered
from pymc_tempering.schedule.adapt import equal_barrier_schedule, n_levels_for
from pymc_tempering.steps.choice import ReferenceChoice
from pymc_tempering.steps.round import Round, log_reference
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["RoundTuner", "overdisperse", "round_lengths"]

_N_ROUNDS = 8
_RESTARTS_PER_MODE = 10.0
_MOST_ANCHOR_RESTARTS = 100.0
_UNIMODAL_RESTARTS = 2.0
_DRAWS_PER_RESTART = 4
_MIN_RESTARTS = 8

# A mode many base standard deviations out in one narrow direction is reached too rarely to weigh
# it. On a Boltzmann machine relaxation the exact moments gave errors of log Z of 1 nat and more,
# with scales widened by 1.35 of 0.11 at most, for a fifth more barrier (benchmarks/bases.py).
_MULTIMODAL_WIDENING = 1.3
_UNIMODAL_WIDENING = 1.2
_MIN_LEVELS_EARLY, _MIN_LEVELS_EARLY_ONE_MODE = 6, 4
_MIN_LEVELS = 3
_MIN_LEVELS_MIXTURE = 2

_ENOUGH_RESTARTS = 30.0
_STABLE = 0.1
_RELATIVELY_STABLE = 0.15

_SHARE_AFTER = 0.5
"""Of a round, which the one after it is to have at least; else that one is not worth a change."""


def round_lengths(n_steps: int) -> IntArray:
    """Split ``n_steps`` tuning steps into rounds that double in length.

    Parameters
    ----------
    n_steps : int

    Returns
    -------
    ndarray of int
        Positive, adding up to ``n_steps``.

    Examples
    --------
    >>> round_lengths(100)
    array([ 1,  2,  3,  6, 13, 25, 50])
    """
    if n_steps <= 0:
        return np.zeros(0, dtype=np.int64)
    ends = np.floor(n_steps / 2.0 ** np.arange(_N_ROUNDS)[::-1]).astype(np.int64)
    ends[-1] = n_steps
    lengths = np.diff(np.concatenate([[0], ends]))
    return lengths[lengths > 0]


def overdisperse(base: GaussianBase, n_modes: int) -> GaussianBase:
    """Widen a base, more so where several modes are known.

    Parameters
    ----------
    base : GaussianBase
    n_modes : int
        Number of distinct local fits.
    """
    factor = _MULTIMODAL_WIDENING if n_modes > 1 else _UNIMODAL_WIDENING
    return GaussianBase(base.mean, factor * base.scale, base.log_zeta)


def _log_z_and_error(delta: FloatArray, betas: FloatArray) -> tuple[float, float]:
    """Log Z of a round and its standard error, in nats; nan where there is none."""
    with np.errstate(all="ignore"):
        estimate = bar_ladder(delta, betas)
    error = log_z_standard_error(estimate.log_z[-1:], [estimate.influence]).se
    return float(estimate.log_z[-1]), float(error)


class RoundTuner(Stateful):
    """Adapts the replicas of one chain, round by round.

    Parameters
    ----------
    n_steps : int
        Number of blocks of scans that tuning will have.
    max_levels : int
        Upper bound on the number of levels.
    anchor : GaussianBase, optional
        The combined local fits: what is known of the modes before any tempering, if anything.
    n_modes : int
        Number of distinct local fits in the anchor.
    adapt_schedule, adapt_base : bool
    choice : ReferenceChoice, optional
        Which reference the chain starts from. With it, tuning stops when it is good enough; by
        default the chain keeps its reference, and tuning takes all its steps.

    Attributes
    ----------
    scan_variance : float
        Variance of log Z of a chain times its number of scans, in nats squared, as of the round
        that ended last; nan before any did; infinite where levels of the last one do not overlap.
    scan_cost : float
        Gradients of a scan in that round, on the ladder that it left; nan before any ended.
    """

    _changing = ("pooled", "n_modes", "lengths", "round", "done", "n_scans", "n_restarts",
                 "n_arrivals", "n_gradients", "swap_sums", "positions", "deltas", "barrier",
                 "scan_variance", "scan_cost")  # fmt: skip

    choice: ReferenceChoice | None = None

    def __init__(
        self,
        n_steps: int,
        max_levels: int,
        pooled: GaussianBase | None,
        n_modes: int,
        *,
        adapt_schedule: bool,
        adapt_base: bool,
        choice: ReferenceChoice | None = None,
    ) -> None:
        self.choice = choice
        self.barrier = self.scan_variance = self.scan_cost = np.nan
        self.pooled = pooled
        self.n_modes = n_modes
        self.lengths = round_lengths(n_steps)
        self.max_levels = max_levels
        self.adapt_schedule = adapt_schedule
        self.adapt_base = adapt_base
        self.round = 0
        self.n_arrivals = 0
        self._start_round()

    def _start_round(self) -> None:
        self.done = 0
        self.n_scans = 0
        self.n_restarts = 0
        self.n_gradients = 0
        self.swap_sums = np.zeros(0)
        self.positions: list[FloatArray] = []
        self.deltas: list[FloatArray] = []

    @property
    def finished(self) -> bool:
        """Whether no round is left."""
        return self.round >= len(self.lengths)

    @property
    def base_may_change(self) -> bool:
        """Whether the round under way may end with another base.

        The last round never does, so that a full round follows each change.
        """
        return self.adapt_base and self.round < len(self.lengths) - 1

    def update(
        self,
        ladder: LadderLike,
        record: ScanRecord,
        rng: np.random.Generator,
        *,
        left: float = np.inf,
    ) -> None:
        """Take note of a block of scans, and adapt at the end of a round.

        Parameters
        ----------
        ladder : LadderLike
        record : ScanRecord
        rng : numpy.random.Generator
        left : float
            Gradients that tuning may still take. Without any the round ends here, as the last one;
            where they are not enough for two more rounds, the next one is the last.

        Raises
        ------
        BaseError
            If a replica went where the reference has no density.
        """
        if np.isposinf(record.delta).any():
            raise not_covered("at positions that were found while tuning")
        if self.finished:
            return
        n_scans = len(record.delta)
        if not self.swap_sums.size:
            self.swap_sums = np.zeros(ladder.n_levels - 1)
        self.swap_sums += n_scans * record.swap_acceptance_rate
        self.n_scans += n_scans
        self.n_restarts += record.counts["n_tempered_restarts"]
        self.n_gradients += record.counts["n_gradients"]
        self.deltas.append(record.delta)
        if self.base_may_change:
            self.positions.append(record.target_positions)
        self.done += 1
        if left <= 0.0 and self.done < self.lengths[self.round :].sum():
            self._end_with(self.done)
        if self.done == self.lengths[self.round]:
            with one_blas_thread():
                self._end_round(ladder, rng, left)

    def _end_with(self, length: int) -> None:
        """Have the round under way be the last one, of this length."""
        self.lengths = np.append(self.lengths[: self.round], length)

    def _afford(self, left: float, block_cost: float) -> None:
        """Have the next round be the last one where there is not enough for one after it."""
        if self.finished or not np.isfinite(left):
            return
        wanted = int(self.lengths[self.round])
        after = _SHARE_AFTER if self.base_may_change else 0.0
        if (1.0 + after) * wanted * block_cost > left:
            self._end_with(int(np.clip(left // block_cost, 1, wanted)))

    def _end_round(self, ladder: LadderLike, rng: np.random.Generator, left: float) -> None:
        rejection_rates = 1.0 - self.swap_sums / self.n_scans
        barrier = float(rejection_rates.sum())
        delta = np.concatenate(self.deltas)
        log_z, se = _log_z_and_error(delta, ladder.betas)
        self.scan_variance = se**2 * len(delta)
        ladder.stop_adaptation()
        self.n_arrivals += self.n_restarts
        if self._good_enough(barrier, mixture=ladder.mixture is not None):
            self.lengths = np.append(self.lengths[: self.round + 1], self.lengths[self.round])
        if self.adapt_schedule:
            least = self._least_levels(mixture=ladder.mixture is not None)
            n_levels = n_levels_for(barrier, self.max_levels, min(least, self.max_levels))
            ladder.change_schedule(equal_barrier_schedule(ladder.betas, rejection_rates, n_levels))
        if self.base_may_change:
            positions = np.concatenate(self.positions)
            if self.choice is not None and isinstance(ladder, Ladder):
                self.choice.look(ladder.path.target, positions, left)
            self._refine(ladder, positions, delta[:, -1], rejection_rates, (log_z, se), rng)
        self.barrier = barrier
        n_moved = max(delta.shape[1] - 1, 1)
        self.scan_cost = self.n_gradients / self.n_scans * (ladder.n_levels - 1) / n_moved
        block_cost = max(self.scan_cost * self.n_scans / self.done, 1.0)
        self.round += 1
        if self.finished and not np.isfinite(log_z):
            # neighbours share no draws, and no number of scans makes an estimate of that
            self.scan_variance = np.inf
        self._start_round()
        self._afford(left, block_cost)

    def _least_levels(self, *, mixture: bool) -> int:
        last = self.round >= len(self.lengths) - 2
        if mixture:
            return _MIN_LEVELS_MIXTURE if last else _MIN_LEVELS
        if last:
            return _MIN_LEVELS
        return _MIN_LEVELS_EARLY if self.n_modes > 1 else _MIN_LEVELS_EARLY_ONE_MODE

    def _good_enough(self, barrier: float, *, mixture: bool) -> bool:
        """Whether one more round, in which only schedule and step sizes adapt, is all it takes."""
        enough = _ENOUGH_RESTARTS
        if mixture:
            enough = max(enough, _RESTARTS_PER_MODE * self.n_modes)
        return (
            self.choice is not None
            and self.choice.settled
            and self.round < len(self.lengths) - 2
            and (self.n_restarts if mixture else self.n_arrivals) >= enough
            and abs(barrier - self.barrier) <= _STABLE + _RELATIVELY_STABLE * barrier
        )

    def _refine(
        self,
        ladder: LadderLike,
        positions: FloatArray,
        delta: FloatArray,
        rejection_rates: FloatArray,
        log_z_and_se: tuple[float, float],
        rng: np.random.Generator,
    ) -> None:
        base = self._next_base(positions)
        choice = self.choice
        # a mixture stands in for a Gaussian, which other ladders do not start from
        if choice is None or choice.first is None or not isinstance(ladder, Ladder):
            if base is not None:
                ladder.change_base(base)
        else:
            log_target = delta + log_reference(ladder.path, positions)
            cost = self.scan_variance * self.n_gradients / self.n_scans
            ended = choice.together(
                ladder,
                Round(ladder.coordinates, positions, log_target, rejection_rates, cost,
                      self.n_restarts, *log_z_and_se),
            )  # fmt: skip
            if base is not None:
                ladder.change_base(base)
            # a fit is bent by draws, however many of them came from the reference
            ready = base is not None or choice.rule == "map" or ended.is_blocked
            if ready and choice.end_of_round(ladder, ended, rng):
                # another path wants short rounds first, as at the start
                done, left = np.split(self.lengths, [self.round + 1])
                self.lengths = np.concatenate([done, round_lengths(int(left.sum()))])
        # one that came from the reference is no stray, be it far below others that are in a neck
        if not self.n_restarts:
            ladder.rescue_target()

    def _next_base(self, positions: FloatArray) -> GaussianBase | None:
        """Base from the draws at beta = 1 of this round, weighed against the local fits.

        Each tempered restart counts as one observation of the target, the anchor as
        ``_RESTARTS_PER_MODE`` of them for each mode that the local fits found. A base from a chain
        that saw one mode confirms itself: only arrivals from the base are evidence of having
        looked elsewhere, and since the local fits enter afresh each time, narrowing does not
        compound from round to round.
        """
        if self.n_restarts < _MIN_RESTARTS:
            return None
        observed = base_from_draws(positions)
        if self.pooled is None:
            return overdisperse(observed, self.n_modes)
        anchored = _UNIMODAL_RESTARTS
        if self.n_modes > 1:
            anchored = min(_RESTARTS_PER_MODE * self.n_modes, _MOST_ANCHOR_RESTARTS)
        weights = np.array([anchored, float(self.n_restarts)])
        if self.n_modes == 1 and not self.pooled.is_diagonal:
            # a full-rank fit of the only mode knows its narrow directions better than draws do
            n_effective = min(len(positions), _DRAWS_PER_RESTART * self.n_restarts)
            return overdisperse(expand_to_draws(self.pooled, positions, n_effective), 1)
        matched = match_moments([self.pooled, observed], np.log(weights / weights.sum()))
        return overdisperse(matched, self.n_modes)
