"""Full-rank Gaussian variational fits, by regression of gradients on draws.

For a Gaussian q the best precision is the mean of minus the Hessian under q, and for a quadratic
target a regression of gradients on draws from q gives that matrix exactly from little more than D
draws (Salimans & Knowles 2013, "Fixed-form variational posterior approximation through stochastic
linear regression"). A covariance estimated from draws alone needs many times D of them, and its
errors are worst in the narrow directions, which are the ones that matter for a base.
"""

import numpy as np
from scipy.linalg import solve

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.density import call_density
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.jit import compiled
from pymc_tempering.references.elbo import evaluate_elbo
from pymc_tempering.types import FloatArray

__all__ = ["MAX_FULL_RANK_DIM", "fit_full_rank"]

MAX_FULL_RANK_DIM = 200
"""Above this dimension a dense map costs more than the density it serves."""

_N_ITERATIONS = 24
_SETTLED = 12
_N_ELBO_DRAWS = 1000
_TRIMMED = 0.02

# largest change of a precision in one iteration, in the coordinates of the present Gaussian
_MIN_PRECISION, _MAX_PRECISION = 1 / 3, 10.0


@compiled
def _gradients(address: int, z: FloatArray, grad: FloatArray) -> FloatArray:
    values = np.empty(z.shape[0])
    for i in range(z.shape[0]):
        values[i] = call_density(address, z[i], grad[i])
    return values


@density_guard()
def fit_full_rank(
    density: Density, start: GaussianBase, rng: np.random.Generator
) -> tuple[GaussianBase, int]:
    """Improve a local fit to a full-rank one.

    Each iteration draws from the present Gaussian in antithetic pairs, regresses the gradients in
    base coordinates on the draws, moves the mean by the Newton step that the regression implies,
    and moves the precision towards minus the symmetrised slope; the second half of the iterations
    averages. The result is returned only if its ELBO is better than that of the start.

    Parameters
    ----------
    density : Density
        The target's compiled log density and gradient.
    start : GaussianBase
        A converged mean-field fit with its ELBO in ``log_zeta``.
    rng : numpy.random.Generator

    Returns
    -------
    base : GaussianBase
        The new fit with its ELBO, or ``start``.
    n_gradients : int
        Evaluations of the density.
    """
    dim = start.dim
    if dim == 1 or dim > MAX_FULL_RANK_DIM:
        return start, 0
    mean = np.array(start.mean)
    scale = np.diag(start.scale) if start.is_diagonal else np.array(start.scale)
    half = 2 * dim + 10
    n_gradients = 0
    for iteration in range(_N_ITERATIONS):
        eps = rng.standard_normal((half, dim))
        u = np.concatenate([eps, -eps])
        z = np.ascontiguousarray(mean + u @ scale.T)
        grad = np.empty_like(z)
        values = _gradients(density.address, z, grad)
        n_gradients += len(z)
        fine = np.isfinite(values) & np.isfinite(grad).all(axis=1)
        if fine.sum() < 0.9 * len(z):
            return start, n_gradients
        # a few draws far out in a funnel would otherwise rule the regression
        fine &= values > np.quantile(values[fine], _TRIMMED)
        design = np.column_stack([np.ones(fine.sum()), u[fine]])
        gram = design.T @ design + 1e-9 * np.eye(dim + 1)
        coefficients = solve(gram, design.T @ (grad[fine] @ scale), assume_a="pos")
        slope = -0.5 * (coefficients[1:] + coefficients[1:].T)
        rate = 1.0 if iteration < _SETTLED else 1.0 / (iteration - _SETTLED + 2)
        precision = (1.0 - rate) * np.eye(dim) + rate * slope
        eigenvalues, vectors = np.linalg.eigh(precision)
        eigenvalues = np.clip(eigenvalues, _MIN_PRECISION, _MAX_PRECISION)
        shift = vectors @ ((vectors.T @ coefficients[0]) / eigenvalues)
        length = np.linalg.norm(shift)
        mean = mean + scale @ (rate * shift * min(1.0, 0.3 * np.sqrt(dim) / max(length, 1e-300)))
        scale = scale @ np.linalg.cholesky((vectors / eigenvalues) @ vectors.T)
        if not np.isfinite(scale).all():
            return start, n_gradients
    fitted = GaussianBase(mean, np.tril(scale))
    elbo, _ = evaluate_elbo(density, fitted, rng, _N_ELBO_DRAWS)
    n_gradients += _N_ELBO_DRAWS
    if not np.isfinite(elbo) or (start.log_zeta is not None and elbo < start.log_zeta):
        return start, n_gradients
    return GaussianBase(fitted.mean, fitted.scale, float(elbo)), n_gradients
