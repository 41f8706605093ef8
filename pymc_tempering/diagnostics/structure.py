"""Which variables of a model depend on which, bend with which, and which of them are globals."""

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse import csgraph

from pymc_tempering.engine.path.path import density_at
from pymc_tempering.model.compile import CompiledDensity, compile_density
from pymc_tempering.model.structure import MOST_DIRECTIONS, Structure, neighbours_of, structures_of
from pymc_tempering.options import resolve_model
from pymc_tempering.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pymc as pm

_ROUNDING = 1e-6
"""Share of the largest change of a variable's gradient below which a change is rounding."""

_SAID = {
    "diagonal": "are independent",
    "grouped": "fall into groups of at most {}",
    "banded": "have an order in which neighbours are at most {} apart",
    "sparse": "have at most {} neighbours each",
    "dense": "are dense",
}


@dataclass(frozen=True, eq=False, repr=False)
class ModelStructure:
    """Dependences between the free variables of a model; prints as a table.

    Parameters
    ----------
    names, sizes, n_globals : tuple
        Free variables, unconstrained values of each, and how many of these are globals.
    n_neighbours : ndarray of int, shape (n_variables, n_variables)
        Most values of the second variable, others than itself, on which a value of the first
        depends, all others given; what is common to a sum is left out.
    bends : ndarray of bool, shape (n_variables, n_variables)
        Whether the law of the first, all others given, is other than a Gaussian whose mean alone
        moves with the second, in proportion; on the diagonal, other than a Gaussian.
    kind : {"diagonal", "grouped", "banded", "sparse", "dense"}
        How locals depend on each other, the globals given, and hubs.
    width : int
        Values in the largest group; how far neighbours in a band are apart at most; most neighbours
        of a value of the sparse; number of the dense.
    n_directions : int
        Directions that show the Hessian of the locals.
    n_hubs : int
        Locals that so many others depend on that each has a direction of its own.
    unread : str
        Why the structure could not be read, and counts as dense; else empty.
    summed : str
        The variable on whose sum each of its values depends by as much, as that of an intrinsic
        autoregression under a soft constraint; else empty.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    n_globals: tuple[int, ...]
    n_neighbours: IntArray
    bends: BoolArray
    kind: str
    width: int
    n_directions: int
    n_hubs: int = 0
    unread: str = ""
    summed: str = ""

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for each variable, the last two columns with names of others."""
        columns = {"values": self.sizes, "globals": self.n_globals}
        table = pd.DataFrame(columns, index=pd.Index(self.names, name="variable"))
        for title, rows in (("depends on", self.n_neighbours > 0), ("bends with", self.bends)):
            table[title] = [", ".join(np.array(self.names)[row]) for row in rows]
        return table

    def __repr__(self) -> str:
        if self.unread:
            said = f"The structure cannot be read, and is treated as dense: {self.unread}"
            return "\n".join(textwrap.wrap(said, 80))
        total, n_globals = sum(self.sizes), sum(self.n_globals)
        table = self.to_dataframe().reset_index()
        for title in ("depends on", "bends with"):
            table[title] = [textwrap.shorten(t, 24, placeholder=" ...") for t in table[title]]
        hubs = f" and {self.n_hubs} hub{'s'[: self.n_hubs > 1]}" if self.n_hubs else ""
        of_all = f"Given the globals{hubs}, the locals" if n_globals else "Values"
        head = f"{total} values: {n_globals} globals, {total - n_globals} locals"
        said = f"{of_all} {_SAID[self.kind].format(self.width)}."
        in_common = [f"All values of {self.summed} depend on their sum, too."] * (self.summed != "")
        shown = f"Directions that show their Hessian: {self.n_directions}"
        return "\n".join([head, table.to_string(index=False), said, *in_common, shown])


