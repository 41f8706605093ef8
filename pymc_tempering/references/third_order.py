"""A transport map by the third derivatives of a fit's log weights: bends, scales and skews.

At draws of a fit, gradients of the log weights are regressed on the draws. Constants and slopes
mend its mean and covariance, as in :mod:`.full_rank`. What is left, times products of two
coordinates, are mean third derivatives, by Stein's identity. Each has one place in a triangular map
(:mod:`pymc_tempering.engine.path.transport`): of three coordinates, or of one and twice an earlier
one, it bends a mean; of twice one and an earlier one it changes a scale; of one alone it is its
skew. Draws of the map show what is left. A few rounds end at the target itself where it has such a
form, as posteriors of conjugate models do.

It takes gradients where :mod:`.map_of_draws` takes draws of the target, a hundred times fewer; but
it sees only what a fit's own draws meet.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.engine.path.residuals import LEAST_SKEW, MOST_SKEW
from pymc_tempering.engine.path.transport import MEAN, NOTHING, SCALE, SKEW, TransportMap
from pymc_tempering.references.local import Shape
from pymc_tempering.references.map_of_draws import terms_of
from pymc_tempering.references.quality import EXACT, GAIN, TRIMMED, has_gradient, trimmed_variance
from pymc_tempering.types import BoolArray, FloatArray, IntArray

MOST_DIM = 50
"""Coordinates beyond which it is not tried: there are D^3 / 6 third derivatives."""

_SIGMAS = 4.5
"""Standard errors of a third derivative, for its term to enter: of 20,000 that are nothing, one
in seven times is that large."""

_GAUSSIAN_ROUNDS = 2
"""Rounds that mend the Gaussian, before terms of third order enter."""

_MOST_SHIFT, _MOST_SLOPE = 0.5, 0.3
"""Steps of one round: of a mean or a skew, and of a slope or a log scale."""

THE_TARGET = EXACT / 10.0
"""V at which a shape is the target itself, and rounds end."""


@dataclass(frozen=True)
class _Map:
    """Coefficients by coordinate: x = root (z - mean), in the order of the terms.

    Of `bend` entry (i, j, k) is of the product of x_j and x_k in the mean of x_i, k <= j < i; of
    `scale` entry (i, j) of x_j in the logarithm of its scale, j < i.
    """

    mean: FloatArray
    root: FloatArray
    constant: FloatArray
    log_scale: FloatArray
    bend: FloatArray
    scale: FloatArray
    skew: FloatArray

    def shape(self) -> TransportMap:
        of_maps, of_scales = np.argwhere(self.bend).tolist(), np.argwhere(self.scale).tolist()
        rows = [
            *((i, MEAN, NOTHING, NOTHING, c) for i, c in enumerate(self.constant)),
            *((i, SCALE, NOTHING, NOTHING, c) for i, c in enumerate(self.log_scale)),
            *((i, MEAN, j, k, self.bend[i, j, k]) for i, j, k in of_maps),
            *((i, SCALE, j, NOTHING, self.scale[i, j]) for i, j in of_scales),
            *((i, SKEW, NOTHING, NOTHING, k) for i, k in enumerate(self.skew) if k),
        ]
        return TransportMap(self.mean, self.root, terms_of(rows))

    def gaussian(self) -> GaussianBase:
        """The Gaussian that a map without terms of third order is."""
        inverse = np.linalg.inv(self.root)
        scaled = inverse * np.exp(self.log_scale)
        cov = scaled @ scaled.T
        return GaussianBase(self.mean + inverse @ self.constant, np.linalg.cholesky(cov))


def _of_gaussian(fit: GaussianBase, order: IntArray) -> _Map:
    """Return the map of a Gaussian, with the Cholesky factor of its coordinates in this order."""
    dim = fit.dim
    root = np.zeros((dim, dim))
    lower = np.linalg.cholesky(fit.covariance[np.ix_(order, order)])
    root[:, order] = solve_triangular(lower, np.eye(dim), lower=True)
    zeros = np.zeros(dim)
    return _Map(
        fit.mean, root, zeros, zeros, np.zeros((dim,) * 3), np.zeros((dim, dim)), zeros.copy()
    )


@density_guard()
def third_order_fit(
    density: Density, fit: GaussianBase, rng: np.random.Generator, most: float = np.inf
) -> Shape:
    """Mend, bend and skew a Gaussian fit of 2 to 50 dimensions by gradients at its own draws.

    A round takes 500 gradients, or 60 for each dimension, and all of them ``most``. The shape is
    None where nothing is better than the fit as it is.
    """
    search = _Rounds(density, rng, most)
    present = _of_gaussian(fit, np.arange(fit.dim))
    entered = np.zeros((fit.dim,) * 3, dtype=bool)
    for n_done in range(10):
        seen = search.look(present)
        if seen is None or search.is_over:
            break
        if n_done < _GAUSSIAN_ROUNDS:
            present = _stepped(present, seen, entered)
        if n_done == _GAUSSIAN_ROUNDS - 1:
            present = _of_gaussian(present.gaussian(), _drivers_first(seen.third))
        elif n_done >= _GAUSSIAN_ROUNDS:
            entered |= np.abs(seen.third) > _SIGMAS * seen.error
            present = _stepped(present, seen, entered)
    if search.best is None:
        return Shape(None, search.lowest, search.n_gradients)
    best = search.best
    is_bent = best.bend.any() or best.scale.any() or best.skew.any()
    return Shape(best.shape() if is_bent else best.gaussian(), search.lowest, search.n_gradients)


class _Seen(NamedTuple):
    """Residuals of draws, gradients of log weights by them, and what these come to.

    Of `third`, mean third derivatives, and `error`, their standard errors, the shape is (D, D, D).
    """

    r: FloatArray
    gradient: FloatArray
    shift: FloatArray
    slope: FloatArray
    third: FloatArray
    error: FloatArray


class _Rounds:
    """Draws of one map after the other, and which of them was best."""

    def __init__(self, density: Density, rng: np.random.Generator, most: float) -> None:
        self._density, self._rng, self._most = density, rng, most
        self._n_pairs = max(500, 60 * density.dim) // 2
        self.n_gradients, self._n_rounds, self._in_vain = 0, 0, 0
        self.best: _Map | None = None
        self.lowest = self._first = np.inf

    @property
    def is_over(self) -> bool:
        """Whether five rounds gained too little, three were in vain, or nothing is left to gain."""
        hopeless = self._n_rounds >= 5 and self.lowest > GAIN * self._first
        return hopeless or self._in_vain >= 3 or self.lowest <= THE_TARGET

    def look(self, present: _Map) -> _Seen | None:
        """Draw from a map; None where that says nothing, or gradients are spent."""
        if self.n_gradients + 2 * self._n_pairs > self._most:
            return None
        shape = present.shape()
        half = self._rng.standard_normal((self._n_pairs, shape.dim))
        z = shape.from_base(np.concatenate([half, -half]))
        values, gradient = density_at(self._density.address, z)
        self.n_gradients += len(z)
        delta = values - shape.log_density(z)
        inside = has_gradient(delta, gradient)
        # moments of a Gaussian that is cut off further say little
        if inside.mean() < 0.8:
            return None
        variance = trimmed_variance(delta)
        self._first = self._first if self._n_rounds else variance
        if variance < self.lowest:
            self._in_vain = 0
            # the first is the fit as it is
            self.best, self.lowest = (present if self._n_rounds else None), variance
        else:
            self._in_vain += self._n_rounds > _GAUSSIAN_ROUNDS
        self._n_rounds += 1
        kept = inside & (delta >= np.quantile(delta[inside], TRIMMED))
        return _moments(*shape.pulled_back(z[kept], gradient[kept]))


def _moments(r: FloatArray, gradient: FloatArray) -> _Seen:
    n, dim = r.shape
    design = np.column_stack([np.ones(n), r])
    coefficients = np.linalg.lstsq(design, gradient)[0]
    left = gradient - design @ coefficients
    unit = (r - r.mean(axis=0)) / r.std(axis=0)
    squares, hermite = unit**2, unit**2 - 1.0
    third, variance = np.empty((dim,) * 3), np.empty((dim,) * 3)
    diagonal = np.arange(dim)
    for i in range(dim):
        third[i] = (left[:, i, None] * unit).T @ unit / n
        variance[i] = (left[:, i, None] ** 2 * squares).T @ squares / n
        third[i, diagonal, diagonal] = left[:, i] @ hermite / n
        variance[i, diagonal, diagonal] = left[:, i] ** 2 @ hermite**2 / n
    slope = 0.5 * (coefficients[1:] + coefficients[1:].T)
    error = np.sqrt(_symmetric(variance) / n)
    return _Seen(r, gradient, coefficients[0], slope, _symmetric(third), error)


def _symmetric(tensor: FloatArray) -> FloatArray:
    """Mean over the orders of three axes."""
    cyclic = tensor + tensor.transpose(1, 2, 0) + tensor.transpose(2, 0, 1)
    return np.asarray((cyclic + cyclic.transpose(0, 2, 1)) / 6.0)


def _drivers_first(third: FloatArray) -> IntArray:
    """Order in which those that change the scales of others come first, by how much."""
    of_scales = np.einsum("iij->ij", third) ** 2
    np.fill_diagonal(of_scales, 0.0)
    return np.argsort(-of_scales.sum(axis=0), kind="stable")


def _stepped(present: _Map, seen: _Seen, entered: BoolArray) -> _Map:
    """Map with what was seen of it mended, as far as terms have entered."""
    dim = seen.shift.size
    shift = np.clip(seen.shift, -_MOST_SHIFT, _MOST_SHIFT)
    slope = np.clip(seen.slope, -_MOST_SLOPE, _MOST_SLOPE)
    third = np.where(entered, np.clip(seen.third, -2.0 * _MOST_SLOPE, 2.0 * _MOST_SLOPE), 0.0)
    widening = 0.5 * np.diagonal(slope)
    skew = present.skew.copy()
    for i in np.flatnonzero(entered[(np.arange(dim),) * 3]):
        shift[i], widening[i], skew[i] = _own_step(
            seen.r[:, i], seen.gradient[:, i], present.skew[i]
        )
    first, second, third_index = np.indices((dim,) * 3)
    bends = np.where((third_index <= second) & (second < first), third, 0.0)
    # a view: of squares it is the half
    twice = np.einsum("ijj->ij", bends)
    twice *= 0.5
    unit = np.exp(present.log_scale)
    # Hermite polynomials, of mean zero
    constant = present.constant + unit * (shift - twice.sum(axis=1))
    return replace(
        present,
        root=present.root - np.tril(unit[:, None] * slope, -1) @ present.root,
        constant=constant,
        log_scale=present.log_scale + widening,
        bend=present.bend + unit[:, None, None] * bends,
        scale=present.scale + np.tril(0.5 * np.einsum("iij->ij", third), -1),
        skew=skew,
    )


def _own_step(r: FloatArray, gradient: FloatArray, k: float) -> tuple[float, float, float]:
    """Shift, change of the log scale, and the skew itself of one residual.

    By regression on how the log density's derivative changes with each of the three.
    """
    # products of larger ones are no numbers
    exponent = np.minimum(k * r, 40.0)
    grown = np.exp(exponent)
    if k:
        fall = np.expm1(exponent) / k
        by_skew = (exponent * grown - np.expm1(exponent)) / k**2
        series = 0.5 * r**2 + k * r**3 / 3.0
        # where the difference loses digits, and the series does not
        by_skew = np.where(np.abs(exponent) < 1e-3, series, by_skew)
    else:
        fall, by_skew = r, 0.5 * r**2
    design = np.column_stack([grown, fall + r * grown, -by_skew])
    # on the short side all of them grow beyond bounds
    weights = 1.0 / np.hypot(1.0, grown)
    shift, widening, change = np.linalg.lstsq(design * weights[:, None], gradient * weights)[0]
    # less than a map may have, as far as rounds may still add
    skew = _bounded(k + _bounded(change, _MOST_SHIFT), 0.7 * MOST_SKEW)
    return (
        _bounded(shift, _MOST_SHIFT),
        _bounded(widening, _MOST_SLOPE),
        skew if abs(skew) >= LEAST_SKEW else 0.0,
    )


def _bounded(value: float, most: float) -> float:
    return float(np.clip(value, -most, most))
