r"""Angles that wind around with the direction of a pair of coordinates, and coordinates without.

The mean anomaly of an orbit goes once around where the eccentricity vector goes around zero, as the
data tell only their sum, the mean longitude; likewise a phase beside the two amplitudes of a
sinusoid. No Gaussian covers such a band. Sheared, it is straight, at no cost, since a shear has
a Jacobian of one:

.. math:: \theta = \lambda - k \arg(x + i y), \qquad k = \pm 1.

A pair winds where a circle of it around 0 stays in the mass, if the angle turns with it, and leaves
the mass if the angle does not.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import tau
from typing import Any

import numba
import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import call_density, density_at
from pymc_tempering.jit import compiled
from pymc_tempering.model.compile import CompiledDensity, prior_points
from pymc_tempering.model.mapped import in_coordinates
from pymc_tempering.model.point import Angles
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.survey import NEGLIGIBLE
from pymc_tempering.types import FloatArray, IntArray

N_STARTS = 16
"""Draws of the prior from which ascents lead to a place with mass, as of a hierarchy."""

_RADII = np.array([1.0, 0.1])
"""Of circles, over the pair's own distance from 0. The mass may reach 0, or be a ring around it."""

_N_ON_CIRCLE = 24  # 15 degrees apart, so that one that winds falls from one to the next

_MOST_PAIRS = 2000
"""Pairs and angles beyond which they are not looked at: two evaluations of each."""


