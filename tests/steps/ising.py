"""Four spins on a ring, of which 16 states can be summed."""

import itertools

import numpy as np
import pymc as pm
from scipy.special import logsumexp

RUN = {"chains": 2, "cores": 1, "random_seed": 5, "progressbar": False, "quiet": True}
UP = np.array([0.3, 0.6, 0.5, 0.8])
BONDS = [(0, 1), (2, 3), (0, 2), (1, 3)]
COUPLING = 1.1
STATES = np.array(list(itertools.product([0, 1], repeat=4)))
SPINS = 2.0 * STATES - 1.0
DELTA = COUPLING * sum(SPINS[:, i] * SPINS[:, j] for i, j in BONDS)
LOG_PRIOR = np.log(np.where(STATES == 1, UP, 1.0 - UP)).sum(axis=1)
LOG_Z = logsumexp(LOG_PRIOR + DELTA)


def ising(coupling=COUPLING):
    """Spins with unequal priors."""
    with pm.Model() as model:
        up = pm.Bernoulli("up", UP)
        spin = 2.0 * up - 1.0
        pm.Potential("bonds", coupling * sum(spin[i] * spin[j] for i, j in BONDS))
    return model


def probabilities(beta):
    log_p = LOG_PRIOR + beta * DELTA
    return np.exp(log_p - logsumexp(log_p))
