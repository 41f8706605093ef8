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
from pymc_tempering.engine.ensembles.swap import swap_probability, visit_base, visit_target
from pymc_tempering.engine.explorers.adaptation import Adaptation, adapt_scale
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.move import Explorer
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas, draw_from_reference
from pymc_tempering.engine.tally import count_move, count_reference_draw
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray


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
    base_delta: FloatArray  # (n_scans,), of draws from the reference; continuous tempering alone
    beta: FloatArray  # (n_scans,)
    # (n_levels,), acceptance probabilities of the moves of z; at 0 of all in continuous tempering
    acceptance_sums: FloatArray
    visits: IntArray  # (n_levels,), the number of these moves
    exchange_sum: FloatArray  # (1,), acceptance probabilities of the exchanges
    counts: IntArray  # (n_grid, 9), see `tally.COUNTERS`, at the nearest scale
    # (n_scans, D), made beforehand; (n_scans, 0) where they are made here
    reference_draws: FloatArray


class PairScans(NamedTuple):
    """All that scans of a pair read and write."""

    path: Path
    explorer: Explorer
    bias: Bias
    pair: Pair
    replicas: Replicas
    adaptation: Adaptation
    log: PairLog


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
def move(s: PairScans, at: tuple[float, float, int], row: int, rng: np.random.Generator) -> float:
    """Move one replica, count the outcome, adapt, and return the acceptance probability.

    `at` is the inverse temperature, the scale of the move, and which scale adapts.
    """
    beta, scale, k = at
    outcome = explore(s.path, s.explorer, beta, scale, s.replicas, row, rng)
    count_move(s.log.counts[k], outcome, beta == 1.0)
    adapt_scale(s.adaptation, k, outcome.signal, s.explorer)
    return outcome.acceptance_rate


@compiled(borrows=True)
def move_target(s: PairScans, rng: np.random.Generator) -> None:
    """Move y at beta = 1, with the scale of the last grid point; see :func:`move`."""
    last = s.adaptation.scales.shape[0] - 1
    move(s, (1.0, s.adaptation.scales[last], last), s.pair.holder[1], rng)


@compiled(borrows=True, inside=True)
def exchange_or_not(s: PairScans, probability: float, rng: np.random.Generator) -> None:
    """Let z and y exchange positions or leave them, and count a tempered restart.

    A tempered restart is the arrival at y of a position that was at the reference since it last
    was y, so that the recorded draws forget where they were.
    """
    s.log.exchange_sum[0] += probability
    # nan refuses as well
    if not rng.random() < probability:
        return
    holder = s.pair.holder
    holder[0], holder[1] = holder[1], holder[0]
    visit_target(holder[1], s.pair.last_end, s.log.counts[0])


@compiled
def exchange_marginally(s: PairScans, log_masses: FloatArray, rng: np.random.Generator) -> None:
    """Exchange z and y with beta integrated out, or leave them."""
    delta_z, delta_y = s.replicas.delta[s.pair.holder[0]], s.replicas.delta[s.pair.holder[1]]
    target_total = piece_masses(delta_y, s.bias.betas, s.bias.bias, log_masses)
    total = piece_masses(delta_z, s.bias.betas, s.bias.bias, log_masses)
    exchange_or_not(s, exchange_probability(delta_z, total, delta_y, target_total), rng)


@compiled
def try_reference(
    s: PairScans, draw: FloatArray, log_masses: FloatArray, rng: np.random.Generator
) -> float:
    """Replace z by a draw from the reference, or leave it; delta of the draw."""
    holder, delta, last_end = s.pair.holder, s.replicas.delta, s.pair.last_end
    spare = holder[2]
    bad_gradient = draw_from_reference(s.path, s.replicas, spare, draw, rng)
    count_reference_draw(s.log.counts[0], delta[spare], bad_gradient)
    base_delta = delta[spare]
    total = piece_masses(delta[holder[0]], s.bias.betas, s.bias.bias, log_masses)
    log_ratio = piece_masses(delta[spare], s.bias.betas, s.bias.bias, log_masses) - total
    if rng.random() < (1.0 if log_ratio >= 0.0 else np.exp(log_ratio)):
        holder[0], holder[2] = spare, holder[0]
        last_end[spare] = last_end[holder[2]]
        visit_base(spare, last_end, s.log.counts[0])
    return base_delta


