"""Posteriors of many shapes, on which the quick way of `estimate_many` is tried."""

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pymc as pm
from many_cases import decoder, logistic
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln


@dataclass(frozen=True)
class Shape:
    """A model that observes y, data sets of it, and log Z of each; None where it is not known."""

    name: str
    model: Any
    data: np.ndarray
    log_z: np.ndarray | None = None


def of_case(name, case, rng, n):
    data = case.simulate(n, rng)
    return Shape(name, case.build(data[0]), data)


def poisson(name, rng, n, rows, dim, level):
    """Poisson regression; the lower the level of its logarithm, the more skewed."""
    x = rng.normal(size=(rows, dim))
    slopes = rng.normal(size=(n, dim)) * 0.5
    data = rng.poisson(np.exp(level + slopes @ x.T))
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 0.5, shape=dim)
        pm.Poisson("y", pm.math.exp(level + x @ slope), observed=data[0])
    return Shape(name, model, data)


def counts(name, rng, n, dim, shape, rate):
    """One count for each of some rates, whose logarithms are skewed; conjugate."""
    data = rng.poisson(rng.gamma(shape, 1.0 / rate, size=(n, dim)))
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("each", shape, rate, shape=dim), observed=data[0])
    each = stats.nbinom(shape, rate / (rate + 1.0)).logpmf(data)
    return Shape(name, model, data, each.sum(axis=1))


def scales(name, rng, n, dim, rows):
    """Normal data of unknown variances, each of some rows; conjugate."""
    shape, scale = 2.0, 2.0
    variance = stats.invgamma(shape, scale=scale).rvs((n, 1, dim), random_state=rng)
    data = rng.normal(size=(n, rows, dim)) * np.sqrt(variance)
    with pm.Model() as model:
        each = pm.InverseGamma("each", shape, scale, shape=dim)
        pm.Normal("y", 0.0, pm.math.sqrt(each), shape=(rows, dim), observed=data[0])
    after, squares = shape + rows / 2, scale + 0.5 * (data**2).sum(axis=1)
    each = shape * np.log(scale) - after * np.log(squares) + gammaln(after) - gammaln(shape)
    return Shape(name, model, data, each.sum(axis=1) - 0.5 * rows * dim * np.log(2.0 * np.pi))


def heavy(name, rng, n, dim, dof, noise):
    """Places with a prior of heavy tails, each seen once; known by quadrature."""
    prior, error = stats.t(dof), stats.norm(0.0, noise)
    data = prior.rvs((n, dim), random_state=rng) + error.rvs((n, dim), random_state=rng)
    with pm.Model() as model:
        place = pm.StudentT("place", nu=dof, mu=0.0, sigma=1.0, shape=dim)
        pm.Normal("y", place, noise, observed=data[0])

    def one(y):
        def density(x):
            return prior.pdf(x) * error.pdf(y - x)

        return np.log(quad(density, -60.0, 60.0, points=[0.0, y], limit=400, epsabs=0.0)[0])

    return Shape(name, model, data, np.vectorize(one)(data).sum(axis=1))


def shapes(seed, n):
    """All of them in turn, of n data sets each."""

    def rng():
        return np.random.default_rng([seed, next(numbers)])

    numbers = count()
    for rows, dim, sd in ((10, 2, 2.0), (50, 8, 2.0), (200, 8, 1.0), (60, 20, 1.0)):
        case = logistic(rng(), rows, dim, sd)
        yield of_case(f"logistic, {rows} rows, D {dim}, prior {sd:g}", case, rng(), n)
    for latent, gain in ((20, 2.0), (50, 1.0), (50, 2.0), (50, 3.0)):
        case = decoder(rng(), latent, gain)
        yield of_case(f"decoder, D {latent}, weights {gain:g}", case, rng(), n)
    for rows, dim, level in ((20, 4, -1.0), (30, 20, 0.0)):
        yield poisson(f"Poisson, {rows} rows, D {dim}", rng(), n, rows, dim, level)
    for dim, shape, rate in ((1, 1.0, 0.5), (5, 1.0, 0.5), (30, 2.0, 0.5)):
        yield counts(f"counts, D {dim}, shape {shape:g}", rng(), n, dim, shape, rate)
    for dim, rows in ((2, 4), (20, 20)):
        yield scales(f"variances, D {dim}, {rows} rows", rng(), n, dim, rows)
    for dim, dof, noise in ((4, 4.0, 1.0), (20, 4.0, 0.3)):
        yield heavy(f"heavy prior, D {dim}, dof {dof:g}", rng(), n, dim, dof, noise)
