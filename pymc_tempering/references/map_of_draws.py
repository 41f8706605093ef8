"""A transport map from draws: which coordinates bend others, by how much, and with which tails.

Few rough draws are enough: with 300 of them a map of twelve bananas, or of a funnel of 30
coordinates, overlaps with the target as a Gaussian fits a Gaussian (figures in
benchmarks/README.md). Terms enter one by one where noise cannot explain them. Regressions are
weighted by the scales found so far: the draws of a funnel's mouth say next to nothing about its
narrow end.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import kurtosis

from pymc_tempering.engine.path.transport import (
    MEAN,
    NOTHING,
    SCALE,
    TAIL,
    Terms,
    TransportMap,
    products,
)
from pymc_tempering.numerics import LOG_2PI, log_t_constant
from pymc_tempering.types import BoolArray, FloatArray, IntArray

MOST_DIM = 100
"""Coordinates beyond which it is not tried."""

_SIGMAS = 4.0
"""Standard errors of a correlation, for a term to enter: of 7000 correlations with nothing, one is
that large every second time."""

_TINY = 1e-12  # keeps quotients and logarithms finite


def map_of_draws(draws: FloatArray, n_effective: float) -> TransportMap | None:
    """Fit a transport map to draws (n, D) of one mode, ``n_effective`` of them independent.

    None where nothing bends and no tail is heavy, or there are too few draws or too many
    coordinates to tell.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> log_scale = rng.normal(0.0, 3.0, 500)
    >>> funnel = np.column_stack([rng.normal(0.0, np.exp(log_scale / 2.0)), log_scale])
    >>> terms = map_of_draws(funnel, 500.0).terms
    >>> terms.what[terms.what[:, 2] != NOTHING].tolist()  # the scale, by the other one
    [[1, 1, 0, -1]]
    >>> map_of_draws(rng.normal(size=(500, 2)), 500.0) is None
    True
    """
    finite = draws[np.isfinite(draws).all(axis=1)]
    n, dim = finite.shape
    # a correlation of 1 is needed at most
    if not 1 < dim <= MOST_DIM or min(n, n_effective) <= 1.2 * _SIGMAS**2:
        return None
    # more than a thousand draws only cost more
    kept = finite[np.linspace(0, n - 1, min(n, 1000)).astype(np.int64)]
    mean, sd = kept.mean(axis=0), kept.std(axis=0)
    if not (sd > 0.0).all():
        return None
    n_independent = min(n_effective, float(len(kept)))
    t = (kept - mean) / sd
    gains = _gains(t, _SIGMAS / np.sqrt(n_independent))
    if not gains.any() and not _tails(t, n_independent):
        return None
    order = _order(gains)
    t, drives = t[:, order], gains[np.ix_(order, order)] > 0.0
    x, root = np.empty_like(t), np.zeros((dim, dim))
    rows: list[_Row] = []
    for i in range(dim):
        found = _fit_coordinate(t[:, i], x[:, :i], drives[:i, i], n_independent)
        root[i] = -found.linear @ root[:i]
        root[i, i] = 1.0
        gaussian_fit = t[:, i] - x[:, :i] @ found.linear
        unit = gaussian_fit.std()
        x[:, i], root[i] = gaussian_fit / unit, root[i] / unit
        rows += [(i, MEAN, a, b, c / unit) for a, b, c in found.mean]
        rows += [(i, SCALE, a, b, c) for a, b, c in found.scale]
        rows.append((i, SCALE, NOTHING, NOTHING, found.log_scale - np.log(unit)))
    bends = any(b != NOTHING or (kind == SCALE and a != NOTHING) for _, kind, a, b, _ in rows)
    in_z = np.empty_like(root)
    in_z[:, order] = root
    terms = terms_of(rows)
    # coordinates that others give to all digits leave nothing to fit
    if not np.isfinite(terms.coefficients).all() or not np.linalg.slogdet(in_z / sd)[0]:
        return None
    normal = TransportMap(mean, in_z / sd, terms)
    tails = _tails(normal.to_base(kept), n_independent)
    if not bends and not tails:
        return None
    return replace(normal, terms=terms_of(_with_tails(rows, tails)))


type _Row = tuple[int, int, int, int, float]


def terms_of(rows: Sequence[_Row]) -> Terms:
    """Terms in the order that a map takes, of output, kind, two factors and coefficient each."""
    rows = sorted(rows, key=lambda row: row[:2])
    return Terms(np.array([row[:4] for row in rows]), np.array([row[4] for row in rows]))


def _tails(y: FloatArray, n_independent: float) -> dict[int, tuple[float, float, float]]:
    """Degrees of freedom, location and log scale, by coordinate, where y (n, D) has heavy tails.

    A t that is so much more likely has about `_SIGMAS` standard errors of excess kurtosis.
    """
    able = np.flatnonzero(kurtosis(y) > np.sqrt(24.0 / n_independent))
    if not able.size:
        return {}
    found = student_fits(y[:, able])
    heavy = found.gain * n_independent > 0.5 * _SIGMAS**2
    return {
        int(able[i]): (float(found.dof[i]), float(found.location[i]), float(np.log(found.scale[i])))
        for i in np.flatnonzero(heavy)
    }


def _with_tails(rows: Sequence[_Row], tails: dict[int, tuple[float, float, float]]) -> list[_Row]:
    """Rows of terms with those of heavy tails, and constants that go with them."""
    driven = {i for i, kind, a, *_ in rows if kind == SCALE and a != NOTHING}
    log_scales = {i: c for i, kind, a, _, c in rows if kind == SCALE and a == NOTHING}
    changed = []
    for i, kind, a, b, c in rows:
        if i in tails and a == b == NOTHING:
            _, location, log_scale = tails[i]
            if kind == SCALE:
                c += log_scale
            elif i not in driven:
                c += location * np.exp(log_scales[i])
        changed.append((i, kind, a, b, c))
    return changed + [(i, TAIL, NOTHING, NOTHING, dof) for i, (dof, *_) in tails.items()]


def _gains(t: FloatArray, threshold: float) -> FloatArray:
    """Nats a draw by which one coordinate explains another, beyond what is linear, shape (D, D).

    Entry (j, i): by bending i's mean, or by changing its scale. Both show in the same third
    moment, so that a wrong direction is told from the right one by the sizes alone.
    """
    dim = t.shape[1]
    gains = np.zeros((dim, dim))
    for j in range(dim):
        powers = np.linalg.qr(np.column_stack([np.ones(len(t)), t[:, j], t[:, j] ** 2]))[0]
        gaussian_fit = t - powers[:, :2] @ (powers[:, :2].T @ t)
        square = powers[:, 2] @ gaussian_fit
        share = square**2 / np.maximum((gaussian_fit**2).sum(axis=0), _TINY)
        mapped = -0.5 * np.log1p(-np.minimum(share, 1.0 - _TINY))
        logs = _log_size(gaussian_fit - powers[:, 2:] * square)
        logs -= logs.mean(axis=0)
        slope = powers[:, 1] @ logs
        correlation = np.abs(slope) / np.maximum(np.sqrt((logs**2).sum(axis=0)), _TINY)
        gains[j] = np.where(np.sqrt(share) > threshold, mapped, 0.0)
        # the information on a logarithm of a scale is 2 for each draw
        gains[j] += np.where(correlation > threshold, slope**2 / len(t), 0.0)
        gains[j, j] = 0.0
    return gains


def _order(gains: FloatArray) -> IntArray:
    """Order of the coordinates in which those that bend most, and are bent least, come first."""
    left, order = list(range(len(gains))), []
    while left:
        among = gains[np.ix_(left, left)]
        order.append(left.pop(int(np.argmax(among.sum(axis=1) - among.sum(axis=0)))))
    return np.array(order)


class _Coordinate(NamedTuple):
    """What bends a coordinate: products by their factors, with coefficients."""

    linear: FloatArray
    mean: list[tuple[int, int, float]]
    scale: list[tuple[int, int, float]]
    log_scale: float


def _fit_coordinate(
    t: FloatArray, x: FloatArray, drives: BoolArray, n_independent: float
) -> _Coordinate:
    """Regress a coordinate's mean and the logarithm of its scale on those before it.

    Products are tried where one of the factors was seen to drive it.
    """
    n, i = x.shape
    threshold = _SIGMAS / np.sqrt(n_independent)
    linear = np.column_stack([np.arange(i), np.full(i, NOTHING)])
    pairs = [(a, b) for b in range(i) for a in range(b + 1) if drives[a] or drives[b]]
    factors = np.concatenate([linear, np.array(pairs, dtype=np.int64).reshape(-1, 2)])
    candidates = products(x, *factors.T)
    # a term needs ten draws
    most = int(n_independent / 10.0)
    logs = _log_size(t - np.median(t))
    chosen = np.flatnonzero(np.abs(_correlations(x, logs, np.ones(n))) > threshold)
    design = np.column_stack([np.ones(n), x[:, chosen[:most]]])
    log_scale = design @ np.linalg.lstsq(design, logs)[0]
    for _ in range(3):
        # bounds keep weights finite
        weights = np.exp(-2.0 * np.clip(log_scale - log_scale.mean(), -12.0, 12.0))
        weights /= weights.mean()
        chosen, coefficients = _forward(candidates, t, weights, threshold, most)
        residual = t - coefficients[0] - candidates[:, chosen] @ coefficients[1:]
        # less the mean of log|y| for a standard normal y
        logs = _log_size(residual) + 0.6351814227307392
        drivers, start = _forward(x, logs, np.ones(n), threshold, most)
        design = np.column_stack([np.ones(n), x[:, drivers]])
        slopes = _log_scale_coefficients(residual, design, start)
        log_scale = design @ slopes
        if not drivers.size:
            break
    is_linear = chosen < i
    gaussian_fit = np.zeros(i)
    gaussian_fit[chosen[is_linear]] = coefficients[1:][is_linear]
    bends = zip(factors[chosen], coefficients[1:], strict=True)
    return _Coordinate(
        gaussian_fit,
        [(NOTHING, NOTHING, float(coefficients[0]))]
        + [(int(a), int(b), float(c)) for (a, b), c in bends if b != NOTHING],
        [(int(a), NOTHING, float(c)) for a, c in zip(drivers, slopes[1:], strict=True)],
        float(slopes[0]),
    )


def _log_size(values: FloatArray) -> FloatArray:
    return 0.5 * np.log(values**2 + _TINY)


def _correlations(columns: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted correlations of columns (n, T) with values (n,), shape (T,)."""
    share = weights / weights.sum()
    centred = columns - share @ columns
    wanted = values - share @ values
    sizes = np.sqrt((share @ centred**2) * (share @ wanted**2))
    return np.asarray((share * wanted) @ centred / np.maximum(sizes, _TINY))


