"""Which unconstrained values of a model depend on which, and which of them are globals.

Two values are neighbours where the gradient by one changes with the other: entries of the Hessian,
one gradient for each column, exactly zero where the graph has no path. Globals are the hubs: once
they are given, the Hessian of the others, the locals, has so few neighbours that a few directions,
of values without common neighbours, show all of it (Curtis, Powell & Reid 1974, "On the estimation
of sparse Jacobian matrices").

A soft constraint on the sum of many values, as of an intrinsic autoregression, makes all of them
neighbours, by one number that all pairs have in common. Neighbours are what is left without it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from pytensor.graph.traversal import ancestors
from scipy import sparse
from scipy.sparse.linalg import splu

from pymc_tempering.engine.path.path import density_at
from pymc_tempering.engine.path.sparse_precision import System
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.types import BoolArray, FloatArray, IntArray

MOST_GLOBALS = 100
"""Hubs beyond which a model has no globals: their own map is dense."""

MOST_BENT = 50
"""Globals beyond which they do not bend each other, for their 1275 products."""

MOST_DIRECTIONS = 400
"""Directions of a Hessian of the locals, beyond which they are not looked at: a map takes some 500
such Hessians, and a search 200,000 gradients at most."""

MANY_GLOBALS = 20
"""Globals beyond which values of a hierarchy are among them, with their scale, and the mode of all,
where these agree, holds no mass: from there V of `irt_2` was 400,000. A map begins at a variational
fit then, and choices of fewer globals come first."""

MOST_CURVED, _N_CURVED, _LEAST_CURVED = 0.07, 36, 1e-6
"""Change of the locals' gradients by two moves together, beyond those by each, as a share of that
by one: above it other globals are taken, if there are any of which it is less. Where scales and
what they multiply are both locals it is 0.09 to 3, else 0 to 0.06 (benchmarks/structures.py).
Beside it the gradients that tell it, and what is rounding."""

MOST_DIM = 4000
"""Coordinates beyond which a model is not looked at: a Hessian takes 128 MB."""

_FAR = np.array([2.0, 1.0, 0.4])
"""Distances from the start, or half of them, along every coordinate, at which neighbours are looked
for: the largest with a density. Scales and lengths are up to seven times as large there."""

_LEAST = 1e-8
"""Share of the largest entry of a row of the Hessian below which one is rounding."""

_LEAST_SUMMED = 8
"""Entries of a variable below which a sum of all is not looked for: each has a direction."""

_ALIKE = 1e-5
"""Share of a common value within which an entry of the Hessian has it."""


@dataclass(frozen=True, eq=False)
class Factor:
    """Sparse Cholesky factor of the locals' precision, by columns in the order of elimination.

    ``order`` (n,) are the positions of locals as they are eliminated. Column j has the rows
    ``rows[begins[j]:begins[j + 1]]``, ascending, its diagonal first; ``filled`` is 1 where the
    precision itself is zero.
    """

    order: IntArray
    begins: IntArray
    rows: IntArray
    filled: IntArray  # not of bool, as kernels are compiled for it

    @classmethod
    def of(cls, neighbours: BoolArray) -> "Factor":
        """Symbolic factor of a symmetric pattern (n, n), eliminated by least degree."""
        n = len(neighbours)
        if n == 0:
            nothing = np.empty(0, np.int64)
            return cls(nothing, np.zeros(1, np.int64), nothing, nothing)
        matrix = sparse.csc_matrix(neighbours.astype(np.float64)) + n * sparse.identity(n)
        made = splu(
            matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )  # fmt: skip
        order = np.argsort(made.perm_c)
        own = np.tril(neighbours[np.ix_(order, order)])
        pattern = sparse.csc_matrix(own)
        ends = zip(pattern.indptr[:-1], pattern.indptr[1:], strict=True)
        columns = [set(pattern.indices[first:last].tolist()) for first, last in ends]
        for j, column in enumerate(columns):
            column.add(j)
            later = sorted(column)[1:]
            if later:
                columns[later[0]].update(later)
        sizes = [len(column) for column in columns]
        rows = np.concatenate([np.array(sorted(column), np.int64) for column in columns])
        filled = ~own[rows, np.repeat(np.arange(n), sizes)]
        return cls(order, np.cumsum([0, *sizes]), rows, filled.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Structure:
    """Which unconstrained values of a model are neighbours, and which are globals."""

    neighbours: sparse.csr_array  # bool (D, D): whether the gradient by one depends on another
    globals: IntArray  # (k,), positions of the globals in the flat vector
    # (m,), locals whose sum the density depends on, beyond what neighbours have in common
    summed: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def dim(self) -> int:
        """Number D of unconstrained values."""
        return int(self.neighbours.shape[0])

    @cached_property
    def locals(self) -> IntArray:
        """Positions of all others."""
        return np.setdiff1d(np.arange(self.dim), self.globals)

    @cached_property
    def factor(self) -> Factor:
        """Cholesky factor of the precision of the locals given the globals."""
        return Factor.of(self._of_locals)

    @cached_property
    def system(self) -> System:
        """The same as compiled code sees it."""
        f, (summed, apart) = self.factor, self.summed_as_eliminated
        return System(self.locals[f.order], self.globals, self.colours[f.order], len(self.hubs),
                      f.begins, f.rows, f.filled, summed, apart)  # fmt: skip

    @cached_property
    def hubs(self) -> IntArray:
        """Locals, as positions among them, whose columns of the Hessian are looked at alone."""
        return _hubs(self._of_locals)[0]

    @cached_property
    def colours(self) -> IntArray:
        """Colour of each local, shape (n,): hubs have their own, which are the first.

        Others of one colour have no neighbour in common but hubs: their entries with these are seen
        in the hubs' columns (Coleman & Moré 1984).
        """
        own = self._of_locals
        colours = np.arange(len(own))
        others = np.setdiff1d(colours, self.hubs)
        colours[self.hubs] = np.arange(len(self.hubs))
        colours[others] = len(self.hubs) + _colours(own[np.ix_(others, others)])
        return colours

    @cached_property
    def summed_as_eliminated(self) -> tuple[IntArray, IntArray]:
        """Those with a sum, as places in the order of elimination, and some of them.

        The first has the fewest neighbours; the others are those that are none of these.
        """
        near = self._of_locals[np.ix_(self.factor.order, self.factor.order)]
        summed = np.flatnonzero(np.isin(self.locals[self.factor.order], self.summed))
        among = near[np.ix_(summed, summed)]
        summed = summed[np.argsort(among.sum(axis=1), kind="stable")]
        return summed, summed[~near[summed[:1]][:, summed].any(axis=0)]

    @property
    def _of_locals(self) -> BoolArray:
        return self.neighbours[self.locals][:, self.locals].toarray()

    @property
    def n_colours(self) -> int:
        """Directions that show the Hessian of the locals, one for what a sum has in common."""
        return int(self.colours.max(initial=-1)) + 1 + (self.summed.size > 0)


def _hubs(neighbours: BoolArray) -> tuple[IntArray, int]:
    """Those with most neighbours, so many that the rest has few directions; how many in all."""
    left, n = neighbours.sum(axis=1), len(neighbours)
    order, costs = np.argsort(-left, kind="stable"), []
    left = left.astype(np.int64)
    for n_hubs, hub in enumerate(order):
        # all neighbours of a value have colours of their own
        costs.append(n_hubs + int(left[order[n_hubs:]].max()))
        left -= neighbours[hub]
    least = int(np.argmin([*costs, n]))
    return order[:least], min([*costs, n])


def _colours(neighbours: BoolArray) -> IntArray:
    """Greedy colours, those with most neighbours first."""
    near = sparse.csr_matrix(neighbours.astype(np.int32))
    common = (near.T @ near).tolil().rows
    colours = np.full(len(neighbours), -1)
    for i in sorted(range(len(colours)), key=lambda i: -len(common[i])):
        used = set(colours[common[i]].tolist())
        colours[i] = next(c for c in range(len(colours) + 1) if c not in used)
    return colours


def _globals(density: CompiledDensity, neighbours: BoolArray, summed: IntArray) -> list[IntArray]:
    """Sets of entries that may be globals; none where no values stand out.

    Candidates are the entries with most neighbours, and the smallest variables, if others are more.
    """
    most, chosen = min(MOST_GLOBALS, len(neighbours) // 2), dict[bytes, IntArray]()
    sizes = np.repeat(density.points.sizes, density.points.sizes)
    for ranks in (-neighbours.sum(axis=1), sizes):
        order = np.argsort(ranks, kind="stable")
        # those of one rank stay together
        for n_first in np.flatnonzero(np.diff(ranks[order])) + 1:
            if n_first > MOST_GLOBALS:
                break
            hubs = _with_ancestors(density, order[:n_first])
            if len(hubs) > most or np.isin(summed, hubs).any():
                continue
            # what no others depend on says nothing of them
            apart = not neighbours[np.ix_(np.setdiff1d(order, hubs), hubs)].any()
            if not apart and _n_colours(neighbours, hubs) <= MOST_DIRECTIONS:
                chosen[hubs.tobytes()] = hubs
    return list(chosen.values())


def _n_colours(neighbours: BoolArray, hubs: IntArray) -> int:
    """Directions that show the Hessian of all that are no globals."""
    return _hubs(np.delete(np.delete(neighbours, hubs, axis=0), hubs, axis=1))[1]


def common_value(block: FloatArray) -> float:
    """Give what more than half of the entries aside of a block's diagonal (m, m) are, or 0.

    Examples
    --------
    >>> block = np.full((4, 4), 3.0)
    >>> block[0, 1] = block[1, 0] = 5.0
    >>> common_value(block), common_value(block * np.arange(4.0))
    (3.0, 0.0)
    """
    aside = block[~np.eye(len(block), dtype=bool)]
    value = float(np.median(aside))
    alike = np.abs(aside - value) <= _ALIKE * abs(value)
    return value if alike.mean() > 0.5 else 0.0


# an overflow at a point far away says nothing of the pattern
@np.errstate(over="ignore", invalid="ignore")
def neighbours_of(
    density: CompiledDensity, rng: np.random.Generator
) -> tuple[BoolArray | None, IntArray, int]:
    """Which values are neighbours, shape (D, D), which have a sum, and the gradients that it took.

    At two points, on opposite sides of the start, two gradients for each coordinate. What kernels
    with a length have in common with distance may be rounding near the start, and is not where
    lengths are a few times as long. None with more than 4000 coordinates, or where no point has a
    density.
    """
    dim, nothing = density.dim, np.empty(0, np.int64)
    if dim > MOST_DIM:
        return None, nothing, 0
    n_gradients, seen = 0, list[FloatArray]()
    # no two at one distance, where a difference of theirs would be none
    signs = rng.choice(np.array([-1.0, 1.0]), dim) * rng.uniform(0.5, 1.0, dim)
    for aside in (signs, -signs):
        # as far as there is a density
        points = density.start + _FAR[:, None] * aside
        values, grads = density_at(density.address, points)
        fine = np.isfinite(values) & np.isfinite(grads).all(axis=1)
        hessian = _hessian(density, points[int(fine.argmax()) if fine.any() else -1])
        n_gradients += len(points) + 2 * dim
        if np.isfinite(hessian).all():
            seen.append(hessian)
    if not seen:
        return None, nothing, n_gradients
    summed = _summed(density.points.sizes, seen)
    block, neighbours = np.ix_(summed, summed), np.eye(dim, dtype=bool)
    for hessian in seen:
        # of all entries, what they have in common included, rounding is a share
        least = _LEAST * np.maximum(hessian.max(axis=1), -hessian.min(axis=1))
        if summed.size:
            hessian[block] -= common_value(hessian[block])
        rows = np.abs(hessian, out=hessian)
        neighbours |= (rows > least[:, None]) & (least[:, None] < rows.T).T
    if neighbours[block].all():
        summed = nothing
    return neighbours | neighbours.T, summed, n_gradients


def _hessian(density: CompiledDensity, point: FloatArray) -> FloatArray:
    """Minus the Hessian (D, D), by differences of gradients."""
    dim = density.dim
    steps = 1e-3 * np.maximum(1.0, np.abs(point))
    rows = np.empty((dim, dim))
    for first in range(0, dim, 256):
        some = np.arange(first, min(first + 256, dim))
        ends = []
        for way in (1.0, -1.0):
            z = np.repeat(point[None], len(some), axis=0)
            z[np.arange(len(some)), some] += way * steps[some]
            ends.append(density_at(density.address, z)[1])
        rows[some] = (ends[1] - ends[0]) / steps[some, None]
    return rows


def _summed(sizes: Iterable[int], hessians: list[FloatArray]) -> IntArray:
    """Entries of the largest variable of whose pairs most have a value in common, at all points."""
    largest, first = np.empty(0, np.int64), 0
    for size in sizes:
        own = np.arange(first, first + size)
        first += size
        if size >= max(_LEAST_SUMMED, largest.size + 1) and all(
            common_value(hessian[np.ix_(own, own)]) for hessian in hessians
        ):
            largest = own
    return largest


@np.errstate(over="ignore", invalid="ignore")
def structures_of(density: CompiledDensity) -> tuple[list[Structure], int]:
    """Find the neighbours of a density, choices of its globals, and the gradients that it took.

    The likeliest choice is the first; none where nothing is known of neighbours.
    """
    rng = np.random.default_rng(0)
    if density.dim <= 2:
        return [], 0
    neighbours, summed, n_gradients = neighbours_of(density, rng)
    if neighbours is None:
        return [], n_gradients
    chosen = _globals(density, neighbours, summed)
    n_gradients += _N_CURVED * len(chosen)
    straight = [hubs for hubs in chosen if _curved(density, hubs) <= MOST_CURVED]
    # where locals bend, and each depends on all others, a map is of one mode: planets have hundreds
    chosen = straight or [h for h in chosen if _n_colours(neighbours, h) < density.dim - len(h)]
    # a marginal gradient takes a Hessian for each global, and a fit as many of them as globals
    chosen.sort(
        key=lambda h: (len(h) > MANY_GLOBALS, (1 + len(h)) ** 2 * (1 + _n_colours(neighbours, h)))
    )
    if chosen:
        fewer, n = _without_linear(density, chosen[0])
        n_gradients += n
        if 0 < len(fewer) < len(chosen[0]):
            chosen.insert(0, fewer)
    kept = sparse.csr_array(neighbours)
    return [Structure(kept, hubs, summed) for hubs in chosen], n_gradients


def _curved(density: CompiledDensity, hubs: IntArray) -> float:
    """How far the log density of all others is from a quadratic one, 0 to about 1, or inf."""
    others = np.setdiff1d(np.arange(density.dim), hubs)
    # the same points for all choices
    rng, shares = np.random.default_rng(0), []
    for _ in range(_N_CURVED // 4):
        moves = 0.1 * rng.standard_normal((2, density.dim))
        moves[:, hubs] = 0.0
        point = density.start + 0.3 * rng.standard_normal(density.dim)
        z = point + np.stack([0.0 * moves[0], moves[0], moves[1], moves.sum(axis=0)])
        grads = density_at(density.address, z)[1]
        change = (grads[3] - grads[2] - grads[1] + grads[0])[others]
        shares.append(np.linalg.norm(change) / np.linalg.norm((grads[1] - grads[0])[others]))
    # outside of the support, or where nothing changes, they tell nothing
    return float(np.median([one if np.isfinite(one) else np.inf for one in shares]))


def _without_linear(density: CompiledDensity, hubs: IntArray) -> tuple[IntArray, int]:
    """Globals without variables in which the log density of all others is quadratic.

    Locals are normal given what is left: means of a normal regression go, scales stay. How wide a
    mean is given scales is then known at nodes, where a law of globals saturates.
    """
    owner = np.repeat(np.arange(len(density.points.sizes)), density.points.sizes)
    left, n_gradients = np.array(hubs), 0
    for number in sorted(set(owner[hubs].tolist()), key=lambda i: -density.points.sizes[i]):
        tried = left[owner[left] != number]
        n_gradients += _N_CURVED
        if _curved(density, tried) <= _LEAST_CURVED:
            left = tried
    return left, n_gradients


def _with_ancestors(density: CompiledDensity, hubs: IntArray) -> IntArray:
    """Hubs, and all entries of variables that the distributions of others depend on.

    Locals are what comes last: a scale whose values are globals has no mode where these agree.
    Only of variables that have hubs, where those of all are too many.
    """
    model, points = density.model, density.points
    owner = np.repeat(np.arange(len(points.names)), points.sizes)
    rvs = [model.values_to_rvs[value] for value in model.value_vars]
    # standard normals hang on no scale
    of_none = {rvs[i] for i in (points.innovations.numbers if points.innovations else ())}
    below = {number: set(ancestors([rv])) - {rv} - of_none for number, rv in enumerate(rvs)}

    def with_those_of(numbers: Iterable[int]) -> IntArray:
        above = [i for i, rv in enumerate(rvs) if any(rv in below[n] for n in numbers)]
        return np.union1d(hubs, np.flatnonzero(np.isin(owner, above)))

    every = with_those_of(range(len(rvs)))
    return every if len(every) <= MOST_GLOBALS else with_those_of(np.unique(owner[hubs]).tolist())
