"""Hooks into parts of numba."""

from collections.abc import Callable
from typing import Any


def no_reference_counts() -> dict[str, bool]:
    """Option that compiles a function without counting references to arrays.

    Every view of a row is counted up and down by atomic instructions, which numba removes only
    where it sees both. What makes an array is refused with this option.
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

    numba copies the code of a function into every caller, and into every caller of those, to be
    optimised once more in each. It cannot refer to code that stands elsewhere, nor say what has to
    be loaded before a caller that comes from the disk; what it has for its threads serves here.

    `symbol` gives, for types of arguments, a name that is the same in every process for the same
    code; `load` what loads the function for these: callable without arguments, picklable, hashable.
    The function is not compiled yet.
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


def hand_on_needs(function: Any) -> None:
    """Let compiled callers of a function from the disk know what had to be loaded before it.

    numba hands this on where it compiled the function in this process, but forgets it of one that
    it loaded. A caller compiled then would be kept on disk without, and the next process that loads
    it aborts (see :func:`keep_apart`). The function is not compiled yet.
    """
    add_overload = function.add_overload

    def add_with_needs(result: Any) -> None:
        result.library._reload_init.update(result.reload_init)
        add_overload(result)

    function.add_overload = add_with_needs


def forget_literals(function: Any) -> None:
    """Compile a function for the types of its arguments, whatever numbers compiled callers write.

    To numba a 0 or True that is written in a call has a type of its own, and it compiles once more
    for each. The function is not compiled yet.
    """
    from numba.types import unliteral

    template = function.get_call_template
    function.get_call_template = lambda args, kws: template(
        tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()}
    )


def name_by_key(function: Any) -> None:
    """Name the files of a function's machine code by what it is for.

    numba numbers them. Of two processes that compile one function for different types at the same
    time, both may take the same number, and the code of one is loaded for the types of the other
    ever after. With names, at worst an entry of the index is lost, and compiled again.
    """
    import hashlib

    files = function._cache._cache_file

    def save(key: Any, data: Any) -> None:
        number = int.from_bytes(hashlib.sha256(str(key).encode()).digest()[:8])
        name = files._data_name(number)
        files._save_data(name, data)
        files._save_index(files._load_index() | {key: name})

    files.save = save


def keep_inside(function: Any) -> None:
    """Let Python call a function that has been compiled for compiled callers alone.

    What unpacks a call's arguments takes numba as long to make as a small function, and without it
    ``no_cpython_wrapper`` leaves a function that crashes the interpreter. Here a call from Python
    goes to a compiled caller instead, made at the first of them. The function has that option, and
    is not compiled yet.
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