def _forward(
    candidates: FloatArray, values: FloatArray, weights: FloatArray, threshold: float, most: int
) -> tuple[IntArray, FloatArray]:
    """Columns that enter a weighted regression, four at a time at most, and the coefficients.

    The coefficient of a constant comes first.
    """
    chosen = np.zeros(0, dtype=np.int64)
    root = np.sqrt(weights)
    while True:
        design = np.column_stack([np.ones(len(values)), candidates[:, chosen]])
        coefficients = np.linalg.lstsq(design * root[:, None], values * root)[0]
        room = min(most - chosen.size, 4)
        if room <= 0 or not candidates.shape[1]:
            return chosen, coefficients
        sizes = np.abs(_correlations(candidates, values - design @ coefficients, weights))
        sizes[chosen] = 0.0
        best = np.argsort(-sizes)[:room]
        best = best[sizes[best] > max(threshold, 0.5 * sizes.max())]
        if not best.size:
            return chosen, coefficients
        chosen = np.concatenate([chosen, best])


def _log_scale_coefficients(
    residual: FloatArray, design: FloatArray, start: FloatArray
) -> FloatArray:
    """Most likely coefficients of the logarithm of a normal's scale, by damped Fisher scoring.

    Twelve steps at most, each halved up to eight times.
    """
    squares = residual**2
    if design.shape[1] == 1:
        return np.array([0.5 * np.log(squares.mean() + _TINY)])
    information = 2.0 * design.T @ design + 1e-3 * np.eye(design.shape[1])

    def loss(coefficients: FloatArray) -> float:
        log_scale = np.clip(design @ coefficients, -50.0, 50.0)
        return float((0.5 * squares * np.exp(-2.0 * log_scale) + log_scale).sum())

    coefficients, lowest = np.array(start), loss(start)
    for _ in range(12):
        log_scale = np.clip(design @ coefficients, -50.0, 50.0)
        score = design.T @ (squares * np.exp(-2.0 * log_scale) - 1.0)
        step = np.linalg.solve(information, score)
        largest = np.abs(design @ step).max()
        if largest < 1e-6:
            return coefficients
        step *= min(1.0, 1.5 / largest)
        for _ in range(8):
            if (value := loss(coefficients + step)) <= lowest:
                coefficients, lowest = coefficients + step, value
                break
            step *= 0.5
        else:
            return coefficients
    return coefficients


