"""Hamiltonian moves with fresh momentum, and the only integrator of the package.

In the path's coordinates the reference is about N(0, I), so the dynamics of the tempered density

    log pi_beta(u) = (1 - beta) log_reference(u) + beta log_target(u) + const

split into a harmonic oscillator, which is solved exactly by a rotation, and kicks by what is left,
``(1 - beta) residual + beta (grad log_target + u)`` (the splitting of Shahbaba et al. 2014, "Split
Hamiltonian Monte Carlo", section 3.1). The residual of a Gaussian reference is zero. The better the
reference, the smaller the kicks and the longer the steps: at beta = 0, or for a reference that
equals the target, every step is exact. For small steps it is the leapfrog scheme.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from pymc_tempering.engine.move import (
    ACCEPTED,
    DIVERGENT,
    REJECTED,
    ZERO_DENSITY,
    ExplorerSettings,
    Move,
)
from pymc_tempering.engine.path.path import Path, evaluate_reference, evaluate_target
from pymc_tempering.engine.path.replicas import Replicas, Work
from pymc_tempering.jit import compiled
from pymc_tempering.numerics import draw_below
from pymc_tempering.types import FloatArray

MAX_ENERGY_ERROR = 1000.0
"""Energy error in nats beyond which a trajectory counts as divergent, as in PyMC and Stan."""

MAX_ACCEPTED_ERROR = 30.0
"""Energy error in nats, up or down, beyond which no trajectory is accepted. One that gains so much
has lost its way, or ends in rounding noise: of 60 runs of a Student t with a wide prior on its
degrees of freedom 7 ended there without a bound, 5 with 1000 nats, 1 with 100, 30 and 10
(2026-11-28)."""

STABLE_ERROR = 3.0
"""Energy error in nats up to which a trajectory was one before it left the support. It is told half
a kick off; what grows without bound has many times as much."""

MAX_STEP_SIZE = 0.5 * np.pi
"""A rotation by pi / 2 replaces position by momentum, an independent draw from the reference."""

LOG_MAX_STEP_SIZE = np.log(MAX_STEP_SIZE)


class Proposal(NamedTuple):
    """End of a trajectory, whose position and gradients are in the scratch space."""

    log_target: float  # at the end, nats
    log_reference: float  # at the end, nats
    acceptance_rate: float  # Metropolis probability of the end point
    # what the step size is tuned by: the same, but nan where an edge of the support ended a
    # trajectory of small errors, which a shorter step would have led there as well
    signal: float
    # DIVERGENT or ZERO_DENSITY for a rate of 0, else REJECTED until a coin says otherwise
    status: int
    n_evaluations: int  # fewer than steps where the trajectory ran into zero density
    n_bad_gradients: int  # points of finite density at which the gradient was not finite


@dataclass(frozen=True)
class TrajectorySettings(ExplorerSettings):
    """Base class of the settings of explorers that follow trajectories; see Hamiltonian."""

    needs_gradient: ClassVar[bool] = True
    trajectory_length: float = 1.5
    max_steps: int = 64

    def most_evaluations(self, dim: int) -> int:  # noqa: ARG002  trajectories are bounded
        """Steps of the longest trajectory, and two to find scales with."""
        return self.max_steps + 2

    def within(self, reach: float) -> Self:
        """Shorter trajectories: a quarter of an orbit within a mode, which swaps lead out of."""
        if reach == 1.0:
            return self
        return replace(self, trajectory_length=reach * self.trajectory_length)


@compiled(inline="always")
def _kick(
    momentum: FloatArray, strength: float, beta: float, u: FloatArray, grad: FloatArray,
    residual: FloatArray,
) -> None:  # fmt: skip
    towards_target = strength * beta
    for i in range(u.shape[0]):
        momentum[i] += towards_target * (grad[i] + u[i])
    towards_reference = strength * (1.0 - beta)
    for i in range(residual.shape[0]):
        momentum[i] += towards_reference * residual[i]


@compiled(inline="always")
def _energy(
    beta: float, u: FloatArray, momentum: FloatArray, log_target: float, log_reference: float,
    gaussian: bool,
) -> float:  # fmt: skip
    total = 0.0
    if gaussian:
        for i in range(u.shape[0]):
            total += 0.5 * (momentum[i] * momentum[i] + (1.0 - beta) * u[i] * u[i])
        return total - beta * log_target
    for i in range(u.shape[0]):
        total += 0.5 * momentum[i] * momentum[i]
    # at beta = 1 the reference may be -inf where the target is not
    if beta < 1.0:
        total -= (1.0 - beta) * log_reference
    return total - beta * log_target


@compiled(borrows=True, apart=True, inside=True)
def follow(
    path: Path, beta: float, step_size: float, n_steps: int, replicas: Replicas, row: int,
    momentum: FloatArray,
) -> Proposal:  # fmt: skip
    """Follow the dynamics at `beta` from one replica, of finite density, which stays untouched.

    `step_size` is in standard deviations of the reference, `n_steps` at least 1; `momentum` (D,) is
    overwritten with that at the end.
    """
    work = replicas.work
    dim = momentum.shape[0]
    position, gradient = work[Work.POSITION], work[Work.GRADIENT]
    gaussian = replicas.residual.shape[1] == 0
    residual = work[Work.RESIDUAL, : replicas.residual.shape[1]]
    u = replicas.u[row]
    energy = _energy(
        beta, u, momentum, replicas.log_target[row], replicas.log_reference[row], gaussian
    )
    for i in range(dim):
        position[i] = u[i]
    cosine, sine = np.cos(step_size), np.sin(step_size)
    _kick(momentum, 0.5 * step_size, beta, u, replicas.grad[row], replicas.residual[row])
    log_target, log_reference, n_bad = -np.inf, 0.0, 0
    for step in range(n_steps):
        before = log_target, log_reference
        for i in range(dim):
            x, p = position[i], momentum[i]
            position[i] = cosine * x + sine * p
            momentum[i] = cosine * p - sine * x
        log_target, bad_gradient = evaluate_target(path, position, gradient, work)
        n_bad += bad_gradient
        if not gaussian:
            log_reference = evaluate_reference(path, position, residual, work)
        if log_target == -np.inf or (beta < 1.0 and log_reference == -np.inf):
            signal = 0.0
            if step > 0:
                for i in range(dim):
                    x, p = position[i], momentum[i]
                    position[i] = cosine * x - sine * p
                    momentum[i] = cosine * p + sine * x
                last = _energy(beta, position, momentum, before[0], before[1], gaussian)
                signal = np.nan if last - energy < STABLE_ERROR else 0.0
            return Proposal(log_target, log_reference, 0.0, signal, ZERO_DENSITY, step + 1, n_bad)
        strength = 0.5 * step_size if step == n_steps - 1 else step_size
        _kick(momentum, strength, beta, position, gradient, residual)
    error = _energy(beta, position, momentum, log_target, log_reference, gaussian) - energy
    if not error < MAX_ENERGY_ERROR:
        return Proposal(log_target, log_reference, 0.0, 0.0, DIVERGENT, n_steps, n_bad)
    # the same bound both ways keeps it reversible
    rate = min(1.0, np.exp(-error)) if abs(error) < MAX_ACCEPTED_ERROR else 0.0
    return Proposal(log_target, log_reference, rate, rate, REJECTED, n_steps, n_bad)


@compiled(inline="always")
def accept(path: Path, proposal: Proposal, replicas: Replicas, row: int) -> None:
    """Move a replica to the end of the trajectory that was followed last."""
    # not by `take_trial`: one more call costs a few per cent of the time of cheap gradients
    work = replicas.work
    for i in range(replicas.u.shape[1]):
        replicas.u[row, i] = work[Work.POSITION, i]
        replicas.grad[row, i] = work[Work.GRADIENT, i]
    for i in range(replicas.residual.shape[1]):
        replicas.residual[row, i] = work[Work.RESIDUAL, i]
    log_reference = proposal.log_reference
    if replicas.residual.shape[1] == 0:
        log_reference = evaluate_reference(path, replicas.u[row], replicas.residual[row], work)
    replicas.log_target[row] = proposal.log_target
    replicas.log_reference[row] = log_reference
    replicas.delta[row] = proposal.log_target - log_reference


SHORT_STEP_PROBABILITY = 0.2  # costs a fifth where there is no funnel; see :func:`jitter`
LOG_SHORTEST_STEP = np.log(20.0)
"""Short steps are up to this much shorter, log-uniformly."""


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
    move: ClassVar[Any] = None
    aim: float = 0.8


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
    path: Path, beta: float, step_size: float, n_steps: int, replicas: Replicas, row: int,
    momentum: FloatArray, rng: np.random.Generator,
) -> Move:  # fmt: skip
    """Follow a trajectory and accept its end with probability ``min(1, exp(-energy error))``."""
    proposal = follow(path, beta, step_size, n_steps, replicas, row, momentum)
    status, rate = proposal.status, proposal.acceptance_rate
    if status == REJECTED and rng.random() < rate:
        accept(path, proposal, replicas, row)
        status = ACCEPTED
    return Move(rate, proposal.signal, status, proposal.n_evaluations, proposal.n_bad_gradients)


@compiled(inline="always")
def hamiltonian_move(
    path: Path, options: FloatArray, beta: float, step_size: float, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> Move:  # fmt: skip
    """Move one replica by a transition that leaves the density at ``beta`` invariant.

    Momentum is drawn afresh, a trajectory is followed, and its end point is accepted with
    probability ``min(1, exp(-energy error))``. `options` are the longest simulated time of a
    trajectory and the largest number of its steps; `step_size` is in standard deviations of the
    reference.
    """
    jittered, n_steps = draw_trajectory(step_size, options[0], int(options[1]), rng)
    momentum = replicas.work[Work.MOMENTUM]
    for i in range(momentum.shape[0]):
        momentum[i] = rng.standard_normal()
    return propose(path, beta, jittered, n_steps, replicas, row, momentum, rng)
