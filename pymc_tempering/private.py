"""Every hook into parts of PyMC, PyTensor and numba that those do not promise to keep.

Each function says what it stands in for, and has a test of its own in ``tests/test_private.py``
that names it when a new release breaks it. No other module imports private modules; what is public
elsewhere (and listed in that test) is imported where it is used. Imports are inside the functions,
so that what needs numba alone does not load PyMC.
"""

from collections.abc import Callable
from typing import Any

__all__ = [
    "ProgressHooks",
    "cache_locators",
    "compile_keyed",
    "draws_from_prior",
    "graph_key",
    "has_random_terms",
    "is_improper",
    "is_log_transform",
    "jitted",
    "locator_file",
    "rewrite_before_gradient",
    "rewrite_parameter_checks",
    "runs_compiled_code",
    "set_cache_locators",
    "stock_locators",
]


# --- PyMC ---------------------------------------------------------------------------------------


class ProgressHooks:
    """Columns of a step's own in PyMC's progress bar.

    PyMC asks a step for ``_progressbar_config`` and ``_make_progressbar_update_functions``, names
    that it keeps to its own steps. There is no public way to add a column.
    """

    def progress_columns(self, n_chains: int) -> tuple[list[Any], dict[str, list[Any]]]:
        """Columns, and what they show before the first draw."""
        raise NotImplementedError

    def progress_update(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Give the function from a draw's statistics to what the columns show."""
        raise NotImplementedError

    def _progressbar_config(self, n_chains: int = 1) -> tuple[list[Any], dict[str, list[Any]]]:
        return self.progress_columns(n_chains)

    def _make_progressbar_update_functions(self) -> tuple[Any, ...]:
        return (self.progress_update(),)


def is_improper(rv: Any) -> bool:
    """Whether a variable has no proper law: ``pm.Flat`` or ``pm.HalfFlat``.

    The classes of the random variables behind the two are not public, and a variable does not say
    which distribution made it.
    """
    from pymc.distributions.continuous import FlatRV, HalfFlatRV

    return isinstance(rv.owner.op, FlatRV | HalfFlatRV)


def is_log_transform(transform: Any) -> bool:
    """Whether a value variable is the logarithm of its variable.

    PyMC's ``transforms.log`` is public, its class is not, and distributions make own instances.
    """
    from pymc.distributions.transforms import LogTransform

    return isinstance(transform, LogTransform)


def draws_from_prior(model: Any) -> Callable[[int], dict[str, Any]]:
    """Give the function from a seed to one draw of the prior, as values of the value variables.

    ``pm.draw`` gives variables on their own scale; PyMC's starting points with the strategy
    "prior" are the same on the unconstrained scale, and obey ``initval=``.
    """
    from pymc.initial_point import make_initial_point_fn

    draw: Callable[[int], dict[str, Any]] = make_initial_point_fn(
        model=model, default_strategy="prior", return_transformed=True
    )
    return draw


def has_random_terms(outputs: list[Any]) -> bool:
    """Whether evaluating these graphs twice draws anew, as with minibatches.

    PyMC finds the generators that a graph would advance, for its own compile function.
    """
    from pymc.pytensorf import collect_default_updates

    return bool(collect_default_updates(inputs=[], outputs=outputs))


def rewrite_before_gradient(graph: Any) -> Any:
    """Rewrite a log density as PyMC does before it takes the gradient.

    Otherwise gradients differ from those of ``Model.compile_dlogp`` where PyMC replaces a term by
    a stable one.
    """
    from pymc.pytensorf import rewrite_pregrad

    return rewrite_pregrad(graph)


def rewrite_parameter_checks(graph: Any) -> None:
    """Make every check of parameters in a function graph a switch to ``-inf``, in place.

    PyMC's own rewrite comes while a function is compiled, after graphs have been made one for many
    draws; a check is then one for all draws.
    """
    from pymc.logprob.utils import local_check_parameter_to_ninf_switch
    from pytensor.graph.rewriting.basic import in2out

    in2out(local_check_parameter_to_ninf_switch).rewrite(graph)


# --- PyTensor -----------------------------------------------------------------------------------


def runs_compiled_code(op: Any) -> bool:
    """Whether an Op evaluates a graph of its own through a compiled function, as ``Scan`` does.

    Scalar composites hold a graph too, and evaluate it in Python.
    """
    from pytensor.graph.op import HasMultipleInnerGraph
    from pytensor.scalar.basic import ScalarOp

    return isinstance(op, HasMultipleInnerGraph) and not isinstance(op, ScalarOp)


def jitted(function: Any) -> Any:
    """Give the numba function inside a PyTensor function of mode "NUMBA".

    PyTensor keeps it to itself; calling a graph from compiled code needs it.
    """
    return function.vm.jit_fn


def graph_key(compiled: Any) -> str | None:
    """Key under which PyTensor keeps a graph's machine code on disk; None where it has none.

    PyTensor remembers keys by function in a dictionary of its own.
    """
    from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS

    key: str | None = CACHED_SRC_FUNCTIONS.get(compiled.py_func)
    return key


def compile_keyed(source: str, name: str, names: dict[str, Any], key: str | None) -> Any:
    """Python function of a source text, whose machine code is kept on disk under a key.

    numba itself keeps only functions that stand in a file.

    Parameters
    ----------
    source : str
    name : str
        Of the function that `source` defines.
    names : dict
        Its globals.
    key : str or None
        Has to contain everything that the machine code depends on; None keeps nothing.
    """
    from pytensor.link.numba.cache import compile_numba_function_src

    return compile_numba_function_src(source, name, global_env=names, cache_key=key)


# --- numba --------------------------------------------------------------------------------------


def cache_locators() -> list[type[Any]]:
    """Classes that numba asks, in turn, where a function's machine code is kept.

    numba has no public way to add one; PyTensor puts its own there too.
    """
    from numba.core.caching import CacheImpl

    return list(CacheImpl._locator_classes)


def set_cache_locators(locators: list[type[Any]]) -> None:
    """Replace the classes of :func:`cache_locators`."""
    from numba.core.caching import CacheImpl

    CacheImpl._locator_classes = locators


def stock_locators() -> list[type[Any]]:
    """Numba's classes for functions in files that can be written beside or in the user's folder."""
    from numba.core.caching import (
        InTreeCacheLocator,
        UserProvidedCacheLocator,
        UserWideCacheLocator,
    )

    return [UserProvidedCacheLocator, InTreeCacheLocator, UserWideCacheLocator]


def locator_file(locator: Any) -> str:
    """File of the function that a locator is for."""
    file: str = locator._py_file
    return file
