"""Schedules of annealing runs: many levels, placed by what a pilot run with few levels measured."""

import numpy as np
from scipy.optimize import brentq

from pymc_tempering.errors import ScheduleError
from pymc_tempering.numerics import log_mean_exp
from pymc_tempering.options import check_choice
from pymc_tempering.schedule.adapt import equal_barrier_schedule
from pymc_tempering.schedule.grid import SCHEDULES, make_schedule
from pymc_tempering.types import FloatArray, IntArray

ANNEALING_SCHEDULES = ("barrier", "ess", *sorted(SCHEDULES))
"""Equal barrier; constant conditional ESS; shapes that need no pilot."""


def _conditional_ess(delta: FloatArray, d_beta: float) -> float:
    """Conditional ESS of equally weighted draws for a step, as a fraction (Zhou et al. 2016)."""
    return float(np.exp(2.0 * log_mean_exp(d_beta * delta) - log_mean_exp(2.0 * d_beta * delta)))


def _reference_step(delta: FloatArray, sign: float, ess: float = 0.98) -> float:
    """Largest step in beta, at most 1, of this conditional ESS.

    A step of 0.98 is small enough for the quadratic expansion, and large enough for few draws.
    """
    finite = delta[np.isfinite(delta)]
    # draws outside the support have no weight whatever the step, so they say nothing about it
    if finite.size < 2 or _conditional_ess(finite, sign) >= ess:
        return 1.0
    step: float = brentq(lambda h: _conditional_ess(finite, sign * h) - ess, 0.0, 1.0, xtol=1e-16)
    return max(step, 1e-12)


def constant_ess_schedule(betas: FloatArray, delta: FloatArray, n_levels: int) -> FloatArray:
    r"""Schedule with equal conditional effective sample size at every step.

    The conditional ESS of a step from :math:`\beta` by *h* is
    :math:`E[e^{h \delta}]^2 / E[e^{2 h \delta}]` under :math:`\pi_\beta` (Zhou, Johansen & Aston
    2016, Toward automatic model comparison, eq. 7). At each level of the pilot the step that gives
    0.98 is found, upwards and downwards. Its inverse is the density of levels wanted there.

    ``delta`` (n_draws, n_pilot) is in nats, at draws of each level of the pilot's ``betas``. Raises
    ScheduleError if shapes disagree.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> delta = rng.normal(size=(2000, 3)) * [4.0, 1.0, 1.0]
    >>> schedule = constant_ess_schedule(np.array([0.0, 0.5, 1.0]), delta, 5)
    >>> bool(schedule[1] < 0.15 and schedule[-1] == 1.0)
    True
    """
    if delta.ndim != 2 or delta.shape[1] != betas.size:
        raise ScheduleError(
            f"`delta` has shape {delta.shape} for a schedule of {betas.size} levels; expected "
            "(n_draws, n_levels). Pass the pilot's own deltas."
        )
    n = betas.size
    log_steps = np.empty(n)
    for level in range(n):
        signs = (1.0,) * (level < n - 1) + (-1.0,) * (level > 0)
        log_steps[level] = np.mean([np.log(_reference_step(delta[:, level], s)) for s in signs])
    fine = np.append(np.linspace(betas[:-1], betas[1:], 64, endpoint=False, axis=1).ravel(), 1.0)
    density = np.exp(-np.interp(fine, betas, log_steps))
    cells = 0.5 * (density[1:] + density[:-1]) * np.diff(fine)
    cumulative = np.concatenate([[0.0], np.cumsum(cells)])
    schedule: FloatArray = np.interp(np.linspace(0.0, cumulative[-1], n_levels), cumulative, fine)
    schedule[0], schedule[-1] = 0.0, 1.0
    return schedule


def annealing_schedule(
    kind: str, n_levels: int, betas: FloatArray, rejection_rates: FloatArray, delta: FloatArray
) -> FloatArray:
    """Schedule of an annealing run from the last three, which a pilot measured.

    ``kind`` is one of :data:`ANNEALING_SCHEDULES`: equal communication barrier between neighbours,
    constant conditional ESS, or a named shape, for which the pilot is not used. Raises OptionError
    for any other.
    """
    if kind == "barrier":
        return equal_barrier_schedule(betas, rejection_rates, n_levels)
    if kind == "ess":
        return constant_ess_schedule(betas, delta, n_levels)
    return make_schedule(check_choice("schedule", kind, ANNEALING_SCHEDULES), n_levels)


def schedule_knots(betas: FloatArray, n_knots: int) -> FloatArray:
    """Thin a long schedule to at most ``n_knots`` of its levels, both ends included.

    Examples
    --------
    >>> schedule_knots(np.linspace(0, 1, 101), 3)
    array([0. , 0.5, 1. ])
    """
    if betas.size <= n_knots:
        return betas
    return betas[np.round(np.linspace(0, betas.size - 1, n_knots)).astype(np.int64)]


def knot_sums(values: IntArray, n_knots: int) -> IntArray:
    """Add up values of the levels of a long schedule at the nearest of its knots.

    Examples
    --------
    >>> knot_sums(np.array([1, 0, 0, 2, 4]), 3)
    array([1, 2, 4])
    """
    levels = np.arange(values.size, dtype=np.float64)
    knots = schedule_knots(levels, n_knots)
    nearest = np.abs(levels[:, None] - knots).argmin(axis=1)
    return np.bincount(nearest, weights=values, minlength=knots.size).astype(np.int64)


def n_levels_for_gap(n_levels: int, gap: float, target_gap: float, least: int, most: int) -> int:
    """Number of levels that brings the gap between reverse and forward log weights to a target.

    For slow annealing the gap is the variance of the log weight and falls as one over the number of
    levels (Neal 2001, section 4).

    ``gap``, of a run of ``n_levels``, is the median reverse less the median forward log weight in
    nats; one that is not finite counts as large.

    Examples
    --------
    >>> n_levels_for_gap(50, 4.0, 2.0, 16, 1000)
    100
    """
    ratio = gap / target_gap if np.isfinite(gap) else 4.0
    # one noisy round must not throw the number far off
    return int(np.clip(round(n_levels * np.clip(ratio, 0.25, 4.0)), least, most))
