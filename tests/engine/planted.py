"""Planted errors: compiled functions with some of those that they call replaced by wrong ones.

Loops over many states call a kernel by its address, as kernels call densities: one small loop then
serves the package's kernel, which is compiled once and kept on disk, and every wrong one.
"""

import itertools
import types

import numba
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

from pymc_tempering.private.of_numba import keep_apart, keep_inside

_PACKAGE = "pymc_tempering."
_KEPT_OPTIONS = ("fastmath", "_nrt")
_numbers = itertools.count()


def _compiled(function, **options):
    """For compiled callers, as a rule, like most kernels of the package."""
    made = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
    keep_inside(made)
    return made


def _compiled_apart(function, **options):
    """Not again with each that calls it; nothing of it is kept on disk."""
    made = _compiled(function, **options)
    name = f"planted.{function.__name__}.{next(_numbers)}"
    keep_apart(made, lambda arguments: f"{name} {arguments}", lambda arguments: None)
    return made


def with_planted(function, wrong):
    """Copy of a compiled function in which some of those that it calls are replaced.

    Only what leads to a replaced function is compiled again.

    Parameters
    ----------
    function : numba dispatcher
    wrong : dict of dispatcher to function
        Plain functions by the compiled function of the package that each stands for, however
        indirectly that is called. They may call the right one.
    """
    # callees of what counts no references count none either, unless they say so
    built = {right: _compiled(replacement, _nrt=True) for right, replacement in wrong.items()}
    reached = set()

    def rebuilt(dispatcher):
        if dispatcher in wrong:
            reached.add(dispatcher)
        if dispatcher in built:
            return built[dispatcher]
        original = dispatcher.py_func
        seen = {
            name: value
            for name in original.__code__.co_names
            if isinstance(value := original.__globals__.get(name), Dispatcher)
            and value.py_func.__module__.startswith(_PACKAGE)
        }
        inside = {name: rebuilt(value) for name, value in seen.items()}
        built[dispatcher] = dispatcher
        if any(inside[name] is not value for name, value in seen.items()):
            copy = types.FunctionType(
                original.__code__, original.__globals__ | inside, original.__name__,
                original.__defaults__, original.__closure__,
            )  # fmt: skip
            options = {k: v for k, v in dispatcher.targetoptions.items() if k in _KEPT_OPTIONS}
            built[dispatcher] = _compiled_apart(copy, **options)
        return built[dispatcher]

    result = rebuilt(function)
    missed = [right.__name__ for right in wrong.keys() - reached]
    assert not missed, f"{function.__name__} no longer calls {missed}: adapt the test"
    return result


def address_of(kernel, *args):
    """Address of the machine code of a compiled function for arguments like these."""
    signature = tuple(numba.typeof(value) for value in args)
    kernel.compile(signature)
    compiled = kernel.overloads[signature]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


@intrinsic
def call_kernel(typingctx, address, arguments):
    """Call the function at an address, in compiled code; for kernels that return nothing."""
    signature = numba.types.none(address, arguments)

    def codegen(context, builder, sig, args):
        argument_types = list(sig.args[1])
        convention = context.call_conv
        function_type = convention.get_function_type(sig.return_type, argument_types)
        function = builder.inttoptr(args[0], function_type.as_pointer())
        status, value = convention.call_function(
            builder, function, sig.return_type, argument_types,
            cgutils.unpack_tuple(builder, args[1]),
        )  # fmt: skip
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return value

    return signature, codegen