@dataclass(frozen=True, eq=False)
class Windings:
    """Map from coordinates with straight bands to those of the model.

    Rows of ``index`` (n, 4) are the entries of an angle, of the two of its pair, and k; ``model``
    and ``straight`` say where the periods of the angles are cut, in the two coordinates.

    Examples
    --------
    >>> cut = Angles(np.array([2]), np.zeros(1))
    >>> made = Windings(np.array([[2, 0, 1, 1]]), cut, cut)
    >>> z = made.from_base(np.array([0.0, 2.0, 0.0]))  # the pair points a quarter turn ahead
    >>> cut.from_line(z).round(4).tolist(), made.to_base(z).round(9).tolist()
    ([0.0, 2.0, -1.5708], [0.0, 2.0, 0.0])
    """

    index: IntArray
    model: Angles
    straight: Angles

    @cached_property
    def digest(self) -> str:
        """Identity of the map: 16 hex digits."""
        parts = (self.index, self.model.centre, self.straight.centre)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]

    def sheared(self, values: FloatArray, sign: int) -> FloatArray:
        """Turn angles with their pairs, or with sign -1 back; values of the model, (..., D)."""
        angle, x, y, turns = self.index.T
        values = np.array(values, dtype=np.float64)
        values[..., angle] += sign * turns * np.arctan2(values[..., y], values[..., x])
        return values

    def from_base(self, u: FloatArray) -> FloatArray:
        """Map ``u`` of shape (..., D) to ``z``."""
        return self.model.to_line(self.sheared(self.straight.from_line(u), -1))

    def to_base(self, z: FloatArray) -> FloatArray:
        """Map ``z`` of shape (..., D) to ``u``, the inverse of :meth:`from_base`."""
        return self.straight.to_line(self.sheared(self.model.from_line(z), 1))

    def forward(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map ``u`` (n, D) to ``z``, with the log determinant of the map, shape (n,)."""
        z = self.from_base(u)
        return z, self.straight.log_jacobian(u) - self.model.log_jacobian(z)


@compiled(borrows=True, inside=True)
def _log_slope(line: float) -> float:
    """Log of the change of an angle with its coordinate, less that of the period."""
    return -abs(line) - 2.0 * np.log1p(np.exp(-abs(line)))


@compiled
def _density_unwound(
    address: int, index: IntArray, centres: FloatArray, u: FloatArray, grad: FloatArray
) -> float:
    """Log density by ``u`` (D,) of that at an address, and its gradient.

    Rows of ``centres`` (n, 2) are the middles of the period in ``u`` and in ``z``.
    """
    z, log_det = u.copy(), 0.0
    for i in range(len(index)):
        angle, x, y, k = index[i]
        ahead = k * np.arctan2(u[y], u[x])
        turns = (centres[i, 0] + np.pi * np.tanh(0.5 * u[angle]) - ahead - centres[i, 1]) / tau
        # the ends themselves have no finite coordinate
        share = min(max(turns - np.round(turns) + 0.5, 1e-15), 1.0 - 1e-15)
        z[angle] = np.log(share) - np.log1p(-share)
        log_det += _log_slope(u[angle]) - _log_slope(z[angle])
    value = call_density(address, z, grad)
    for i in range(len(index)):
        angle, x, y, k = index[i]
        by_angle = (grad[angle] + np.tanh(0.5 * z[angle])) / np.exp(_log_slope(z[angle]))
        square = u[x] ** 2 + u[y] ** 2
        if square > 0.0:
            grad[x] += k * by_angle * u[y] / square / tau
            grad[y] -= k * by_angle * u[x] / square / tau
        grad[angle] = by_angle * np.exp(_log_slope(u[angle])) - np.tanh(0.5 * u[angle])
    return value + log_det


def _by_pointers(
    u_pointer: Any, grad_pointer: Any, target: Any, dim: Any, n: Any, index: Any, centres: Any
) -> Any:
    return _density_unwound(
        target, numba.carray(index, (n, 4)), numba.carray(centres, (n, 2)),
        numba.carray(u_pointer, (dim,)), numba.carray(grad_pointer, (dim,)),
    )  # fmt: skip


def unwound(density: CompiledDensity, made: Windings) -> CompiledDensity:
    """Give a density by coordinates in which its bands are straight; log Z is the same."""
    index = np.ascontiguousarray(made.index, dtype=np.int64)
    centres = np.stack([made.straight.centre, made.model.centre], axis=1)
    sizes, arrays = (density.dim, len(index)), (index, centres)
    return in_coordinates(density, made, unwound, _by_pointers, sizes, arrays)


def find_windings(density: CompiledDensity) -> tuple[Windings | None, int]:
    """Find the angles of a density that wind, and the gradients that it took.

    Looked at from the highest end of a few ascents, the same whatever the seed of a run.
    """
    angles = density.points.angles
    others = np.setdiff1d(np.arange(density.dim), angles.index)
    pairs = [(int(a), int(x), int(y)) for a in angles.index for x, y in combinations(others, 2)]
    if not 0 < len(pairs) <= _MOST_PAIRS or density.no_gradient or density.calls_python:
        return None, 0
    near = Coordinates.of(GaussianBase(density.start, np.ones(density.dim)))
    starts = prior_points(density, np.random.default_rng(0), N_STARTS)
    found = ascend(density, np.vstack([density.start, starts]), near)
    best = int(np.argmax(np.where(np.isfinite(found.values), found.values, -np.inf)))
    n_gradients, least = found.n_gradients, float(found.values[best]) - NEGLIGIBLE
    values = angles.from_line(found.ends[best])
    falls = dict[tuple[int, int, int, int], float]()
    for radius in _RADII:
        # a half turn is one either way
        halfway = [_circle(values, pair, 1, radius, 2)[1] for pair in pairs]
        inside = _values(density, angles.to_line(np.array(halfway))) >= least
        n_gradients += len(halfway)
        for pair in (pairs[i] for i in np.flatnonzero(inside)):
            circles = [_circle(values, pair, k, radius, _N_ON_CIRCLE) for k in (0, 1, -1)]
            lowest = [_values(density, angles.to_line(circle)).min() for circle in circles]
            n_gradients += 3 * _N_ON_CIRCLE
            for k, low in ((1, lowest[1]), (-1, lowest[2])):
                if lowest[0] < least <= low:
                    falls[(*pair, k)] = min(falls.get((*pair, k), np.inf), -float(low))
    # the best pair of each angle
    chosen = {row[0]: row for row in sorted(falls, key=lambda row: -falls[row])}
    if not chosen:
        return None, n_gradients
    index = np.array(sorted(_alike(density, chosen).values()), dtype=np.int64)
    model = Angles(index[:, 0], angles.centre[np.searchsorted(angles.index, index[:, 0])])
    made = Windings(index, model, model)
    # the period is cut opposite to the place
    centre = made.sheared(values, 1)[index[:, 0]]
    return replace(made, straight=Angles(index[:, 0], centre)), n_gradients


def _circle(
    values: FloatArray, pair: tuple[int, int, int], k: int, radius: float, n: int
) -> FloatArray:
    """Points (n, D) around 0 from a place on, on which an angle turns by -k with the pair."""
    angle, x, y = pair
    ahead = np.linspace(0.0, tau, n, endpoint=False)
    circle = np.repeat(values[None], n, axis=0)
    place = radius * (values[x] + 1j * values[y]) * np.exp(1j * ahead)
    circle[:, x], circle[:, y] = place.real, place.imag
    circle[:, angle] -= k * ahead
    return circle


def _values(density: CompiledDensity, z: FloatArray) -> FloatArray:
    return np.nan_to_num(density_at(density.address, z)[0], nan=-np.inf)


def _alike(
    density: CompiledDensity, chosen: dict[int, tuple[int, int, int, int]]
) -> dict[int, tuple[int, int, int, int]]:
    """Add windings of other entries of the same variables: some planets may be without mass."""
    sizes = np.array(density.points.sizes)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    first = np.cumsum(sizes) - sizes
    every = dict(chosen)
    for row in chosen.values():
        entries, k = np.array(row[:3]), row[3]
        begins, size = first[owner[entries]], sizes[owner[entries]]
        if np.ptp(size) == 0 and np.ptp(entries - begins) == 0:
            for i in range(size[0]):
                angle, x, y = map(int, begins + i)
                every.setdefault(angle, (angle, x, y, k))
    return every
