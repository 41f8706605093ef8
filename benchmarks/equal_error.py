"""How many times fewer distributions one annealing needs than another for the same error.

Log weights are relative to log Z, shape (n_runs, n_particles), with rejection rates beside them, by
number of distributions.
"""

import numpy as np
from figures import rmse


def log_z_errors(log_weights):
    top = log_weights.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(log_weights - top).mean(axis=-1, keepdims=True)))[..., 0]


def mean_error(log_weights):
    return -log_weights.mean()


def rmse_error(log_weights):
    return rmse(log_z_errors(log_weights))


def gains(own_sizes, own, sizes, errors):
    """How many times fewer distributions at the errors of the other method, nan if not reached."""
    own = np.minimum.accumulate(own)
    needed = np.interp(
        -np.log(errors), -np.log(own), np.log(own_sizes), left=np.nan, right=np.nan
    )  # fmt: skip
    return sizes / np.exp(needed)


def measured_gains(own, other, error, rng, n=200):
    """`gains`, and the factor of one standard deviation by resampling runs, shape (n_sizes,)."""
    sizes, own_sizes = np.array(list(other)), np.array(list(own))

    def once(resample):
        errors = [
            np.array([
                error(w[rng.integers(len(w), size=len(w))] if resample else w)
                for w, _ in by_size.values()
            ])
            for by_size in (own, other)
        ]  # fmt: skip
        return gains(own_sizes, errors[0], sizes, errors[1])

    ratio = once(False)
    draws = np.log([once(True) for _ in range(n)])
    is_reached = np.isfinite(ratio)
    spread = np.full(ratio.size, np.nan)
    spread[is_reached] = np.exp(np.nanstd(draws[:, is_reached], axis=0))
    return ratio, spread
