"""Chains made without a sampler."""

import numpy as np
import xarray as xr
from scipy.signal import lfilter


def run_of(**arrays):
    """DataTree with a posterior of arrays of shape (n_chains, n_draws, ...)."""
    variables = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(np.ndim(a) - 2))), a)
        for name, a in arrays.items()
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


def autoregressive_chains(rng, shape, correlation):
    r"""Draw stationary chains :math:`x_t = \rho x_{t-1} + \sqrt{1 - \rho^2}\, \epsilon_t`.

    Of shape ``(n_chains, n_draws, D)``; every draw is exactly standard normal, and the effective
    number of draws for the mean is :math:`n (1 - \rho) / (1 + \rho)`.
    """
    noise = rng.standard_normal(shape)
    noise[:, 1:] *= np.sqrt(1.0 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=1))
