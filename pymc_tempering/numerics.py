"""Stable numerical pieces shared by samplers and estimators.

Scalar functions are compiled with numba so that kernels can call them; functions of whole arrays of
log weights are NumPy. Nothing here knows a model or keeps a generator.
"""

import functools
import math
import warnings
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  brings its own BLAS, which has to be there to be limited
from arviz_stats.base import array_stats
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp
from threadpoolctl import ThreadpoolController

from pymc_tempering.jit import compiled
from pymc_tempering.private.of_numba import bounded_integer
from pymc_tempering.types import FloatArray, IntArray

LOG_2PI = float(np.log(2.0 * np.pi))

MAX_PARETO_K = 0.7
"""Tail index beyond which neither the mean of importance weights nor its error can be trusted."""


def log_t_constant(dof: ArrayLike, dim: int = 1) -> FloatArray:
    """Log density of a standard multivariate t in `dim` coordinates at its centre, in nats.

    Examples
    --------
    >>> np.exp(log_t_constant([1.0, 2.0])).round(4)  # 1 / pi and 1 / sqrt(8)
    array([0.3183, 0.3536])
    """
    dof = np.asarray(dof, dtype=np.float64)
    half = 0.5 * dof
    constant = gammaln(half + 0.5 * dim) - gammaln(half) - 0.5 * dim * np.log(np.pi * dof)
    return np.asarray(constant)


@compiled
def log_exprel(x: float) -> float:
    r"""Return :math:`\log((e^x - 1) / x)`, the log integral of :math:`e^{xt}` over t in [0, 1].

    Accurate to a few units in the last place for every x; ``inf`` gives ``inf``, ``-inf`` that.

    Examples
    --------
    >>> log_exprel(0.0), round(log_exprel(1.0), 6)
    (0.0, 0.541325)
    """
    if math.isinf(x):
        return x
    if abs(x) < 0.1:
        # Taylor series of log(sinh(x/2) / (x/2)), an even function, plus x/2.
        y = x * x
        even = 1.0 / 24.0 - y * (
            1.0 / 2880.0 - y * (1.0 / 181440.0 - y * (1.0 / 9676800.0 - y / 479001600.0))
        )
        return 0.5 * x + y * even
    a = abs(x)
    decay = math.log(-math.expm1(-a)) - math.log(a)
    return x + decay if x > 0.0 else decay


@compiled
def _distance_from_dense_end(v: float, w: float, rate: float) -> float:
    # -log(v + w e^-rate) / rate with w = 1 - v; the two forms avoid cancellation near 1 and near 0.
    drop = w * math.expm1(-rate)
    if drop > -0.5:
        return -math.log1p(drop) / rate
    inside = v + w * math.exp(-rate)
    if inside <= 0.0:
        return 1.0
    return -math.log(inside) / rate


@compiled
def truncated_exponential_icdf(uniform: float, slope: float) -> float:
    """Inverse distribution function of the density on [0, 1] proportional to ``exp(slope * x)``.

    With ``slope = delta`` minus the slope of the bias, this draws the inverse temperature given the
    position (Graham & Storkey 2017, eq. 18; their rate is minus our slope). Any slope is allowed; 0
    gives the uniform density, ``-inf`` the point 0, ``inf`` the point 1. The absolute error is near
    1e-16, and so is the relative error close to 0 where ``slope < 0``.

    Examples
    --------
    >>> truncated_exponential_icdf(0.25, 0.0), round(truncated_exponential_icdf(0.5, -2.0), 6)
    (0.25, 0.28311)
    """
    rate = abs(slope)
    if rate < 1e-8:
        x = uniform + 0.5 * slope * uniform * (1.0 - uniform)
    elif math.isinf(rate):
        x = 1.0 if slope > 0.0 else 0.0
    elif slope > 0.0:
        x = 1.0 - _distance_from_dense_end(uniform, 1.0 - uniform, rate)
    else:
        x = _distance_from_dense_end(1.0 - uniform, uniform, rate)
    return min(max(x, 0.0), 1.0)


@compiled
def log_sum_exp(values: FloatArray) -> float:
    """Log of the sum of exponentials of log terms of shape (n,); ``-inf`` for an empty array.

    For compiled code, and where a root is searched: ``scipy.special.logsumexp``, which serves
    everywhere else, takes 60 microseconds for however few numbers.

    Examples
    --------
    >>> round(log_sum_exp(np.array([1000.0, 1000.0, -np.inf])), 4)
    1000.6931
    """
    top = -math.inf
    for value in values:
        if math.isnan(value):
            return math.nan
        top = max(top, value)
    if math.isinf(top):
        return top
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)


