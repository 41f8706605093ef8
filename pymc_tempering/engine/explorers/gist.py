"""Hamiltonian moves whose step size is drawn around the local scale, for funnels.

The scale comes from the curvature along one random direction, by a difference of gradients. A step
size is drawn around it, a trajectory followed with it, and the move accepted as if the step size
were a momentum: with the ratio of its densities given the end and given the start. This is Gibbs
self-tuning (GIST; Bou-Rabee, Carpenter & Marsden 2024, arXiv 2404.15253, algorithm 1) of the step
size. Two gradients a move pay for it; where the curvature is the same everywhere, the ratio is 1.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_tempering.engine.explorers.hamiltonian import (
    LOG_MAX_STEP_SIZE,
    TrajectorySettings,
    accept,
    follow,
)
from pymc_tempering.engine.move import ACCEPTED, REJECTED, Move
from pymc_tempering.engine.path.path import Path, evaluate_reference, evaluate_target
from pymc_tempering.engine.path.replicas import Replicas, Work
from pymc_tempering.jit import compiled
from pymc_tempering.numerics import draw_below
from pymc_tempering.types import FloatArray

DISPLACEMENT = 1e-3
"""Of the probe, in standard deviations of the reference: narrow parts of funnels are wider."""

FLAT = 0.01
"""Added to the curvature, so that there is a scale where there is none."""

_LOG_LEAST = np.log(1e-8)  # of a step: below it positions hardly change

_SPREAD, _WIDE_SHARE, _WIDE_SPREAD, _WIDE_SHIFT = 0.4, 0.3, 1.2, -0.7
"""The log of a step size over the local scale is normal; three in ten spread wider and are shorter,
so that a trajectory may end where the scale is several times another (benchmarks/README.md)."""


@compiled(borrows=True, inside=True)
def _log_scale(
    path: Path, beta: float, u: FloatArray, grad: FloatArray, residual: FloatArray, work: FloatArray
) -> tuple[float, bool]:
    """Log of the local scale at ``u``, and whether the gradient beside it was bad.

    The curvature is that of what rotations do not account for, see :mod:`.hamiltonian`: a reference
    that equals the target leaves none.
    """
    probe, gradient, direction = work[Work.PROBE], work[Work.PROBE_GRADIENT], work[Work.DIRECTION]
    beside = work[Work.PROBE_RESIDUAL, : residual.shape[0]]
    for i in range(u.shape[0]):
        probe[i] = u[i] + DISPLACEMENT * direction[i]
    _, bad_gradient = evaluate_target(path, probe, gradient, work)
    evaluate_reference(path, probe, beside, work)
    squares, norm = 0.0, 0.0
    for i in range(u.shape[0]):
        change = beta * (gradient[i] - grad[i] + DISPLACEMENT * direction[i])
        if residual.shape[0] > 0:
            change += (1.0 - beta) * (beside[i] - residual[i])
        squares += change * change
        norm += direction[i] * direction[i]
    return -0.5 * np.log(FLAT + np.sqrt(squares / norm) / DISPLACEMENT), bad_gradient


@compiled(borrows=True)
def _log_step(log_scale: float, scale: float) -> float:
    """Log of the typical step size at a place, within bounds that hold everywhere."""
    return min(max(np.log(scale) + log_scale, _LOG_LEAST), LOG_MAX_STEP_SIZE)


@compiled(borrows=True, inside=True)
def _draw_deviation(rng: np.random.Generator) -> float:
    """Log of a step size over the typical one."""
    deviation = rng.standard_normal()
    if rng.random() < _WIDE_SHARE:
        return _WIDE_SHIFT + _WIDE_SPREAD * deviation
    return _SPREAD * deviation


@compiled(borrows=True)
def _log_density(deviation: float) -> float:
    """Log density of :func:`_draw_deviation`, up to a constant."""
    narrow = np.log((1.0 - _WIDE_SHARE) / _SPREAD) - 0.5 * (deviation / _SPREAD) ** 2
    shifted = (deviation - _WIDE_SHIFT) / _WIDE_SPREAD
    return np.logaddexp(narrow, np.log(_WIDE_SHARE / _WIDE_SPREAD) - 0.5 * shifted**2)


@compiled(borrows=True)
def gist_move(
    path: Path, options: FloatArray, beta: float, scale: float, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> Move:  # fmt: skip
    """Move one replica by a transition that leaves the density at ``beta`` invariant.

    Two coins, for the energy error and for the density of the step size: a move that the first one
    rejects needs no second scale. `options` are the longest simulated time of a trajectory and the
    largest number of its steps; `scale` is the step size in units of the local scale.
    """
    work = replicas.work
    momentum, direction = work[Work.MOMENTUM], work[Work.DIRECTION]
    for i in range(momentum.shape[0]):
        momentum[i] = rng.standard_normal()
        direction[i] = rng.standard_normal()
    here, bad_here = _log_scale(
        path, beta, replicas.u[row], replicas.grad[row], replicas.residual[row], work
    )
    log_step, deviation = _log_step(here, scale), _draw_deviation(rng)
    step_size = np.exp(log_step + deviation)
    # from the step size alone, which is the same seen from the end
    longest = min(max(options[0] / step_size, 1.0), options[1])
    n_steps = 1 + draw_below(int(np.ceil(longest)), rng)
    proposal = follow(path, beta, step_size, n_steps, replicas, row, momentum)
    rate, status = proposal.acceptance_rate, proposal.status
    n, n_bad = proposal.n_evaluations + 1, proposal.n_bad_gradients + bad_here
    if status != REJECTED or rng.random() >= rate:
        return Move(rate, proposal.signal, status, n, n_bad)
    residual = work[Work.RESIDUAL, : replicas.residual.shape[1]]
    there, bad_there = _log_scale(
        path, beta, work[Work.POSITION], work[Work.GRADIENT], residual, work
    )
    from_end = log_step + deviation - _log_step(there, scale)
    ratio = np.exp(min(0.0, _log_density(from_end) - _log_density(deviation)))
    if rng.random() < ratio:
        accept(path, proposal, replicas, row)
        status = ACCEPTED
    return Move(rate * ratio, rate, status, n + 1, n_bad + bad_there)


@dataclass(frozen=True)
class Gist(TrajectorySettings):
    """Hamiltonian moves with a step size drawn around the local scale.

    For posteriors with funnels, such as hierarchies written centred and horseshoes: the step size
    that one place needs is a hundredth of another's.

    Attributes
    ----------
    aim : float
        Acceptance rate of the energy error alone that tuning aims at, default 0.75.
    trajectory_length : float
        Longest simulated time of a move, default 1.5.
    max_steps : int
        Largest number of steps of a move, default 64; two more gradients find the scales.

    Examples
    --------
    >>> Gist(max_steps=128)
    Gist(aim=0.75, trajectory_length=1.5, max_steps=128)
    """

    max_scale: ClassVar[float] = 4.0
    move: ClassVar[Any] = staticmethod(gist_move)
    aim: float = 0.75
