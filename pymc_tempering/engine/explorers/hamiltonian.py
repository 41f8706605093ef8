"""Hamiltonian moves with fresh momentum and a jittered number of steps."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_tempering.engine.explorers.integrator import (
    MAX_STEP_SIZE,
    TrajectorySettings,
    accept,
    follow,
)
from pymc_tempering.engine.integers import draw_below
from pymc_tempering.engine.move import ACCEPTED, REJECTED, Move
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

__all__ = ["Hamiltonian", "draw_trajectory", "hamiltonian_move", "jitter", "propose"]

SHORT_STEP_PROBABILITY = 0.2  # costs a fifth where there is no funnel; see :func:`jitter`
LOG_SHORTEST_STEP = np.log(20.0)
"""Short steps are up to this much shorter, log-uniformly."""

_MOMENTUM = 5  # row of the scratch space


@dataclass(frozen=True)
class Hamiltonian(TrajectorySettings):
    """Hamiltonian moves with fresh momentum.

    Attributes
    ----------
    aim : float
        Acceptance rate that tuning of the step size aims at, default 0.8.
    trajectory_length : float
        Longest simulated time of a move, where a quarter of an orbit is pi / 2. Default 1.5.
    max_steps : int
        Largest number of gradient evaluations of a move, default 64.
    """

    max_scale: ClassVar[float] = MAX_STEP_SIZE
    aim: float = 0.8

    @property
    def move(self) -> None:
        """None: part of every ensemble."""
        return None


@compiled(borrows=True, inside=True)
def jitter(step_size: float, short_steps: bool, rng: np.random.Generator) -> tuple[float, bool]:
    """Step size of one transition, drawn independently of the state, and whether it is short.

    One transition in five takes much shorter steps, if `short_steps` says so: a step size tuned for
    the bulk of a density cannot enter the narrow part of a funnel, and a sampler that never enters
    underestimates log Z without any other sign.
    """
    jittered = step_size * (0.8 + 0.4 * rng.random())
    if short_steps and rng.random() < SHORT_STEP_PROBABILITY:
        return jittered * np.exp(-rng.random() * LOG_SHORTEST_STEP), True
    return jittered, False


@compiled(borrows=True, inside=True)
def draw_trajectory(
    step_size: float, trajectory_length: float, max_steps: int, rng: np.random.Generator
) -> tuple[float, int]:
    """Draw step size and number of steps of a transition, independently of the state.

    The number of steps is uniform on 1 to ``trajectory_length / step_size``, since a fixed length
    can resonate with an orbit.
    """
    longest = min(max(int(np.ceil(trajectory_length / step_size)), 1), max_steps)
    jittered, is_short = jitter(step_size, True, rng)
    if is_short:
        longest = min(2 * longest, max_steps)
    return jittered, 1 + draw_below(longest, rng)


@compiled(inline="always")
def propose(
    path: Path,
    beta: float,
    step_size: float,
    n_steps: int,
    replicas: Replicas,
    row: int,
    momentum: FloatArray,
    rng: np.random.Generator,
) -> Move:
    """Follow a trajectory and accept its end with probability ``min(1, exp(-energy error))``."""
    proposal = follow(path, beta, step_size, n_steps, replicas, row, momentum)
    status, rate = proposal.status, proposal.acceptance_rate
    if status == REJECTED and rng.random() < rate:
        accept(path, proposal, replicas, row)
        status = ACCEPTED
    return Move(rate, proposal.signal, status, proposal.n_evaluations, proposal.n_bad_gradients)


@compiled(inline="always")
def hamiltonian_move(
    path: Path,
    options: FloatArray,
    beta: float,
    step_size: float,
    replicas: Replicas,
    row: int,
    rng: np.random.Generator,
) -> Move:
    """Move one replica by a transition that leaves the density at ``beta`` invariant.

    Momentum is drawn afresh, a trajectory is followed, and its end point is accepted with
    probability ``min(1, exp(-energy error))``. `options` are the longest simulated time of a
    trajectory and the largest number of its steps; `step_size` is in standard deviations of the
    reference.
    """
    jittered, n_steps = draw_trajectory(step_size, options[0], int(options[1]), rng)
    momentum = replicas.work[_MOMENTUM]
    for i in range(momentum.shape[0]):
        momentum[i] = rng.standard_normal()
    return propose(path, beta, jittered, n_steps, replicas, row, momentum, rng)
