"""Mixtures of Gaussians, with modes that a local sampler cannot join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from pymc_tempering.errors import OptionError
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.testing import compiled
from pymc_tempering.testing.exact import ExactTarget, TargetParts
from pymc_tempering.testing.gaussian_targets import flat_model, nested
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["asymmetric_bimodal", "trimodal_1d"]


def _mixture(
    recipe: tuple[Callable[..., ExactTarget], tuple[Any, ...]],
    weights: Sequence[float],
    means: FloatArray,
    covs: FloatArray,
    log_z: float,
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

    def build() -> pm.Model:
        import pytensor.tensor as pt

        def graph(x: Any) -> Any:
            r = x[None, :] - means
            quad = (r[:, :, None] * precisions * r[:, None, :]).sum((1, 2))
            return pt.logsumexp(log_consts - 0.5 * quad)

        return flat_model(graph, means[0])

    mean = w @ means
    cov = np.einsum("k,kij->ij", w, covs) + np.einsum("k,ki,kj->ij", w, means - mean, means - mean)
    return ExactTarget(
        name=recipe[0].__name__,
        dim=dim,
        log_z=float(log_z),
        mean=mean,
        cov=cov,
        start=means[0].copy(),
        parts=TargetParts(
            log_density=log_density,
            draw=draw,
            survival=survival,
            compile=lambda: compiled.mixture(nested(log_consts), nested(means), nested(precisions)),
            build=build,
            recipe=recipe,
        ),
    )


def asymmetric_bimodal(
    weights: Sequence[float] = (0.3, 0.7), separation: float = 6.0, log_z: float = -1.7
) -> ExactTarget:
    """Two Gaussians in the plane with unequal weights and covariances.

    Parameters
    ----------
    weights : (2,) sequence
        Weight of the left, narrow mode and of the right, wide one. Default (0.3, 0.7).
    separation : float
        Distance of the modes along ``z[0]``. The default 6.0 leaves no path for a local sampler.
    log_z : float
        Log normaliser, nats. Default -1.7, so that forgetting it shows.

    Returns
    -------
    ExactTarget

    Raises
    ------
    OptionError
        If the weights are not positive with sum 1.

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
    """Three Gaussians on the line, weights 0.2, 0.5, 0.3 and standard deviations 0.3, 0.5, 0.8.

    Parameters
    ----------
    log_z : float
        Log normaliser, nats. Default 0.6.

    Returns
    -------
    ExactTarget

    Examples
    --------
    >>> trimodal_1d().mean.round(3)
    array([0.5])
    """
    means = np.array([[-4.0], [0.5], [3.5]])
    covs = np.array([0.3, 0.5, 0.8]).reshape(3, 1, 1) ** 2
    return _mixture((trimodal_1d, (log_z,)), (0.2, 0.5, 0.3), means, covs, log_z)
