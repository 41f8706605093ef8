"""Every hook into parts of PyMC, PyTensor and numba that those do not promise to keep.

Each function says what it stands in for, and has a test of its own in ``tests/test_private.py``
that names it when a new release breaks it. No other module imports private modules; what is public
elsewhere (and listed in that test) is imported where it is used. Imports are inside the functions,
so that what needs numba alone does not load PyMC.
"""

import sys
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

__all__ = [
    "ProgressHooks",
    "address_of_compiled",
    "assigned_steps",
    "bounded_integer",
    "cache_locators",
    "compile_keyed",
    "constant_values",
    "default_cores",
    "dispatch_by_op",
    "draws_from_prior",
    "graph_key",
    "has_random_terms",
    "has_total_size",
    "is_circular",
    "is_for_jax",
    "is_improper",
    "is_log_transform",
    "is_ordered",
    "is_simulator",
    "jax_dispatch",
    "jitted",
    "keep_apart",
    "keep_inside",
    "locator_file",
    "no_reference_counts",
    "parameter_error",
    "reseed",
    "rewrite_before_gradient",
    "rewrite_parameter_checks",
    "runs_compiled_code",
    "set_cache_locators",
    "start_method",
    "stock_locators",
]


_JAX = "pytensor.link.jax.dispatch"
"""Module that loads JAX, and without which no Op has a way to be computed by it."""


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


def is_circular(transform: Any) -> bool:
    """Whether a value variable is an angle that may be any number of turns away.

    PyMC's ``transforms.circular`` is public, its class is not, and ``pymc.dims`` has another: they
    share the name that PyMC gives to value variables.
    """
    return getattr(transform, "name", None) == "circular"


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


def is_ordered(transform: Any) -> bool:
    """Whether a transform keeps the values of a variable in increasing order.

    PyMC's ``transforms.ordered`` is public, its class is not, and it may be made by hand.
    """
    from pymc.distributions.transforms import Ordered

    return isinstance(transform, Ordered)


def is_simulator(rv: Any) -> bool:
    """Whether a variable is a ``pm.Simulator``, whose density is a distance to simulated data."""
    from pymc.distributions.simulator import SimulatorRV

    return isinstance(rv.owner.op, SimulatorRV)


def has_total_size(rv: Any) -> bool:
    """Whether ``total_size=`` was given for a variable, whose log likelihood it multiplies.

    The variable is then wrapped; inputs of the wrapper are the variable and a size for each axis.
    """
    from pymc.variational.minibatch_rv import MinibatchRandomVariable

    return isinstance(rv.owner.op, MinibatchRandomVariable)


def parameter_error() -> type[Exception]:
    """What PyMC's checks of parameters raise, such as for a negative standard deviation."""
    from pymc.logprob.utils import ParameterValueError

    error: type[Exception] = ParameterValueError
    return error


def reseed(function: Any, seed: int) -> None:
    """Give the generators of a compiled function that draws variables a new seed, in place.

    ``pymc.pytensorf.compile`` takes a seed once, when the function is made.
    """
    from pymc.pytensorf import reseed_rngs

    def is_generator(variable: Any) -> bool:
        return isinstance(variable.get_value(borrow=True), np.random.Generator)

    reseed_rngs([v for v in function.get_shared() if is_generator(v)], seed)


def constant_values(variables: list[Any]) -> tuple[np.ndarray, ...] | None:
    """Values of variables that depend on no other variable of a model; None where any does.

    ``eval`` of the shape of a random variable would draw it, and compile what draws it.
    """
    from pymc.exceptions import NotConstantValueError
    from pymc.pytensorf import constant_fold

    try:
        return constant_fold(variables)
    except NotConstantValueError:
        return None


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


def assigned_steps(model: Any) -> Any:
    """Step methods that ``pm.sample`` would take for a model, composed to one.

    The functions behind it are not part of PyMC's documented interface.
    """
    from pymc.sampling.mcmc import assign_step_methods, instantiate_steppers
    from pymc.step_methods.compound import CompoundStep

    steps = instantiate_steppers(model, *assign_step_methods(model))
    return CompoundStep(steps if isinstance(steps, list) else [steps])


def default_cores() -> int:
    """How many processes ``pm.sample`` starts at most without ``cores``: one samples here."""
    from pymc.sampling.parallel import _cpu_count

    return min(4, int(_cpu_count()))


def start_method(mp_ctx: Any) -> str:
    """How ``pm.sample`` starts processes for its argument ``mp_ctx``, None included.

    PyMC's default is another one than Python's on some machines.
    """
    from pymc.sampling.parallel import _initialize_multiprocessing_context

    method: str = _initialize_multiprocessing_context(mp_ctx, quiet=True).get_start_method()
    return method


