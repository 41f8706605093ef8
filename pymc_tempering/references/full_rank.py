"""Gaussian variational fits, by regression of gradients on draws.

For a Gaussian q the best precision is the mean of minus the Hessian under q, and for a quadratic
target a regression of gradients on draws from q gives that matrix exactly from little more than D
draws (Salimans & Knowles 2013, "Fixed-form variational posterior approximation through stochastic
linear regression"). A covariance estimated from draws alone needs many times D of them, and its
errors are worst in the narrow directions, which are the ones that matter for a base.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.quality import FAIR, TRIMMED, has_gradient
from pymc_tempering.types import BoolArray, FloatArray

MAX_FULL_RANK_DIM = 200
"""Above this dimension a dense map may cost more than the density it serves, and so many draws as a
regression takes cost too much."""

_PRECISIONS = 1 / 3, 10.0
"""Bounds of a precision in one iteration, in the coordinates of the present Gaussian."""


@density_guard()
def fit_gaussian(  # noqa: C901 - draws, regression, and each way to end
    density: Density, start: GaussianBase, rng: np.random.Generator, most: float = np.inf,
    known: Sequence[GaussianBase] = (),
) -> tuple[GaussianBase, int]:  # fmt: skip
    """Climb the ELBO from a Gaussian, to one of full rank up to 200 dimensions.

    Each iteration draws from the present Gaussian in antithetic pairs, regresses the gradients in
    base coordinates on the draws, moves the mean by the Newton step that the regression implies,
    and moves the precision towards minus the symmetrised slope: a natural-gradient step. When the
    ELBO no longer rises, ten more iterations average. Draws outside the support add the gradient of
    the log mass inside. A Gaussian within `FAIR` nats of one that is ``known`` is that one.

    The start is near a mode, and not too wide. Returns the Gaussian without ``log_zeta``, the start
    itself where the support was lost, and the gradients, at most ``most``.
    """
    dim = start.dim
    full = 1 < dim <= MAX_FULL_RANK_DIM
    mean, scale = np.array(start.mean), np.array(start.scale)
    if full and start.is_diagonal:
        scale = np.diag(scale)
    elif not full and not start.is_diagonal:
        scale = start.standard_deviation
    elbos: list[float] = []
    n_gradients = n_settled = 0
    while n_settled < 10:
        # of a diagonal, each entry is a regression of its own
        n_pairs = (2 * dim if n_settled else dim + dim // 4) + 10 if full else 100
        if n_gradients + 2 * n_pairs > most:
            break
        eps = rng.standard_normal((n_pairs, dim))
        u = np.concatenate([eps, -eps])
        z = mean + (u @ scale.T if full else u * scale)
        values, grad = density_at(density.address, z)
        n_gradients += len(z)
        inside = has_gradient(values, grad)
        if inside.sum() < dim + 2 if full else not inside.any():
            if not inside.any():
                return start, n_gradients
            mean, scale = z[inside].mean(axis=0), 0.5 * scale
            n_settled += 1
            continue
        log_q = -0.5 * (u * u).sum(axis=1) - 0.5 * dim * LOG_2PI
        log_q -= np.log(np.diagonal(scale) if full else scale).sum()
        delta = (values - log_q)[inside]
        kept = inside.copy()
        # a few draws far out in a funnel would otherwise rule the regression
        least = np.quantile(delta, TRIMMED)
        kept[inside] = delta >= least
        elbos.append(float(np.maximum(delta, least).mean()) + float(np.log(inside.mean())))
        if n_settled or _has_settled(elbos):
            n_settled += 1
        rate = 1.0 if not n_settled else 1.0 / (n_settled + 1)
        in_base = grad @ scale if full else grad * scale
        slopes = _slopes if full else _diagonal_slopes
        slope, precision = slopes(u, in_base, inside, kept)
        shift, root = _step(slope, precision, rate)
        mean = mean + (scale @ shift if full else scale * shift)
        scale = scale @ root if full else scale * root
        if not (np.isfinite(scale).all() and np.isfinite(mean).all()):
            return start, n_gradients
        here = GaussianBase(mean, np.tril(scale) if full else scale)
        if same := next((fit for fit in known if _divergence(here, fit, FAIR) <= FAIR), None):
            return same, n_gradients
        # the Gaussian is the target itself
        if float(delta.var()) < 1e-6 and inside.all():
            break
    return GaussianBase(mean, np.tril(scale) if full else scale), n_gradients


def _divergence(a: GaussianBase, b: GaussianBase, bound: float = np.inf) -> float:
    """Kullback-Leibler divergence of Gaussians from a to b, in nats.

    What the means make of it alone, where that is beyond a bound.
    """
    squares = float((b.to_base(a.mean[None]) ** 2).sum())
    if 0.5 * squares > bound:
        return 0.5 * squares
    both = a.is_diagonal and b.is_diagonal
    spread = a.scale / b.scale if both else b.to_base(b.mean + a.matrix.T)
    squares += (spread**2).sum()
    return float(0.5 * (squares - a.dim) + b.log_det_scale - a.log_det_scale)


def _has_settled(elbos: list[float]) -> bool:
    """Whether four ELBOs are at most a fifth of a nat above the four before, or 60 are known."""
    if len(elbos) < 8:
        return False
    before, now = np.mean(elbos[-8:-4]), np.mean(elbos[-4:])
    return bool(now - before < 0.2) or len(elbos) >= 60


def _slopes(
    u: FloatArray, grad: FloatArray, inside: BoolArray, kept: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Mean gradient and mean minus Hessian of log density and log mass, in base coordinates."""
    design = np.column_stack([np.ones(kept.sum()), u[kept]])
    gram = design.T @ design + 1e-9 * np.eye(len(design.T))
    coefficients = solve(gram, design.T @ grad[kept], assume_a="pos")
    curvature = -0.5 * (coefficients[1:] + coefficients[1:].T)
    lost = u.T @ u / len(u) - u[inside].T @ u[inside] / inside.sum()
    return coefficients[0] + u[inside].mean(axis=0), curvature + lost


def _diagonal_slopes(
    u: FloatArray, grad: FloatArray, inside: BoolArray, kept: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """The diagonal alone, each entry by a regression on its own coordinate, from fewer draws."""
    mean = grad[kept].mean(axis=0)
    curvature = -(u[kept] * (grad[kept] - mean)).mean(axis=0) / (u[kept] ** 2).mean(axis=0)
    lost = (u * u).mean(axis=0) - (u[inside] ** 2).mean(axis=0)
    return mean + u[inside].mean(axis=0), curvature + lost


def _step(slope: FloatArray, precision: FloatArray, rate: float) -> tuple[FloatArray, FloatArray]:
    """Shift of the mean and factor of the scale, in base coordinates."""
    dim = slope.size
    if precision.ndim == 1:
        bounded = np.clip(1.0 - rate + rate * precision, *_PRECISIONS)
        shift, root = slope / bounded, 1.0 / np.sqrt(bounded)
    else:
        eigenvalues, vectors = np.linalg.eigh((1.0 - rate) * np.eye(dim) + rate * precision)
        eigenvalues = np.clip(eigenvalues, *_PRECISIONS)
        shift = vectors @ ((vectors.T @ slope) / eigenvalues)
        root = np.linalg.cholesky((vectors / eigenvalues) @ vectors.T)
    length = float(np.linalg.norm(shift))
    return rate * shift * min(1.0, 0.3 * np.sqrt(dim) / max(length, 1e-300)), root
