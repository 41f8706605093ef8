"""Symmetries that a model may have: labels that can be exchanged, and signs that can be turned.

A mixture has a mode for each order of its components, a factor model one for each choice of signs,
and sources that overlap can be taken for one another. Starts are drawn without regard to that, and
may lead to one of two such modes ten times before they lead to its image. To take the image of a
mode costs one evaluation, which tells whether the model has the symmetry, at least nearly.

What is tried is read off names and shapes alone; the density decides.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pymc as pm

from pymc_tempering.engine.path.orbit import Orbit, extended
from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.model.point import PointMap
from pymc_tempering.private.of_pymc import is_simplex
from pymc_tempering.types import FloatArray, IntArray

MOST_LABELS = 12
"""Entries of an axis beyond which they are units rather than labels."""

MOST_TRIED = 64
"""Exchanges of labels, and as many turns of signs, that are tried."""

MOST_IMAGES = 120
"""Of a group that is divided out: all orders of five labels. A mixture has as many components for
each of its fits, so that its density would cost more than most models'."""

_NUMBERED = re.compile(r"(.*?)(\d+)$")

type Labelled = dict[tuple[str | None, int], dict[str, tuple[int, ...]]]
"""Axes of variables, by the name and the number of their labels."""


@dataclass(frozen=True)
class Symmetries:
    """Maps of the flat vector that may leave a model's density as it is.

    `order` of shape (P, D + R) says which entry comes where, after the R that the others sum to by
    `sums` (R, D), the last shares of a whole each; `sign` of shape (P, D) is 1 or -1. The first
    `n_exchanges` are exchanges.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     size = pm.HalfNormal("size", shape=2)
    ...     place = pm.Normal("place", shape=2)
    >>> tried = Symmetries.of(PointMap.from_model(model), model)
    >>> tried.images(np.array([0.1, 0.2, 3.0, 4.0])).tolist()[:2]
    [[0.2, 0.1, 4.0, 3.0], [0.1, 0.2, -3.0, -4.0]]
    """

    order: IntArray
    sign: FloatArray
    sums: FloatArray
    n_exchanges: int

    @classmethod
    def of(cls, points: PointMap, model: pm.Model) -> "Symmetries":
        """Read off a model what may be exchanged or turned."""
        found = _Parts(points, model)
        here, same = np.arange(points.dim + len(found.sums)), np.ones(points.dim)
        exchanges = _distinct(found.exchanges(), here)
        turns = _distinct(found.turns(), same)
        return cls(
            np.array(exchanges + [here] * len(turns), dtype=np.int64).reshape(-1, here.size),
            np.array([same] * len(exchanges) + turns, dtype=np.float64).reshape(-1, points.dim),
            found.sums,
            len(exchanges),
        )

    def images(self, z: FloatArray) -> FloatArray:
        """Where each of the maps takes a point: (D,) to (P, D)."""
        return np.asarray(self.sign * extended(z, self.sums)[self.order[:, : z.size]])

    def exchanges(self, density: Density, z: FloatArray) -> Orbit | None:
        """Group of the exchanges that leave a density as it is at places ``z`` (n, D), if any."""
        here = density_at(density.address, z)[0]
        kept = []
        for order in self.order[: self.n_exchanges] if np.isfinite(here).all() else ():
            images = Orbit(order[None], self.sums).images(z)[0]
            there = density_at(density.address, images)[0]
            if np.allclose(here, there, rtol=1e-9, atol=1e-8):
                kept.append(order)
        return Orbit(_generated(kept, self.order.shape[1]), self.sums) if kept else None


def _generated(exchanges: list[IntArray], size: int) -> IntArray:
    """Orders that exchanges lead to, the identity first; of the first exchanges, if too many."""
    group = [np.arange(size)]
    for i in range(len(exchanges)):
        larger = {order.tobytes(): order for order in group}
        grows = list(group)
        while grows and len(larger) <= MOST_IMAGES:
            new = [order[by] for order in grows for by in exchanges[: i + 1]]
            grows = [order for order in new if order.tobytes() not in larger]
            larger |= {order.tobytes(): order for order in grows}
        if len(larger) > MOST_IMAGES:
            break
        group = list(larger.values())
    return np.array(group)


def _distinct[Array: (IntArray, FloatArray)](maps: Iterator[Array], identity: Array) -> list[Array]:
    """Return the first maps that differ from one another and from none at all."""
    found = {identity.tobytes(): identity}
    for each in maps:
        if len(found) > MOST_TRIED:
            break
        found.setdefault(each.tobytes(), each)
    return list(found.values())[1:]


