"""Digest of plain values and of Python functions, by what they hold and not where they are.

What may change under the hand of its owner without leaving a trace, such as a list, a dictionary
or an object with a state, is noted as unknown; arrays are data, and enter by content.
"""

import dis
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

_BY_VERSION = {"numpy", "pymc", "pymc_tempering", "pytensor", "scipy"}
_PLAIN = {bool, int, float, complex, str, bytes, type(None), type(...), range}
_ARRAYS = (np.ndarray, np.generic)
# of distributions that are given as functions: what draws decides no density
_NOT_OF_CLASS = {"_random_fn", "_abc_impl"}


class Unknown(Exception):  # noqa: N818 - an answer, not an error
    """A value of which nothing is known."""


@functools.cache
def is_installed(module: str) -> bool:
    """Whether a module belongs to an installed package, and changes with its version alone.

    Examples
    --------
    >>> is_installed("numpy.linalg"), is_installed("__main__")
    (True, False)
    """
    top = module.partition(".")[0]
    if top in ("__main__", "__mp_main__"):
        return False
    if top in sys.stdlib_module_names or top in _BY_VERSION:
        return True
    path = getattr(sys.modules.get(top), "__file__", None) or ""
    return bool({"site-packages", "dist-packages"} & set(Path(path).parts))


