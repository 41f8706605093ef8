"""Which neighbours meet, and whether they exchange places; no density is evaluated here."""

import numpy as np

from pymc_tempering.engine.tally import RESTARTS, ROUND_TRIPS
from pymc_tempering.jit import compiled
from pymc_tempering.numerics import draw_below
from pymc_tempering.types import FloatArray, IntArray

SWAP_SCHEMES = ("deo", "seo", "sweep", "alternating_sweep")
"""Deterministic even-odd; stochastic even-odd; full upward sweep; sweeps up and down in turn."""

DEO, SEO, SWEEP, ALTERNATING = range(len(SWAP_SCHEMES))


@compiled(borrows=True)
def swap_probability(d_beta: float, delta_lower: float, delta_upper: float) -> float:
    """Metropolis probability of exchanging the replicas of two neighbouring levels.

    ``min(1, exp(-(beta_{i+1} - beta_i) (delta_{i+1} - delta_i)))``, from the density ratio of the
    two products (Syed et al. 2021, eq. 5), with deltas in nats; the lower one may be ``-inf``.
    """
    if delta_lower == -np.inf:
        return 0.0
    exponent = d_beta * (delta_lower - delta_upper)
    return 1.0 if exponent >= 0.0 else np.exp(exponent)


@compiled(borrows=True, inside=True)
def attempt_swap(
    i: int, betas: FloatArray, delta: FloatArray, replica_at: IntArray, uniform: float
) -> bool:
    """Exchange the replicas of levels ``i`` and ``i + 1`` or leave them, by a uniform in [0, 1).

    `replica_at` (n_levels,) is overwritten; `delta` is by replica, not by level.
    """
    lower, upper = replica_at[i], replica_at[i + 1]
    if uniform < swap_probability(betas[i + 1] - betas[i], delta[lower], delta[upper]):
        replica_at[i], replica_at[i + 1] = upper, lower
        return True
    return False


@compiled(borrows=True)
def swap_sweep(
    scheme: int, scan: int, betas: FloatArray, delta: FloatArray, replica_at: IntArray,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Make the swaps of one scan by a scheme of :data:`SWAP_SCHEMES`; overwrites `replica_at`.

    `scan` is the number of scans made before, whose parity says which pairs meet; `delta` is by
    replica.
    """
    n_pairs = betas.shape[0] - 1
    if scheme in (DEO, SEO):
        parity = scan % 2 if scheme == DEO else draw_below(2, rng)
        for i in range(parity, n_pairs, 2):
            attempt_swap(i, betas, delta, replica_at, rng.random())
    elif scheme == ALTERNATING and scan % 2 == 1:
        for i in range(n_pairs - 1, -1, -1):
            attempt_swap(i, betas, delta, replica_at, rng.random())
    else:
        for i in range(n_pairs):
            attempt_swap(i, betas, delta, replica_at, rng.random())


@compiled(borrows=True)
def track_trips(replica_at: IntArray, last_end: IntArray, counts: IntArray) -> None:
    """Count round trips and tempered restarts after a round of swaps.

    A tempered restart is an arrival at the target of a replica that visited the base since it was
    last there; a round trip is such a journey and the way back to the base. `last_end`, by replica,
    is 0 before any end was visited, 1 after the base, 2 after the target, 3 after the target for a
    replica that had come from the base, 4 the same in an earlier block; overwritten.
    """
    visit_base(replica_at[0], last_end, counts)
    visit_target(replica_at[-1], last_end, counts)


@compiled(borrows=True, inside=True)
def visit_base(replica: int, last_end: IntArray, counts: IntArray) -> None:
    """Note that a replica is at the base, and count a round trip; see :func:`track_trips`."""
    if last_end[replica] >= 3:
        counts[ROUND_TRIPS] += 1
    last_end[replica] = 1


@compiled(borrows=True, inside=True)
def visit_target(replica: int, last_end: IntArray, counts: IntArray) -> None:
    """Note that a replica is at the target, and count a tempered restart."""
    if last_end[replica] == 1:
        counts[RESTARTS] += 1
        last_end[replica] = 3
    elif last_end[replica] == 0:
        last_end[replica] = 2


def begin_block(last_end: IntArray) -> None:
    """Tell arrivals at the target in the block of scans that follows from those before it."""
    last_end[last_end == 3] = 4


def is_restarted(last_end: IntArray, replica: int) -> bool:
    """Whether a replica at the target arrived there from the base since :func:`begin_block`.

    Where a mode has a replica that never leaves it but for hotter levels, others may come from the
    base and go back within a block, and none of them be what is recorded.
    """
    return bool(last_end[replica] == 3)
