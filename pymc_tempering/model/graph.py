"""A log density of named values as a graph of one flat vector, with its gradient.

Also evaluation of graphs that are needed a few times, for which compiling would take longer.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import compile as pymc_compile
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import DisconnectedInputError, NullTypeGradError
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from pymc_tempering.errors import ModelError
from pymc_tempering.model.point import PointMap
from pymc_tempering.private.of_pymc import rewrite_before_gradient
from pymc_tempering.private.of_pytensor import (
    indexing,
    is_step,
    nodes_in_order,
    runs_compiled_code,
    with_stable_logs,
)


class DensityGraph(NamedTuple):
    """A log density (nats) and its gradient as PyTensor variables of the flat vector ``z``.

    ``no_gradient`` says why the gradient is zeros, where there is none that helps.
    """

    z: Any
    log_density: Any
    gradient: Any
    no_gradient: str


def density_graph(
    frozen: pm.Model, points: PointMap, term: Any, data: Mapping[Any, Any] | None = None
) -> DensityGraph:
    """Write a log density of named values as one of the flat vector, with its gradient.

    `term` is a log density of the value variables. `data` maps variables of the graph to those that
    take their place.
    """
    # first, as these may be casts of shared variables
    term = graph_replace(term, dict(data or {}))
    # freezing knows the data that the model knows, not shared variables made without it
    shared = (v for v in ancestors([term]) if isinstance(v, SharedVariable))
    values = {v: v.get_value() for v in shared}
    arrays = {v: of for v, of in values.items() if not isinstance(of, np.random.Generator)}
    term = graph_replace(term, {v: pt.as_tensor(of) for v, of in arrays.items()})
    [log_density], z = points.join(term, [], frozen.value_vars)
    # constants are computed once, which is no reason to run a C++ compiler
    with in_python():
        log_density = with_stable_logs(rewrite_before_gradient(log_density)).astype("float64")
    if points.dim <= MOST_DIM and (names := staircase_names(frozen)):
        reason = f"everything depends on {', '.join(names)} through comparisons alone"
        return DensityGraph(z, log_density, pt.zeros_like(z), reason)
    try:
        return DensityGraph(z, log_density, pytensor.gradient.grad(log_density, z), "")
    except (NotImplementedError, NullTypeGradError, DisconnectedInputError) as error:
        reason = str(error).strip().split("\n")[0]
        return DensityGraph(z, log_density, pt.zeros_like(z), reason)


MOST_DIM = 30
"""Unconstrained values up to which such a model does without gradients: slices go from coordinate
to coordinate, and the Gaussian that they start from is fitted to weighted draws."""


def staircase_names(model: pm.Model) -> list[str]:
    """Names of continuous free variables that all else depends on through comparisons alone.

    A change point in continuous time enters as ``switch(t < tau, before, after)``: the density is
    a staircase along it, with a gradient of zero on every step. No move learns anything from that.

    Examples
    --------
    >>> import numpy as np
    >>> with pm.Model() as model:
    ...     tau, rate = pm.Uniform("tau", 0.0, 10.0), pm.Exponential("rate", 1.0)
    ...     late = pm.math.switch(np.arange(10) < tau, 0.0, 1.0)
    ...     y = pm.Normal("y", rate * late, observed=np.zeros(10))
    >>> staircase_names(model)
    ['tau']
    """
    free = set(model.free_RVs)
    random = free | set(model.observed_RVs)
    parameters = [parent for rv in random for parent in rv.owner.inputs]
    ends = [*parameters, *model.potentials]
    smooth, all_reached = (_reached(ends, random, cross=cross) for cross in (False, True))
    return [
        rv.name
        for rv in model.free_RVs
        if rv in all_reached and rv not in smooth and rv.dtype.startswith("float")
    ]


def _reached(ends: Iterable[Any], stops: set[Any], *, cross: bool) -> set[Any]:
    """Random variables that the ends are made from, directly; across steps too, or not."""
    waiting, seen = list(ends), set()
    while waiting:
        variable = waiting.pop()
        if variable in seen:
            continue
        seen.add(variable)
        if variable in stops or variable.owner is None:
            continue
        if cross or not is_step(variable):
            waiting.extend(variable.owner.inputs)
    return seen & stops


def in_python() -> Any:
    """Context in which PyTensor takes its Python code for Ops that have C code too.

    Mode "FAST_COMPILE" does so for a graph, but not for graphs inside its Ops, such as mixtures and
    simplex transforms. For each kind of Op in those a C++ compiler would run, for a second.
    """
    return pytensor.config.change_flags(cxx="")


def interpreted(inputs: list[Any], outputs: Any, **options: Any) -> Callable[..., Any]:
    """Compile a graph for PyTensor's interpreter; options are ``pymc.pytensorf.compile``'s."""
    with in_python():
        return pymc_compile(inputs, outputs, mode="FAST_COMPILE", **options)


MAX_ENTRIES = 50_000
"""Entries of intermediate results beyond which interpreting takes seconds: Python visits each."""


class KnownIndices:
    """Indices in a frozen model's graph that follow from data alone.

    Compiled code does not look whether they are in range: it reads, and for the gradient writes,
    what lies beside the array.
    """

    def __init__(self, model: pm.Model, data: Sequence[Any] = ()) -> None:
        known, picked = set(data), []
        for node in nodes_in_order([*model.basic_RVs, *model.potentials]):

            def is_known(variable: Any) -> bool:
                return variable in known or isinstance(variable, Constant)

            if all(map(is_known, node.inputs)):
                known.update(node.outputs)
            pick, array, indices = indexing(node)
            if pick is None or not all(map(is_known, indices)):
                continue
            if not is_known(array) and None not in array.type.shape:
                array = pt.constant(np.zeros(array.type.shape, array.dtype), name=array.name)
            if is_known(array):
                picked.append(pick(array, *indices))
        self._graph = FunctionGraph(list(data), picked, clone=True) if picked else None

    def check(self, values: Sequence[np.ndarray] = ()) -> None:
        """ModelError where one is out of range with these values of `data`."""
        if self._graph is not None:
            with naming_indices(), suppress(CannotInterpretError):
                interpret(self._graph, values, [-sys.maxsize])


@contextmanager
def naming_indices(at: str = "") -> Iterator[None]:
    """Make an IndexError of PyTensor's one that says what it means."""
    try:
        yield
    except IndexError as error:
        raise ModelError(
            f"An index in the model is out of range{at}: {error}. Compiled code would read what "
            "lies beside the array. Give the array an entry for every value that the index can "
            "take, counted from 0."
        ) from error


