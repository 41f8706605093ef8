"""Hierarchies of any number of groups, four rows each, and their log Z by quadrature.

Both have normal effects around a mean: rows are normal with an unknown standard deviation, or
counts. With the effects integrated out, by algebra or by the trapezoidal rule, log Z is a sum over
a grid of two globals, which goes far down in the scale of the effects.
"""

import numpy as np
import pymc as pm
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from pymc_tempering.numerics import LOG_2PI

N_ROWS = 4
GROUPS = (30, 100, 300, 1000, 3000)


def data(name, n):
    """Rows of all groups, shape (n, 4)."""
    rng = np.random.default_rng(n)
    effect = 0.5 + 0.7 * rng.normal(size=(n, 1))
    if name == "normal groups":
        return effect + rng.normal(size=(n, N_ROWS))
    return rng.poisson(np.exp(effect), size=(n, N_ROWS))


def model_of(name, n):
    """The model as people write it, centred."""
    y = data(name, n)
    with pm.Model() as model:
        mean, tau = pm.Normal("mean", 0.0, 5.0), pm.HalfNormal("tau", 1.0)
        effect = pm.Normal("effect", mean, tau, shape=(n, 1))
        if name == "normal groups":
            pm.Normal("y", effect, pm.HalfNormal("noise", 2.0), observed=y)
        else:
            pm.Poisson("y", pm.math.exp(effect), observed=y)
    return model


def log_z(name, n):
    """Log Z in nats, by quadrature."""
    y = data(name, n)
    of = _normal(y) if name == "normal groups" else _poisson(y)
    return _over_globals(of)


def _normal(y):
    """Log density of (log tau, log noise), with mean and effects integrated out."""
    n, means = len(y), y.mean(axis=1)
    within, around = ((y - means[:, None]) ** 2).sum(), ((means - means.mean()) ** 2).sum()

    def at(log_tau, log_noise):
        tau, noise = np.exp(log_tau), np.exp(log_noise)
        of_mean = tau**2 + noise**2 / N_ROWS
        value = -0.5 * (n * (N_ROWS - 1) * (LOG_2PI + 2.0 * log_noise) + within / noise**2)
        value -= 0.5 * n * np.log(N_ROWS)
        value = value - 0.5 * ((n - 1) * (LOG_2PI + np.log(of_mean)) + around / of_mean)
        value += norm.logpdf(means.mean(), 0.0, np.sqrt(25.0 + of_mean / n)) - 0.5 * np.log(n)
        return value + _log_half_normal(log_tau, 1.0) + _log_half_normal(log_noise, 2.0)

    return at


def _poisson(y):
    """Log density of (log tau, mean), with effects integrated out; totals of groups tell all."""
    totals, counts = np.unique(y.sum(axis=1), return_counts=True)
    nodes = np.arange(-9.0, 9.01, 0.125)
    weights = norm.logpdf(nodes) + np.log(0.125)
    constant = gammaln(y + 1.0).sum()

    def at(log_tau, mean):
        effect = mean[..., None, None] + np.exp(log_tau)[..., None, None] * nodes
        logs = totals[:, None] * effect - N_ROWS * np.exp(effect) + weights
        value = logsumexp(logs, axis=-1) @ counts - constant
        return value + _log_half_normal(log_tau, 1.0) + norm.logpdf(mean, 0.0, 5.0)

    return at


def _log_half_normal(log_x, sd):
    """Log density of the logarithm of a half normal variable."""
    return np.log(2.0) + norm.logpdf(np.exp(log_x), 0.0, sd) + log_x


def _over_globals(at):
    """Log integral over the plane, by the trapezoidal rule as far as 30 nats below the mode."""
    found = minimize(lambda v: -float(at(*np.float64(v))), np.zeros(2), method="Nelder-Mead",
                     options={"xatol": 1e-6, "fatol": 1e-8, "maxiter": 2000})  # fmt: skip
    h = 1e-3
    curvature = [
        (2.0 * at(*found.x) - at(*(found.x + step)) - at(*(found.x - step))) / h**2
        for step in h * np.eye(2)
    ]
    first, second = 0.4 / np.sqrt(np.array(curvature, dtype=float))
    across = found.x[1] + second * np.arange(-30, 31)
    rows = [logsumexp(at(np.full(61, found.x[0]), across))]
    for side in (-1, 1):
        place = found.x[0]
        while True:
            place += side * first
            rows.append(logsumexp(at(np.full(61, place), across)))
            if rows[-1] < rows[0] - 30.0:
                break
    return float(logsumexp(rows) + np.log(first) + np.log(second))
