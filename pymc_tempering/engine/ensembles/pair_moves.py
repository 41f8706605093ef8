"""What the scans of continuous and of simulated tempering share: moves and their bookkeeping.

The tempered replica z and the target replica y are two of three replicas; ``holder`` names that of
z, that of y, and a spare one for proposals, so that an exchange copies nothing.
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.explorers.adaptation import Adaptation, adapt_scale
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.move import Explorer
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas
from pymc_tempering.engine.tally import RESTARTS, ROUND_TRIPS, count_move
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["EXCHANGE", "MOVE", "REFERENCE_DRAW", "TARGET_MOVE", "Bias", "Pair",
           "PairLog", "exchange", "move", "move_target", "scale_at", "visit_reference"]  # fmt: skip

MOVE, TARGET_MOVE, EXCHANGE, REFERENCE_DRAW = 0, 1, 2, 3
"""Positions in :attr:`PairLog.sums`."""


class Bias(NamedTuple):
    """What keeps the inverse temperature moving."""

    betas: FloatArray  # (n,), knots of a piecewise linear c(beta), or levels
    bias: FloatArray  # (n,), nats; minus the log weights of levels
    grid: FloatArray  # (n_grid,), where scales of the moves are tuned


class Pair(NamedTuple):
    """Which replica is what, and the inverse temperature of z; the arrays are overwritten."""

    holder: IntArray  # (3,), replicas of z, of y, and the spare one
    last_end: IntArray  # (3,), by replica, see `swap.track_trips`
    beta: FloatArray  # (1,)
    level: IntArray  # (1,)
    level_update: int  # position in `simulated_scans.LEVEL_UPDATES`


class PairLog(NamedTuple):
    """What scans of a pair write down."""

    delta: FloatArray  # (n_scans,), of z, nats
    target_delta: FloatArray  # (n_scans,), of y
    beta: FloatArray  # (n_scans,)
    level: IntArray  # (n_scans,), in simulated tempering
    acceptance_sums: FloatArray  # (n_levels,), of the moves of z in simulated tempering
    visits: IntArray  # (n_levels,), their number
    # (4,), acceptance probabilities of z, of y, of the exchange and of draws from the reference
    sums: FloatArray
    counts: IntArray  # (n_grid, 9), see `tally.COUNTERS`, at the nearest scale
    # (n_scans, D), made beforehand; (n_scans, 0) where they are made here
    reference_draws: FloatArray


@compiled(borrows=True, inside=True)
def scale_at(beta: float, grid: FloatArray, scales: FloatArray) -> tuple[float, int]:
    """Scale of moves at any beta, log-linear between grid points, and the nearest grid point.

    A function of beta alone, so that moves at a given beta stay exactly invariant.

    Examples
    --------
    >>> size, nearest = scale_at(0.75, np.array([0.0, 0.5, 1.0]), np.array([1.0, 1.0, 0.25]))
    >>> round(size, 3), nearest
    (0.5, 1)
    """
    k = 0
    while k < grid.shape[0] - 2 and beta >= grid[k + 1]:
        k += 1
    t = (beta - grid[k]) / (grid[k + 1] - grid[k])
    size = np.exp((1.0 - t) * np.log(scales[k]) + t * np.log(scales[k + 1]))
    return size, k if t <= 0.5 else k + 1


@compiled(borrows=True, apart=True)
def move(
    path: Path,
    explorer: Explorer,
    at: tuple[float, float, int],
    replicas: Replicas,
    row: int,
    adaptation: Adaptation,
    counts: IntArray,
    rng: np.random.Generator,
) -> float:
    """Move one replica, count the outcome, adapt, and return the acceptance probability.

    `at` is the inverse temperature, the scale of the move, and which scale adapts.
    """
    beta, scale, k = at
    outcome = explore(path, explorer, beta, scale, replicas, row, rng)
    count_move(counts[k], outcome, beta == 1.0)
    adapt_scale(adaptation, k, outcome.signal, explorer)
    return outcome.acceptance_rate


@compiled(borrows=True)
def move_target(
    path: Path,
    explorer: Explorer,
    pair: Pair,
    replicas: Replicas,
    adaptation: Adaptation,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Move y at beta = 1, with the scale of the last grid point; see :func:`move`."""
    last = adaptation.scales.shape[0] - 1
    at_target = (1.0, adaptation.scales[last], last)
    log.sums[TARGET_MOVE] += move(
        path, explorer, at_target, replicas, pair.holder[1], adaptation, log.counts, rng
    )


@compiled(borrows=True, inside=True)
def exchange(pair: Pair, counts: IntArray) -> None:
    """Let z and y exchange positions, and count a tempered restart.

    A tempered restart is the arrival at y of a position that was at the reference since it last
    was y, so that the recorded draws forget where they were.
    """
    holder, last_end = pair.holder, pair.last_end
    holder[0], holder[1] = holder[1], holder[0]
    arrived = holder[1]
    if last_end[arrived] == 1:
        counts[RESTARTS] += 1
        last_end[arrived] = 3
    elif last_end[arrived] == 0:
        last_end[arrived] = 2


@compiled(borrows=True, inside=True)
def visit_reference(pair: Pair, row: int, counts: IntArray) -> None:
    """Note that a position is at the reference, and count a round trip if it was at the target."""
    if pair.last_end[row] >= 3:
        counts[ROUND_TRIPS] += 1
    pair.last_end[row] = 1
