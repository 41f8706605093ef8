"""Step sizes by dual averaging (Hoffman & Gelman 2014, section 3.2), one row per level."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.move import Explorer
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

_MIN_LOG_STEP = np.log(1e-6)  # below it rounding moves a position as far as a step


class Adaptation(NamedTuple):
    """Scales of the moves, and what tunes them; the arrays are overwritten."""

    scales: FloatArray  # (n,), by level or grid point
    # (n, 4), adapting after every move; (0, 4) keeps every scan exactly invariant
    dual_averaging: FloatArray


def new_dual_averaging(step_sizes: FloatArray) -> FloatArray:
    """State (n_levels, 4) that starts from given step sizes (n_levels,).

    Columns: number of updates, running acceptance error, log of the averaged step size, log of
    the step size that the search shrinks towards.
    """
    state = np.zeros((step_sizes.size, 4))
    state[:, 2] = np.log(step_sizes)
    # shrinking towards a slightly larger step keeps the search from creeping upwards
    state[:, 3] = np.log(2.0 * step_sizes)
    return state


@compiled(borrows=True, inside=True)
def update_dual_averaging(
    row: FloatArray, acceptance_rate: float, target_accept: float, log_max_step: float
) -> float:
    """Update one row (4,) after one transition and return the step size to try next.

    ``exp(row[2])`` is the averaged result; `log_max_step` bounds what is tried.
    """
    gamma, t0, kappa = 0.05, 10.0, 0.75  # as in the paper
    row[0] += 1.0
    t = row[0]
    weight = 1.0 / (t + t0)
    row[1] = (1.0 - weight) * row[1] + weight * (target_accept - acceptance_rate)
    log_step = row[3] - np.sqrt(t) / gamma * row[1]
    log_step = min(max(log_step, _MIN_LOG_STEP), log_max_step)
    decay = t**-kappa
    row[2] = decay * log_step + (1.0 - decay) * row[2]
    return np.exp(log_step)


@compiled(borrows=True, inside=True)
def adapt_scale(adaptation: Adaptation, k: int, signal: float, explorer: Explorer) -> None:
    """Update scale ``k`` after a move of an explorer, if it is being tuned and that says how."""
    if adaptation.dual_averaging.shape[0] > 0 and not np.isnan(signal):
        adaptation.scales[k] = update_dual_averaging(
            adaptation.dual_averaging[k], signal, explorer.aim, explorer.log_max_scale
        )


def averaged_step_sizes(betas: FloatArray, state: FloatArray) -> FloatArray:
    """Return the averaged step sizes (n_levels,), borrowed where a level was hardly used.

    A level that tuning visited a few times only, as those of low weight are in simulated tempering,
    would keep a step size that may reject every move. Levels with fewer than 30 updates get the
    step size of those with more, log-linear in beta.

    Examples
    --------
    >>> state = new_dual_averaging(np.array([0.4, 9.0, 0.1]))
    >>> state[:, 0] = [100, 2, 100]
    >>> averaged_step_sizes(np.array([0.0, 0.5, 1.0]), state).round(6).tolist()
    [0.4, 0.2, 0.1]
    """
    # fewer updates leave the average near where the search began
    known = state[:, 0] >= 30.0
    if not known.any():
        return np.exp(state[:, 2])
    return np.exp(np.interp(betas, betas[known], state[known, 2]))
