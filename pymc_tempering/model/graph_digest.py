"""Digest of what a PyTensor graph computes: equal for the same function, in every process.

The digest of a node is one of its operation and of the digests of its inputs, so that neither the
order in which nodes were made nor what they are called enters. Arrays enter by content.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.type import Type

from pymc_tempering.model.code_digest import CodeDigest, Unknown, hash_parts, is_installed
from pymc_tempering.private.of_pymc import dispatch_by_op
from pymc_tempering.private.of_pytensor import graph_classes

# what `OpFromGraph` keeps for itself; what its subclasses add decides their densities
_OF_BUILDER = {
    "destroy_map", "fgraph", "input_types", "is_inline", "kwargs", "name", "output_types",
    "pullback_overrides", "pushforward_overrides", "view_map",
}  # fmt: skip
_DENSITIES = ("logprob", "logcdf", "logccdf", "icdf")
_NOTHING: frozenset[str] = frozenset()

# Ops in which no array can be; those of graphs that are gone are overwritten
_fixed: dict[int, tuple[Any, bytes, frozenset[str]]] = {}


class Digested(NamedTuple):
    """Digest of a variable, the titles of shared values that it depends on, and what is not in it.

    `undigested` names operations whose results depend on more than the digest is of.
    """

    digest: bytes
    values: frozenset[str]
    undigested: frozenset[str]


class GraphDigest:
    """Digests of the variables of graphs that share parts, each part digested once.

    Variables in `names` enter by this name, and not by what they are made from. `titles` says what
    messages call shared variables. Not to be kept: contents are read once.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> x, c = pt.dscalar("x"), np.array([1.0, 2.0])
    >>> graph = x + pt.as_tensor(c)
    >>> before = GraphDigest({x: "x"}).of(graph).digest
    >>> GraphDigest({x: "x"}).of(x + pt.as_tensor(c.copy())).digest == before
    True
    >>> c[:] = 3.0
    >>> GraphDigest({x: "x"}).of(graph).digest == before
    False
    """

    def __init__(
        self, names: Mapping[Any, str] | None = None, titles: Mapping[Any, str] | None = None
    ) -> None:
        self._titles = titles or {}
        self._outside, self._classes = True, graph_classes()
        self._names = names or {}
        self._known: dict[Any, Digested] = {
            variable: Digested(hash_parts(b"name", name.encode()), _NOTHING, _NOTHING)
            for variable, name in self._names.items()
        }
        self._ops: dict[int, tuple[Any, bytes, frozenset[str]]] = {}
        self._n_inner = [0]
        self._contents: defaultdict[str, set[str]] = defaultdict(set)
        self._code = CodeDigest(self._part)

    @property
    def values(self) -> dict[str, str]:
        """Digest of the content of each shared value that has a title."""
        return {
            title: hash_parts(*(content.encode() for content in sorted(contents))).hex()
            for title, contents in self._contents.items()
        }

    def of(self, variable: Any) -> Digested:
        """Digest a variable."""
        known, pending = self._known, [variable]
        while pending:
            at = pending[-1]
            if at in known:
                pending.pop()
            elif at.owner is None or (
                self._outside and isinstance(at.type, self._classes.generator)
            ):
                known[pending.pop()] = self._leaf(at)
            elif missing := [i for i in at.owner.inputs if i not in known]:
                pending.extend(missing)
            else:
                self._node(at.owner)
        return known[variable]

    def of_made(self, variable: Any) -> Digested:
        """Digest what a variable is made from, where other graphs know it by its name."""
        by_name = self._known.pop(variable)
        try:
            return self.of(variable)
        finally:
            self._known[variable] = by_name

    def of_value(self, value: Any) -> Digested:
        """Digest what is no variable: an array, a number, a function, or a transform."""
        is_transform = hasattr(value, "forward") and hasattr(value, "backward")
        digest_it = self._code.state if is_transform else self._code.value
        digest, undigested = self._noting(type(value).__name__, digest_it, value)
        return Digested(digest, _NOTHING, undigested)

    def _noting(
        self, label: str, digest_it: Callable[[Any], bytes], value: Any
    ) -> tuple[bytes, frozenset[str]]:
        with self._code.noting() as unknown:
            digest = digest_it(value)
        return digest, frozenset(f"{label}, which holds {what}" for what in unknown)

    def _node(self, node: Any) -> None:
        if isinstance(node.op, self._classes.view):
            # that is how a deterministic has a name
            self._known.setdefault(node.outputs[0], self._known[node.inputs[0]])
            return
        inputs = [self._known[i] for i in node.inputs]
        if isinstance(node.op, self._classes.shape) and node.inputs[0] not in self._names:
            inputs = [_lengths(node.inputs[0], inputs[0])]
        op, undigested = self._op(node.op)
        digest = hashlib.blake2b(op, digest_size=16)
        values = _NOTHING
        for each in inputs:
            digest.update(each.digest)
            if each.values:
                values |= each.values
            if each.undigested:
                undigested |= each.undigested
        first = digest.digest()
        for place, output in enumerate(node.outputs):
            # a variable that has a name keeps it
            made = Digested(
                first if place == 0 else hash_parts(first, b"%d" % place), values, undigested
            )
            self._known.setdefault(output, made)

    def _leaf(self, variable: Any) -> Digested:
        if isinstance(variable.type, self._classes.generator):
            return Digested(b"generator", _NOTHING, _NOTHING)
        if isinstance(variable, Constant):
            value, title = variable.data, None
        elif isinstance(variable, SharedVariable):
            value = variable.get_value(borrow=True)
            title = self._titles.get(variable)
            if title is None and variable.name is not None:
                title = f"the shared value {variable.name!r}"
        else:
            name = f"{variable.name} {_type(variable.type)}".encode()
            return Digested(hash_parts(b"input", name), _NOTHING, _NOTHING)
        # a shared value gives the same function as a constant does
        if isinstance(value, np.ndarray):
            digest, undigested = self._code.value(value), _NOTHING
        else:
            digest, undigested = self._noting("a constant", self._code.value, value)
        if title is None:
            return Digested(digest, _NOTHING, undigested)
        self._contents[title].add(digest.hex())
        return Digested(digest, frozenset([title]), undigested)

    def _op(self, op: Any) -> tuple[bytes, frozenset[str]]:
        found = self._ops.get(id(op)) or _fixed.get(id(op))
        if found is not None and found[0]() is op:
            return found[1:]
        n_inner, name = self._n_inner[0], getattr(op, "name", None)
        label = type(op).__name__ + (f" {name!r}" if isinstance(name, str) else "")
        digest, undigested = self._noting(label, self._digest_op, op)
        by_name = self._code.is_by_name(type(op)) and type(op).__hash__ is not object.__hash__
        # one that is made of names and numbers alone cannot change
        is_fixed = by_name and not undigested and self._n_inner[0] == n_inner
        known = _fixed if is_fixed else self._ops
        known[id(op)] = ref(op), digest, undigested
        return digest, undigested

    def _digest_op(self, op: Any) -> bytes:
        cls = type(op)
        parts = [self._class(cls)]
        fgraph = getattr(op, "fgraph", None)
        if fgraph is not None:
            parts.append(self._inner(fgraph))
        names: Iterable[str] = getattr(op, "__props__", None) or ()
        state = getattr(op, "__dict__", {})
        if isinstance(op, self._classes.loop):
            names = ("info",)
        elif isinstance(op, OpFromGraph):
            added = (n for n in state if n not in _OF_BUILDER and not n.startswith("_"))
            names = sorted({*names, *added})
        elif not (names and is_installed(cls.__module__)):
            names = sorted({*names, *state})
        for name in names:
            if name != "fgraph":
                held = getattr(op, name)
                # a list that PyTensor made is not written into
                own = held if isinstance(held, list) and is_installed(cls.__module__) else [held]
                parts += [name.encode(), *map(self._code.value, own)]
        return hash_parts(*parts)

    def _class(self, cls: type) -> bytes:
        own = self._code.value(cls)
        if self._code.is_by_name(cls):
            return own
        functions = dispatch_by_op()
        registered = [
            each
            for name in _DENSITIES
            if cls in functions[name].registry
            for each in _own_functions(functions[name].registry[cls])
        ]
        return hash_parts(own, *map(self._code.value, registered))

    def _inner(self, fgraph: Any) -> bytes:
        """Digest a graph inside an Op, whose inputs have places and no names."""
        names = {v: f"{i} {_type(v.type)}" for i, v in enumerate(fgraph.inputs)}
        inner = GraphDigest(names)
        # its Ops may be shared with graphs around it
        inner._ops, inner._code, inner._outside = self._ops, self._code, False
        inner._n_inner = self._n_inner
        self._n_inner[0] += 1
        parts = [inner.of(output) for output in fgraph.outputs]
        for part in parts:
            self._code.note(*part.undigested)
        return hash_parts(b"graph", *(part.digest for part in parts))

    def _part(self, value: Any) -> bytes:
        """Digest what belongs to PyTensor among the values of an Op or a function."""
        if isinstance(value, Op):
            digest, undigested = self._op(value)
        elif isinstance(value, Variable):
            digest, _, undigested = self.of(value)
        elif isinstance(value, Type):
            digest, undigested = hash_parts(b"type", _type(value).encode()), _NOTHING
        elif hasattr(value, "outputs") and hasattr(value, "inputs"):
            return self._inner(value)
        else:
            raise Unknown
        self._code.note(*undigested)
        return digest


def _lengths(variable: Any, digested: Digested) -> Digested:
    """Digest of data of which only the shape is asked for."""
    if isinstance(variable, Constant):
        value = variable.data
    elif isinstance(variable, SharedVariable):
        value = variable.get_value(borrow=True)
    else:
        return digested
    return Digested(hash_parts(b"shape", repr(np.shape(value)).encode()), _NOTHING, _NOTHING)


def _own_functions(registered: Any) -> list[Any]:
    """Functions of the user in what PyMC registers for a distribution made of functions."""
    if not is_installed(registered.__module__):
        return [registered]
    cells = [cell.cell_contents for cell in registered.__closure__ or ()]
    return [held for held in cells if callable(held) and not isinstance(held, Variable | type)]


def _type(of: Any) -> str:
    """Say of a type what decides results; lengths that happen to be known do not, but for 1."""
    pattern = "".join("1" if length == 1 else "n" for length in getattr(of, "shape", ()) or ())
    return f"{type(of).__name__} {getattr(of, 'dtype', '')} {pattern}"
