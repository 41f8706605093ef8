"""Gradients that a run may take, and scans of a draw that they and an error of log Z make.

They are counted and never timed, so that a run is the same on every machine and in every number of
processes. Each chain has an equal share of what the search for modes left. A draw takes as many
scans as the error of log Z needs, and gradients are enough for. A fixed 16 was measured beside it:
where few are enough it takes two to four times the gradients of draws; on radon and a product of
Student's t it takes twice the time to the same error.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_tempering.engine.state import Stateful
from pymc_tempering.errors import OptionError

LEAST_SCANS = 4
"""Scans, each of the most gradients that it may take, for which a chain has to have enough."""

BESIDE_SCANS = 500
"""Room for what the end of a round of tuning evaluates beside its scans."""


@dataclass
class Budget:
    """Gradients of one call, at `most`, in the process that starts its chains.

    ``n_spent`` of them are gone. ``n_draws`` are the draws that all chains have of those requested,
    where they had to end before; ``refused_chains`` says whether further chains were wanted that
    there was not enough for.

    Examples
    --------
    >>> budget = Budget(100_000)
    >>> budget.of_search
    25000
    >>> budget.n_spent += 20_000
    >>> budget.share(4)
    20000
    """

    most: int
    n_spent: int = 0
    searches: bool = True
    n_draws: int | None = None
    refused_chains: bool = False
    _least: int = 1  # of a chain
    _of_chain: int = 0  # what one took

    @property
    def of_search(self) -> int:
        """What the search for modes may take, a quarter at most, its fits included."""
        return int(self._search_share * self.most)

    @property
    def _search_share(self) -> float:
        return 0.25 if self.searches else 0.0

    def share(self, chains: int) -> int:
        """What each of so many further chains may take."""
        return (self.most - self.n_spent) // chains

    def check(self, chains: int, least: int) -> None:
        """Refuse what is not enough for so many chains, the search that may still come included."""
        self._least = least
        searched = self.n_spent or self.of_search
        if self.most - searched >= chains * least:
            return
        took = f", of which the search for modes took {self.n_spent:,}" if self.n_spent else ""
        enough = max(
            self.n_spent + chains * least, math.ceil(chains * least / (1 - self._search_share))
        )
        raise OptionError(
            f"`max_gradients` is {self.most:,}{took}; expected {enough:,} at least, since each of "
            f"{chains} chains takes {least:,} to tune and draw at all. Raise it, or take fewer "
            "chains."
        )

    def spend(self, gradients: int, chains: int) -> None:
        """Count what so many chains have taken."""
        self.n_spent += gradients
        self._of_chain = gradients // chains

    def more_chains(self, wanted: int) -> int:
        """How many further chains there is enough for, by what the last ones took."""
        n = min(wanted, (self.most - self.n_spent) // max(self._least, self._of_chain))
        self.refused_chains = n < wanted
        return n


class Account(Stateful):
    """Gradients of one chain, of which it may take a `share`, and what it counts besides.

    ``n_spent`` are the gradients so far, tuning included; the other counts begin after tuning.

    Examples
    --------
    >>> account = Account(10_000)
    >>> account.n_spent = 4_000
    >>> account.left_to_tune, account.fitting(50, 100, reserve=2_000), Account().fitting(50, 100)
    (1000.0, 40, 50)
    """

    _changing = ("n_spent", "n_round_trips", "n_restarts", "n_diverging")

    def __init__(self, share: float = np.inf) -> None:
        self.share = share
        self.n_spent = self.n_round_trips = self.n_restarts = self.n_diverging = 0

    def so_far(self, values: Mapping[str, Any], *, tuning: bool) -> dict[str, int]:
        """Add the statistics of a draw, and give those that are totals."""
        self.n_spent += values["n_gradients"]
        if not tuning:
            self.n_round_trips += values.get("n_round_trips", 0)
            accepted = np.sum(values.get("accepted", 0))  # of annealing, which has no round trips
            self.n_restarts += int(values.get("n_tempered_restarts", accepted))
            self.n_diverging += int(values["diverging"])
        return {
            "gradients_so_far": self.n_spent,
            "round_trips_so_far": self.n_round_trips,
            "restarts_so_far": self.n_restarts,
            "divergences_so_far": self.n_diverging,
        }

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget at all."""
        return bool(np.isfinite(self.share))

    @property
    def to_tune(self) -> float:
        """What tuning may take in all; what it leaves is for draws."""
        return 0.5 * self.share

    @property
    def left(self) -> float:
        """What the chain may still take."""
        return self.share - self.n_spent

    @property
    def left_to_tune(self) -> float:
        """What tuning may still take; negative once draws pay for it."""
        return self.to_tune - self.n_spent

    def fitting(self, n_scans: int, most_of_scan: int, *, reserve: float = 0.0) -> int:
        """Tell how many of some scans can be made, whatever they turn out to cost."""
        if not self.is_limited:
            return n_scans
        return int(np.clip((self.left - reserve) // most_of_scan, 0, n_scans))


CHAIN_ERROR, MOST_CHAIN_ERROR = 0.04, 0.1
"""Error of log Z in nats that the scans of a chain aim at, and up to which it may be where its
draws would take more than `CHEAP` gradients: 0.02 and 0.05 for four chains."""

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

    With a loss like the square of the error, beside gradients like one over it, the least of both
    is where the error grows with the fourth root of its price: of one that is sixteen times as dear
    twice the error is reached, by four times the gradients.

    Examples
    --------
    >>> [round(error_for_its_price(1.0, cost), 3) for cost in (2.0, 196.0, 10_000.0)]
    [0.04, 0.08, 0.1]
    """
    if not np.isfinite(scan_variance * scan_cost):
        return CHAIN_ERROR
    price = _SAFETY * scan_variance * scan_cost / CHAIN_ERROR**2 / CHEAP
    return float(np.clip(CHAIN_ERROR * price**0.25, CHAIN_ERROR, MOST_CHAIN_ERROR))


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
