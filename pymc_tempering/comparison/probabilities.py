"""Posterior probabilities of models from their evidence, and what its errors make of them."""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.errors import OptionError
from pymc_tempering.options import as_numbers
from pymc_tempering.types import FloatArray


def model_probabilities(log_z: FloatArray, prior: FloatArray) -> FloatArray:
    """Posterior model probabilities, softmax of ``log_z + log prior`` over the last axis.

    `log_z` of shape (..., n_models) is in nats, `prior` of shape (n_models,).

    Examples
    --------
    >>> model_probabilities(np.log([1.0, 3.0]) - 2000, np.array([0.5, 0.5])).round(6).tolist()
    [0.25, 0.75]
    """
    with np.errstate(divide="ignore"):
        score = log_z + np.log(prior)
    weights = np.exp(score - score.max(axis=-1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(axis=-1, keepdims=True)


def simulate_log_z(log_z: FloatArray, se: FloatArray, df: FloatArray) -> FloatArray:
    """Draw log Z of every model from the distribution of its error, the same draws at every call.

    Arguments of shape (n_models,): estimates and errors in nats, and degrees of freedom of
    Student's t, infinite for a normal. The result (n_draws, n_models) is nan throughout where one
    error is unknown, since that leaves the probabilities of all models uncertain by an unknown
    amount.

    Examples
    --------
    >>> draws = simulate_log_z(np.array([-4.0, -5.0]), np.array([0.1, 0.2]), np.full(2, np.inf))
    >>> draws.std(axis=0).round(1).tolist()
    [0.1, 0.2]
    """
    # fixed: what is made of it is a function of the estimates
    rng = np.random.default_rng(20160101)
    errors = rng.standard_normal((4000, len(log_z)))
    finite_df = np.where(np.isfinite(df), df, 1e9)
    errors /= np.sqrt(rng.chisquare(finite_df, errors.shape) / finite_df)
    return log_z + (se if np.isfinite(se).all() else np.nan) * errors


def check_prior(prior_probs: Mapping[str, float] | None, names: list[str]) -> FloatArray:
    """Prior probabilities of the named models in their order, scaled to sum to one."""
    if prior_probs is None:
        return np.full(len(names), 1.0 / len(names))
    if not isinstance(prior_probs, Mapping):
        raise OptionError(
            f"`prior_probs` is a {type(prior_probs).__name__}; expected a mapping of the names "
            f"{sorted(map(str, names))} to probabilities."
        )
    if set(prior_probs) != set(names):
        raise OptionError(
            f"`prior_probs` has the names {sorted(map(str, prior_probs))}, the models are "
            f"{sorted(map(str, names))}; "
            "give each model one probability."
        )
    values = as_numbers("prior_probs", [prior_probs[name] for name in names])
    if not np.isfinite(values).all() or values.ndim != 1 or (values < 0).any() or values.sum() <= 0:
        raise OptionError(f"`prior_probs` are {values.tolist()}; expected non-negative numbers.")
    return values / values.sum()
