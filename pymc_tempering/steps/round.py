"""What a round of tuning brought, and what a reference of some V will take."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.references import quality
from pymc_tempering.references.fit import n_independent
from pymc_tempering.schedule.adapt import n_levels_for, round_trip_rate
from pymc_tempering.steps.budget import CHAIN_ERROR, LEAST_OF_CHAIN
from pymc_tempering.types import FloatArray


def predicted_moves(variance: float, *, least_levels: int = 2, n_tuned: int = 0) -> float:
    r"""Moves of replicas until log Z of a chain has the error that it aims at.

    With log weights of variance V all along the path, the barrier is :math:`\sqrt{V/\pi}`, and
    :math:`n = \lceil 2 \sqrt{V/\pi} \rceil` intervals give most round trips for a move (Syed et
    al. 2021, section 5.3). Draws of all levels that are independent tell log Z, by the trapezium
    rule, with the variance

    .. math:: \frac{V (n - 1/2)}{n^2}

    for each scan of n moves: n - 1 inner levels weigh 1/n, the two ends half of it. Bennett's ratio
    has the same to first order in :math:`V/n^2` (Bennett 1976, eq. 10). How dependent draws are,
    and what a move costs, is taken to be the same for all references of a target.

    ``n_tuned`` are the scans of tuning so far, which a reference that is not in use would cost
    again.

    Examples
    --------
    >>> [round(predicted_moves(v)) for v in (0.1, 2.0, 8.0)]
    [400, 938, 4375]
    """
    if not np.isfinite(variance):
        return np.inf
    # a variance near the largest number may grow beyond it, in silence
    variance = float(variance)
    n = n_levels_for(quality.barrier_of(variance), 10_000, least_levels) - 1
    needed = variance * (n - 0.5) / n**2 / CHAIN_ERROR**2
    return n * (max(needed, LEAST_OF_CHAIN) + n_tuned)


class Round(NamedTuple):
    """What a round of tuning brought.

    ``coordinates`` are those of the round, whose Gaussian has not seen its draws: ``positions``
    (n, D) at beta = 1, where ``log_target`` (n,) is in nats. ``n_restarts`` replicas arrived there
    from the reference; ``n_tuned`` counts the scans of this round and those before it.
    """

    coordinates: Coordinates
    positions: FloatArray
    log_target: FloatArray
    rejection_rates: FloatArray
    n_restarts: int
    n_tuned: int
    log_z: float
    se: float

    @property
    def is_blocked(self) -> bool:
        """Whether less than 0.15 of the arrivals come that swap rates promise, of 20 or more.

        Where a part of the target is met on the other side of a transition of first order, pairs
        of levels swap, and no replica gets through. Rounds not yet tuned have a third of them.
        """
        expected = len(self.positions) * round_trip_rate(self.rejection_rates)
        return expected >= 20.0 and self.n_restarts < 0.15 * expected

    @property
    def variance(self) -> float:
        """V of the reference in use, nats squared."""
        return quality.variance_of_barrier(max(float(self.rejection_rates.sum()), 0.0))

    @property
    def n_effective(self) -> int:
        """Draws that count as independent: an arrival brings about four."""
        return min(len(self.positions), 4 * self.n_restarts)

    @property
    def n_of_shape(self) -> int:
        """The same of what only tells a shape, as draws do that no arrival is between."""
        return max(self.n_effective, int(n_independent(self.positions)))
