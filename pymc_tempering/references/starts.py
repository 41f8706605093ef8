"""Where ascents start: around places at many scales, in few coordinates or all, and in the prior.

Jitter that is independent in all coordinates hardly ever meets a mode that differs in a few of
them: in 20 dimensions two in a million directions are within 34 degrees of a given one. Modes of
real models often differ in few, or by a shift of one variable's coordinates together.
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.errors import BaseError
from pymc_tempering.types import BoolArray, FloatArray, IntArray

SMALLEST, LARGEST = 0.5, 15.0
"""Standard deviations of the jitter, log uniform: modes nearby need a small one, modes far away a
large one."""


class Starts(NamedTuple):
    """Points ``z`` (n, D), log densities there in nats (n,), and gradients (n, D), all finite."""

    points: FloatArray
    values: FloatArray
    grads: FloatArray

    def at(self, rows: BoolArray | IntArray) -> "Starts":
        """Return some of them."""
        return Starts(self.points[rows], self.values[rows], self.grads[rows])


def _at(density: Density, points: FloatArray) -> tuple[Starts, BoolArray]:
    points = np.array(points, order="C")
    values, grads = density_at(density.address, points)
    fine = np.isfinite(values) & np.isfinite(grads).all(axis=1)
    return Starts(points, values, grads), fine


def evaluated(density: Density, points: FloatArray) -> Starts:
    """Evaluate a density at points, and leave out those without a finite value and gradient."""
    starts, fine = _at(density, points)
    return starts.at(fine)


def inside(density: Density, points: FloatArray) -> BoolArray:
    """Tell at which rows of ``points`` the log density and its gradient are finite."""
    return _at(density, points)[1]


def pulled_inside(density: Density, centres: FloatArray, offsets: FloatArray) -> tuple[Starts, int]:
    """Evaluate a density at offsets from centres, both of shape (n, D).

    Points outside the support come nearer by halves, so that narrow supports are met too. Returns
    the starts that are inside, and the gradients that it took.
    """
    offsets = np.array(offsets)
    starts, fine = _at(density, centres + offsets)
    n_gradients = len(offsets)
    # to a millionth of an offset
    for _ in range(20):
        if fine.all():
            break
        out = ~fine
        offsets[out] *= 0.5
        nearer, fine[out] = _at(density, (centres + offsets)[out])
        for into, values in zip(starts, nearer, strict=True):
            into[out] = values
        n_gradients += int(out.sum())
    return starts.at(fine), n_gradients


def _moved(rng: np.random.Generator, n: int, dim: int) -> tuple[BoolArray, BoolArray]:
    """Which coordinates each of n starts moves, and whether it moves them together."""
    kind = rng.permuted(np.resize([0, 1, 2], n))
    size = np.exp(rng.uniform(0.0, np.log(dim + 1), n)).astype(np.int64)
    # ranks of random numbers choose sets; places after a random first one, runs
    rank = rng.random((n, dim)).argsort(axis=1)
    first = (rng.random(n) * (dim - size + 1)).astype(np.int64)
    chosen = np.where((kind == 1)[:, None], rank, np.arange(dim) - first[:, None])
    moved = (kind == 0)[:, None] | ((chosen >= 0) & (chosen < size[:, None]))
    return moved, ((kind > 0) & (rng.random(n) < 0.5))[:, None]


def jitter(rng: np.random.Generator, n: int, units: FloatArray) -> FloatArray:
    """Offsets in mirrored pairs, of scales that are log uniform from 0.5 to 15 units; shape (n, D).

    A start midway between two modes is common, and then each is reached from its own side. A third
    of the pairs is independent in all coordinates; a third moves a random set of them, of log
    uniform size; a third a run of neighbours, which are often of one variable. Of the latter two,
    half move all their coordinates by the same number of units.
    """
    n_pairs, dim = (n + 1) // 2, units.shape[1]
    noise = rng.standard_normal((n_pairs, dim))
    moved, together = _moved(rng, n_pairs, dim)
    noise = np.where(together, np.sign(noise[:, :1]), noise) * moved
    noise *= np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), n_pairs))[:, None]
    return np.asarray(np.stack([noise, -noise], axis=1).reshape(-1, dim)[:n] * units)


class Surroundings:
    """Where a search starts: around places, at draws of the prior, and where both are crossed.

    ``places`` and ``units``, both (K, D), are fixed before the search where starts are counted:
    each is to be independent of what others find. Each place takes any of the units, or with
    ``own_units`` those of its number. Half of the starts, or all of them without ``jitter``, are
    of ``prior_points`` (m, D): each once, and crossed with a place, of which a part of the
    coordinates is replaced, as often as there is need.
    """

    def __init__(
        self, places: FloatArray, units: FloatArray, prior_points: FloatArray | None, *,
        own_units: bool = False, jitter: bool = True,
    ) -> None:  # fmt: skip
        self._places, self._units, self._own_units = places, units, own_units
        self._prior = places[:0] if prior_points is None else prior_points
        self._prior_share = 0.0 if not len(self._prior) else 0.5 if jitter else 1.0
        self._n_taken = 0

    def fresh(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Centres and offsets of n draws of the prior; without one, of n starts."""
        if not len(self._prior):
            return self.draw(n, rng)
        points = self._prior[rng.integers(len(self._prior), size=n)]
        centres = np.repeat(self._places[:1], n, axis=0)
        return centres, points - centres

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Centres and offsets of n starts, both of shape (n, D)."""
        n_prior = int(self._prior_share * n)
        # mirrored pairs have one centre
        pairs = rng.integers(len(self._places), size=(n - n_prior + 1) // 2)
        units = pairs
        if not self._own_units:
            units = rng.integers(len(self._units), size=pairs.size)
        centres = self._places[np.repeat(pairs, 2)[: n - n_prior]]
        offsets = jitter(rng, len(centres), self._units[np.repeat(units, 2)[: n - n_prior]])
        if not n_prior:
            return centres, offsets
        points, crossed = self._crossed(n_prior, rng)
        return np.concatenate([centres, crossed]), np.concatenate([offsets, points - crossed])

    def _crossed(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Points of the prior, of which the later ones have coordinates of a place; places."""
        fresh = self._prior[self._n_taken : self._n_taken + n // 2 + 1]
        self._n_taken += len(fresh)
        n_crossed = n - len(fresh)
        again = self._prior[rng.integers(len(self._prior), size=n_crossed)]
        places = self._places[rng.integers(len(self._places), size=n)]
        moved = np.ones((n, places.shape[1]), dtype=np.bool_)
        moved[len(fresh) :] = _moved(rng, n_crossed, places.shape[1])[0]
        return np.where(moved, np.concatenate([fresh, again]), places), places


def start_inside(density: Density, start: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the start of a search, or a place nearby where density and gradient are finite.

    Raises BaseError if there is none.
    """
    start = np.asarray(start, dtype=np.float64)
    if inside(density, start[None])[0]:
        return start
    offsets = jitter(rng, 2, np.ones((2, density.dim)))
    nearby = pulled_inside(density, np.stack([start, start]), offsets)[0].points
    if not len(nearby):
        raise BaseError(
            "The log density or its gradient is not finite at the start of the search, nor around "
            "it. Pass a start inside the support, e.g. through the model's initial values."
        )
    return nearby[0]
