"""The mass of the modes that are known and well fitted, by weighting draws of their fits.

It needs no chain, and is less than all of log Z where other modes hold some: an estimate of log Z
below it lacks what is known to be there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.elbo import delta_at

__all__ = ["N_DRAWS", "UNKNOWN", "ImportanceEvidence", "importance_evidence"]

N_DRAWS = 128
"""Of each fit: where the variance of its log weights is 0.25, the error is 0.05 nats at most."""


class ImportanceEvidence(NamedTuple):
    """A lower bound on log Z, up to its error.

    Attributes
    ----------
    value, se : float
        Estimate and its standard error in nats; ``-inf`` and 0 where nothing is known.
    n_gradients : int
    """

    value: float
    se: float
    n_gradients: int


UNKNOWN = ImportanceEvidence(-np.inf, 0.0, 0)


def importance_evidence(
    density: Density,
    modes: Sequence[GaussianBase],
    rng: np.random.Generator,
    n_draws: int = N_DRAWS,
) -> ImportanceEvidence:
    r"""Weight draws of all fits against their mixture, so that no place counts twice.

    .. math:: \hat Z = \frac{1}{KN} \sum_{k=1}^K \sum_{n=1}^N
        \frac{\pi(z_{kn})}{\frac{1}{K} \sum_j q_j(z_{kn})}, \qquad z_{kn} \sim q_k

    (multiple importance sampling with the balance heuristic, Veach & Guibas 1995).

    Parameters
    ----------
    density : Density
    modes : sequence of GaussianBase
        Of which the mass is; without any, nothing is known.
    rng : numpy.random.Generator
    n_draws : int
        Of each mode.

    Examples
    --------
    >>> from pymc_tempering import testing
    >>> target = testing.correlated_gaussian()
    >>> fit = GaussianBase(target.mean, np.linalg.cholesky(target.cov))
    >>> found = importance_evidence(target, [fit, fit], np.random.default_rng(1))
    >>> bool(abs(found.value - target.log_z) < 1e-9), bool(found.se < 1e-9), found.n_gradients
    (True, True, 256)
    """
    if not modes:
        return UNKNOWN
    z = np.concatenate([mode.draw(rng, n_draws) for mode in modes])
    log_mixture = logsumexp([mode.log_density(z) for mode in modes], axis=0) - np.log(len(modes))
    log_weights = delta_at(density, z, log_mixture)
    value = float(logsumexp(log_weights) - np.log(len(z)))
    if not np.isfinite(value):
        return UNKNOWN._replace(n_gradients=len(z))
    # each mode has the same number of draws: what the modes differ by is no error
    weights = np.exp(log_weights - value).reshape(len(modes), n_draws)
    variance = weights.var(axis=1, ddof=1).mean() / len(z)
    return ImportanceEvidence(value, float(np.sqrt(variance)), len(z))