def log_mean_exp(values: ArrayLike, axis: int | None = None) -> FloatArray:
    """Log of the mean of exponentials of log terms (nats), over all axes by default.

    A term of ``-inf`` counts in the mean and adds nothing to the sum.

    Examples
    --------
    >>> round(float(log_mean_exp([0.0, -np.inf])), 6)
    -0.693147
    """
    array = np.asarray(values, dtype=float)
    n = array.size if axis is None else array.shape[axis]
    return np.asarray(logsumexp(array, axis=axis) - math.log(n))


def weight_ess(log_weights: ArrayLike) -> float:
    """Effective number of independent importance weights (Kish), from log weights (nats).

    Between 1 (one weight holds all) and n (equal weights); 0 if every weight is zero and ``nan`` if
    one is not a number. Autocorrelation is not taken into account.

    Examples
    --------
    >>> round(weight_ess([0.0, 0.0, -np.inf]), 6)
    2.0
    """
    array = np.asarray(log_weights, dtype=float).ravel()
    top = array.max(initial=-np.inf)
    if top == -np.inf:
        return 0.0
    weights = np.exp(array - top)
    return float(weights.sum() ** 2 / (weights**2).sum())


def pareto_k(log_weights: ArrayLike) -> float:
    """Tail index of importance weights (log weights in nats), by ArviZ's generalised Pareto fit.

    The mean of the weights has finite variance where the index is below 0.5; above 0.7 neither the
    mean nor its error can be trusted (Vehtari et al. 2024, Pareto smoothed importance sampling).
    The fit treats weights as independent. ``-inf`` where the largest weights are all equal; ``nan``
    with fewer than 25 weights, a weight that is not a number, or no weight above zero.

    Examples
    --------
    >>> rng = np.random.default_rng(3)
    >>> 0.6 < pareto_k(0.8 * rng.exponential(size=20_000)) < 1.0
    True
    """
    array = np.asarray(log_weights, dtype=float).ravel()
    top = array.max(initial=-np.inf)
    if array.size < 25 or not np.isfinite(top):
        return math.nan
    # A weight below e^-700 of the largest is zero to the fit, and a finite number keeps it so.
    array = np.maximum(array - top, -700.0)
    n_tail = math.floor(min(array.size / 5, 3 * math.sqrt(array.size)))
    tail = np.partition(array, array.size - n_tail - 1)[-n_tail:]
    if np.ptp(tail) < 1e-12:
        return -math.inf
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        # `psislw` takes log likelihoods, the negative log weights of leave-one-out. The function
        # named pareto_khat is no use: arviz_stats 1.3.3 drops its log_weights and fits the logs.
        _, k = array_stats.psislw(-array, r_eff=1.0)
    return float(k)


def systematic_indices(weights: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Draw n indices in proportion to weights, each within one of its expected number, sorted.

    One uniform number is drawn, which makes the expected numbers exact.

    Examples
    --------
    >>> systematic_indices(np.array([2.0, 1.0, 1.0]), 4, np.random.default_rng(1)).tolist()
    [0, 0, 1, 2]
    """
    ends = np.cumsum(weights)
    points = (np.arange(n) + rng.uniform()) * (ends[-1] / n)
    # the last point may reach the sum by rounding, and must not find an index without weight
    return np.minimum(np.searchsorted(ends, points, side="right"), np.flatnonzero(weights)[-1])


_bounded_integer = bounded_integer()


@compiled(borrows=True, inside=True)
def draw_below(n: int, rng: np.random.Generator) -> int:
    """Draw one of 0 to ``n - 1``: what ``rng.integers(n)`` draws, and nothing where n is 1.

    numba's `integers` makes an array for each number, and is for all types, ranges and sizes: it
    takes the better part of a second to compile. n is below 2**32.
    """
    if n == 1:
        return 0
    # signed, as the 0 is: numba makes a floating-point number of either
    drawn: Any = np.int64(_bounded_integer(rng.bit_generator, n - 1))
    return drawn


@functools.cache
def _controller() -> ThreadpoolController:
    # it reads the list of everything that the process has loaded, which takes milliseconds
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread inside: sums of several depend on their number, draws must not."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited
