"""Evaluating a compiled graph a second way, by each Op's own Python code.

Machine code can be another model's: it is kept on disk under keys that PyTensor and we make. What
is computed here shares nothing with it but the graph.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant

from pymc_tempering.private import runs_compiled_code

__all__ = ["CannotInterpretError", "interpret"]

MAX_ENTRIES = 50_000
"""Entries of intermediate results beyond which interpreting takes seconds: Python visits each."""


class CannotInterpretError(Exception):
    """The graph is too large, or holds an Op that runs compiled code of its own."""


def interpret(graph: Any, inputs: Sequence[np.ndarray]) -> list[Any]:
    """Outputs of a function graph by the Python implementation of every Op.

    Parameters
    ----------
    graph : pytensor.graph.fg.FunctionGraph
        Rewritten for any backend.
    inputs : sequence of ndarray
        May be overwritten, if the graph works in place.

    Raises
    ------
    CannotInterpretError
        For loops (``Scan``), Ops without a Python implementation, and graphs whose intermediate
        results have more than 50,000 entries.
    IndexError
        Of an index that is out of range; says of which array, where that has a name.
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
