r"""Values that have a scale each, as the weights of a horseshoe, in coordinates of one width.

Of a weight written non-centred, :math:`\beta_i = \tau \lambda_i z_i`, the data tell more the larger
its scale is: z_i has the width of its prior where that is small, and one that falls with it where
it is large. There are as many scales as values, so that no map of few globals tells. In units of
its own width,

.. math:: z_i = \mu_i + \sigma_i (1 + h_i)^{-1/2} w_i, \qquad
          h_i = e^{b_i} / (e^{-a \cdot (1, y_i)} + e^{-c \cdot (1, y_i)}),

a value is partly centred (Papaspiliopoulos, Roberts & Sköld 2007, "A general framework for the
parametrization of hierarchical models", Statistical Science 22), as much as the curvature h of the
data says, in units of the prior's. The y_i are logarithms of scales: its own, and those that all
have in common. That of a regularised horseshoe, whose slab bounds the scales, has this form. Of
most scales the data tell next to nothing, so that they have the tails of their prior. Its own is

.. math:: y_{i1} = \ell + s v_i \sqrt{1 + (k v_i)^2}

by a coordinate that is nearly normal: logarithms of half-Cauchy scales fall like exponentials.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np
import pymc as pm
from scipy.optimize import least_squares

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import call_density, density_at
from pymc_tempering.jit import compiled
from pymc_tempering.model.compile import CompiledDensity, prior_points
from pymc_tempering.model.mapped import in_coordinates
from pymc_tempering.private.of_pymc import constant_values, is_log_transform
from pymc_tempering.references.hierarchy import positions_by_run
from pymc_tempering.types import FloatArray, IntArray

_LEAST_VALUES = 8  # fewer have few scales, which are globals
_N_PLACES, _N_VALUES = 32, 50  # draws of the scales, and values seen at each
_WIDER = 2.0  # spread that is added to the logarithms of scales, as drawn from the prior
_STEP = 1e-3  # in standard deviations of the prior, of differences of gradients
_MOST_EXPONENT, _MOST_PRODUCT = 200.0, 1e100  # of log curvatures, that products stay numbers

_LEAST_EXPLAINED = 0.75
"""Share of the variance of log curvatures that the scales have to explain."""


@dataclass(frozen=True, eq=False)
class LocalScales:
    """Map from coordinates of one width to those of the model.

    ``values`` (n,) are positions in the flat vector, ``scales`` (n, m) those of what their widths
    depend on. Rows of ``numbers`` (n, 3) are mean and log standard deviation of the prior, and b;
    those of ``slopes`` (2, 1 + m) are a and c, and those of ``laws`` (q, 3) are l, s and k of the
    first q scales, which are of one value each. ``place`` (D,) is one with mass, in the model's
    coordinates: ascents from elsewhere end where all scales are 0.

    Examples
    --------
    >>> numbers, slopes = np.zeros((1, 3)), np.array([[0.0, 2.0], [50.0, 0.0]])
    >>> numbers = numbers, slopes, np.array([[0.0, 1.0, 0.0]]), np.zeros(2)
    >>> made = LocalScales(np.array([0]), np.array([[1]]), *numbers)
    >>> made.from_base(np.array([[3.0, -9.0], [3.0, 9.0]])).round(4).tolist()
    [[3.0, -9.0], [0.0004, 9.0]]
    """

    values: IntArray
    scales: IntArray
    numbers: FloatArray
    slopes: FloatArray
    laws: FloatArray
    place: FloatArray

    @cached_property
    def digest(self) -> str:
        """Identity of the map: 16 hex digits."""
        parts = (self.values, self.scales, self.numbers, self.slopes, self.laws, self.place)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]

    @property
    def _own(self) -> IntArray:
        """Positions of scales of one value each, shape (n, q)."""
        return self.scales[:, : len(self.laws)]

    def _log_widths(self, z: FloatArray) -> FloatArray:
        """Logarithms of the widths, of shape (..., n), by scales of the model."""
        _, log_sd, own = self.numbers.T
        log_curvature = own + _log_curvature(self.slopes, z[..., self.scales])
        return log_sd - 0.5 * np.logaddexp(0.0, log_curvature)

    def from_base(self, u: FloatArray) -> FloatArray:
        """Map ``u`` of shape (..., D) to ``z``."""
        z = np.array(u, dtype=np.float64)
        location, size, tail = self.laws.T
        v = z[..., self._own]
        z[..., self._own] = location + size * v * np.sqrt(1.0 + (tail * v) ** 2)
        z[..., self.values] = self.numbers[:, 0] + np.exp(self._log_widths(z)) * z[..., self.values]
        return z

    def to_base(self, z: FloatArray) -> FloatArray:
        """Map ``z`` of shape (..., D) to ``u``, the inverse of :meth:`from_base`."""
        u = np.array(z, dtype=np.float64)
        away = u[..., self.values] - self.numbers[:, 0]
        u[..., self.values] = away / np.exp(self._log_widths(u))
        location, size, tail = self.laws.T
        y = (u[..., self._own] - location) / size
        u[..., self._own] = y * np.sqrt(2.0 / (1.0 + np.sqrt(1.0 + (2.0 * tail * y) ** 2)))
        return u

    def forward(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map ``u`` (n, D) to ``z``, with the log determinant of the map, shape (n,)."""
        z, (_, size, tail) = self.from_base(u), self.laws.T
        square = (tail * u[..., self._own]) ** 2
        slopes = np.log(size) + np.log1p(2.0 * square) - 0.5 * np.log1p(square)
        return z, self._log_widths(z).sum(axis=-1) + slopes.sum(axis=(-2, -1))


