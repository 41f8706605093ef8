r"""Annealing from N(0, I) to a Gaussian, computed exactly: what momentum that is kept gains.

One direction of standard deviation s, inverse temperatures in equal steps. The Hamiltonian flow at
every level is a rotation, and a share r of moves, chosen regardless of the state, is rejected with
the momentum reversed. The second moments then obey a linear recursion, and with them the mean of
log w is exact for any number of distributions. Reversals act as friction: kept momentum decays at
the rate ln(2) / 2 + 2 r / step size, not at ln(2) / 2 alone.
"""

import numba
import numpy as np

HALF_LIFE_FRICTION = 0.5 * np.log(2.0)
KINDS = ("hamiltonian", "fresh_momentum", "random_walk")


def friction(step_size, rejection=0.0):
    """Rate at which kept momentum decays: half of its power per unit of time, and reversals."""
    return HALF_LIFE_FRICTION + 2.0 * rejection / step_size


def relaxation_gain(sd, step_size, rejection=0.0):
    r"""Ratio of autocorrelation times of x^2, fresh over kept momentum, at standard deviation sd.

    Kept: :math:`\int C^2 dt = \gamma / (2 \omega^2) + 1 / (2 \gamma)` for an oscillator with
    friction gamma and frequency omega = (1 - r) / sd, as nothing moves at a rejection. Fresh
    momentum is diffusion: sd^2 / (step size (1 - r)), for sd well above the step size.
    """
    gamma = friction(step_size, rejection)
    accepted = 1.0 - rejection
    kept = 0.5 * gamma / accepted**2 + 0.5 / (gamma * np.square(sd))
    return 1.0 / (step_size * accepted * kept)


@numba.njit
def _mean_log_weight(n, sd, step_size, kind, rejection):
    slope = 1.0 - 1.0 / sd**2
    xx, xp, pp = 1.0, 0.0, 1.0
    work = 0.0
    keep = 0.5 ** (0.5 * step_size) if kind == 0 else 0.0
    accepted = 1.0 - rejection
    for k in range(1, n + 1):
        work += 0.5 * slope * xx / n
        precision = 1.0 - slope * k / n
        if kind == 2:
            # small proposals: what is accepted is half a gradient step with its noise
            xx += accepted * step_size**2 * (1.0 - precision * xx)
            continue
        w = np.sqrt(precision)
        c, s = np.cos(w * step_size), np.sin(w * step_size)
        new_xx = c * c * xx + 2.0 * c * s * xp / w + s * s * pp / precision
        new_xp = (c * c - s * s) * xp + c * s * (pp / w - w * xx)
        new_pp = precision * s * s * xx - 2.0 * w * c * s * xp + c * c * pp
        xx = accepted * new_xx + rejection * xx
        xp = keep * (accepted * new_xp - rejection * xp)
        pp = accepted * new_pp + rejection * pp
        pp = keep**2 * pp + 1.0 - keep**2
    return work


def mean_gap(n, sds, step_size, transitions, rejection=0.0):
    """Nats by which the mean of log w is below log Z after n distributions, over all directions."""
    kind = KINDS.index(transitions)
    return sum(
        np.log(sd) - _mean_log_weight(n, float(sd), step_size, kind, float(rejection)) for sd in sds
    )
