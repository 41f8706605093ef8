"""Ascents of a log density from many starts, by L-BFGS, as one compiled loop.

A model's gradient often takes a microsecond, a call of SciPy's optimiser fifty times as long per
iteration: a thousand starts would be all overhead.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.lbfgs import (
    MEMORY,
    copy,
    dot,
    first_loop,
    move,
    remember,
    scale,
    second_loop,
)
from pymc_tempering.engine.path.path import Density, call_density, pull_back, to_z
from pymc_tempering.jit import compiled
from pymc_tempering.types import BoolArray, FloatArray

TOLERANCE = 1e-4
"""nats that the next step may promise where an ascent ends."""

MOST_GRADIENTS = 200
"""Of one ascent; what still rises after so many runs away along a ridge, or to a pole."""

ALIKE = 0.5
"""Share by which a place may differ from a Gaussian. Within a standard deviation of a known mode,
the gradient by this, and the fall from the mode by half of it: what else there is so deep inside,
draws of that mode meet. And a step's gain from what the curvature promised, if what that promises
next is to be believed: it may be the curvature of another place, or only the coordinates."""


@compiled(borrows=True, inside=True)
def _value(at: tuple[int, FloatArray, FloatArray], u: FloatArray, work: FloatArray) -> float:
    """Log density at ``u``, ``-inf`` where a gradient is not finite; fills ``work[0]`` with that.

    ``at`` is the address of the density, mean and scale of the coordinates.
    """
    address, mean, scale = at
    to_z(mean, scale, u, work[1])
    value = call_density(address, work[1], work[2])
    pull_back(scale, work[2], work[0])
    check = value
    for i in range(u.size):
        check += 0.0 * work[0, i]
    return value if math.isfinite(check) else -np.inf


@compiled(borrows=True, inside=True)
def _uphill(
    grad: FloatArray, pairs: FloatArray, alpha: FloatArray, n_pairs: int, direction: FloatArray
) -> float:
    """Fill ``direction`` with the next step; return how steep it is."""
    copy(direction, grad)
    first_loop(pairs, n_pairs, alpha, direction)
    if n_pairs > 0:
        s, y = pairs[0, (n_pairs - 1) % MEMORY], pairs[1, (n_pairs - 1) % MEMORY]
        scale(direction, dot(s, y) / dot(y, y))
    second_loop(pairs, n_pairs, alpha, direction)
    slope = dot(grad, direction)
    if n_pairs == 0:
        # nothing is known of the curvature: at most one unit in each coordinate or so
        shrink = min(1.0, math.sqrt(grad.size / max(slope, 1e-300)))
        slope *= shrink
        scale(direction, shrink)
    return slope


@compiled(borrows=True, inside=True)
def _note(path: FloatArray, n: int, u: FloatArray, value: float) -> None:
    """Fill the rows of a path from the n-th on, each a position and the value there."""
    for i in range(n, path.shape[0]):
        copy(path[i, : u.size], u)
        path[i, u.size] = value


@compiled(borrows=True, apart=True, inside=True)
def _step(
    at: tuple[int, FloatArray, FloatArray], u: FloatArray, value: float, slope: float,
    direction: FloatArray, trial: FloatArray, work: FloatArray,
) -> tuple[float, int]:  # fmt: skip
    """Fill ``trial`` with a point uphill, and ``work[0]`` with the gradient there.

    The step satisfies the weak Wolfe conditions, by bisection (Lewis & Overton 2013), which needs
    no second derivative: kinks and edges of the support end an ascent, they do not break it.
    Returns the value, ``-inf`` where nothing is uphill, and the number of gradients.
    """
    # constants of Nocedal & Wright, section 3.1; halvings to a millionth of the first step
    sufficient, flatter, most = 1e-4, 0.9, 20
    low, high, t = 0.0, np.inf, 1.0
    reached = -np.inf
    for n in range(most):
        move(trial, u, t, direction)
        new_value = _value(at, trial, work)
        if new_value >= value + sufficient * t * slope:
            low, reached = t, new_value
            if dot(work[0], direction) <= flatter * slope:
                return reached, n + 1
        else:
            high = t
            if low == 0.0 and math.isfinite(new_value):
                # where the parabola through both has its top, which far from a narrow mode is many
                # halvings closer
                t *= max(1e-3, 0.5 * t * slope / (t * slope - (new_value - value)))
                continue
        t = 0.5 * (low + high) if math.isfinite(high) else 4.0 * low
    if low > 0.0:
        move(trial, u, low, direction)
        _value(at, trial, work)
    return reached, most + 1


@compiled(borrows=True, inside=True)
def _has_come(
    mode: FloatArray, height: float, u: FloatArray, value: float, grad: FloatArray
) -> bool:
    """Whether a point is inside a known mode, of which the coordinates are, and looks like it."""
    if mode.size == 0:
        return False
    squares, off = 0.0, 0.0
    for i in range(u.size):
        towards = mode[i] - u[i]
        squares += towards * towards
        off += (grad[i] - towards) ** 2
    fall = 0.5 * squares
    return (
        squares <= 1.0
        and off <= ALIKE**2 * squares
        and abs(height - fall - value) <= 0.5 * ALIKE * fall
    )


@compiled(borrows=True, apart=True, inside=True)
def _climb(
    at: tuple[int, FloatArray, FloatArray], u: FloatArray, first: tuple[float, FloatArray],
    most: int, known: tuple[FloatArray, float], path: FloatArray,
    scratch: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[float, int, bool]:  # fmt: skip
    """Move ``u`` uphill; return the value there, the number of gradients, and whether it ended.

    ``first`` is the value at ``u`` and the gradient with respect to ``z``, empty where they are
    not known; ``known`` a mode and its value. ``path`` is filled, and ``scratch`` is of shapes
    (6, D), (2, MEMORY, D) and (MEMORY,).
    """
    work, pairs, alpha = scratch
    grad, direction, trial = work[3], work[4], work[5]
    value, n_gradients = first[0], 0
    if first[1].size == 0:
        value, n_gradients = _value(at, u, work), 1
    else:
        pull_back(at[2], first[1], work[0])
    n_pairs = n_steps = 0
    mode, height = known
    foreseen = False
    copy(grad, work[0])
    _note(path, n_steps, u, value)
    while math.isfinite(value) and n_gradients < most:
        if _has_come(mode, height, u, value, grad):
            copy(u, mode)
            return height, n_gradients, True
        slope = _uphill(grad, pairs, alpha, n_pairs, direction)
        ending = not 0.5 * slope >= TOLERANCE
        if ending:
            if foreseen or not slope > 0.0:
                return value, n_gradients, True
            # far from a narrow mode, whose coordinates these are, all slopes look flat
            n_pairs = 0
            copy(direction, grad)
            slope = dot(grad, grad)
        promised = 0.5 * slope
        reached, n = _step(at, u, value, slope, direction, trial, work)
        n_gradients += n
        if ending and not reached - value >= TOLERANCE:
            return value, n_gradients, True
        foreseen = abs(reached - value - promised) <= ALIKE * promised
        if not reached > value:
            # nothing is uphill, or no more than rounding lets through
            if n_pairs == 0:
                return value, n_gradients, True
            # what is remembered may be of another place
            n_pairs = 0
            continue
        move(direction, trial, -1.0, u)
        move(grad, grad, -1.0, work[0])
        n_pairs = remember(pairs, n_pairs, direction, grad)
        copy(u, trial)
        copy(grad, work[0])
        value = reached
        n_steps += 1
        _note(path, n_steps, u, value)
    return value, n_gradients, False


@compiled(borrows=True)
def _climb_each(
    at: tuple[int, FloatArray, FloatArray], u: FloatArray, first: tuple[FloatArray, FloatArray],
    most: int, known: tuple[FloatArray, float], path: FloatArray,
    scratch: tuple[FloatArray, FloatArray, FloatArray], out: FloatArray,
) -> None:  # fmt: skip
    values, grads = first
    for n in range(u.shape[0]):
        here = (values[n], grads[n])
        out[n, 0], out[n, 1], out[n, 2] = _climb(at, u[n], here, most, known, path[n], scratch)


class Ascents(NamedTuple):
    """Where ascents ended: positions ``ends`` (n, D) and log densities ``values`` (n,) in nats.

    The value of a start outside the support is ``-inf``. ``n_gradients`` is of all together;
    ``converged`` (n,) is False where the density still rose after the last gradient allowed.
    ``path`` (n, n_path, D) and ``heights`` (n, n_path) are the first positions, the start included,
    and log densities there; the last stands again where there are fewer.
    """

    ends: FloatArray
    values: FloatArray
    n_gradients: int
    converged: BoolArray
    path: FloatArray
    heights: FloatArray


@density_guard()
def ascend(
    density: Density, starts: FloatArray, coordinates: Coordinates, *,
    most_gradients: int = MOST_GRADIENTS, n_path: int = 0,
    first: tuple[FloatArray, FloatArray] | None = None,
    known: tuple[FloatArray, float] | None = None,
) -> Ascents:  # fmt: skip
    """Climb to a local maximum from each of several starts ``z`` (n, D).

    The first steps go along the gradient in ``coordinates``: those of a Gaussian like the modes
    save most of the steps. Each ascent takes ``most_gradients``, and finishes a search along a
    line; ``n_path`` of its positions are kept. ``first`` are log densities (n,) and gradients
    (n, D) at the starts, where they are known. ``known`` is the maximum ``z`` of the mode that the
    coordinates are of, and the log density there: an ascent that comes inside it ends there.
    """
    u = np.ascontiguousarray(coordinates.to_base(starts))
    out, path = np.empty((len(u), 3)), np.empty((len(u), n_path, density.dim + 1))
    # writeable, as those of a path are: what takes either is compiled for one of them alone
    at = density.address, np.array(coordinates.base.mean), np.array(coordinates.rows)
    if first is None:
        first = np.empty(len(u)), np.empty((len(u), 0))
    mode, height = (np.empty(0), 0.0) if known is None else known
    if known is not None:
        mode = coordinates.to_base(mode)
    scratch = np.empty((6, density.dim)), np.empty((2, MEMORY, density.dim)), np.empty(MEMORY)
    _climb_each(at, u, first, most_gradients, (mode, height), path, scratch, out)
    positions = coordinates.from_base(path[..., :-1].reshape(-1, density.dim))
    return Ascents(
        coordinates.from_base(u), out[:, 0], int(out[:, 1].sum()), out[:, 2] > 0.5,
        positions.reshape(len(u), n_path, density.dim), path[..., -1],
    )  # fmt: skip
