"""Log Z by means that are none of this package's: a grid in few dimensions."""

import itertools

import numpy as np
from scipy import optimize
from scipy.special import logsumexp

MAX_DIM = 3
_REACH = 3.4
"""Of the grid, which is even in u for z = sinh(u) standard deviations: 15 of them."""

_STEPS = {1: 0.02, 2: 0.08, 3: 0.17}


def quadrature(model):
    """Log Z of a model with one mode and at most three unconstrained values, and its error."""
    start = np.concatenate([np.ravel(value) for value in model.initial_point().values()])
    return integral(flat_density(model), start.astype(float))


def integral(at, start):
    """Log of the integral of a density with one mode in at most three dimensions, and its error.

    The trapezoidal rule, which converges exponentially for smooth densities, around the mode and in
    the directions and scales of the curvature there; the error is half the difference from a grid
    of twice the step.

    Parameters
    ----------
    at : callable
        From a vector of shape (D,) to the log density in nats.
    start : ndarray of shape (D,)
    """
    best = highest(at, start)
    scale = np.linalg.cholesky(np.linalg.inv(curvature(at, best)))
    dim, step = best.size, _STEPS[best.size]
    n = int(_REACH / step)
    steps = np.arange(-n, n + 1)
    u = step * steps
    logs = np.array([at(best + scale @ np.sinh(v)) for v in itertools.product(u, repeat=dim)])
    logs = logs.reshape((steps.size,) * dim)
    jacobian = np.log(step) + np.log(np.cosh(u))
    for axis in range(dim):
        logs = logs + np.expand_dims(jacobian, [k for k in range(dim) if k != axis])
    volume = np.linalg.slogdet(scale)[1]
    fine = logsumexp(logs) + volume
    even = slice(n % 2, None, 2)
    coarse = logsumexp(logs[(even,) * dim]) + dim * np.log(2.0) + volume
    return float(fine), float(abs(fine - coarse) / 2.0)


def flat_density(model):
    """Log density of PyMC as a function of the flat vector of unconstrained values, in nats."""
    start = model.initial_point()
    logp = model.compile_logp()
    names, shapes = list(start), [np.shape(value) for value in start.values()]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    if ends[-1] > MAX_DIM:
        raise SystemExit(f"{ends[-1]} values are too many for a grid; there may be {MAX_DIM}")

    def at(z):
        parts = np.split(z, ends[:-1])
        point = {n: p.reshape(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        value = float(logp(point))
        return value if np.isfinite(value) else -np.inf

    return at


def highest(at, start):
    """Mode by direct search, which needs no gradient."""
    options = {"xatol": 1e-6, "fatol": 1e-8, "maxiter": 4000}
    for _ in range(2):
        found = optimize.minimize(
            lambda z: -max(at(z), -1e10), start, method="Nelder-Mead", options=options
        )
        start = found.x
    return start


def curvature(at, z, step=1e-3):
    """Negative second derivatives of the log density at ``z``, by central differences."""
    d = step * np.maximum(1.0, np.abs(z)) * np.eye(z.size)
    found = np.empty((z.size, z.size))
    for i, j in itertools.product(range(z.size), repeat=2):
        corners = at(z + d[i] + d[j]) - at(z + d[i] - d[j]) - at(z - d[i] + d[j])
        found[i, j] = -(corners + at(z - d[i] - d[j])) / (4.0 * d[i, i] * d[j, j])
    return found