def structure(model: "pm.Model | None" = None) -> ModelStructure:
    """Find which variables of a model depend on which, bend with which, and which are globals.

    Globals are what many values depend on: scales, and means and coefficients unless all others are
    normal with these too. Given globals the others, the locals, depend on few of their kind, and on
    hubs, such as those means. Maps of hierarchies start from it; a run whose first map does not do
    tries other globals.

    Parameters
    ----------
    model : pymc.Model, optional
        By default that of the context.

    Returns
    -------
    ModelStructure
        Prints as a table. A model whose structure cannot be read counts as dense, and the table
        says so: one without gradients, that calls Python, or with more than 4000 values.

    Raises
    ------
    ModelError
        If the model has no density that can be compiled, or discrete variables.
    OptionError
        If `model` is something else.

    Notes
    -----
    Values depend on each other where the gradient by one changes with the other, at two points near
    the initial one. A variable bends with another where its gradient is not linear in both: second
    differences, with random moves of whole variables. Four gradients for each value, and a half for
    each pair of variables.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     mean, tau = pm.Normal("mean", 0, 5), pm.HalfNormal("tau", 1)
    ...     study = pm.Normal("study", mean, tau, shape=4)
    ...     y = pm.Normal("y", study, 0.5, observed=[0.1, 1.2, 0.7, -0.4])
    >>> structure(model)
    6 values: 1 globals, 5 locals
    variable  values  globals  depends on       bends with
        mean       1        0  tau, study              tau
         tau       1        1 mean, study mean, tau, study
       study       4        0   mean, tau              tau
    Given the globals and 1 hub, the locals are independent.
    Directions that show their Hessian: 2
    """
    resolved = resolve_model(model, "structure")
    density = compile_density(resolved)
    frozen, names = density.model, tuple(rv.name for rv in resolved.free_RVs)
    order = [names.index(frozen.values_to_rvs[value].name) for value in frozen.value_vars]
    owner = np.repeat(order, density.points.sizes)
    sizes = np.bincount(owner)
    (found, unread), summed = _read(density), ""
    if found is None:
        others = np.tile(sizes, (len(names), 1)) - np.eye(len(names), dtype=int)
        n_globals, bends, kind = 0 * sizes, others >= 0, ("dense", owner.size, owner.size, 0)
    else:
        others, bends = _by_variable(found.neighbours, owner), _bends(density, owner)
        n_globals, kind = np.bincount(owner[found.globals], minlength=len(names)), _kind(found)
        summed = names[owner[found.summed[0]]] if found.summed.size else ""
    return ModelStructure(
        names, tuple(sizes.tolist()), tuple(n_globals.tolist()), others, bends, *kind,
        unread=unread, summed=summed,
    )  # fmt: skip


def _read(density: CompiledDensity) -> tuple[Structure | None, str]:
    """Structure of the likeliest choice of globals, if any; or why there is none at all."""
    if density.no_gradient or density.calls_python:
        return None, density.no_gradient or density.calls_python
    structures, _ = structures_of(density)
    if structures:
        return structures[0], ""
    pattern, summed, _ = neighbours_of(density, np.random.default_rng(0))
    if pattern is None:
        return None, f"{density.dim} values are too many, or no gradient near the start is finite."
    return Structure(sparse.csr_array(pattern), np.empty(0, np.int64), summed), ""


def _by_variable(neighbours: sparse.csr_array, owner: IntArray) -> IntArray:
    """Most neighbours of a value of one variable in another, itself not counted."""
    counts = neighbours.astype(np.int64) @ (owner[:, None] == np.arange(owner.max() + 1))
    counts[np.arange(owner.size), owner] -= 1
    return np.array([counts[owner == i].max(axis=0) for i in range(owner.max() + 1)])


def _kind(found: Structure) -> tuple[str, int, int, int]:
    """How locals depend on each other, how far, directions that show their Hessian, and hubs."""
    others = np.delete(found.locals, found.hubs)
    n, n_hubs = len(others), len(found.hubs)
    local = sparse.csr_matrix(found.neighbours[others][:, others])
    counts = np.diff(local.indptr)
    widest = int(counts.max())
    # all neighbours of a value have colours of their own
    if widest > 1 and (widest > min(n - 1, MOST_DIRECTIONS) or found.n_colours == n):
        return "dense", n, n, 0
    label = csgraph.connected_components(local)[1]
    if (counts == np.bincount(label)[label]).all():
        return "diagonal" if widest == 1 else "grouped", widest, found.n_colours, n_hubs
    row, column = local.nonzero()
    place = np.argsort(csgraph.reverse_cuthill_mckee(local, symmetric_mode=True))
    apart = min(int(np.abs(at[row] - at[column]).max()) for at in (np.arange(n), place))
    if apart < widest:
        return "banded", apart, found.n_colours, n_hubs
    return "sparse", widest - 1, found.n_colours, n_hubs


# what is not finite counts as bending
@np.errstate(over="ignore", invalid="ignore")
def _bends(density: CompiledDensity, owner: IntArray) -> BoolArray:
    """Whether the gradient by each variable is not linear in itself and another, others given."""
    rng, n = np.random.default_rng(0), int(owner.max()) + 1
    z = density.start + 0.3 * rng.standard_normal(density.dim)
    of = np.arange(n)[:, None] == owner
    once, again = (np.where(of, 0.1 * rng.standard_normal(density.dim), 0.0) for _ in range(2))

    def changes(moves: FloatArray) -> FloatArray:
        grads = density_at(density.address, np.vstack([z, z + moves]))[1]
        return grads[1:] - grads[0]

    def largest(rows: FloatArray) -> FloatArray:
        return np.array([np.abs(rows[:, of[i]]).max(axis=1) for i in range(n)])

    first, second = changes(once), changes(again)
    least = _ROUNDING * largest(first).max(axis=1)[:, None]
    bends = ~(largest(changes(once + again) - first - second) <= least)
    for j in range(n):
        mixed = ~(largest(changes(once + once[j]) - first - first[j]) <= least)
        bends[:, j] |= np.diagonal(mixed) & (np.arange(n) != j)
    return bends
