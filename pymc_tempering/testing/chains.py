"""Chains with a known marginal distribution and known autocorrelation, without a sampler."""

import numpy as np
from scipy.signal import lfilter

from pymc_tempering.types import FloatArray

__all__ = ["autoregressive_chains"]


def autoregressive_chains(
    rng: np.random.Generator, shape: tuple[int, int, int], correlation: float
) -> FloatArray:
    r"""Draw stationary chains :math:`x_t = \rho x_{t-1} + \sqrt{1 - \rho^2}\, \epsilon_t`.

    Every draw is exactly standard normal, so that functions of the chains have known distributions;
    the effective number of draws for the mean is :math:`n (1 - \rho) / (1 + \rho)`.

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : tuple of int
        ``(n_chains, n_draws, D)``; chains and coordinates are independent.
    correlation : float
        :math:`\rho`, of successive draws, between -1 and 1.

    Returns
    -------
    ndarray of shape `shape`

    Examples
    --------
    >>> x = autoregressive_chains(np.random.default_rng(1), (4, 5000, 2), 0.8)
    >>> bool(abs(x.std() - 1.0) < 0.03), bool(abs((x[:, 1:] * x[:, :-1]).mean() - 0.8) < 0.05)
    (True, True)
    """
    noise = rng.standard_normal(shape)
    noise[:, 1:] *= np.sqrt(1.0 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=1))