class CodeDigest:
    """Digests of values; `part` digests what this class does not know, or raises `Unknown`.

    Examples
    --------
    >>> def scaled(by):
    ...     return lambda x: by * x
    >>> def none(value):
    ...     raise Unknown
    >>> digest = CodeDigest(none)
    >>> digest.value(scaled(2.0)) == digest.value(scaled(2.0)) != digest.value(scaled(3.0))
    True
    >>> with digest.noting() as unknown:
    ...     same = digest.value(scaled([2.0])) == digest.value(scaled([3.0]))
    >>> same, unknown
    (True, ['a list'])
    """

    def __init__(self, part: Callable[[Any], bytes]) -> None:
        self._part = part
        self._notes: list[list[str]] = []
        self._within: list[int] = []
        self._known: dict[int, tuple[Any, bytes, list[str]]] = {}

    @contextmanager
    def noting(self) -> Iterator[list[str]]:
        """Collect what is unknown meanwhile, each kind once."""
        notes: list[str] = []
        self._notes.append(notes)
        try:
            yield notes
        finally:
            self._notes.pop()

    def note(self, *unknown: str) -> None:
        """Say that the digest is not of everything."""
        for what in unknown if self._notes else ():
            if what not in self._notes[-1]:
                self._notes[-1].append(what)

    def value(self, value: Any) -> bytes:
        """Digest a value."""
        kind = type(value)
        if kind in _PLAIN:
            return f"{kind.__name__} {value!r}".encode()
        if isinstance(value, _ARRAYS):
            return self._array(value)
        if id(value) in self._within:
            # a function that calls itself
            return hash_parts("within", str(len(self._within) - self._within.index(id(value))))
        if len(self._within) >= 12:
            return self._unknown("values within values")
        if not isinstance(value, types.FunctionType | type):
            return self._guarded(value)
        if id(value) not in self._known:
            with self.noting() as unknown:
                digest = self._guarded(value)
            # the value itself is kept, or its address might be that of the next one
            self._known[id(value)] = value, digest, unknown
        _, digest, unknown = self._known[id(value)]
        self.note(*unknown)
        return digest

    def _guarded(self, value: Any) -> bytes:
        self._within.append(id(value))
        try:
            return self._compound(value)
        finally:
            self._within.pop()

    def state(self, value: Any) -> bytes:
        """Digest an object by its class and all its attributes, as of a transform."""
        parts = [self.value(type(value))]
        for name, held in sorted(getattr(value, "__dict__", {}).items()):
            # a list of transforms is theirs alone
            own = map(self.value, held) if isinstance(held, list) else [self.value(held)]
            parts += [name.encode(), *own]
        return hash_parts("state", *parts)

    def is_by_name(self, value: Any) -> bool:
        """Whether a name says all of a class or function: an installed package has it."""
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if not isinstance(module, str) or not is_installed(module):
            return False
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        return found is value

    def _array(self, value: Any) -> bytes:
        if value.dtype.hasobject:
            return hash_parts("objects", str(value.shape), *map(self.value, value.ravel().tolist()))
        digest = hashlib.blake2b(f"{value.dtype.str}{value.shape}".encode(), digest_size=16)
        # no copy where none is needed; dates have no buffer
        by_rows = np.ascontiguousarray(value)
        digest.update(by_rows.tobytes() if by_rows.nbytes < 2**16 else by_rows.view(np.uint8).data)
        return digest.digest()

    def _compound(self, value: Any) -> bytes:  # noqa: C901 - one case after another
        kind = type(value).__name__
        if isinstance(value, tuple):
            return hash_parts("tuple", *map(self.value, value))
        if isinstance(value, frozenset):
            return hash_parts("set", *sorted(map(self.value, value)))
        if isinstance(value, Mapping) and type(value).__hash__ is not None:
            return hash_parts("mapping", *sorted(self.value(item) for item in value.items()))
        if isinstance(value, slice):
            return hash_parts("slice", *map(self.value, (value.start, value.stop, value.step)))
        if isinstance(value, enum.Enum):
            return hash_parts(kind, value.name)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, functools.partial):
            named = tuple(sorted(value.keywords.items()))
            return hash_parts("partial", *map(self.value, (value.func, value.args, named)))
        if isinstance(value, types.MethodType):
            return hash_parts("method", self.value(value.__func__), self.value(value.__self__))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.ModuleType):
            return hash_parts("module", value.__name__)
        if isinstance(value, np.ufunc | np.dtype):
            return hash_parts(kind, value.__name__ if isinstance(value, np.ufunc) else value.str)
        if isinstance(getattr(value, "py_func", None), types.FunctionType):
            return hash_parts("compiled", self.value(value.py_func))
        if sparse.issparse(value):
            entries = value.tocoo()
            return hash_parts(
                kind, str(value.shape), *map(self.value, (entries.data, *entries.coords))
            )  # fmt: skip
        if self.is_by_name(value):
            return hash_parts("named", value.__module__, value.__qualname__)
        if is_dataclass(value) and getattr(type(value), "__dataclass_params__").frozen:  # noqa: B009
            return hash_parts(kind, *(self.value(getattr(value, f.name)) for f in fields(value)))
        try:
            return self._part(value)
        except Unknown:
            if type(value).__module__.partition(".")[0] in ("pymc", "pytensor"):
                return self.state(value)
            return self._unknown(f"a {kind}")

    def _unknown(self, what: str) -> bytes:
        self.note(what)
        return hash_parts("unknown", what)

    def _class(self, cls: type) -> bytes:
        if self.is_by_name(cls):
            return hash_parts("class", cls.__module__, cls.__qualname__)
        parts: list[bytes] = []
        for name, value in sorted(vars(cls).items()):
            inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            # pickling a class gives it names of this kind
            is_own = isinstance(inner, types.FunctionType) or name == "__props__"
            if name in _NOT_OF_CLASS or (name.startswith("__") and not is_own):
                continue
            if isinstance(inner, property):
                inner = inner.fget
            parts += [name.encode(), self.value(inner)]
        return hash_parts("own class", *(self.value(base) for base in cls.__bases__), *parts)

    def _function(self, function: Any) -> bytes:
        if self.is_by_name(function):
            return hash_parts("named", function.__module__, function.__qualname__)
        code, parts = function.__code__, []
        written = _written(code)
        if written:
            self.note("a variable that it writes")
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name in written:
                continue
            try:
                parts.append(self.value(cell.cell_contents))
            except ValueError:
                # a name that is not bound yet
                parts.append(b"empty")
        parts += [self.value(function.__defaults__)]
        parts += [self.value(tuple(sorted((function.__kwdefaults__ or {}).items())))]
        for name in sorted((_named(code, {"LOAD_GLOBAL"}) & set(function.__globals__)) - written):
            value = function.__globals__[name]
            parts += [name.encode(), self.value(value)]
            if isinstance(value, types.ModuleType) and not is_installed(value.__name__):
                # functions of the user's own modules
                for inner in sorted(set(code.co_names) & set(vars(value))):
                    parts += [inner.encode(), self.value(vars(value)[inner])]
        return hash_parts("function", self._code(code), *parts)

    def _code(self, code: types.CodeType) -> bytes:
        constants = [
            self._code(each) if isinstance(each, types.CodeType) else self.value(each)
            for each in code.co_consts
        ]
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_argcount)
        return hash_parts("code", code.co_code, repr(names), *constants)


def _written(code: types.CodeType) -> set[str]:
    """Names beyond the function that it writes, as one that counts its calls."""
    inner = {name for each in _within(code) for name in each.co_cellvars}
    beyond = _named(code, {"STORE_DEREF"}) - inner - set(code.co_cellvars)
    return beyond | _named(code, {"STORE_GLOBAL"})


def _named(code: types.CodeType, operations: set[str]) -> set[str]:
    own = {each.argval for each in dis.get_instructions(code) if each.opname in operations}
    return own.union(*(_named(each, operations) for each in _within(code)))


def _within(code: types.CodeType) -> list[types.CodeType]:
    return [each for each in code.co_consts if isinstance(each, types.CodeType)]


def hash_parts(*parts: str | bytes) -> bytes:
    """Digest of several parts in their order: 16 bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.digest()