def _log_curvature(slopes: FloatArray, y: FloatArray) -> FloatArray:
    """Log curvature by logarithms of scales, (..., m) to (...)."""
    planes = -np.clip(slopes[:, 0] + y @ slopes[:, 1:].T, -_MOST_EXPONENT, _MOST_EXPONENT)
    return -np.logaddexp(planes[..., 0], planes[..., 1])


@compiled(borrows=True, inside=True)
def _bounded(exponent: float) -> float:
    return min(max(exponent, -_MOST_EXPONENT), _MOST_EXPONENT)


@compiled
def _density_scaled(
    address: int, values: IntArray, scales: IntArray, numbers: FloatArray, slopes: FloatArray,
    laws: FloatArray, u: FloatArray, grad: FloatArray,
) -> float:  # fmt: skip
    """Log density by ``u`` (D,) of that at an address, and its gradient."""
    z, log_det, product = u.copy(), 0.0, 1.0
    n, m = scales.shape
    # widths, and how much of minus twice their logarithm is of either plane
    widths, shares = np.empty(n), np.empty((n, 2))
    for i in range(n):
        for j in range(len(laws)):
            v = u[scales[i, j]]
            square = (laws[j, 2] * v) ** 2
            z[scales[i, j]] = laws[j, 0] + laws[j, 1] * v * np.sqrt(1.0 + square)
            product *= (1.0 + square) / (laws[j, 1] * (1.0 + 2.0 * square)) ** 2
        first, second = slopes[0, 0], slopes[1, 0]
        for j in range(m):
            first += slopes[0, 1 + j] * z[scales[i, j]]
            second += slopes[1, 1 + j] * z[scales[i, j]]
        a, c = np.exp(-_bounded(first)), np.exp(-_bounded(second))
        sd, own = numbers[i, 1], numbers[i, 2]
        both = a + c
        share = own / (both + own) / both
        shares[i, 0], shares[i, 1] = a * share, c * share
        # one logarithm for many
        square = (1.0 + own / both) / (sd * sd)
        product *= square
        widths[i] = 1.0 / np.sqrt(square)
        z[values[i]] = numbers[i, 0] + widths[i] * u[values[i]]
        if not 1.0 / _MOST_PRODUCT < product < _MOST_PRODUCT or i == n - 1:
            log_det -= 0.5 * np.log(product)
            product = 1.0
    value = call_density(address, z, grad)
    for i in range(n):
        grad[values[i]] *= widths[i]
        half = 0.5 * (grad[values[i]] * u[values[i]] + 1.0)
        for j in range(m):
            slope = shares[i, 0] * slopes[0, 1 + j] + shares[i, 1] * slopes[1, 1 + j]
            grad[scales[i, j]] -= half * slope
        # all that depends on a value's own scale has been added
        for j in range(len(laws)):
            v, curve = u[scales[i, j]], laws[j, 2] ** 2
            square = curve * v * v
            grad[scales[i, j]] *= laws[j, 1] * (1.0 + 2.0 * square) / np.sqrt(1.0 + square)
            grad[scales[i, j]] += curve * v * (4.0 / (1.0 + 2.0 * square) - 1.0 / (1.0 + square))
    return value + log_det


