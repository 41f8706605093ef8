"""Exact draws of the inverse temperature given the position, and the exchange that goes with them.

With beta integrated out, a position z of the tempered replica has the density
``b(z) N(delta(z))``, where N is the integral (or the sum over levels) of ``exp(beta delta - c)``.
"""

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.numerics import log_exprel, log_sum_exp, truncated_exponential_icdf
from pymc_tempering.types import FloatArray


@compiled
def piece_masses(
    delta: float, knots: FloatArray, bias: FloatArray, log_masses: FloatArray
) -> float:
    r"""Log integrals of ``exp(beta delta - c(beta))`` over pieces of the bias; log N of their sum.

    The integral over a piece of width h from ``beta_j`` is
    :math:`h e^{\beta_j \delta - c_j} (e^s - 1) / s` with :math:`s = h \delta - (c_{j+1} - c_j)`;
    for one piece it is the normaliser of eq. 18 of Graham & Storkey (2017). `delta` is in nats;
    `knots` and `bias` (n_pieces + 1,) are those of c; `log_masses` (n_pieces,) is overwritten.

    Examples
    --------
    >>> masses = np.empty(2)
    >>> round(abs(piece_masses(0.0, np.array([0.0, 0.25, 1.0]), np.zeros(3), masses)), 9)
    0.0
    >>> np.exp(masses).round(2).tolist()
    [0.25, 0.75]
    """
    if delta == -np.inf:
        log_masses[:] = -np.inf
        return -np.inf
    for j in range(log_masses.shape[0]):
        width = knots[j + 1] - knots[j]
        rise = width * delta - (bias[j + 1] - bias[j])
        log_masses[j] = np.log(width) + knots[j] * delta - bias[j] + log_exprel(rise)
    return log_sum_exp(log_masses)


@compiled(borrows=True)
def draw_level(log_masses: FloatArray, log_total: float, rng: np.random.Generator) -> int:
    """Draw a level or a piece given the position, independently of the present one."""
    uniform, total, last = rng.random(), 0.0, 0
    for j in range(log_masses.shape[0]):
        mass = np.exp(log_masses[j] - log_total)
        if mass > 0.0:
            last = j
        total += mass
        if uniform < total:
            return j
    # rounding may leave the sum below the uniform; a level without mass is never drawn
    return last


@compiled
def draw_beta(
    delta: float, knots: FloatArray, bias: FloatArray, log_masses: FloatArray, log_total: float,
    rng: np.random.Generator,
) -> float:  # fmt: skip
    r"""Draw beta from :math:`p(\beta \mid z) \propto e^{\beta \delta - c(\beta)}` on [0, 1].

    A mixture over pieces of truncated exponentials, each by inverse transform (Graham & Storkey
    2017, eq. 18 and the text below it, for one piece); no iteration, no rejection. The masses are
    those of :func:`piece_masses` at the same finite delta.
    """
    j = draw_level(log_masses, log_total, rng)
    width = knots[j + 1] - knots[j]
    slope = width * delta - (bias[j + 1] - bias[j])
    return knots[j] + width * truncated_exponential_icdf(rng.random(), slope)


@compiled
def level_masses(
    delta: float, betas: FloatArray, log_level_weights: FloatArray, log_masses: FloatArray
) -> float:
    """Log of ``exp(beta_k delta + log_level_weights[k])`` of every level, and of their sum, log N.

    Eq. 7 of Carlson et al. (2016) before normalising; a delta of ``-inf`` leaves only the base.
    `log_masses` (n_levels,) is overwritten.
    """
    log_masses[0] = log_level_weights[0]
    for k in range(1, betas.shape[0]):
        log_masses[k] = betas[k] * delta + log_level_weights[k]
    return log_sum_exp(log_masses)


@compiled(borrows=True, inside=True)
def neighbour_level(level: int, log_masses: FloatArray, rng: np.random.Generator) -> int:
    """Metropolis step to one of the two neighbouring levels, up or down with equal probability.

    A proposal past either end is refused. Invariant for the conditional of the level given the
    position, but no draw from it: a move with the level integrated out must not come before it.
    """
    proposal = level + 1 if rng.random() < 0.5 else level - 1
    uniform = rng.random()
    if proposal < 0 or proposal >= log_masses.shape[0]:
        return level
    if np.log1p(-uniform) < log_masses[proposal] - log_masses[level]:
        return proposal
    return level


@compiled(borrows=True)
def exchange_probability(
    delta: float, log_total: float, target_delta: float, target_log_total: float
) -> float:
    """Probability of exchanging the tempered position z with the target's position y.

    ``min(1, w(z) / w(y))`` with ``w = p(beta = 1 | .) = exp(delta - c(1)) / N(delta)``: the density
    ratio of ``b(z) N(delta(z))`` times the posterior of y, with log N of each from
    :func:`piece_masses` or :func:`level_masses`. Beta has to be redrawn right after.
    """
    if delta == -np.inf:
        return 0.0
    exponent = (delta - log_total) - (target_delta - target_log_total)
    return 1.0 if exponent >= 0.0 else np.exp(exponent)