@compiled
def redraw_beta(s: PairScans, log_masses: FloatArray, rng: np.random.Generator) -> None:
    """Draw beta given z exactly; below the first grid point z counts as at the reference."""
    z, bias = s.pair.holder[0], s.bias
    delta = s.replicas.delta[z]
    total = piece_masses(delta, bias.betas, bias.bias, log_masses)
    s.pair.beta[0] = draw_beta(delta, bias.betas, bias.bias, log_masses, total, rng)
    if s.pair.beta[0] < bias.grid[1]:
        visit_base(z, s.pair.last_end, s.log.counts[0])


@compiled
def continuous_scans(s: PairScans, rng: np.random.Generator) -> None:
    """Run as many scans as the log has entries, in place, with three replicas.

    Scales adapt by grid point and are log-linear between them.
    """
    log, delta, holder, beta = s.log, s.replicas.delta, s.pair.holder, s.pair.beta
    log_masses = np.empty(s.bias.betas.shape[0] - 1)
    for scan in range(log.delta.shape[0]):
        scale, nearest = scale_at(beta[0], s.bias.grid, s.adaptation.scales)
        log.acceptance_sums[0] += move(s, (beta[0], scale, nearest), holder[0], rng)
        log.visits[0] += 1
        move_target(s, rng)
        exchange_marginally(s, log_masses, rng)
        log.base_delta[scan] = try_reference(s, log.reference_draws[scan], log_masses, rng)
        redraw_beta(s, log_masses, rng)
        log.delta[scan] = delta[holder[0]]
        log.target_delta[scan] = delta[holder[1]]
        log.beta[scan] = beta[0]


LEVEL_UPDATES = ("independent", "neighbour")
"""How the level is drawn given the position."""

_INDEPENDENT = LEVEL_UPDATES.index("independent")


@compiled
def exchange_at_levels(
    s: PairScans, log_level_weights: FloatArray, log_masses: FloatArray, rng: np.random.Generator
) -> None:
    """Exchange z and y or leave them: with the level integrated out, or given the level."""
    betas = s.bias.betas
    delta_z, delta_y = s.replicas.delta[s.pair.holder[0]], s.replicas.delta[s.pair.holder[1]]
    if s.pair.level_update == _INDEPENDENT:
        target_total = level_masses(delta_y, betas, log_level_weights, log_masses)
        total = level_masses(delta_z, betas, log_level_weights, log_masses)
        probability = exchange_probability(delta_z, total, delta_y, target_total)
    else:
        probability = swap_probability(1.0 - betas[s.pair.level[0]], delta_z, delta_y)
    exchange_or_not(s, probability, rng)


@compiled
def redraw_level(
    s: PairScans, log_level_weights: FloatArray, log_masses: FloatArray, rng: np.random.Generator
) -> None:
    """Draw the level given z, or step to a neighbouring one."""
    level, delta_z = s.pair.level, s.replicas.delta[s.pair.holder[0]]
    total = level_masses(delta_z, s.bias.betas, log_level_weights, log_masses)
    if s.pair.level_update == _INDEPENDENT:
        level[0] = draw_level(log_masses, total, rng)
    else:
        level[0] = neighbour_level(level[0], log_masses, rng)


@compiled
def simulated_scans(s: PairScans, rng: np.random.Generator) -> None:
    """Run as many scans as the log has entries, in place, with three replicas.

    Minus the bias are the log level weights; the scale of level 0 is not used.
    """
    betas, log_level_weights = s.bias.betas, -s.bias.bias
    log, delta, holder, level = s.log, s.replicas.delta, s.pair.holder, s.pair.level
    log_masses = np.empty(betas.shape[0])
    for scan in range(log.delta.shape[0]):
        z, k = holder[0], level[0]
        log.visits[k] += 1
        if k == 0:
            draw = log.reference_draws[scan]
            bad_gradient = draw_from_reference(s.path, s.replicas, z, draw, rng)
            count_reference_draw(log.counts[0], delta[z], bad_gradient)
            visit_base(z, s.pair.last_end, s.log.counts[0])
            log.acceptance_sums[0] += 1.0
        else:
            at_level = (betas[k], s.adaptation.scales[k], k)
            log.acceptance_sums[k] += move(s, at_level, z, rng)
        move_target(s, rng)
        exchange_at_levels(s, log_level_weights, log_masses, rng)
        redraw_level(s, log_level_weights, log_masses, rng)
        log.delta[scan] = delta[holder[0]]
        log.target_delta[scan] = delta[holder[1]]
        log.beta[scan] = betas[level[0]]
