"""The mode of some coordinates given the others, with sparse curvature.

The Hessian of the locals comes from differences of gradients along coloured directions, its
Cholesky factor by columns, with what a sum of locals adds (:mod:`.sparse_precision`). A factor
takes a gradient for each colour; until it pays to have another, steps correct it (:mod:`.lbfgs`).
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.lbfgs import MEMORY, copy, first_loop, remember, scale, second_loop
from pymc_tempering.engine.path.path import call_density
from pymc_tempering.engine.path.sparse_precision import System, factorise, solve
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

STEP = 1e-4
"""Standard deviations of differences of gradients: eight of twelve digits are left."""

_MOST_STEPS = 30
"""Of a climb, in gradients of as many Newton steps. Near a mode each doubles the right digits; what
climbs for longer has none near."""

_MOST_SHORTENED = 12
"""Times that a step is made shorter until it leads up."""


class _Scratch(NamedTuple):
    up: FloatArray  # (D,)
    there: FloatArray  # (D,)
    step: FloatArray  # (n,)
    fall: FloatArray  # (n,)
    pairs: FloatArray  # (2, MEMORY, n)
    alpha: FloatArray  # (MEMORY,)


@compiled(borrows=True, inside=True)
def n_colours(s: System) -> int:
    """Gradients that a factor takes, but for those of a sum."""
    most = 0
    for j in range(s.at.size):
        most = max(most, s.colours[j] + 1)
    return most


@compiled(borrows=True, inside=True)
def _in_common(
    address: int, s: System, z: FloatArray, grad: FloatArray, widths: FloatArray,
    up: FloatArray, there: FloatArray,
) -> float:  # fmt: skip
    """Find c, by those of the sum to which the first of them is nothing else."""
    first, total = s.summed[0], 0.0
    copy(there, z)
    there[s.at[first]] += STEP * widths[first]
    call_density(address, there, up)
    for j in s.apart:
        total += grad[s.at[j]] - up[s.at[j]]
    return total / (s.apart.size * STEP * widths[first])


@compiled(borrows=True, inside=True)
def precision(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, grad: FloatArray, widths: FloatArray,
    entries: FloatArray, up: FloatArray, there: FloatArray, fallen: FloatArray,
) -> int:  # fmt: skip
    """Fill the entries of minus the Hessian of the locals; return the gradients it took.

    From one-sided differences with the gradient ``grad`` at ``z``; those by each colour are put
    into ``fallen`` (n_colours, n).
    """
    n, colours = s.at.size, len(fallen)
    for e in range(entries.size):
        entries[e] = 0.0
    in_common = 0.0
    if s.summed.size:
        in_common = _in_common(address, s, z, grad, widths, up, there)
        entries[s.rows.size] = in_common
    for c in range(colours):
        copy(there, z)
        for j in range(n):
            if s.colours[j] == c:
                there[s.at[j]] += STEP * widths[j]
        call_density(address, there, up)
        if s.summed.size:
            moved = 0.0
            for j in s.summed:
                if s.colours[j] == c:
                    moved += STEP * widths[j]
            for j in s.summed:
                up[s.at[j]] += in_common * moved
        for j in range(n):
            fallen[c, j] = grad[s.at[j]] - up[s.at[j]]
    for j in range(n):
        for e in range(s.begins[j], s.begins[j + 1]):
            # there, differences are of other neighbours with the same colour
            if s.filled[e]:
                continue
            i = s.rows[e]
            of_j, of_i = s.colours[j], s.colours[i]
            # those of one colour are neighbours of one hub, which sees each of them
            by_j = of_j < s.n_hubs or of_i >= s.n_hubs
            if by_j:
                entries[e] = fallen[of_j, i] / (STEP * widths[j])
            if i != j and (of_i < s.n_hubs or of_j >= s.n_hubs):
                other = fallen[of_i, j] / (STEP * widths[i])
                entries[e] = 0.5 * (entries[e] + other) if by_j else other
    return colours + (1 if s.summed.size else 0)


@compiled(borrows=True, inside=True)
def precision_over_widths(
    address: int, s: System, z: FloatArray, widths: FloatArray, entries: FloatArray,
    up: FloatArray, down: FloatArray, there: FloatArray,
) -> int:  # fmt: skip
    """Fill the precisions of locals without neighbours, and return the gradients it took.

    They are the mean curvature over a standard deviation on either side. That of the mode may be
    none, where answers may have been guessed, and Laplace would make of it mass without bounds.
    """
    n = s.at.size
    for way in (1.0, -1.0):
        copy(there, z)
        for j in range(n):
            there[s.at[j]] += way * widths[j]
        call_density(address, there, up if way > 0.0 else down)
    for j in range(n):
        entries[j] = (down[s.at[j]] - up[s.at[j]]) / (2.0 * widths[j])
    return 2


@compiled(borrows=True, inside=True)
def _ascend(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, value: float, grad: FloatArray, factor: FloatArray,
    tolerance: float, most: int, scratch: _Scratch,
) -> tuple[float, int, bool]:  # fmt: skip
    """Move the locals of ``z`` uphill with one factor; log density, gradients, whether it moved.

    What its steps show of the curvature corrects the factor. They take ``most`` gradients, as a
    factor of the place would, and fewer where at their rate these do not suffice.
    """
    up, there, step, pairs = scratch.up, scratch.there, scratch.step, scratch.pairs
    n, n_gradients, moved, first = s.at.size, 0, False, 0.0
    n_pairs = 0
    while n_gradients < most:
        for j in range(n):
            step[j] = grad[s.at[j]]
        first_loop(pairs, n_pairs, scratch.alpha, step)
        solve(s, factor, step)
        second_loop(pairs, n_pairs, scratch.alpha, step)
        square = 0.0
        for j in range(n):
            square += grad[s.at[j]] * step[j]
        # nan fails as well
        if not square >= tolerance:
            break
        if not moved:
            first = square
        elif square * (square / first) ** (most / n_gradients - 1.0) > tolerance:
            break
        rises, better = False, -np.inf
        for _ in range(_MOST_SHORTENED):
            copy(there, z)
            for j in range(n):
                there[s.at[j]] += step[j]
            better = call_density(address, there, up)
            n_gradients += 1
            rises = better >= value - 1e-9 * (1.0 + abs(value))
            if rises or (moved and n_gradients >= most):
                break
            scale(step, 0.4)
        if not rises:
            break
        for j in range(n):
            scratch.fall[j] = grad[s.at[j]] - up[s.at[j]]
        n_pairs = remember(pairs, n_pairs, step, scratch.fall)
        copy(z, there)
        copy(grad, up)
        value, moved = better, True
    return value, n_gradients, moved


@compiled
def climb(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, widths: FloatArray, tolerance: float, near: bool,
    entries: FloatArray, factor: FloatArray, grad: FloatArray,
) -> tuple[bool, float, int]:  # fmt: skip
    """Move the locals of ``z`` to their mode; whether there is one, log density, gradients.

    Where ``factor`` is that of a place ``near``, the first steps are with this.
    """
    n, dim, colours = s.at.size, z.size, n_colours(s)
    scratch = _Scratch(
        np.empty(dim), np.empty(dim), np.empty(n), np.empty(n), np.empty((2, MEMORY, n)),
        np.empty(MEMORY),
    )  # fmt: skip
    up, there, fallen = scratch.up, scratch.there, np.empty((colours, n))
    value = call_density(address, z, grad)
    n_gradients, enough = 1, 0.25 * tolerance
    if near and np.isfinite(value):
        # so small that a step with a factor of its own is within the tolerance
        value, used, _ = _ascend(address, s, z, value, grad, factor, enough, colours, scratch)
        n_gradients += used
    while np.isfinite(value) and n_gradients < _MOST_STEPS * (1 + colours):
        n_gradients += precision(address, s, z, grad, widths, entries, up, there, fallen)
        ridge = 0.0
        while not factorise(s, entries, factor, ridge):
            ridge = max(1e-3, 4.0 * ridge)
            if ridge > 1e6:
                return False, value, n_gradients
        for j in range(n):
            scratch.step[j] = grad[s.at[j]]
        square = solve(s, factor, scratch.step)
        if ridge == 0.0:
            for j in range(n):
                first = s.begins[j]
                # given all others a hub is the more narrow the more they are: from steps of that
                # size nothing is left of its curvature without them, of which all others' is taken
                is_hub = s.colours[j] < s.n_hubs
                widths[j] = 1.0 / (factor[first] if is_hub else np.sqrt(entries[first]))
            if square < tolerance:
                return True, value, n_gradients
        value, used, moved = _ascend(address, s, z, value, grad, factor, enough, colours, scratch)
        n_gradients += used
        if not moved:
            # rounding is all that is left
            return ridge == 0.0 and square < 1.0, value, n_gradients
    return False, value, n_gradients
