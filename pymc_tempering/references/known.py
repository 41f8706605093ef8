"""Modes that a search knows, so that a start which belongs to one costs one gradient.

An ascent takes 10 to 40 gradients to tell where a start leads. It would tell nothing new where the
log density and its gradient at the start are those of a known mode's Gaussian, or of Student's t,
whose tails most starts around a heavy-tailed mode are in.

A known mode that is Gaussian itself, as those of a mixture are, can be divided out. The log density
less that of known modes, the deflated residual, rises in the flank of another mode. Followed uphill
it leads there from well outside of its basin.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density
from pymc_tempering.references.quality import EXACT
from pymc_tempering.references.starts import Starts, evaluated
from pymc_tempering.types import FloatArray, IntArray

MOST_KNOWN = 64
"""Modes that starts are compared with, each by D squared operations a start, and of which the
curvature is taken at the end of a search. With more, places decide the base and not shapes."""

AGREEMENT = 0.1
"""Share of the gradient, and of the fall from the mode in nats, by which a start may differ from
the mode that it is counted for."""

GAUSSIAN_ITSELF = EXACT / 5.0
"""V up to which a mode is divided out. Draws in flanks of other modes make it 1e-4 where modes are
four standard deviations apart."""

_RADII = np.repeat(np.geomspace(0.5, 8.0, 9), 4)
"""Where the fall from a mode is compared with Student's t, in root mean squares of its Gaussian."""


class Owners(NamedTuple):
    """Which starts belong to known modes; all of shape (n,).

    ``number`` is that of the basin, or -1. ``residual`` is ``log(target / known modes)`` in nats
    where it is more than rounding, at starts of a mode which is Gaussian itself; nan elsewhere.
    ``least`` is the log density that an unknown mode needs at each start to be found from there: as
    much as the target, or more than rounding where that is known so well.
    """

    number: IntArray
    residual: FloatArray
    least: FloatArray


class _Mode(NamedTuple):
    """A known mode: number of its basin, its Gaussian, and the log density at its maximum in nats.

    ``is_exact`` is whether the mode is Gaussian itself. By squares of its Gaussian's coordinates
    the log density falls by ``tail / 2 log(1 + curvature squares / tail)``, as Student's t;
    infinite tail for a Gaussian.
    """

    number: int
    fit: GaussianBase
    height: float
    is_exact: bool
    curvature: float = 1.0
    tail: float = np.inf

    def fall(self, squares: FloatArray) -> FloatArray:
        """Nats that the log density falls by."""
        if np.isinf(self.tail):
            return 0.5 * self.curvature * squares
        return np.asarray(0.5 * self.tail * np.log1p(self.curvature * squares / self.tail))

    def slope(self, squares: FloatArray) -> FloatArray:
        """Change of the fall with half the squares."""
        return np.asarray(self.curvature / (1.0 + self.curvature * squares / self.tail))


@np.errstate(divide="ignore", invalid="ignore")
def _fall_like(falls: FloatArray, squares: FloatArray, dim: int) -> tuple[float, float]:
    """Curvature and tail most nearly the same at all distances, but for half of the places.

    Each place tells the curvature for each tail; elsewhere other modes may stand.
    """
    # beyond the dimensions; the last is the Gaussian
    tails = dim + np.append(np.geomspace(1.0, 1e4, 81), np.inf)[:, None]
    twice = 2.0 * falls
    share = twice / tails
    # log(tail (exp(share) - 1)), for share beyond all exponents too
    finite = np.log(tails) + share + np.log(-np.expm1(-share))
    logs = np.where(np.isinf(tails), np.log(twice), finite) - np.log(squares)
    low, middle, high = np.quantile(logs, [0.25, 0.5, 0.75], axis=1)
    best = int(np.argmin(high - low))
    return float(np.exp(middle[best])), float(tails[best, 0])


