"""Graphs that are evaluated a few times, for which compiling anything would take longer."""

from collections.abc import Callable
from typing import Any

import pytensor
from pymc.pytensorf import compile as pymc_compile

__all__ = ["in_python", "interpreted"]


def in_python() -> Any:
    """Context in which PyTensor takes its Python code for Ops that have C code too.

    Mode "FAST_COMPILE" says so of a graph, and not of the graphs inside its Ops, such as mixtures
    and simplex transforms: for each kind of Op in those a C++ compiler would run, for a second.
    """
    return pytensor.config.change_flags(cxx="")


def interpreted(inputs: list[Any], outputs: Any, **options: Any) -> Callable[..., Any]:
    """Compile a graph for PyTensor's interpreter.

    Parameters
    ----------
    inputs : list of Variable
    outputs : Variable or list of Variable
    **options
        Passed on to :func:`pymc.pytensorf.compile`.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> x = pt.vector()
    >>> interpreted([x], pt.special.softmax(x).sum())([1.0, 2.0]).item()
    1.0
    """
    with in_python():
        function: Callable[..., Any] = pymc_compile(inputs, outputs, mode="FAST_COMPILE", **options)
    return function