def _by_pointers(  # noqa: PLR0913 - arrays and their shapes, one by one
    u_pointer: Any, grad_pointer: Any, target: Any, dim: Any, n: Any, m: Any, q: Any,
    values: Any, scales: Any, numbers: Any, slopes: Any, laws: Any,
) -> Any:  # fmt: skip
    return _density_scaled(
        target, numba.carray(values, (n,)), numba.carray(scales, (n, m)),
        numba.carray(numbers, (n, 3)), numba.carray(slopes, (2, 1 + m)),
        numba.carray(laws, (q, 3)),
        numba.carray(u_pointer, (dim,)), numba.carray(grad_pointer, (dim,)),
    )  # fmt: skip


def scaled(density: CompiledDensity, made: LocalScales) -> CompiledDensity:
    """Give a density by coordinates in which values have one width each; log Z is the same."""
    numbers = np.column_stack([made.numbers[:, 0], np.exp(made.numbers[:, 1:])])
    of_map = made.values, made.scales, numbers, made.slopes, made.laws
    arrays: Sequence[Any] = [np.ascontiguousarray(array) for array in of_map]
    sizes = density.dim, *made.scales.shape, len(made.laws)
    density = replace(density, start=made.place)
    return in_coordinates(density, made, scaled, _by_pointers, sizes, arrays)


def find_local_scales(density: CompiledDensity) -> tuple[LocalScales | None, int]:
    """Find normal values that have a scale each, and the gradients that it took.

    By regression of their log curvature on logarithms of scales that are drawn from the prior. The
    same for the same model, whatever the seed of a run.
    """
    if density.no_gradient or density.calls_python:
        return None, 0
    model, sizes = density.model, density.points.sizes
    rvs = [model.values_to_rvs[value] for value in model.value_vars]
    ends = np.cumsum(sizes)
    places = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    logs = [i for i, rv in enumerate(rvs) if is_log_transform(model.rvs_to_transforms[rv])]
    common = [places[i] for i in logs if sizes[i] == 1]
    best, explained, n_gradients = None, _LEAST_EXPLAINED, 0
    for rv, own in zip(rvs, places, strict=True):
        each = [places[i] for i in logs if sizes[i] == own.size]
        # most of the model, or the map of a hierarchy has more to gain
        few = own.size < _LEAST_VALUES or 2 * own.size * (1 + len(each)) <= density.dim
        if few or not each or (prior := _prior(rv)) is None:
            continue
        scales = np.stack([*each, *(np.repeat(of, own.size) for of in common)], axis=1)
        prior = np.broadcast_to(prior, (own.size, 2))
        found, share, n = _regressed(density, own, scales, prior, len(each))
        n_gradients += n
        if share > explained:
            best, explained = found, share
    if best is not None:
        best, n = _calibrated(density, best, np.random.default_rng(0))
        n_gradients += n
    return best, n_gradients


def _prior(rv: Any) -> FloatArray | None:
    """Means and standard deviations (n, 2) of a normal variable, if no other one changes these."""
    if rv.owner is None or not isinstance(rv.owner.op, type(pm.Normal.rv_op)):
        return None
    moments = constant_values(list(rv.owner.op.dist_params(rv.owner)))
    if moments is None:
        return None
    return np.stack(np.broadcast_arrays(*map(np.ravel, moments)), axis=1)


