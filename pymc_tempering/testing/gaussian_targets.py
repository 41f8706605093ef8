"""Gaussian targets, for which log z(beta) has a closed form in any dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from pymc_tempering.errors import OptionError
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.testing import compiled
from pymc_tempering.testing.exact import ExactTarget, TargetParts
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["correlated_gaussian", "flat_model", "hard_edge_gaussian", "nested", "scaled_normal"]


def nested(array: ArrayLike) -> Any:
    """Nested tuples of floats, hashable, from an array."""
    values = np.asarray(array, dtype=np.float64).tolist()
    return _tuples(values)


def _tuples(values: Any) -> Any:
    return tuple(_tuples(v) for v in values) if isinstance(values, list) else values


def flat_model(graph: Callable[[Any], Any], start: FloatArray) -> pm.Model:
    """Model with ``pm.Flat("x")`` and ``graph(x)`` as its only Potential.

    Parameters
    ----------
    graph : callable
        Symbolic vector ``x`` to symbolic log density.
    start : (D,) array
        Initial value, inside the support.

    Returns
    -------
    pm.Model
    """
    import pymc as pm

    with pm.Model() as model:
        x = pm.Flat("x", shape=len(start), initval=np.asarray(start))
        pm.Potential("target", graph(x))
    return model


def _gaussian(
    recipe: tuple[Callable[..., ExactTarget], tuple[Any, ...]],
    mean: FloatArray,
    cov: FloatArray,
    log_scale: float,
    edge: float = -np.inf,
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

    def build() -> pm.Model:
        import pytensor.tensor as pt

        def graph(x: Any) -> Any:
            r = x - mean
            # not `precision @ r`: the machine code of a matrix product takes 20 s to compile
            value = log_const - 0.5 * (r[:, None] * precision * r[None, :]).sum()
            return value if edge == -np.inf else pt.switch(x[0] > edge, value, -np.inf)

        return flat_model(graph, start)

    start = mean + regression * max(0.0, cut + 0.5)
    return ExactTarget(
        name=recipe[0].__name__,
        dim=dim,
        log_z=float(log_scale + stats.norm.logsf(cut)),
        mean=mean + regression * hazard,
        cov=cov - np.outer(regression, regression) * hazard * (hazard - (cut if hazard else 0.0)),
        start=start,
        parts=TargetParts(
            log_density=log_density,
            draw=draw,
            survival=survival,
            compile=lambda: compiled.gaussian(nested(mean), nested(precision), log_const, edge),
            build=build,
            recipe=recipe,
            gaussian=(mean, cov),
            log_scale=log_scale,
            edge=edge,
        ),
    )


def correlated_gaussian(log_z: float = 2.3) -> ExactTarget:
    """Gaussian in three dimensions with unequal means, variances and correlations.

    Parameters
    ----------
    log_z : float
        Log normaliser, nats. Default 2.3, so that forgetting it shows.

    Returns
    -------
    ExactTarget

    Examples
    --------
    >>> correlated_gaussian().mean
    array([ 1. , -2. ,  0.5])
    """
    sds = np.array([0.5, 2.0, 1.0])
    correlations = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
    mean = np.array([1.0, -2.0, 0.5])
    recipe = (correlated_gaussian, (log_z,))
    return _gaussian(recipe, mean, correlations * np.outer(sds, sds), log_z)


def hard_edge_gaussian(edge: float = 0.8, log_scale: float = 1.0) -> ExactTarget:
    """Gaussian in three dimensions with correlations, cut off at ``z[0] > edge``, -inf beyond.

    Parameters
    ----------
    edge : float
        Default 0.8, which leaves 0.42 of the mass.
    log_scale : float
        Log of the factor in front of the uncut density, nats. Default 1.0.

    Returns
    -------
    ExactTarget
        ``log_z = log_scale + log P(z[0] > edge)``.

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

    Parameters
    ----------
    dim : int
        D. Default 4.
    sd : float
        Default 0.5.
    log_z : float
        Log normaliser, nats. Default -3.1.

    Returns
    -------
    ExactTarget

    Raises
    ------
    OptionError
        If ``dim < 1`` or ``sd <= 0``.

    Examples
    --------
    >>> scaled_normal(dim=2).log_z
    -3.1
    """
    if dim < 1 or not sd > 0:
        raise OptionError(f"dim = {dim}, sd = {sd}, expected at least 1 and a positive number.")
    return _gaussian((scaled_normal, (dim, sd, log_z)), np.zeros(dim), sd**2 * np.eye(dim), log_z)
