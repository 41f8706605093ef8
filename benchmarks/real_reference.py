"""Log Z of a model of few values by importance sampling around its mode, with none of our code."""

import numpy as np
from scipy import optimize
from scipy.special import logsumexp
from scipy.stats import multivariate_t

N_DRAWS = 4000
_N_FIRST = 1000
_STEP = 1e-3


def importance(model, seed=0):
    """Log Z of a model with one mode, and its standard error, in nats.

    A multivariate t at the mode with the curvature there, then one with the mean and covariance of
    the weighted draws of the first, of whose weights log Z is the mean.
    """
    rng = np.random.default_rng(seed)
    at, start = flat_density(model)
    mean = mode(at, start)
    cov = np.linalg.inv(curvature(at, mean))
    # as heavy a tail as the number of values lets through
    df = 5.0 + mean.size
    for n in (_N_FIRST, N_DRAWS):
        proposal = multivariate_t(mean, cov, df=df, seed=rng)
        draws = proposal.rvs(n).reshape(n, -1)
        logs = np.array([at(z)[0] for z in draws]) - proposal.logpdf(draws)
        weights = np.exp(logs - logsumexp(logs))
        mean = weights @ draws
        cov = 1.1 * (draws - mean).T @ ((draws - mean) * weights[:, None])
        cov = np.atleast_2d(cov) + 1e-8 * np.eye(mean.size)
    log_z = float(logsumexp(logs) - np.log(n))
    return log_z, float(np.exp(logs - log_z).std() / np.sqrt(n))


def flat_density(model):
    """PyMC's log density and gradient as a function of the flat vector of values, and a start."""
    compiled = model.logp_dlogp_function(ravel_inputs=True)
    compiled.set_extra_values({})
    point = model.initial_point()
    start = np.concatenate([np.ravel(point[v.name]) for v in model.continuous_value_vars])

    def at(z):
        value, slope = compiled(z)
        fine = np.isfinite(value) and np.isfinite(slope).all()
        return (float(value), np.array(slope)) if fine else (-np.inf, np.zeros_like(z))

    return at, start.astype(float)


def mode(at, start):
    """Highest point by quasi-Newton steps."""

    def falling(z):
        value, slope = at(z)
        return max(-value, -1e300) if np.isfinite(value) else 1e300, -slope

    for _ in range(2):
        start = optimize.minimize(falling, start, jac=True, method="BFGS").x
    return start


def curvature(at, z):
    """Negative second derivatives at the mode, by differences of gradients."""
    rows = np.array([
        (at(z - step)[1] - at(z + step)[1]) / (2.0 * _STEP) for step in _STEP * np.eye(z.size)
    ])  # fmt: skip
    return 0.5 * (rows + rows.T)
