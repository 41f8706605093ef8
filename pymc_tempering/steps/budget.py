"""Gradients that a run may take, and those that each of its chains has taken.

They are counted and never timed, so that a run is the same on every machine and in every number of
processes. Each chain has an equal share of what the search for modes left.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_tempering.engine.state import Stateful
from pymc_tempering.errors import OptionError

__all__ = ["BESIDE_SCANS", "LEAST_SCANS", "Account", "Budget"]

SEARCH_SHARE = 0.25
"""Largest part of a run's gradients that the search for modes may take, its fits included."""

TUNING_SHARE = 0.5
"""Part of a chain's gradients after which its tuning ends; what tuning leaves is for draws."""

LEAST_SCANS = 4
"""Scans, each of the most gradients that it may take, for which a chain has to have enough."""

BESIDE_SCANS = 500
"""Room for what the end of a round of tuning evaluates beside its scans."""


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

    def __init__(self, most: int) -> None:
        self.most = most
        self.n_spent = 0
        self.searches = True
        self.n_draws: int | None = None
        self.refused_chains = False
        self._least = 1
        self._of_chain = 0

    @property
    def of_search(self) -> int:
        """What the search for modes may take."""
        return int(self._search_share * self.most)

    @property
    def _search_share(self) -> float:
        return SEARCH_SHARE if self.searches else 0.0

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
        """What tuning may take in all."""
        return TUNING_SHARE * self.share

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