class _Parts:
    """Entries of the flat vector by value variable, and which of their axes may be of labels."""

    def __init__(self, points: PointMap, model: pm.Model) -> None:
        ends = np.cumsum(points.sizes)
        self._entries = {
            name: np.arange(end - size, end, dtype=np.int64).reshape(shape)
            for name, shape, size, end in zip(
                points.names, points.shapes, points.sizes, ends, strict=True
            )
        }
        self._model = model
        self._rvs = {value.name: rv for rv, value in model.rvs_to_values.items()}
        sums: list[FloatArray] = []
        for name, rv in self._rvs.items():
            if is_simplex(model.rvs_to_transforms.get(rv)):
                entries = self._entries[name]
                rows = entries.reshape(-1, entries.shape[-1])
                last = points.dim + len(sums) + np.arange(len(rows)).reshape(*entries.shape[:-1], 1)
                self._entries[name] = np.concatenate([entries, last], axis=-1)
                sums += [-np.isin(np.arange(points.dim), row).astype(np.float64) for row in rows]
        self.sums = np.array(sums).reshape(-1, points.dim)
        self._dim = points.dim
        self._same = np.arange(points.dim + len(sums), dtype=np.int64)

    def exchanges(self) -> Iterator[IntArray]:
        """Every two labels of an axis, the fewest first, and every two numbers of names."""
        for n, axes in self._labelled():
            for i, j in combinations(range(n), 2):
                rows = np.arange(n)
                rows[[i, j]] = j, i
                order = self._same.copy()
                for name, along in axes.items():
                    entries = self._entries[name]
                    moved = entries
                    for axis in along:
                        moved = moved.take(rows, axis)
                    order[entries.ravel()] = moved.ravel()
                yield order
        yield from self._numbered()

    def turns(self) -> Iterator[FloatArray]:
        """Variables, pairs of them, what a label has, and single entries."""
        transforms = self._model.rvs_to_transforms
        # those on the whole line
        free = [
            n for n, rv in self._rvs.items() if n in self._entries and transforms.get(rv) is None
        ]
        groups: list[list[IntArray]] = [[self._entries[name]] for name in free]
        if len(free) <= 6:
            groups += [[*a, *b] for a, b in combinations(groups, 2)]
        groups.append([self._entries[name] for name in free])
        for n, axes in self._labelled():
            of_labels = {name: along[0] for name, along in axes.items() if name in free}
            groups += [
                [self._entries[name].take([i], axis) for name, axis in of_labels.items()]
                for i in range(n)
            ]
        for name in free:
            entries = self._entries[name].ravel()[:MOST_LABELS]
            groups += [[entries[k : k + 1]] for k in range(entries.size)]
        for group in groups:
            sign = np.ones(self._dim)
            for turned in group:
                sign[turned.ravel()] = -1.0
            yield sign

    def _labelled(self) -> list[tuple[int, dict[str, tuple[int, ...]]]]:
        """Numbers of labels, and by variable which axes they are along.

        Axes of one dimension belong together; without names, those of one length, of which a
        variable may have several.
        """
        axes: Labelled = defaultdict(dict)
        for name, entries in self._entries.items():
            dims = self._model.named_vars_to_dims.get(self._rvs[name].name, ())
            named = len(dims) == entries.ndim
            for axis, n in enumerate(entries.shape):
                if 1 < n <= MOST_LABELS:
                    key = dims[axis] if named else None, n
                    axes[key][name] = (*axes[key].get(name, ()), axis)
        found = [
            (n, {name: along[those] for name, along in of.items()})
            for those in (slice(1), slice(-1, None), slice(None))
            for (_, n), of in axes.items()
        ]
        return sorted(found, key=lambda each: each[0])

    def _numbered(self) -> Iterator[IntArray]:
        """Names that differ in a number at their end, as ``place_1`` and ``place_2``."""
        numbered: dict[str, dict[tuple[str, tuple[int, ...]], IntArray]] = defaultdict(dict)
        for name, entries in self._entries.items():
            if match := _NUMBERED.match(self._rvs[name].name):
                stem = match[1] + name.removeprefix(self._rvs[name].name)
                numbered[match[2]][stem, entries.shape] = entries
        for a, b in combinations(numbered, 2):
            order = self._same.copy()
            for both in numbered[a].keys() & numbered[b].keys():
                order[numbered[a][both].ravel()] = numbered[b][both].ravel()
                order[numbered[b][both].ravel()] = numbered[a][both].ravel()
            yield order