@np.errstate(all="ignore")
def _regressed(
    density: CompiledDensity, values: IntArray, scales: IntArray, prior: FloatArray, n_own: int
) -> tuple[LocalScales | None, float, int]:
    """Log curvature of the data by logarithms of scales; what they explain of it, and gradients."""
    rng, (mean, sd) = np.random.default_rng(0), prior.T
    drawn = prior_points(density, rng, _N_PLACES)
    z = np.repeat(density.start[None], len(drawn) + 1, axis=0)
    z[:, values] = mean
    drivers = np.unique(scales)
    # data may ask for scales that few draws of the prior have
    z[1:, drivers] = drawn[:, drivers] + rng.normal(0.0, _WIDER, (len(drawn), len(drivers)))
    chosen = rng.permutation(len(values))[:_N_VALUES]
    seen = _curvatures(density, z[1:], values[chosen], sd[chosen])
    here = _curvatures(density, z[:1], values, sd)[0]
    n_gradients = len(drawn) * (1 + len(chosen)) + 1 + len(values)
    y = z[1:, scales[chosen]]
    # where the data tell nothing, how little does not matter
    fine = np.isfinite(seen) & (seen > _STEP)
    root, y, logs = np.sqrt(seen / (1.0 + seen))[fine], y[fine], np.log(seen[fine])
    if len(logs) < 10 * y.shape[-1]:
        return None, 0.0, n_gradients
    design = np.column_stack([root, y * root[:, None]])
    first = np.linalg.lstsq(design, logs * root)[0]
    # bounded by no more than what was seen
    start = np.concatenate([first, [logs.max()], np.zeros(y.shape[-1])])

    def left(x: FloatArray) -> FloatArray:
        return root * (logs - _log_curvature(x.reshape(2, -1), y))

    found = least_squares(left, start).x
    slopes, total = found.reshape(2, -1), np.cov(logs, aweights=root**2, ddof=0)
    # a spread of a tenth is nothing to explain, and may be rounding
    share = (total - (left(found) ** 2).sum() / (root**2).sum()) / (total + 0.01)
    own = np.log(here) - _log_curvature(slopes, density.start[scales])
    own = np.where(here > _STEP**2, own, 0.0)
    numbers = np.stack([mean, np.log(sd), own], axis=1)
    laws = np.array([_law(drawn[:, scales[:, j]].ravel()) for j in range(n_own)])
    made = LocalScales(values, scales, numbers, slopes, laws, density.start)
    return made, float(share), n_gradients


def _law(draws: FloatArray) -> FloatArray:
    """Location, size and tail of logarithms of scales, by quantiles of draws of the prior (n,)."""
    # of a standard normal's -2, -1, 0, 1 and 2
    far, near, middle, near_2, far_2 = np.quantile(draws, [0.02275, 0.15866, 0.5, 0.84134, 0.97725])
    one, two = 0.5 * (near_2 - near), 0.25 * (far_2 - far)
    growth = np.clip((two / one) ** 2, 1.0, 3.0)
    square = (growth - 1.0) / (4.0 - growth)
    return np.array([middle, one / np.sqrt(1.0 + square), np.sqrt(square)])


@np.errstate(all="ignore")
def _calibrated(
    density: CompiledDensity, made: LocalScales, rng: np.random.Generator
) -> tuple[LocalScales, int]:
    """Scales by the curvature at draws of a run, as logits are far from 0 there; and its gradients.

    With that at the prior's mean those of a logistic regression were e^2 too large.
    """
    inner = scaled(density, made)
    near = GaussianBase(inner.start, np.ones(inner.dim))
    u, n_gradients = positions_by_run(inner, near, rng)
    z = made.from_base(u[:: max(len(u) // _N_PLACES, 1)])
    chosen = rng.permutation(len(made.values))[:_N_VALUES]
    seen = _curvatures(density, z, made.values[chosen], np.exp(made.numbers[chosen, 1]))
    expected = made.numbers[chosen, 2] + _log_curvature(made.slopes, z[:, made.scales[chosen]])
    left, weights = np.log(seen) - expected, seen / (1.0 + seen)
    fine = np.isfinite(left) & (seen > _STEP)
    shift = np.average(left[fine], weights=weights[fine]) if fine.any() else 0.0
    numbers = made.numbers + np.array([0.0, 0.0, shift])
    made = replace(made, numbers=numbers, place=made.from_base(u[-1]))
    return made, n_gradients + len(z) * (1 + len(chosen))


def _curvatures(
    density: CompiledDensity, z: FloatArray, values: IntArray, sd: FloatArray
) -> FloatArray:
    """Curvature of the data along values, in units of the prior's, at places (m, D): (m, n)."""
    moved = np.repeat(z[:, None], len(values) + 1, axis=1)
    entries = np.arange(len(values))
    moved[:, entries, values] += _STEP * sd
    grads = density_at(density.address, moved.reshape(-1, density.dim))[1].reshape(moved.shape)
    change = grads[:, -1:, values] - grads[:, entries, values][:, None]
    return np.asarray(change[:, 0] * sd / _STEP - 1.0)
