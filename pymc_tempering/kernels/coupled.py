"""What the scans of continuous and of simulated tempering share: moves and their bookkeeping.

The tempered replica z and the target replica y live in rows of the same arrays; ``holder`` names
the row of z, that of y, and a spare row for proposals, so that an exchange copies nothing.
"""

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.kernels.adaptation import update_dual_averaging
from pymc_tempering.kernels.density import TargetInBase, evaluate
from pymc_tempering.kernels.hmc import draw_trajectory, hmc_transition, log_base
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["N_COUNTS", "draw_from_base", "exchange", "move", "step_size_at", "visit_base"]

N_COUNTS = 8
"""Round trips, tempered restarts, gradients, divergences, divergences at the target, proposals of
zero density, draws from the base, draws from the base with finite target density."""


@compiled
def step_size_at(beta: float, grid: FloatArray, step_sizes: FloatArray) -> tuple[float, int]:
    """Step size at any beta, log-linear between grid points, and the nearest grid point.

    A function of beta alone, so that moves at a given beta stay exactly invariant.

    Parameters
    ----------
    beta : float
    grid, step_sizes : ndarray of shape (n_grid,)

    Examples
    --------
    >>> size, nearest = step_size_at(0.75, np.array([0.0, 0.5, 1.0]), np.array([1.0, 1.0, 0.25]))
    >>> round(size, 3), nearest
    (0.5, 1)
    """
    k = 0
    while k < grid.shape[0] - 2 and beta >= grid[k + 1]:
        k += 1
    t = (beta - grid[k]) / (grid[k + 1] - grid[k])
    size = np.exp((1.0 - t) * np.log(step_sizes[k]) + t * np.log(step_sizes[k + 1]))
    return size, k if t <= 0.5 else k + 1


@compiled
def move(
    target: TargetInBase,
    beta: float,
    step_size: float,
    trajectory_length: float,
    max_steps: int,
    row: int,
    u: FloatArray,
    grad: FloatArray,
    log_target: FloatArray,
    delta: FloatArray,
    work: FloatArray,
    counts: IntArray,
    rng: np.random.Generator,
) -> float:
    """Move one row by a Hamiltonian transition at ``beta`` and return its acceptance probability.

    Parameters
    ----------
    target : TargetInBase
    beta, step_size, trajectory_length, max_steps
        See :func:`pymc_tempering.kernels.hmc.draw_trajectory`.
    row : int
    u, grad : ndarray of shape (3, D)
    log_target, delta : ndarray of shape (3,)
    work : ndarray of shape (5, D)
    counts : ndarray of int of shape (8,)
    rng : numpy.random.Generator
    """
    size, n_steps = draw_trajectory(step_size, trajectory_length, max_steps, rng)
    new, acceptance_rate, diverging, n_gradients = hmc_transition(
        target, beta, size, n_steps, u[row], grad[row], log_target[row], work, rng
    )
    log_target[row] = new
    delta[row] = new - log_base(u[row])
    counts[2] += n_gradients
    if diverging:
        counts[3] += 1
        if beta == 1.0:
            counts[4] += 1
    elif n_gradients < n_steps or acceptance_rate == 0.0:
        counts[5] += 1
    return acceptance_rate


@compiled
def draw_from_base(
    target: TargetInBase,
    row: int,
    u: FloatArray,
    grad: FloatArray,
    log_target: FloatArray,
    delta: FloatArray,
    work: FloatArray,
    counts: IntArray,
    rng: np.random.Generator,
) -> None:
    """Fill one row with an independent draw from the base; parameters as for :func:`move`."""
    for i in range(u.shape[1]):
        u[row, i] = rng.standard_normal()
    log_target[row] = evaluate(target, u[row], grad[row], work)
    delta[row] = log_target[row] - log_base(u[row])
    counts[2] += 1
    counts[6] += 1
    if log_target[row] > -np.inf:
        counts[7] += 1


@compiled
def adapt_step_size(
    k: int,
    step_sizes: FloatArray,
    dual_averaging: FloatArray,
    acceptance_rate: float,
    target_accept: float,
) -> None:
    """Update step size ``k`` if ``dual_averaging`` has rows; without, nothing adapts."""
    if dual_averaging.shape[0] > 0:
        step_sizes[k] = update_dual_averaging(dual_averaging[k], acceptance_rate, target_accept)


@compiled
def exchange(holder: IntArray, last_end: IntArray, counts: IntArray) -> None:
    """Let z and y exchange positions, and count a tempered restart.

    A tempered restart is the arrival at y of a position that was at the base end since it last was
    y, so that the recorded draws forget where they were.

    Parameters
    ----------
    holder : ndarray of int of shape (3,)
        Rows of z, of y, and the spare one.
    last_end : ndarray of int of shape (3,)
        By row: 0 before any end was visited, 1 after the base, 2 after the target, 3 after the
        target for a position that had come from the base.
    counts : ndarray of int of shape (8,)
    """
    holder[0], holder[1] = holder[1], holder[0]
    arrived = holder[1]
    if last_end[arrived] == 1:
        counts[1] += 1
        last_end[arrived] = 3
    elif last_end[arrived] == 0:
        last_end[arrived] = 2


@compiled
def visit_base(row: int, last_end: IntArray, counts: IntArray) -> None:
    """Note that a position is at the base end, and count a round trip if it was at the target."""
    if last_end[row] == 3:
        counts[0] += 1
    last_end[row] = 1
