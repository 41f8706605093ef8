"""Targets with exact answers, each asymmetric on purpose.

Symmetry hides errors: with equal weights or variances a sampler that confuses modes, coordinates
or signs still gives the right moments. ``TARGETS`` lists all functions by name. Where a target has
a parameter ``log_z``, its log normaliser in nats, the default is not zero, so that forgetting it
shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from pymc_tempering.errors import OptionError
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.testing import compiled
from pymc_tempering.testing.exact import ExactTarget, TargetParts
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm

type _Recipe = tuple[Callable[..., ExactTarget], tuple[Any, ...]]


def _nested(array: ArrayLike) -> Any:
    """Nested tuples of floats, hashable, from an array."""

    def tuples(values: Any) -> Any:
        return tuple(map(tuples, values)) if isinstance(values, list) else values

    return tuples(np.asarray(array, dtype=np.float64).tolist())


def _flat_model(graph: Callable[[Any, Any], Any], start: FloatArray) -> pm.Model:
    """Model with ``pm.Flat("x")``, and ``graph(x, pytensor.tensor)`` as its only Potential."""
    import pymc as pm
    import pytensor.tensor as pt

    with pm.Model() as model:
        x = pm.Flat("x", shape=len(start), initval=np.asarray(start))
        pm.Potential("target", graph(x, pt))
    return model


def _gaussian(
    recipe: _Recipe, mean: FloatArray, cov: FloatArray, log_scale: float, edge: float = -np.inf
) -> ExactTarget:
    dim = len(mean)
    precision, sds = np.linalg.inv(cov), np.sqrt(np.diag(cov))
    log_const = log_scale - 0.5 * float(dim * LOG_2PI + np.linalg.slogdet(cov)[1])
    cut = float((edge - mean[0]) / sds[0])
    first = stats.truncnorm(cut, np.inf)
    hazard = float(np.exp(stats.norm.logpdf(cut) - stats.norm.logsf(cut)))
    regression = cov[:, 0] / sds[0]
    rest = np.linalg.cholesky(cov[1:, 1:] - np.outer(regression[1:], regression[1:]))

    def log_density(z: FloatArray) -> FloatArray:
        r = z - mean
        value = log_const - 0.5 * np.einsum("...i,ij,...j->...", r, precision, r)
        return np.where(z[..., 0] > edge, value, -np.inf)

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        e0 = first.rvs(size=n, random_state=rng)
        z = mean + e0[:, None] * regression
        z[:, 1:] += rng.standard_normal((n, dim - 1)) @ rest.T
        return z

    def survival(i: int, x: FloatArray) -> FloatArray:
        t = (x - mean[i]) / sds[i]
        if i == 0:
            return first.sf(t)
        if edge == -np.inf:
            return stats.norm.sf(t)
        rho = -cov[0, i] / (sds[0] * sds[i])
        both = stats.multivariate_normal(cov=[[1.0, rho], [rho, 1.0]])
        # P(e0 > cut, ei > t) by the sign flip of e0: P(-e0 < -cut) - P(-e0 < -cut, ei < t)
        joint = both.cdf(np.stack(np.broadcast_arrays(-cut, t), axis=-1))
        return 1.0 - joint / stats.norm.sf(cut)

    def graph(x: Any, pt: Any) -> Any:
        r = x - mean
        # not `precision @ r`: the machine code of a matrix product takes 20 s to compile
        value = log_const - 0.5 * (r[:, None] * precision * r[None, :]).sum()
        return value if edge == -np.inf else pt.switch(x[0] > edge, value, -np.inf)

    start = mean + regression * max(0.0, cut + 0.5)
    return ExactTarget(
        name=recipe[0].__name__, dim=dim, log_z=float(log_scale + stats.norm.logsf(cut)),
        mean=mean + regression * hazard,
        cov=cov - np.outer(regression, regression) * hazard * (hazard - (cut if hazard else 0.0)),
        start=start,
        parts=TargetParts(
            log_density=log_density, draw=draw, survival=survival,
            compile=lambda: compiled.gaussian(_nested(mean), _nested(precision), log_const, edge),
            build=lambda: _flat_model(graph, start), recipe=recipe, gaussian=(mean, cov),
            log_scale=log_scale, edge=edge,
        ),
    )  # fmt: skip


def correlated_gaussian(log_z: float = 2.3) -> ExactTarget:
    """Gaussian in three dimensions with unequal means, variances and correlations."""
    sds = np.array([0.5, 2.0, 1.0])
    correlations = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
    mean = np.array([1.0, -2.0, 0.5])
    recipe = (correlated_gaussian, (log_z,))
    return _gaussian(recipe, mean, correlations * np.outer(sds, sds), log_z)


def hard_edge_gaussian(edge: float = 0.8, log_scale: float = 1.0) -> ExactTarget:
    """Gaussian in three dimensions with correlations, cut off at ``z[0] > edge``, -inf beyond.

    ``log_z = log_scale + log P(z[0] > edge)``; the default edge leaves 0.42 of the mass.

    Examples
    --------
    >>> hard_edge_gaussian().log_density([0.5, 0.0, 0.0])
    array(-inf)
    """
    mean = np.array([0.5, -1.0, 2.0])
    cov = np.array([[2.25, 0.9, 0.0], [0.9, 1.0, -0.2], [0.0, -0.2, 0.5]])
    return _gaussian((hard_edge_gaussian, (edge, log_scale)), mean, cov, log_scale, edge)


def scaled_normal(dim: int = 4, sd: float = 0.5, log_z: float = -3.1) -> ExactTarget:
    """Isotropic ``N(0, sd**2 I)`` times ``exp(log_z)``.

    From a base ``N(0, s0**2 I)`` its path only scales the precision, and log z, the cumulative
    barrier and hence the optimal schedule are known in closed form (Syed et al. 2022; the test path
    of Pigeons.jl).
    """
    if dim < 1 or not sd > 0:
        raise OptionError(f"dim = {dim}, sd = {sd}, expected at least 1 and a positive number.")
    return _gaussian((scaled_normal, (dim, sd, log_z)), np.zeros(dim), sd**2 * np.eye(dim), log_z)


def _mixture(
    recipe: _Recipe, weights: Sequence[float], means: FloatArray, covs: FloatArray, log_z: float
) -> ExactTarget:
    w = np.asarray(weights, dtype=np.float64)
    if not (np.all(w > 0) and np.isclose(w.sum(), 1.0)):
        raise OptionError(f"weights {w.tolist()}, expected positive numbers with sum 1.")
    dim = means.shape[1]
    precisions, factors = np.linalg.inv(covs), np.linalg.cholesky(covs)
    log_consts = np.log(w) - 0.5 * (dim * LOG_2PI + np.linalg.slogdet(covs)[1]) + log_z

    def log_density(z: FloatArray) -> FloatArray:
        r = z[..., None, :] - means
        return special.logsumexp(
            log_consts - 0.5 * np.einsum("...ki,kij,...kj->...k", r, precisions, r), axis=-1
        )

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        k = rng.choice(len(w), size=n, p=w)
        return means[k] + np.einsum("nij,nj->ni", factors[k], rng.standard_normal((n, dim)))

    def survival(i: int, x: FloatArray) -> FloatArray:
        return stats.norm.sf(x[..., None], means[:, i], np.sqrt(covs[:, i, i])) @ w

    def graph(x: Any, pt: Any) -> Any:
        r = x[None, :] - means
        quad = (r[:, :, None] * precisions * r[:, None, :]).sum((1, 2))
        return pt.logsumexp(log_consts - 0.5 * quad)

    mean = w @ means
    cov = np.einsum("k,kij->ij", w, covs) + np.einsum("k,ki,kj->ij", w, means - mean, means - mean)
    return ExactTarget(
        name=recipe[0].__name__, dim=dim, log_z=float(log_z), mean=mean, cov=cov,
        start=means[0].copy(),
        parts=TargetParts(
            log_density=log_density, draw=draw, survival=survival, recipe=recipe,
            build=lambda: _flat_model(graph, means[0]),
            compile=lambda: compiled.mixture(*map(_nested, (log_consts, means, precisions))),
        ),
    )  # fmt: skip


def asymmetric_bimodal(
    weights: Sequence[float] = (0.3, 0.7), separation: float = 6.0, log_z: float = -1.7
) -> ExactTarget:
    """Two Gaussians in the plane with unequal weights and covariances.

    The left mode is narrow, the right one wide. The default separation along ``z[0]`` leaves no
    path for a local sampler.

    Examples
    --------
    >>> round(float(asymmetric_bimodal().survival(0, 0.0)), 2)  # weight of the right mode
    0.7
    """
    means = np.array([[-0.5 * separation, 1.0], [0.5 * separation, -0.5]])
    covs = np.array([[[0.25, 0.1], [0.1, 0.5]], [[1.0, -0.4], [-0.4, 0.6]]])
    recipe = (asymmetric_bimodal, (tuple(weights), separation, log_z))
    return _mixture(recipe, weights, means, covs, log_z)


def trimodal_1d(log_z: float = 0.6) -> ExactTarget:
    """Three Gaussians on the line, weights 0.2, 0.5, 0.3 and standard deviations 0.3, 0.5, 0.8."""
    means = np.array([[-4.0], [0.5], [3.5]])
    covs = np.array([0.3, 0.5, 0.8]).reshape(3, 1, 1) ** 2
    return _mixture((trimodal_1d, (log_z,)), (0.2, 0.5, 0.3), means, covs, log_z)


def heavy_tail(
    dof: Sequence[float] = (1.5, 5.0),
    loc: Sequence[float] = (1.0, -0.5),
    scale: Sequence[float] = (0.7, 2.0),
    log_z: float = 0.8,
) -> ExactTarget:
    """Product of Student t densities, by default one without a variance.

    Degrees of freedom are above 1, so that there is a mean; ``cov`` has ``inf`` where they are at
    most 2.
    """
    nu, mu, sd = (np.asarray(v, dtype=np.float64) for v in (dof, loc, scale))
    if np.any(nu <= 1):
        raise OptionError(f"dof = {nu.tolist()}, expected above 1: below it there is no mean.")
    law = stats.t(nu, mu, sd)
    log_const = log_z + float(stats.t.logpdf(0.0, nu, 0.0, sd).sum())

    def graph(x: Any, pt: Any) -> Any:
        return log_const - (0.5 * (nu + 1) * pt.log1p(((x - mu) / sd) ** 2 / nu)).sum()

    variance = np.where(nu > 2, sd**2 * nu / np.where(nu > 2, nu - 2, 1.0), np.inf)
    return ExactTarget(
        name="heavy_tail", dim=len(nu), log_z=float(log_z), mean=mu, cov=np.diag(variance),
        start=mu.copy(),
        parts=TargetParts(
            log_density=lambda z: law.logpdf(z).sum(-1) + log_z,
            draw=lambda rng, n: mu + sd * rng.standard_t(nu, size=(n, len(nu))),
            survival=lambda i, x: stats.t.sf(x, nu[i], mu[i], sd[i]),
            compile=lambda: compiled.student(_nested(nu), _nested(mu), _nested(sd), log_const),
            build=lambda: _flat_model(graph, mu),
            recipe=(heavy_tail, (tuple(dof), tuple(loc), tuple(scale), log_z)),
        ),
    )  # fmt: skip


def skewed_gamma(
    shape: Sequence[float] = (0.8, 3.0), rate: Sequence[float] = (0.5, 2.0), log_z: float = 1.1
) -> ExactTarget:
    """Gamma variables, sampled as their logarithms: the target with a real transform.

    The model has ``pm.Gamma`` with PyMC's log transform, so ``z = log(x)``, the Jacobian is
    PyMC's, and a sampler that forgets it gets the moments of another Gamma law. ``mean`` and
    ``cov`` are those of ``z``; ``constrain(z)`` gives ``x``, whose mean is ``shape / rate``.
    """
    a, b = np.asarray(shape, dtype=np.float64), np.asarray(rate, dtype=np.float64)
    log_const = float(log_z + (a * np.log(b) - special.gammaln(a)).sum())

    def log_density(z: FloatArray) -> FloatArray:
        return (a * z - b * np.exp(z)).sum(-1) + log_const

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        return np.log(rng.gamma(a, size=(n, len(a)))) - np.log(b)

    def build() -> pm.Model:
        import pymc as pm
        import pytensor.tensor as pt

        with pm.Model() as model:
            pm.Gamma("x", alpha=a, beta=b, shape=len(a))
            pm.Potential("shift", pt.constant(float(log_z)))
        return model

    return ExactTarget(
        name="skewed_gamma", dim=len(a), log_z=float(log_z), mean=special.digamma(a) - np.log(b),
        cov=np.diag(special.polygamma(1, a)), start=np.log(a / b),
        parts=TargetParts(
            log_density=log_density, draw=draw,
            survival=lambda i, x: special.gammaincc(a[i], b[i] * np.exp(x)),
            compile=lambda: compiled.log_gamma(_nested(a), _nested(b), log_const), build=build,
            recipe=(skewed_gamma, (tuple(shape), tuple(rate), log_z)), constrain=np.exp,
        ),
    )  # fmt: skip


def banana(bend: float = 0.6, slope: float = 0.3, log_z: float = -0.9) -> ExactTarget:
    """Curved ridge: ``z1`` is normal around a parabola in ``z0``."""
    (m0, m1), (s0, s1) = (0.5, -1.0), (1.2, 0.5)
    log_const = log_z - LOG_2PI - float(np.log(s0 * s1))

    def log_density(z: FloatArray) -> FloatArray:
        r = z[..., 0] - m0
        e1 = (z[..., 1] - m1 - slope * r - bend * r**2) / s1
        return log_const - 0.5 * ((r / s0) ** 2 + e1**2)

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        e = rng.standard_normal((n, 2))
        r = s0 * e[:, 0]
        return np.stack([m0 + r, m1 + slope * r + bend * r**2 + s1 * e[:, 1]], axis=1)

    def survival(i: int, x: FloatArray) -> FloatArray:
        if i == 0:
            return stats.norm.sf(x, m0, s0)
        nodes, weights = np.polynomial.hermite_e.hermegauss(150)
        r = s0 * nodes
        ridge = m1 + slope * r + bend * r**2
        return stats.norm.sf(x[..., None], ridge, s1) @ (weights / weights.sum())

    def graph(x: Any, _: Any) -> Any:
        r = x[0] - m0
        return log_const - 0.5 * ((r / s0) ** 2 + ((x[1] - m1 - slope * r - bend * r**2) / s1) ** 2)

    cross, start = slope * s0**2, np.array([m0, m1])
    return ExactTarget(
        name="banana", dim=2, log_z=float(log_z), mean=np.array([m0, m1 + bend * s0**2]),
        cov=np.array([[s0**2, cross], [cross, 2 * bend**2 * s0**4 + slope * cross + s1**2]]),
        start=start,
        parts=TargetParts(
            log_density=log_density, draw=draw, survival=survival,
            compile=lambda: compiled.banana((m0, m1), (s0, s1), slope, bend, log_const),
            build=lambda: _flat_model(graph, start), recipe=(banana, (bend, slope, log_z)),
        ),
    )  # fmt: skip


TARGETS: dict[str, Callable[[], ExactTarget]] = {
    factory.__name__: factory
    for factory in (
        asymmetric_bimodal, banana, correlated_gaussian, hard_edge_gaussian, heavy_tail,
        scaled_normal, skewed_gamma, trimodal_1d,
    )
}  # fmt: skip