class StudentFits(NamedTuple):
    """Most likely t densities, shape (D,) each.

    ``gain`` are nats a draw by which the t is more likely than the most likely Gaussian; negative
    where tails are no heavier.
    """

    dof: FloatArray
    location: FloatArray
    scale: FloatArray
    gain: FloatArray


def student_fits(y: FloatArray) -> StudentFits:
    """Fit a t density to each coordinate of draws (n, D), none of them constant.

    By twenty steps of the EM algorithm for each of a few degrees of freedom (Lange, Little & Taylor
    1989, "Robust statistical modeling using the t distribution", JASA 84).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> y = np.column_stack([3.0 + 2.0 * rng.standard_cauchy(1000), rng.normal(size=1000)])
    >>> found = student_fits(y)
    >>> bool(found.gain[0] > 1.0 > 0.01 > found.gain[1])
    True
    >>> [float(of[0].round(0)) for of in found[:3]]
    [1.0, 3.0, 2.0]
    """
    centre = np.median(y, axis=0)
    # a standard normal's median absolute deviation is its upper quartile
    spread = np.maximum(np.median(np.abs(y - centre), axis=0) / ndtri(0.75), _TINY)
    best, found = np.full(y.shape[1], -np.inf), np.zeros((3, y.shape[1]))
    for dof in (0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0):
        location, scale = centre, spread
        for _ in range(20):
            weights = (dof + 1.0) / (dof + ((y - location) / scale) ** 2)
            location = (weights * y).sum(axis=0) / weights.sum(axis=0)
            scale = np.sqrt((weights * (y - location) ** 2).mean(axis=0)) + _TINY
        tails = np.log1p(((y - location) / scale) ** 2 / dof).mean(axis=0)
        value = log_t_constant(dof) - np.log(scale) - 0.5 * (dof + 1.0) * tails
        better = value > best
        best = np.where(better, value, best)
        found = np.where(better, np.stack([np.full(y.shape[1], dof), location, scale]), found)
    normal = -np.log(y.std(axis=0) + _TINY) - 0.5 * (LOG_2PI + 1.0)
    return StudentFits(found[0], found[1], found[2], best - normal)
