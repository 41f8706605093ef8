"""Posterior probabilities of models from their evidence."""

import numpy as np

from pymc_tempering.types import FloatArray

__all__ = ["model_probabilities"]


def model_probabilities(log_z: FloatArray, prior: FloatArray | None = None) -> FloatArray:
    """Posterior model probabilities, softmax of ``log_z + log prior`` over the last axis.

    Parameters
    ----------
    log_z : ndarray of shape (..., n_models)
        Log marginal likelihoods, in nats.
    prior : ndarray of shape (n_models,), optional
        Default: all models are equally probable beforehand.

    Returns
    -------
    ndarray of shape (..., n_models)
        Sums to one.

    Examples
    --------
    >>> model_probabilities(np.log([1.0, 3.0]) - 2000).round(6).tolist()
    [0.25, 0.75]
    """
    score = log_z
    if prior is not None:
        with np.errstate(divide="ignore"):
            score = log_z + np.log(prior)
    weights = np.exp(score - score.max(axis=-1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(axis=-1, keepdims=True)