class CannotInterpretError(Exception):
    """The graph is too large, or holds an Op that runs compiled code of its own."""


def interpret(graph: Any, inputs: Sequence[Any], entries: list[int] | None = None) -> list[Any]:
    """Outputs of a rewritten function graph by the Python implementation of every Op.

    Machine code on disk can be another model's. What is computed here shares only the graph with
    it. Inputs may be overwritten. CannotInterpretError for loops (``Scan``), Ops without Python
    code and more than 50,000 intermediate values; IndexError names the array that is indexed.
    ``entries`` is how many values there have been in graphs around it.
    """
    entries = [0] if entries is None else entries
    values = dict(zip(graph.inputs, inputs, strict=True))

    def value(variable: Any) -> Any:
        return variable.data if isinstance(variable, Constant) else values[variable]

    for node in graph.toposort():
        arguments = [value(v) for v in node.inputs]
        if isinstance(node.op, OpFromGraph):
            outputs = interpret(node.op.fgraph, arguments, entries)
        elif runs_compiled_code(node.op):
            raise CannotInterpretError(f"{node.op} runs compiled code")
        else:
            storage: list[list[Any]] = [[None] for _ in node.outputs]
            try:
                node.op.perform(node, arguments, storage)
            except (NotImplementedError, AttributeError) as error:
                raise CannotInterpretError(f"{node.op} has no Python implementation") from error
            except IndexError as error:
                name = f"{node.inputs[0].name!r}: " if node.inputs[0].name else ""
                raise IndexError(f"{name}{error}") from error
            outputs = [cell[0] for cell in storage]
        entries[0] += sum(int(np.size(output)) for output in outputs)
        if entries[0] > MAX_ENTRIES:
            raise CannotInterpretError(f"more than {MAX_ENTRIES} intermediate values")
        values.update(zip(node.outputs, outputs, strict=True))
    return [value(v) for v in graph.outputs]
