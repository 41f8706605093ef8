"""One Hamiltonian transition at fixed inverse temperature, in base coordinates.

The base is N(0, I) in these coordinates, so the dynamics of the tempered density

    log pi_beta(u) = -|u|^2 / 2 + beta * delta(u) + const

split into a harmonic oscillator, which is solved exactly by a rotation, and kicks by
``beta * grad delta`` (the splitting of Shahbaba et al. 2014, "Split Hamiltonian Monte Carlo",
section 3.1). The better the base, the smaller the kicks and the longer the steps: at beta = 0, or
for a base that equals the target, every step is exact. For small steps it is the leapfrog scheme.
"""

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.kernels.density import TargetInBase, evaluate
from pymc_tempering.types import FloatArray

__all__ = ["HALF_LOG_2PI", "MAX_ENERGY_ERROR", "MAX_STEP_SIZE", "hmc_transition", "log_base"]

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)

MAX_ENERGY_ERROR = 1000.0
"""Energy error in nats beyond which a trajectory counts as divergent, as in PyMC and Stan."""

MAX_STEP_SIZE = 0.5 * np.pi
"""A rotation by pi / 2 replaces position by momentum, an independent draw from the base."""


SHORT_STEP_PROBABILITY = 0.2
LOG_SHORTEST_STEP = np.log(20.0)
"""Short steps are up to this much shorter, log-uniformly."""


@compiled
def log_base(u: FloatArray) -> float:
    """Log density of N(0, I) at ``u`` of shape (D,), in nats."""
    total = 0.0
    for i in range(u.shape[0]):
        total += u[i] * u[i]
    return -0.5 * total - u.shape[0] * HALF_LOG_2PI


@compiled
def draw_trajectory(
    step_size: float, trajectory_length: float, max_steps: int, rng: np.random.Generator
) -> tuple[float, int]:
    """Draw step size and number of steps of a transition, independently of the state.

    The number of steps is uniform on 1 to ``trajectory_length / step_size``, since a fixed length
    can resonate with an orbit. One transition in five takes much shorter steps: a step size tuned
    for the bulk of a density cannot enter the neck of a funnel, and a sampler that never enters
    underestimates log Z without any other sign.

    Parameters
    ----------
    step_size : float
        Tuned step size.
    trajectory_length : float
    max_steps : int
    rng : numpy.random.Generator

    Returns
    -------
    step_size : float
    n_steps : int
    """
    longest = min(max(int(np.ceil(trajectory_length / step_size)), 1), max_steps)
    jittered = step_size * (0.8 + 0.4 * rng.random())
    if rng.random() < SHORT_STEP_PROBABILITY:
        jittered *= np.exp(-rng.random() * LOG_SHORTEST_STEP)
        longest = min(2 * longest, max_steps)
    return jittered, int(rng.integers(1, longest + 1))


@compiled
def hmc_transition(
    target: TargetInBase,
    beta: float,
    step_size: float,
    n_steps: int,
    u: FloatArray,
    grad: FloatArray,
    log_target: float,
    work: FloatArray,
    rng: np.random.Generator,
) -> tuple[float, float, bool, int]:
    """Move ``u`` by one Hamiltonian transition that leaves the density at ``beta`` invariant.

    Momentum is drawn afresh, ``n_steps`` split steps are made, and the end point is accepted with
    probability ``min(1, exp(-energy error))``.

    Parameters
    ----------
    target : TargetInBase
    beta : float
        Inverse temperature in [0, 1].
    step_size : float
        In units of the base's standard deviation.
    n_steps : int
    u, grad : ndarray of shape (D,)
        Position and gradient of the log target there; overwritten with those of the next state.
    log_target : float
        Log target density at ``u`` in base coordinates, in nats; finite.
    work : ndarray of shape (5, D)
    rng : numpy.random.Generator

    Returns
    -------
    log_target : float
        Of the next state.
    acceptance_rate : float
        Acceptance probability of the proposal.
    diverging : bool
    n_gradients : int
    """
    dim = u.shape[0]
    position, momentum, gradient = work[2], work[3], work[4]
    energy = 0.0
    for i in range(dim):
        p = rng.standard_normal()
        position[i] = u[i]
        momentum[i] = p
        gradient[i] = grad[i]
        energy += 0.5 * (p * p + (1.0 - beta) * u[i] * u[i])
    energy -= beta * log_target
    cosine, sine = np.cos(step_size), np.sin(step_size)
    kick = 0.5 * step_size * beta
    proposal = log_target
    for i in range(dim):
        momentum[i] += kick * (gradient[i] + position[i])
    for step in range(n_steps):
        for i in range(dim):
            x, p = position[i], momentum[i]
            position[i] = cosine * x + sine * p
            momentum[i] = cosine * p - sine * x
        proposal = evaluate(target, position, gradient, work)
        if proposal == -np.inf:
            return log_target, 0.0, False, step + 1
        strength = kick if step == n_steps - 1 else 2.0 * kick
        for i in range(dim):
            momentum[i] += strength * (gradient[i] + position[i])
    energy_end = 0.0
    for i in range(dim):
        energy_end += 0.5 * (momentum[i] * momentum[i] + (1.0 - beta) * position[i] * position[i])
    energy_end -= beta * proposal
    error = energy_end - energy
    if not error < MAX_ENERGY_ERROR:
        return log_target, 0.0, True, n_steps
    acceptance_rate = 1.0 if error <= 0.0 else np.exp(-error)
    if rng.random() < acceptance_rate:
        for i in range(dim):
            u[i] = position[i]
            grad[i] = gradient[i]
        log_target = proposal
    return log_target, acceptance_rate, False, n_steps
