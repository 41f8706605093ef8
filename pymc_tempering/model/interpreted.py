"""Graphs that are evaluated a few times, for which compiling anything would take longer."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
from pymc.pytensorf import compile as pymc_compile
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant

from pymc_tempering.private import runs_compiled_code

__all__ = ["CannotInterpretError", "in_python", "interpret", "interpreted"]


def in_python() -> Any:
    """Context in which PyTensor takes its Python code for Ops that have C code too.

    Mode "FAST_COMPILE" does so for a graph, but not for graphs inside its Ops, such as mixtures and
    simplex transforms. For each kind of Op in those a C++ compiler would run, for a second.
    """
    return pytensor.config.change_flags(cxx="")


def interpreted(inputs: list[Any], outputs: Any, **options: Any) -> Callable[..., Any]:
    """Compile a graph for PyTensor's interpreter; options are ``pymc.pytensorf.compile``'s."""
    with in_python():
        function: Callable[..., Any] = pymc_compile(inputs, outputs, mode="FAST_COMPILE", **options)
    return function


MAX_ENTRIES = 50_000
"""Entries of intermediate results beyond which interpreting takes seconds: Python visits each."""


class CannotInterpretError(Exception):
    """The graph is too large, or holds an Op that runs compiled code of its own."""


def interpret(graph: Any, inputs: Sequence[np.ndarray]) -> list[Any]:
    """Outputs of a rewritten function graph by the Python implementation of every Op.

    Machine code on disk can be another model's. What is computed here shares only the graph with
    it. Inputs may be overwritten. CannotInterpretError for loops (``Scan``), Ops without Python
    code and more than 50,000 intermediate values; IndexError names the array that is indexed.
    """
    return _interpret(graph, inputs, [0])


def _interpret(graph: Any, inputs: Sequence[Any], entries: list[int]) -> list[Any]:
    values = dict(zip(graph.inputs, inputs, strict=True))

    def value(variable: Any) -> Any:
        return variable.data if isinstance(variable, Constant) else values[variable]

    for node in graph.toposort():
        arguments = [value(v) for v in node.inputs]
        if isinstance(node.op, OpFromGraph):
            outputs = _interpret(node.op.fgraph, arguments, entries)
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
