"""Whole scans of continuous and of simulated tempering with a coupled target replica.

The tempered replica z and the target replica y are two of three replicas; ``holder`` names that of
z, that of y, and a spare one for proposals, so that an exchange copies nothing.

One scan of Gibbs continuous tempering is the composite

1. z given beta, by one Hamiltonian transition;
2. y at beta = 1, by another;
3. exchange z and y with probability ``min(1, w(z) / w(y))``, ``w = p(beta = 1 | .)``;
4. replace z by a draw z' from the base with probability ``min(1, N(delta(z')) / N(delta(z)))``;
5. beta given z, drawn exactly.

Steps 3 and 4 are moves with beta integrated out, so 5 has to follow them at once, accepted or not.

One scan of simulated tempering is the composite

1. z given its level: an independent draw at the base, one Hamiltonian transition elsewhere;
2. y at beta = 1, by another transition;
3. an exchange of z and y;
4. the level given z.

With independent draws of the level, 3 is made with the level integrated out, so 4 has to follow at
once, accepted or not. A step to a neighbouring level is no draw from the conditional, so there the
exchange is made given the level, as between two replicas of parallel tempering.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.ensembles.beta import (
    draw_beta,
    draw_level,
    exchange_probability,
    level_masses,
    neighbour_level,
    piece_masses,
)
from pymc_tempering.engine.ensembles.swap import swap_probability
from pymc_tempering.engine.explorers.adaptation import Adaptation, adapt_scale
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.move import Explorer
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas, draw_from_reference
from pymc_tempering.engine.tally import RESTARTS, ROUND_TRIPS, count_move, count_reference_draw
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["LEVEL_UPDATES", "Bias", "Pair", "PairLog", "Step", "continuous_scans", "exchange",
           "exchange_at_levels", "exchange_marginally",
           "move", "move_target", "redraw_beta", "redraw_level", "scale_at", "simulated_scans",
           "try_reference", "visit_reference"]  # fmt: skip


class Step(IntEnum):
    """Steps of a scan, as positions in :attr:`PairLog.sums`."""

    MOVE = 0  # of z
    TARGET_MOVE = 1  # of y
    EXCHANGE = 2
    REFERENCE_DRAW = 3


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
    level_update: int  # position in `LEVEL_UPDATES`


class PairLog(NamedTuple):
    """What scans of a pair write down."""

    delta: FloatArray  # (n_scans,), of z, nats
    target_delta: FloatArray  # (n_scans,), of y
    beta: FloatArray  # (n_scans,)
    level: IntArray  # (n_scans,), in simulated tempering
    acceptance_sums: FloatArray  # (n_levels,), of the moves of z in simulated tempering
    visits: IntArray  # (n_levels,), their number
    sums: FloatArray  # (4,), acceptance probabilities, see `Step`
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
    log.sums[Step.TARGET_MOVE] += move(
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


@compiled
def exchange_marginally(
    bias: Bias,
    pair: Pair,
    delta: FloatArray,
    log_masses: FloatArray,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Exchange z and y with beta integrated out, or leave them."""
    z, y = pair.holder[0], pair.holder[1]
    target_total = piece_masses(delta[y], bias.betas, bias.bias, log_masses)
    total = piece_masses(delta[z], bias.betas, bias.bias, log_masses)
    probability = exchange_probability(delta[z], total, delta[y], target_total)
    log.sums[Step.EXCHANGE] += probability
    if rng.random() < probability:
        exchange(pair, log.counts[0])


