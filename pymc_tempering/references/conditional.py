r"""The map of a hierarchy: from Laplace at nodes of the globals, and gradients at its own draws.

1. The globals' marginal density by nested Laplace (:mod:`.nested_laplace`), its mode and curvature.
2. Nodes around it, at which the locals' modes and Cholesky factors are known. What they have in
   common are few functions of the globals (principal components), interpolated by a Gaussian
   process with a linear trend.
3. At draws of the map, gradients of log weights regressed on the draws, as in :mod:`.full_rank`
   and :mod:`.third_order`: constants and slopes mend means and scales, products of two coordinates
   bend the globals and skew every residual. All of it vanishes with what there is to explain.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import norm, qmc

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.conditional import BOUND, Arrays, ConditionalMap, Laws
from pymc_tempering.engine.path.path import call_density_at
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.model.structure import Structure
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.nested_laplace import Conditionals, NestedLaplace
from pymc_tempering.references.quality import N_MANY, TRIMMED, trimmed_variance
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["ConditionalFit", "conditional_fit"]

N_NODES = 128
"""Nodes of the globals, half as many up to four, and twice as many beyond eight; a power of 2, as
Sobol's points are."""

_WIDER = 1.25
"""Times the globals' standard deviations, over which nodes are spread."""

_ALONG = np.array([-6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
"""Standard deviations along each global at which there are nodes too: what lies beyond all nodes is
extrapolated, and where that is wrong, mass is lost of which draws of the map say nothing."""

_UNEXPLAINED = 1e-4
"""Variance over all that locals depend on, in units of V, that principal components leave out."""

_NUGGET = 1e-6
"""Variance of the interpolation at nodes, of one: Newton steps end, and rounding."""

_ROUNDS = 6
"""Of regressions; the first is of the Gaussian alone."""

_MOST_FEATURES = 350
"""Products beyond which globals do not bend each other: of 25 of them."""

_LARGEST = 0.6
"""Steps of one round, of slopes, skews and means in standard deviations."""


_TAILS = -0.3, 1.2
"""Bounds of tails: at 1 they fall like an exponential, as that of the logarithm of a scale."""


class ConditionalFit(NamedTuple):
    """A map, V of its log weights, and the gradients that it took; no map where none was found.

    ``lost`` is the share of the mass along the globals where the map has no draws, or locals that
    are far from theirs: of that log weights at its draws say nothing.
    """

    map: ConditionalMap | None
    variance: float
    n_gradients: int
    lost: float = 1.0


def conditional_fit(
    density: Density, structure: Structure, start: FloatArray, rng: np.random.Generator
) -> ConditionalFit:
    """Fit the map of a hierarchy, from a place ``start`` (D,) with a density."""
    nested = NestedLaplace(density, structure, start)
    found = _marginal_gaussian(nested, start[structure.globals])
    if found is None:
        return ConditionalFit(None, np.inf, nested.n_gradients)
    mean, root = found
    k = mean.size
    laws, n_spent = Laws.normal(structure.dim, k), 0
    best, lowest = None, np.inf
    # the second time nodes are where the globals have been found to be, tails included
    for _ in range(2):
        g = _globals_at(_nodes(k, rng), mean, root, laws)
        solved = nested.at(g, np.sqrt((root**2).sum(axis=1)))
        if len(solved.z) < max(len(g) // 2, 2 * k + 2):
            break
        t = np.linalg.solve(root, (solved.z[:, structure.globals] - mean).T).T
        of_nodes = _interpolated(structure, mean, root, t, solved)
        if of_nodes is None:
            break
        of_nodes = of_nodes.with_laws(laws)
        mended, n = _mended(density, of_nodes, rng)
        n_spent += n + 2 * N_MANY
        for made in (of_nodes, mended):
            variance = trimmed_variance(_Draws.of(density, made, rng, N_MANY).log_weights)
            if variance < lowest:
                best, lowest, laws = made, variance, made.laws
    if best is None:
        return ConditionalFit(None, np.inf, nested.n_gradients + n_spent)
    lost = _lost(nested, best)
    return ConditionalFit(best, lowest, nested.n_gradients + n_spent, lost)


def _lost(nested: NestedLaplace, made: ConditionalMap) -> float:
    """Largest share of the mass along a global that the map loses, by Laplace's approximation."""
    k, density, at = made.n_globals, nested.density, nested.structure.globals
    places = np.sort([*_ALONG, 0.0])
    units = np.sqrt((made.arrays.root**2).sum(axis=1))
    worst = 0.0
    for i in range(k):
        u = np.zeros((len(places), made.dim))
        u[:, i] = places
        # the middle first, from which the others start
        order = np.argsort(np.abs(places), kind="stable")
        through = made.pulled_back(density.address, u)[0]
        z, log_det = _globals_forward(made, u[:, :k])
        solved = nested.at(z[order], units)
        log_mass = np.full(len(places), -np.inf)
        found = _row_of(z, solved.z[:, at])
        log_mass[found] = solved.log_marginal + log_det[found]
        middle = int(order[0])
        if not np.isfinite(log_mass[middle]):
            return 1.0
        log_mass -= log_mass[middle]
        share = np.exp(log_mass - log_mass.max())
        share /= share.sum()
        short = np.minimum(through - through[middle] - log_mass, 0.0)
        lost = share * -np.expm1(np.nan_to_num(short, nan=-np.inf))
        # what the ends stand for lies beyond them
        lost[[0, -1]] = share[[0, -1]]
        worst = max(worst, float(lost.sum()))
    return worst


def _row_of(z: FloatArray, some: FloatArray) -> IntArray:
    """Rows of ``z`` (n, k) that ``some`` (m, k) of them are."""
    return np.array([int(np.flatnonzero((z == row).all(axis=1))[0]) for row in some], dtype=int)


def _nodes(k: int, rng: np.random.Generator) -> FloatArray:
    """Places of standard normal globals (N, k): from the middle outwards, and far along each."""
    n_nodes = N_NODES // 2 if k <= 4 else N_NODES if k <= 8 else 2 * N_NODES
    spread = _WIDER * norm.ppf(qmc.Sobol(k, rng=rng).random(n_nodes))
    spread = spread[np.argsort((spread**2).sum(axis=1))]
    return np.vstack([np.zeros(k), spread, *(distance * np.eye(k) for distance in _ALONG)])


def _globals_at(u: FloatArray, mean: FloatArray, root: FloatArray, laws: Laws) -> FloatArray:
    """Globals (N, k) at standard normal ones, by the laws of a map."""
    return _alone(mean, root, laws).from_base(u)


def _alone(mean: FloatArray, root: FloatArray, laws: Laws) -> ConditionalMap:
    """The map of the globals without locals."""
    k = mean.size
    return ConditionalMap(Arrays(
        np.arange(k), np.zeros(1), np.empty(0), mean, root, np.zeros((1, k)), np.ones(k),
        np.zeros((1 + k, 1)), np.zeros((1, 1)), np.empty(0), np.empty((0, 1)),
        laws.shift[:k], laws.log_scale[:k], laws.skew[:k], *laws[3:],
    ))  # fmt: skip


def _globals_forward(made: ConditionalMap, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Globals (N, k) of a map at standard normal ones, and the log determinants (N,)."""
    return _alone(made.arrays.mean, made.arrays.root, made.laws).forward(u)


def _marginal_gaussian(
    nested: NestedLaplace, start: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Mode of the globals' marginal density, and a root of its covariance."""
    k = start.size
    units, steps = np.ones(k), np.full(k, 1e-3)

    def falling(y: FloatArray) -> tuple[float, FloatArray]:
        value, slope = nested.marginal(start + units * y, steps)
        return (-value, -slope * units) if np.isfinite(value) else (1e300, np.zeros(k))

    # first in the units of the slopes, then in those of the curvature that this finds
    value, slope = nested.marginal(start, steps)
    if not np.isfinite(value):
        return None
    units = 1.0 / np.maximum(1.0, np.sqrt(np.abs(_diagonal(nested, start, slope, steps))))
    steps = 1e-2 * units
    for _ in range(3):
        found = minimize(falling, np.zeros(k), jac=True, method="BFGS",
                         options={"gtol": 0.02, "maxiter": 60})  # fmt: skip
        if not np.isfinite(found.fun) or found.fun >= 1e300:
            return None
        start = start + units * found.x
        sd = units * np.sqrt(np.maximum(np.diagonal(found.hess_inv), 1e-8))
        steps = 1e-2 * sd
        if k > 20:
            cov = found.hess_inv * np.outer(units, units)
            return start, np.linalg.cholesky(0.5 * (cov + cov.T))
        precision = np.empty((k, k))
        for i in range(k):
            ends = [nested.marginal(start + sign * 0.1 * sd[i] * np.eye(k)[i], steps)
                    for sign in (1.0, -1.0)]  # fmt: skip
            if not all(np.isfinite(v) for v, _ in ends):
                return None
            precision[i] = (ends[1][1] - ends[0][1]) / (0.2 * sd[i])
        scaled = 0.5 * (precision + precision.T) * np.outer(sd, sd)
        eigenvalues, vectors = np.linalg.eigh(scaled)
        units = sd
        # a start that the curvature says is not the mode, or is flat
        if eigenvalues[0] > 1e-2:
            root = sd[:, None] * (vectors / np.sqrt(eigenvalues))
            return start, np.linalg.cholesky(root @ root.T)
    eigenvalues = np.maximum(np.abs(eigenvalues), 0.05)
    root = sd[:, None] * (vectors / np.sqrt(eigenvalues))
    return start, np.linalg.cholesky(root @ root.T)


def _diagonal(
    nested: NestedLaplace, g: FloatArray, slope: FloatArray, steps: FloatArray
) -> FloatArray:
    """Curvatures of the marginal density along each global, roughly; 1 where unknown."""
    curvatures = np.ones(g.size)
    for i in range(g.size):
        moved = g.copy()
        moved[i] += 0.01
        value, other = nested.marginal(moved, steps)
        if np.isfinite(value):
            curvatures[i] = (slope[i] - other[i]) / 0.01
    return curvatures


def _interpolated(
    structure: Structure,
    mean: FloatArray,
    root: FloatArray,
    t: FloatArray,
    solved: Conditionals,
) -> ConditionalMap | None:
    """Map with what locals depend on interpolated between nodes ``t`` (N, k)."""
    factor, k = structure.factor, mean.size
    at = structure.locals[factor.order]
    n = at.size
    first = factor.begins[:-1]
    column = np.repeat(np.arange(n), np.diff(factor.begins))
    off = np.ones(factor.rows.size, dtype=bool)
    off[first] = False
    pivots = solved.factors[:, first]
    slopes = solved.factors[:, off] / pivots[:, column[off]]
    log_precision = np.log(pivots)
    sd = np.exp(-log_precision.mean(axis=0))
    units = np.concatenate([sd, np.ones(n), sd[column[off]] / sd[factor.rows[off]]])
    values = np.column_stack([solved.z[:, at], log_precision, slopes])
    constants = values.mean(axis=0)
    left, sizes, right = np.linalg.svd((values - constants) / units, full_matrices=False)
    tail = np.cumsum(sizes[::-1] ** 2)[::-1] / len(values)
    n_kept = max(int((tail > _UNEXPLAINED).sum()), 1)
    lengths, trend, weights = _process(BOUND * np.tanh(t / BOUND), left[:, :n_kept] * sizes[:n_kept])
    nodes = BOUND * np.tanh(t / BOUND) / lengths
    begins = factor.begins - np.arange(n + 1)
    arrays = Arrays(
        np.concatenate([structure.globals, at]), begins, factor.rows[off], mean, root,
        nodes, lengths, trend, weights, constants, units[:, None] * right[:n_kept].T,
        *Laws.normal(structure.dim, k),
    )  # fmt: skip
    if not all(np.isfinite(array).all() for array in arrays):
        return None
    return ConditionalMap(arrays)


def _process(v: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lengths (k,), trend (1 + k, R) and weights (N, R) of a Gaussian process through nodes.

    Lengths are the likeliest, which all R functions share, by their variances.
    """
    n, k = v.shape
    design = np.column_stack([np.ones(n), v])

    def solved(log_lengths: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        scaled = v / np.exp(log_lengths)
        squares = (scaled**2).sum(axis=1)
        gaps = squares[:, None] + squares[None] - 2.0 * scaled @ scaled.T
        kernel = np.exp(-0.5 * np.maximum(gaps, 0.0)) + _NUGGET * np.eye(n)
        factor = cho_factor(kernel, lower=True, check_finite=False)
        both = cho_solve(factor, np.column_stack([design, y]), check_finite=False)
        trend = np.linalg.solve(
            design.T @ both[:, : k + 1] + 1e-10 * np.eye(k + 1), design.T @ both[:, k + 1 :]
        )
        weights = both[:, k + 1 :] - both[:, : k + 1] @ trend
        variances = ((y - design @ trend) * weights).sum(axis=0) / n + 1e-12
        log_det = np.log(np.diagonal(factor[0])).sum()
        fit = 0.5 * n * np.log(variances).sum() + y.shape[1] * log_det
        return trend, weights, float(fit)

    # a broad prior keeps what data do not tell within bounds
    found = minimize(
        lambda x: solved(x)[2] + 0.5 * ((x - 1.0) ** 2 / 4.0).sum(), np.full(k, np.log(3.0)),
        method="L-BFGS-B", bounds=[(np.log(0.5), np.log(60.0))] * k, options={"maxiter": 30},
    )  # fmt: skip
    trend, weights, _ = solved(found.x)
    return np.exp(found.x), trend, weights


class _Draws(NamedTuple):
    """Draws ``u`` (n, D) of a map, their log weights (n,), and gradients of these by u (n, D)."""

    u: FloatArray
    log_weights: FloatArray
    scores: FloatArray

    @classmethod
    @density_guard()
    def of(
        cls, density: Density, made: ConditionalMap, rng: np.random.Generator, n: int
    ) -> "_Draws":
        """Draw in antithetic pairs; without those where there is no density."""
        half = rng.standard_normal((n // 2, made.dim))
        u = np.concatenate([half, -half])
        values, grads = made.pulled_back(density.address, u)
        log_weights = values + 0.5 * (u * u).sum(axis=1) + 0.5 * made.dim * LOG_2PI
        fine = np.isfinite(log_weights) & np.isfinite(grads).all(axis=1)
        return cls(u[fine], log_weights[fine], (grads + u)[fine])


def _mended(
    density: Density, made: ConditionalMap, rng: np.random.Generator
) -> tuple[ConditionalMap, int]:
    """Mend the laws of the residuals by gradients at draws of the map, and the gradients of it."""
    k = made.n_globals
    n_features = 1 + k + k * (k + 1) // 2
    bends = n_features <= _MOST_FEATURES
    n_draws = 2 * max(128, 3 * (n_features if bends else 1 + k))
    n_gradients, before = 0, made
    for n_done in range(_ROUNDS):
        draws = _Draws.of(density, made, rng, n_draws)
        n_gradients += n_draws
        if len(draws.u) < n_draws // 2:
            return before, n_gradients
        least = np.quantile(draws.log_weights, TRIMMED)
        kept = draws.log_weights >= least
        # the first two find the place, the others average
        scores = draws.scores[kept] / max(1, n_done)
        laws = _step(made.laws, draws.u[kept], scores, bends=bends and n_done > 0)
        made = made.with_laws(laws)
    return made, n_gradients


def _step(laws: Laws, u: FloatArray, scores: FloatArray, *, bends: bool) -> Laws:
    """Laws after one regression of scores on draws."""
    k = len(laws.linear)
    shift, log_scale, skew = (np.array(of) for of in laws[:3])
    # locals: each on its own coordinate
    mine, own = u[:, k:], scores[:, k:]
    constant = own.mean(axis=0)
    slope = _bounded((own * mine).mean(axis=0) / (mine**2).mean(axis=0))
    square = mine**2 - 1.0
    third = _bounded(2.0 * (own * square).mean(axis=0) / (square**2).mean(axis=0))
    size = np.exp(log_scale[k:])
    shift[k:] += size * _bounded(constant / (1.0 - slope))
    log_scale[k:] -= 0.5 * np.log1p(-slope)
    skew[k:] = np.clip(skew[k:] + third / 3.0, -1.0, 1.0)
    # globals: on all of them, and on their products
    first, second = np.tril_indices(k)
    pairs = u[:, first] * u[:, second] - (first == second)
    design = np.column_stack([np.ones(len(u)), u[:, :k], *([pairs] if bends else [])])
    coefficients = np.linalg.lstsq(design, scores[:, :k])[0]
    slopes = 0.5 * (coefficients[1 : k + 1] + coefficients[1 : k + 1].T)
    eigenvalues, vectors = np.linalg.eigh(slopes)
    eigenvalues = _bounded(eigenvalues)
    moved = vectors @ ((vectors.T @ coefficients[0]) / (1.0 - eigenvalues))
    moved = _bounded(moved)
    root = np.linalg.cholesky((vectors / (1.0 - eigenvalues)) @ vectors.T)
    present = laws.linear + np.diag(np.exp(log_scale[:k]))
    shift[:k] += present @ moved
    present = present @ root
    linear = np.tril(present, -1)
    log_scale[:k] = np.log(np.diagonal(present))
    bend, scale, tail = np.array(laws.bend), np.array(laws.scale), np.array(laws.tail)
    if bends:
        thirds = np.zeros((k, k, k))
        for a, b, row in zip(first, second, coefficients[k + 1 :], strict=True):
            thirds[:, a, b] = thirds[:, b, a] = row if a != b else 2.0 * row
        thirds = _bounded(
            (thirds + thirds.transpose(1, 0, 2) + thirds.transpose(2, 1, 0)) / 3.0
        )
        sizes = np.exp(log_scale[:k])
        for i in range(k):
            skew[i] = np.clip(skew[i] + thirds[i, i, i] / 3.0, -1.0, 1.0)
            cube = u[:, i] ** 3 - 3.0 * u[:, i]
            fourth = 6.0 * _bounded((scores[:, i] * cube).mean() / (cube**2).mean())
            tail[i] = np.clip(tail[i] + fourth / 8.0, *_TAILS)
            for j in range(i):
                scale[i, j] += 0.5 * thirds[i, i, j]
                for h in range(j):
                    bend[i, j, h] += sizes[i] * thirds[i, j, h]
                bend[i, j, j] += 0.5 * sizes[i] * thirds[i, j, j]
                shift[i] -= 0.5 * sizes[i] * thirds[i, j, j]
    return Laws(shift, log_scale, skew, tail, linear, bend, scale)


def _bounded(step: FloatArray) -> FloatArray:
    return np.clip(step, -_LARGEST, _LARGEST)
