"""How many scans each draw of a chain of parallel tempering has."""

from dataclasses import dataclass

from pymc_tempering.steps.budget import BESIDE_SCANS, LEAST_SCANS, Account
from pymc_tempering.steps.ladder_run import LadderRun
from pymc_tempering.steps.scans import (
    affordable_scans,
    block_within,
    error_for_its_price,
    scans_for_error,
)

__all__ = ["ScanPlan"]

_MANY_LEVELS = 12


@dataclass(frozen=True)
class ScanPlan:
    """What decides the number of scans.

    Attributes
    ----------
    scans_per_draw : int
        Of each draw, or where the number adapts, at most and in each block of tuning.
    adapts : bool
        Whether it follows from tuning.
    error : float or None
        Of log Z of a chain in nats, that adapted scans aim at; by default what it costs decides.
    n_draws : int
    account : Account
    most_of_move : int
        Gradients that the move of one replica takes at most.
    """

    scans_per_draw: int
    adapts: bool
    error: float | None
    n_draws: int
    account: Account
    most_of_move: int

    def most_of_scan(self, n_levels: int) -> int:
        """Gradients that a scan takes at most."""
        return 1 + (n_levels - 1) * self.most_of_move

    def least_share(self, max_levels: int) -> int:
        """Gradients that a chain cannot do without."""
        return LEAST_SCANS * self.most_of_scan(max_levels) + 2 * BESIDE_SCANS

    def of_tuning(self, run: LadderRun, *, adapt: bool, max_levels: int) -> int:
        """Scans of the next draw of tuning: none after its last round, or without gradients.

        Parameters
        ----------
        run : LadderRun
        adapt : bool
            Whether tuning still has a round.
        max_levels : int
            That tuning may come to.
        """
        if not adapt:
            # the last round was of the ladder as it is now, and no estimate takes draws of tuning
            return 0
        n_scans = block_within(self.scans_per_draw, _MANY_LEVELS, self.account.to_tune)
        # what the end of a round and the first draw cannot do without
        reserve = self.most_of_scan(max_levels) + BESIDE_SCANS
        most = self.most_of_scan(run.ladder.n_levels)
        return self.account.fitting(n_scans, most, reserve=reserve)

    def of_draw(self, run: LadderRun) -> int:
        """Scans of the next draw: none where gradients are not enough for all of them."""
        if not run.n_scans:  # without any tuning
            self.settle(run)
        # fixed beforehand, also where the number is no whole one: none depends on a cost
        before, after = (int(n * run.n_scans) for n in (run.n_draws, run.n_draws + 1))
        n_scans = after - before
        most = self.most_of_scan(run.ladder.n_levels)
        return n_scans if self.account.fitting(n_scans, most) == n_scans else 0

    def settle(self, run: LadderRun) -> None:
        """Fix the scans of a draw: those that the error takes, if gradients are enough."""
        tuner, n_requested = run.tuner, self.scans_per_draw
        if self.adapts and tuner.finished:
            error = self.error or error_for_its_price(tuner.scan_variance, tuner.scan_cost)
            n_requested = scans_for_error(tuner.scan_variance, self.n_draws, error)
        run.n_scans = run.n_scans_requested = n_requested
        if self.adapts:
            run.n_scans = affordable_scans(
                n_requested,
                self.n_draws,
                left=self.account.left - run.choice.n_evaluations,
                expected=tuner.scan_cost,
                most=self.most_of_scan(run.ladder.n_levels),
            )
