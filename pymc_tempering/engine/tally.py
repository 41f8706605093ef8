"""What moves and ensembles count: one list of counters for all of them, at each level."""

import numpy as np

from pymc_tempering.engine.move import DIVERGENT, ZERO_DENSITY, Move
from pymc_tempering.jit import compiled
from pymc_tempering.types import IntArray

COUNTERS = (
    "round_trips", "tempered_restarts", "gradients", "divergences", "target_divergences",
    "zero_density", "bad_gradients", "base_draws", "base_support",
)  # fmt: skip
"""Names of the counters, as they are recorded after ``n_``."""

_RECORDED = tuple(f"n_{name}" for name in COUNTERS)

(
    ROUND_TRIPS, RESTARTS, EVALUATIONS, DIVERGENCES, TARGET_DIVERGENCES, ZERO_DENSITIES,
    BAD_GRADIENTS, REFERENCE_DRAWS, SUPPORTED_DRAWS,
) = range(len(COUNTERS))  # fmt: skip


def new_counts(n_levels: int) -> IntArray:
    """Counters at zero, shape (n_levels, 9), in the order of :data:`COUNTERS`."""
    return np.zeros((n_levels, len(COUNTERS)), dtype=np.int64)


def counts_by_name(
    counts: IntArray, faults: IntArray | None = None, *, needs_gradient: bool = True
) -> dict[str, int]:
    """Sums of ``counts`` (n_levels, 9) over levels, by the names under which they are recorded.

    `faults` are those of a :class:`.path.path.Path`; none where they are not known. A gradient that
    nothing uses, as of moves without, is never a bad one.
    """
    by_name: dict[str, int] = dict(zip(_RECORDED, counts.sum(axis=0).tolist(), strict=True))
    infinite, no_number = (0, 0) if faults is None else faults.tolist()
    by_name |= {"n_infinite_density": infinite, "n_nan_density": no_number}
    return by_name if needs_gradient else by_name | {"n_bad_gradients": 0}


def zero_density_by_level(counts: IntArray) -> IntArray:
    """Moves into zero density, and draws at level 0 without any; (n_levels, 9) to (n_levels,)."""
    missed: IntArray = counts[:, REFERENCE_DRAWS] - counts[:, SUPPORTED_DRAWS]
    return missed + counts[:, ZERO_DENSITIES]


@compiled(borrows=True, inside=True)
def count_move(counts: IntArray, move: Move, at_target: bool) -> None:
    """Count the outcome of one move in ``counts`` of shape (9,); `at_target` is at beta = 1."""
    counts[EVALUATIONS] += move.n_evaluations
    counts[BAD_GRADIENTS] += move.n_bad_gradients
    if move.status == DIVERGENT:
        counts[DIVERGENCES] += 1
        if at_target:
            counts[TARGET_DIVERGENCES] += 1
    elif move.status == ZERO_DENSITY:
        counts[ZERO_DENSITIES] += 1


@compiled(borrows=True)
def count_reference_draw(counts: IntArray, delta: float, bad_gradient: bool) -> None:
    """Count an independent draw from the reference, at which ``delta`` (nats) was evaluated."""
    counts[EVALUATIONS] += 1
    counts[BAD_GRADIENTS] += bad_gradient
    counts[REFERENCE_DRAWS] += 1
    if delta > -np.inf:
        counts[SUPPORTED_DRAWS] += 1