class KnownModes:
    """Gaussians at the ends of ascents, in the order in which they became known."""

    def __init__(self, density: Density) -> None:
        self._density = density
        self._modes: list[_Mode] = []
        self.n_gradients = 0

    @property
    def places(self) -> FloatArray:
        """Means of the modes, shape (K, D)."""
        return np.array([mode.fit.mean for mode in self._modes]).reshape(-1, self._density.dim)

    @property
    def units(self) -> FloatArray:
        """Standard deviations of the modes, shape (K, D)."""
        units = [mode.fit.standard_deviation for mode in self._modes]
        return np.array(units).reshape(-1, self._density.dim)

    def add(self, number: int, fit: GaussianBase, variance: float) -> None:
        """Take up a maximum: the number of its basin, its curvature, and the V of that."""
        if len(self._modes) >= MOST_KNOWN:
            return
        for _ in range(2):
            # an ascent ends within a ten thousandth of a nat, which far away is much more
            here = evaluated(self._density, fit.mean[None])
            self.n_gradients += 1
            if not len(here.points):
                return
            along = _times_factor(fit, here.grads[0])
            step = fit.scale * along if fit.is_diagonal else fit.scale @ along
            height = float(here.values[0] + 0.5 * here.grads[0] @ step)
            fit = GaussianBase(fit.mean + step, fit.scale)
        is_exact = variance <= GAUSSIAN_ITSELF
        falls = (1.0, np.inf) if is_exact else self._fall_from(fit, height)
        self._modes.append(_Mode(number, fit, height, is_exact, *falls))

    def _fall_from(self, fit: GaussianBase, height: float) -> tuple[float, float]:
        """Compare falls along lines from a mode with those of Student's t."""
        u = np.random.default_rng(0).standard_normal((len(_RADII), fit.dim))
        u *= _RADII[:, None] * np.sqrt(fit.dim) / np.linalg.norm(u, axis=1)[:, None]
        there = evaluated(self._density, fit.from_base(u))
        self.n_gradients += len(u)
        with np.errstate(over="ignore", invalid="ignore"):
            falls, squares = height - there.values, (fit.to_base(there.points) ** 2).sum(axis=1)
        # of a scale like 1e-200 there are no squares
        tell = (falls > 0.0) & (squares > 0.0) & np.isfinite(squares)
        # fewer tell nothing
        enough = tell.sum() > len(_RADII) // 2
        return _fall_like(falls[tell], squares[tell], fit.dim) if enough else (1.0, np.inf)

    # far out squares are beyond all numbers, and such starts belong to no mode
    @np.errstate(over="ignore", invalid="ignore")
    def owners(self, starts: Starts) -> Owners:
        """Tell which starts belong to known modes, whatever else an ascent would do."""
        n = len(starts.points)
        if not self._modes or not n:
            return Owners(np.full(n, -1), np.full(n, np.nan), starts.values)
        logs, u = self._log_parts(starts.points)
        nearest = logs.argmax(axis=0)
        rows = np.arange(n)
        fall = np.array([mode.height for mode in self._modes])[nearest] - logs[nearest, rows]
        expected, off = u[nearest, rows], u[nearest, rows]
        for k in np.unique(nearest):
            of = nearest == k
            expected[of] *= self._modes[k].slope((u[k, of] ** 2).sum(axis=1))[:, None]
            off[of] = expected[of] + _times_factor(self._modes[k].fit, starts.grads[of])
        residual = starts.values - logsumexp(logs, axis=0)
        agrees = (np.abs(starts.values - logs[nearest, rows]) <= AGREEMENT * (1.0 + fall)) & (
            np.linalg.norm(off, axis=1) <= AGREEMENT * np.linalg.norm(expected, axis=1)
        )
        agrees &= np.isfinite(fall)
        # far above that in a log density and a quadratic form of one nat
        rounding = 1e-10 * (1.0 + fall + np.abs(starts.values))
        exact = np.array([mode.is_exact for mode in self._modes])[nearest]
        flank = agrees & exact & (residual > rounding)
        # in the flank of a mode that was found later a start would have led to it by now
        visible = logs > logs.max(axis=0) + np.log(rounding)
        latest = len(logs) - 1 - visible[::-1].argmax(axis=0)
        owner = np.where(exact, latest, nearest)
        number = np.where(agrees, np.array([mode.number for mode in self._modes])[owner], -1)
        least = starts.values + np.where(agrees & exact, np.log(rounding), 0.0)
        return Owners(number, np.where(flank, residual, np.nan), least)

    @np.errstate(over="ignore", invalid="ignore")
    def follow_residual(self, starts: Starts) -> FloatArray:
        """Follow the deflated residual uphill, along lines, for as long as it rises.

        Where it has only begun to outweigh the known modes, an ascent may still leave a narrow
        mode; so eight lines are followed at most. Returns points where another mode outweighs them,
        shape (m, D), m <= n.
        """
        found = []
        distances = np.geomspace(0.02, 3.0, 24)[:, None]
        for point, value, grad in zip(*starts, strict=True):
            here = Starts(point[None], np.array([value]), grad[None])
            for _ in range(8):
                logs, u = self._log_parts(here.points)
                k = int(logs[:, 0].argmax())
                fit = self._modes[k].fit
                # of the target less this mode, in whose coordinates steps are taken
                uphill = _times_factor(fit, here.grads[0]) + u[k, 0]
                length = np.linalg.norm(uphill)
                if not length > 0.0:
                    break
                far = np.linalg.norm(u[k, 0]) * distances
                line = evaluated(self._density, fit.from_base(u[k, 0] + far * uphill / length))
                self.n_gradients += len(far)
                residual = self._residual(line)
                before = float(self._residual(here)[0])
                if not len(residual) or residual.max() <= before:
                    break
                here = line.at(residual.argmax(keepdims=True))
            if self._residual(here)[0] > 1.0:
                found.append(here.points[0])
        return np.array(found).reshape(-1, self._density.dim)

    def _residual(self, starts: Starts) -> FloatArray:
        return np.asarray(starts.values - logsumexp(self._log_parts(starts.points)[0], axis=0))

    def _log_parts(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log densities of the modes (K, n), and the points in their coordinates (K, n, D)."""
        u = np.stack([mode.fit.to_base(points) for mode in self._modes])
        squares = (u * u).sum(axis=2)
        logs = [
            mode.height - mode.fall(row) for mode, row in zip(self._modes, squares, strict=True)
        ]
        return np.stack(logs), u


def _times_factor(fit: GaussianBase, grad: FloatArray) -> FloatArray:
    return fit.scale * grad if fit.is_diagonal else np.asarray(grad @ fit.scale)