def dispatch_by_op(names: Collection[str] = ()) -> dict[str, Any]:
    """Functions that look up by the class of an Op what to do, by name.

    They are where distributions register what they know of themselves. PyMC's guide to making
    distributions names some of them, all with underscores. That of JAX, "jax", is among them where
    JAX is loaded, or `names` has it.
    """
    from pymc.distributions.distribution import _support_point
    from pymc.distributions.shape_utils import _change_dist_size
    from pymc.distributions.transforms import _default_transform
    from pymc.logprob.abstract import _icdf, _logccdf, _logcdf, _logprob

    functions = {
        "logprob": _logprob,
        "logcdf": _logcdf,
        "logccdf": _logccdf,
        "icdf": _icdf,
        "support_point": _support_point,
        "change_dist_size": _change_dist_size,
        "default_transform": _default_transform,
    }
    if "jax" in names or _JAX in sys.modules:
        functions["jax"] = jax_dispatch()
    return functions


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


def is_for_jax(op: Any) -> bool:
    """Whether an Op was written for JAX: by ``pytensor.wrap_jax``, or registered by its author.

    The class of the former is not public, nor is where the latter are registered.
    """
    from pytensor.link.jax.ops import JAXOp

    if isinstance(op, JAXOp):
        return True
    own = type(op).__module__.partition(".")[0] not in ("pytensor", "pymc")
    # without it, nothing was registered
    return own and _JAX in sys.modules and type(op) in jax_dispatch().registry


def jax_dispatch() -> Any:
    """Give the function that looks up by the class of an Op how JAX computes it.

    Those who write Ops for JAX register them there, by an import that loads JAX.
    """
    from pytensor.link.jax.dispatch import jax_funcify

    return jax_funcify


def jitted(function: Any) -> Any:
    """Give the compiled function inside a PyTensor function of mode "NUMBA" or "JAX".

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


def no_reference_counts() -> dict[str, bool]:
    """Option that compiles a function without counting references to arrays.

    Every view of a row, and every array taken out of a tuple, is counted up and down by atomic
    instructions, which numba removes only where it sees both; the option not to is its own. What
    makes an array is refused with it.
    """
    return {"_nrt": False}


def address_of_compiled(function: Any, signature: tuple[Any, ...]) -> int:
    """Address of the machine code of a compiled function for arguments of given types.

    numba has public addresses of functions with C types only (``numba.cfunc``). The code lives as
    long as the function.
    """
    function.compile(signature)
    compiled = function.overloads[signature]
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address


def bounded_integer() -> Any:
    """Give numba's function from a bit generator and a bound to one of the integers up to it.

    numba's ``Generator.integers`` is public, and calls it after checks of types and ranges.
    """
    from numba.np.random.random_methods import buffered_bounded_lemire_uint32

    return buffered_bounded_lemire_uint32


def keep_apart(function: Any, symbol: Callable[[Any], str], load: Callable[[Any], Any]) -> None:
    """Let compiled callers of a function contain a call of it, by name, and no copy of its code.

    numba copies the code of a function into that of every caller, and of every caller of those, to
    be optimised and compiled once more in each, whether it is inlined or not. It has no way to
    refer to code that stands elsewhere, and none to say what has to be loaded before a caller that
    comes from the disk; what it has for its threads serves here.

    Parameters
    ----------
    function : numba dispatcher
        Not compiled yet.
    symbol : callable
        From types of arguments to a name: the same in every process for the same code.
    load : callable
        From types of arguments to what loads the function for these: callable without arguments,
        can be pickled and hashed.
    """
    from copy import copy

    from llvmlite.binding import add_symbol

    add_overload = function.add_overload

    def add_apart(result: Any) -> None:
        add_overload(result)
        context, library, arguments = result.target_context, result.library, result.signature.args
        outside = copy(result.fndesc)
        outside.mangled_name = symbol(arguments)
        code = library.get_pointer_to_function(result.fndesc.llvm_func_name)
        add_symbol(outside.mangled_name, code)
        empty = library.codegen.create_library(outside.mangled_name)
        empty._shared_module = empty._final_module
        empty._reload_init.add(load(arguments))
        context.remove_user_function(result.entry_point)
        context.insert_user_function(result.entry_point, outside, [empty])

    function.add_overload = add_apart


def keep_inside(function: Any) -> None:
    """Let Python call a function that has been compiled for compiled callers alone.

    What unpacks a call's arguments takes numba as long to make as the code of a small function,
    and without it ``no_cpython_wrapper`` leaves a function that crashes the interpreter. Here a
    call from Python goes to a compiled caller instead, made at the first of them.

    Parameters
    ----------
    function : numba dispatcher
        With that option, and not compiled yet.
    """
    import numba

    def add_overload(result: Any) -> None:
        function.overloads[tuple(result.signature.args)] = result

    function.add_overload = add_overload
    caller = numba.njit(nogil=True)(lambda *args: function(*args))
    function._compile_for_args = lambda *_, **__: caller


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
