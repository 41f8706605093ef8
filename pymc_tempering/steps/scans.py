"""How many scans a draw takes: as many as the error of log Z needs, and gradients are enough for.

A fixed 16 was measured beside it. Where few scans are enough it takes two to four times the
gradients of draws; on radon and a product of Student's t it takes twice the time to the same error.
"""

from dataclasses import dataclass

import numpy as np

from pymc_tempering.steps.budget import BESIDE_SCANS, LEAST_SCANS, Account

__all__ = [
    "CHAIN_ERROR", "LEAST_OF_CHAIN", "LEAST_SCANS", "MOST_CHAIN_ERROR", "MOST_SCANS", "ScanPlan",
    "block_within", "error_for_its_price", "scans_for_error",
]  # fmt: skip

CHAIN_ERROR, MOST_CHAIN_ERROR = 0.04, 0.05
"""Error of log Z in nats that the scans of a chain aim at, and that where its draws would take more
than `CHEAP` gradients: 0.02 and 0.025 for four chains."""

CHEAP = 10_000
"""Gradients of a chain's draws: with four chains about what NUTS takes."""

MOST_SCANS = 50
"""Of a draw, and of a block of tuning: with more, Python's share of the time hardly falls."""

LEAST_OF_CHAIN = 400
"""Scans of a chain, however small the error: that of few scans is itself uncertain."""

_SAFETY = 1.3
"""Room for a variance that turns out larger than tuning said."""


def error_for_its_price(scan_variance: float, scan_cost: float) -> float:
    """Error that a chain aims at by itself, in nats: the smaller one where it is cheap.

    Examples
    --------
    >>> [round(error_for_its_price(1.0, cost), 3) for cost in (2.0, 16.0, 1000.0)]
    [0.04, 0.046, 0.05]
    """
    if not np.isfinite(scan_variance * scan_cost):
        return CHAIN_ERROR
    reached = np.sqrt(_SAFETY * scan_variance * scan_cost / CHEAP)
    return float(np.clip(reached, CHAIN_ERROR, MOST_CHAIN_ERROR))


def scans_for_error(scan_variance: float, n_draws: int, error: float = CHAIN_ERROR) -> int:
    """Scans for each draw of a chain, with which its log Z reaches an error in nats.

    ``scan_variance`` is the variance of log Z times the number of scans; nan where it is not known,
    infinite where there will be no estimate, which takes the fewest scans.

    Examples
    --------
    >>> scans_for_error(1.0, 160), scans_for_error(0.01, 160), scans_for_error(np.nan, 160)
    (6, 4, 50)
    """
    if np.isinf(scan_variance):
        return LEAST_SCANS
    if np.isnan(scan_variance):
        return MOST_SCANS
    needed = max(_SAFETY * scan_variance / error**2, LEAST_OF_CHAIN) / max(n_draws, 1)
    return int(np.clip(np.ceil(needed), LEAST_SCANS, MOST_SCANS))


def block_within(n_scans: int, n_levels: int, gradients: float) -> int:
    """Scans of a block of tuning, at most `n_scans`, so that gradients are enough for four rounds.

    Examples
    --------
    >>> block_within(50, 12, 1e5), block_within(50, 12, 1e4), block_within(50, 12, np.inf)
    (50, 13, 50)
    """
    if not np.isfinite(gradients):
        return n_scans
    # eight blocks, of moves that are not tuned: they take 1 to 8 gradients (benchmarks/spent.py)
    return int(np.clip(gradients // (8 * 8 * n_levels), 1, n_scans))


@dataclass(frozen=True)
class ScanPlan:
    """What decides the number of scans of a chain of parallel tempering.

    ``scans_per_draw`` are those of each draw, or where the number adapts, at most and in each block
    of tuning; then ``error`` is that of log Z of a chain to aim at, in nats, or None for what it
    costs to decide. The move of a replica takes ``most_of_move`` gradients at most.
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

    def of_tuning(self, n_levels: int, max_levels: int) -> int:
        """Scans of the next block of tuning, which may raise the levels; none without gradients."""
        n_scans = block_within(self.scans_per_draw, 12, self.account.to_tune)
        # what the end of a round and the first draw cannot do without
        reserve = self.most_of_scan(max_levels) + BESIDE_SCANS
        return self.account.fitting(n_scans, self.most_of_scan(n_levels), reserve=reserve)

    def of_draw(self, n_before: int, n_scans: float, n_levels: int) -> int:
        """Scans of the draw after ``n_before`` others, of ``n_scans`` each on average; or none."""
        # fixed beforehand, also where the number is no whole one: none depends on a cost
        n = int((n_before + 1) * n_scans) - int(n_before * n_scans)
        return n if self.account.fitting(n, self.most_of_scan(n_levels)) == n else 0

    def settled(
        self, scan_variance: float, scan_cost: float, n_levels: int, n_evaluations: int = 0
    ) -> tuple[int, float]:
        """Scans of a draw that the error takes, and on average those that gradients are enough for.

        Variance and cost of a scan are nan where tuning did not end; ``n_evaluations`` are spent
        and not yet in the account.
        """
        if not self.adapts:
            return self.scans_per_draw, self.scans_per_draw
        error = self.error or error_for_its_price(scan_variance, scan_cost)
        n_requested = scans_for_error(scan_variance, self.n_draws, error)
        left, most = self.account.left - n_evaluations, self.most_of_scan(n_levels)
        if not np.isfinite(left):
            return n_requested, n_requested
        # scans may turn out dearer than those of tuning, and the last draw as dear as they can be
        each = min(1.15 * scan_cost, most) if np.isfinite(scan_cost) else most
        affordable = left / ((self.n_draws - 1) * each + most)
        return n_requested, float(np.clip(affordable, 1, n_requested))
