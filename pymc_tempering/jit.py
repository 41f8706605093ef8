"""How the package's own functions are compiled, and what their machine code on disk is valid for.

numba keeps a function's machine code for as long as the file that defines it stays the same. The
code of functions called from other files is part of it all the same, and constants are: after an
upgrade that changed one file, kernels elsewhere would go on running the old one. Here the name of a
function's cache covers every module of this package that its own imports, directly or through
others.
"""

import functools
import gc
import hashlib
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numba

from pymc_tempering.private.of_numba import (
    cache_locators,
    forget_literals,
    hand_on_needs,
    keep_apart,
    keep_inside,
    locator_file,
    name_by_key,
    no_reference_counts,
    set_cache_locators,
    stock_locators,
)

_ROOT = Path(__file__).resolve().parent
_IMPORT = re.compile(r"^\s*(?:from|import)\s+(pymc_tempering[\w.]*)(?:\s+import\s+(.+))?", re.M)


@functools.cache
def source_digest(file: str, root: Path = _ROOT) -> str:
    """Digest of a module and of all modules of the package that it imports, however indirectly."""
    seen: dict[Path, str] = {}
    waiting = [Path(file).resolve()]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        text = path.read_text(encoding="utf-8")
        seen[path] = text
        for module, names in _IMPORT.findall(text):
            waiting.extend(_files(module, names, root))
    digest = hashlib.sha256()
    for path in sorted(seen):
        digest.update(f"{path.name}\0{seen[path]}\0".encode())
    return digest.hexdigest()


def _files(module: str, names: str, root: Path) -> list[Path]:
    base = root.joinpath(*module.split(".")[1:])
    # a name that is imported may be a module itself
    candidates = [base / name for name in re.findall(r"\w+", names)] + [base]
    found = [path.with_suffix(".py") for path in candidates if path != root]
    return [path for path in found if path.is_file()]


def _covering_imports(locator: type[Any]) -> type[Any]:
    class PackageLocator(locator):
        def get_source_stamp(self) -> Any:
            # not the time of the file too: a fresh checkout of the same text is the same code
            return source_digest(locator_file(self))

        # part of the file's name: an older index may hold types that no longer can be unpickled
        def get_disambiguator(self) -> str:
            return f"{super().get_disambiguator()}-{source_digest(locator_file(self))[:16]}"

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            if not (py_func.__module__ or "").startswith("pymc_tempering."):
                return None
            return super().from_function(py_func, py_file)

    PackageLocator.__name__ = f"Package{locator.__name__}"
    return PackageLocator


def _install() -> None:
    # functions with a key of their own, as PyTensor's and the wrapped densities, come first
    present = cache_locators()
    if any(c.__module__ == __name__ for c in present):
        return
    keyed = [c for c in present if c.__module__.startswith("pytensor")]
    ours = [_covering_imports(c) for c in stock_locators()]
    set_cache_locators(keyed + ours + [c for c in present if c not in keyed])


class _Load(NamedTuple):
    """Compile a function of the package for given types, or load it from disk."""

    module: str
    name: str
    arguments: tuple[Any, ...]

    def __call__(self) -> None:
        getattr(import_module(self.module), self.name).compile(self.arguments)


def _keep_apart(function: Any) -> None:
    plain = function.py_func
    module, name = plain.__module__, plain.__qualname__

    # a caller on disk must find the code that it was compiled for under this name, or none
    def symbol(arguments: tuple[Any, ...]) -> str:
        digest = source_digest(plain.__code__.co_filename)
        key = hashlib.sha256(f"{digest} {arguments}".encode()).hexdigest()
        return f"{module}.{name}.{key[:32]}"

    keep_apart(function, symbol, lambda arguments: _Load(module, name, arguments))


def _collect_afterwards(function: Any) -> None:
    """Look for no garbage while a function is compiled: numba makes millions of objects.

    That took one in twenty of the seconds of a first estimate, and saves 25 MB when done.
    """
    compile_it = function.compile

    def compile_whole(signature: Any) -> Any:
        if not gc.isenabled():
            return compile_it(signature)
        gc.disable()
        try:
            return compile_it(signature)
        finally:
            gc.enable()

    function.compile = compile_whole


def compiled(
    function: Callable[..., Any] | None = None,
    /,
    *,
    borrows: bool = False,
    apart: bool = False,
    inside: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """Compile a function with numba, without the interpreter's lock, and keep it on disk.

    A function that ``borrows`` only reads and writes arrays that it was given, and neither makes
    nor returns any. Nothing then counts references, which costs as much as a cheap gradient.

    Compiled callers call one that is ``apart`` where it is. Otherwise its code becomes part of
    theirs, and is compiled again with each of them and with their callers, which for a function
    that is too large to be inlined is all for nothing.

    Only compiled functions call one that is ``inside``, as a rule: what Python calls it by is then
    made when Python does, as tests do, and not kept on disk. ``options`` are further ones of
    :func:`numba.njit`, such as ``fastmath``.

    Examples
    --------
    >>> from pymc_tempering.numerics import log_exprel
    >>> log_exprel.targetoptions["nogil"]
    True
    """
    if borrows:
        options |= no_reference_counts()
    # none is called from C; and divisions that may raise keep a compiler from vector instructions
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": inside, "error_model": "numpy"}

    def decorate(function: Callable[..., Any]) -> Any:
        made = numba.njit(nogil=True, cache=True, **options)(function)
        name_by_key(made)
        forget_literals(made)
        if inside:
            keep_inside(made)
        hand_on_needs(made)
        _collect_afterwards(made)
        if apart:
            _keep_apart(made)
        return made

    return decorate if function is None else decorate(function)


_install()
