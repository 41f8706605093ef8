"""Whole scans of parallel tempering: neighbours exchange places, then every replica moves.

In this order what is recorded of the reference is a draw of it, whatever it is exchanged for in the
next scan: controls are sums over these draws.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_tempering.engine.ensembles.swap import swap_probability, swap_sweep, track_trips
from pymc_tempering.engine.explorers.adaptation import Adaptation, adapt_scale
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.move import Explorer
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas, draw_from_reference
from pymc_tempering.engine.tally import RESTARTS, count_move, count_reference_draw
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray


class Rungs(NamedTuple):
    """Schedule of a ladder, and which replica is at which level; arrays of int are overwritten."""

    betas: FloatArray  # (n_levels,), increasing from 0 to 1
    replica_at: IntArray  # (n_levels,)
    last_end: IntArray  # see `swap.track_trips`
    # by replica, component of the reference that it was last drawn from; -1 before
    origin: IntArray
    swap_scheme: int  # position in `swap.SWAP_SCHEMES`
    first_scan: int  # scans made before, for the parity of the swaps


class LadderRecord(NamedTuple):
    """What scans of a ladder write down."""

    delta: FloatArray  # (n_scans, n_levels), by level after each scan, nats
    swap_sums: FloatArray  # (n_levels - 1,), swap probabilities of all neighbours, attempted or not
    acceptance_sums: FloatArray  # (n_levels,), acceptance probabilities of the moves
    counts: IntArray  # (n_levels, 9), see `tally.COUNTERS`
    target_positions: FloatArray  # (n_scans, D) or (0, D), u at beta = 1 after each scan
    # (n_scans, D), made beforehand; (n_scans, 0) where they are made here
    reference_draws: FloatArray
    draw_origins: IntArray  # (n_scans,), component that each is of
    # (2, n_components), arrivals at the target by component, and scans with one there
    from_component: IntArray


@compiled(borrows=True)
def ladder_scans(
    path: tuple[Any, ...], explorer: tuple[Any, ...], rungs: tuple[Any, ...],
    replicas: tuple[Any, ...], adaptation: tuple[Any, ...], record: tuple[Any, ...],
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Run as many scans as the record has rows, in place.

    The scale of level 0 is not used: there the move is an independent draw. Plain tuples will do:
    at every call from Python numba finds out the types of its arguments, in C for plain tuples and
    by microseconds of Python for named ones.
    """
    path, explorer, rungs = Path(*path), Explorer(*explorer), Rungs(*rungs)
    replicas, adaptation = Replicas(*replicas), Adaptation(*adaptation)
    record = LadderRecord(*record)
    betas, replica_at, delta = rungs.betas, rungs.replica_at, replicas.delta
    n_levels, dim = replicas.u.shape
    for scan in range(record.delta.shape[0]):
        for i in range(n_levels - 1):
            record.swap_sums[i] += swap_probability(
                betas[i + 1] - betas[i], delta[replica_at[i]], delta[replica_at[i + 1]]
            )
        swap_sweep(rungs.swap_scheme, rungs.first_scan + scan, betas, delta, replica_at, rng)
        n_restarts = record.counts[0, RESTARTS]
        track_trips(replica_at, rungs.last_end, record.counts[0])
        origin = rungs.origin[replica_at[n_levels - 1]]
        if origin >= 0:
            record.from_component[0, origin] += record.counts[0, RESTARTS] - n_restarts
            record.from_component[1, origin] += 1
        for level in range(n_levels):
            r = replica_at[level]
            if level == 0:
                bad_gradient = draw_from_reference(
                    path, replicas, r, record.reference_draws[scan], rng
                )
                count_reference_draw(record.counts[0], delta[r], bad_gradient)
                rungs.origin[r] = record.draw_origins[scan]
                record.acceptance_sums[0] += 1.0
            else:
                move = explore(
                    path, explorer, betas[level], adaptation.scales[level], replicas, r, rng
                )
                record.acceptance_sums[level] += move.acceptance_rate
                count_move(record.counts[level], move, level == n_levels - 1)
                adapt_scale(adaptation, level, move.signal, explorer)
        for level in range(n_levels):
            record.delta[scan, level] = delta[replica_at[level]]
        if record.target_positions.shape[0] > 0:
            for i in range(dim):
                record.target_positions[scan, i] = replicas.u[replica_at[n_levels - 1], i]