@compiled
def try_reference(
    path: Path,
    bias: Bias,
    pair: Pair,
    replicas: Replicas,
    draw: FloatArray,
    log_masses: FloatArray,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Replace z by a draw from the reference, or leave it."""
    holder, delta = pair.holder, replicas.delta
    spare = holder[2]
    bad_gradient = draw_from_reference(path, replicas, spare, draw, rng)
    count_reference_draw(log.counts[0], delta[spare], bad_gradient)
    total = piece_masses(delta[holder[0]], bias.betas, bias.bias, log_masses)
    log_ratio = piece_masses(delta[spare], bias.betas, bias.bias, log_masses) - total
    probability = 1.0 if log_ratio >= 0.0 else np.exp(log_ratio)
    log.sums[Step.REFERENCE_DRAW] += probability
    if rng.random() < probability:
        holder[0], holder[2] = spare, holder[0]
        pair.last_end[spare] = pair.last_end[holder[2]]
        visit_reference(pair, spare, log.counts[0])


@compiled
def redraw_beta(
    bias: Bias,
    pair: Pair,
    delta: FloatArray,
    log_masses: FloatArray,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Draw beta given z exactly; below the first grid point z counts as at the reference."""
    z = pair.holder[0]
    total = piece_masses(delta[z], bias.betas, bias.bias, log_masses)
    pair.beta[0] = draw_beta(delta[z], bias.betas, bias.bias, log_masses, total, rng)
    if pair.beta[0] < bias.grid[1]:
        visit_reference(pair, z, log.counts[0])


@compiled
def continuous_scans(
    path: Path,
    explorer: Explorer,
    bias: Bias,
    pair: Pair,
    replicas: Replicas,
    adaptation: Adaptation,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Run as many scans as the log has entries, in place, with three replicas.

    Scales adapt by grid point and are log-linear between them.
    """
    grid, delta = bias.grid, replicas.delta
    holder, beta = pair.holder, pair.beta
    log_masses = np.empty(bias.betas.shape[0] - 1)
    for scan in range(log.delta.shape[0]):
        scale, nearest = scale_at(beta[0], grid, adaptation.scales)
        at_beta = (beta[0], scale, nearest)
        log.sums[Step.MOVE] += move(
            path, explorer, at_beta, replicas, holder[0], adaptation, log.counts, rng
        )
        move_target(path, explorer, pair, replicas, adaptation, log, rng)
        exchange_marginally(bias, pair, delta, log_masses, log, rng)
        try_reference(path, bias, pair, replicas, log.reference_draws[scan], log_masses, log, rng)
        redraw_beta(bias, pair, delta, log_masses, log, rng)
        log.delta[scan] = delta[holder[0]]
        log.target_delta[scan] = delta[holder[1]]
        log.beta[scan] = beta[0]


LEVEL_UPDATES = ("independent", "neighbour")
"""How the level is drawn given the position."""

_INDEPENDENT = LEVEL_UPDATES.index("independent")


@compiled
def exchange_at_levels(
    betas: FloatArray,
    log_level_weights: FloatArray,
    pair: Pair,
    delta: FloatArray,
    log_masses: FloatArray,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Exchange z and y or leave them: with the level integrated out, or given the level."""
    z, y = pair.holder[0], pair.holder[1]
    if pair.level_update == _INDEPENDENT:
        target_total = level_masses(delta[y], betas, log_level_weights, log_masses)
        total = level_masses(delta[z], betas, log_level_weights, log_masses)
        probability = exchange_probability(delta[z], total, delta[y], target_total)
    else:
        probability = swap_probability(1.0 - betas[pair.level[0]], delta[z], delta[y])
    log.sums[Step.EXCHANGE] += probability
    if rng.random() < probability:
        exchange(pair, log.counts[0])


@compiled
def redraw_level(
    betas: FloatArray,
    log_level_weights: FloatArray,
    pair: Pair,
    delta: FloatArray,
    log_masses: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Draw the level given z, or step to a neighbouring one."""
    total = level_masses(delta[pair.holder[0]], betas, log_level_weights, log_masses)
    if pair.level_update == _INDEPENDENT:
        pair.level[0] = draw_level(log_masses, total, rng)
    else:
        pair.level[0] = neighbour_level(pair.level[0], log_masses, rng)


@compiled
def simulated_scans(
    path: Path,
    explorer: Explorer,
    bias: Bias,
    pair: Pair,
    replicas: Replicas,
    adaptation: Adaptation,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Run as many scans as the log has entries, in place, with three replicas.

    Minus the bias are the log level weights; the scale of level 0 is not used.
    """
    betas, log_level_weights = bias.betas, -bias.bias
    holder, level, delta = pair.holder, pair.level, replicas.delta
    log_masses = np.empty(betas.shape[0])
    for scan in range(log.delta.shape[0]):
        z, k = holder[0], level[0]
        log.visits[k] += 1
        if k == 0:
            bad_gradient = draw_from_reference(path, replicas, z, log.reference_draws[scan], rng)
            count_reference_draw(log.counts[0], delta[z], bad_gradient)
            visit_reference(pair, z, log.counts[0])
            log.acceptance_sums[0] += 1.0
        else:
            at_level = (betas[k], adaptation.scales[k], k)
            log.acceptance_sums[k] += move(
                path, explorer, at_level, replicas, z, adaptation, log.counts, rng
            )
        move_target(path, explorer, pair, replicas, adaptation, log, rng)
        exchange_at_levels(betas, log_level_weights, pair, delta, log_masses, log, rng)
        redraw_level(betas, log_level_weights, pair, delta, log_masses, rng)
        log.delta[scan] = delta[holder[0]]
        log.target_delta[scan] = delta[holder[1]]
        log.level[scan] = level[0]
