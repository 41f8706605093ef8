"""What makes two models the same: one digest, in parts that have names.

It is computed from the graph that a model was written as and from the values that are in it, when
it is asked for: nothing tells that whoever holds a model, or an array in it, has changed it.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pymc as pm
import pytensor
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

from pymc_tempering.model.graph_digest import Digested, GraphDigest

FORMAT = 1  # of the text that is stored; another one is not read
_POTENTIAL = "the potential "


@dataclass(frozen=True)
class Identity:
    """Identity of a model: what its log density is made of.

    Labels of coordinates, deterministics and starting points are not part of it.
    """

    digest: str  # of everything
    # digest of each part by what it is called, and the shared values that it depends on
    parts: dict[str, list[str]]
    values: dict[str, str]  # digests of the shared values that have a name
    # parts that compute with more than a digest can be of, such as the state of an object, and the
    # operations that do; whether these are the same, only densities tell
    undigested: dict[str, list[str]]

    @classmethod
    def of(cls, model: pm.Model) -> "Identity":
        """Identity of a model as it is now.

        Examples
        --------
        >>> def built(sigma):
        ...     with pm.Model() as model:
        ...         x = pm.Normal("x", 0.0, sigma)
        ...         y = pm.Normal("y", x, 1.0, observed=[1.0, 2.0])
        ...     return model
        >>> Identity.of(built(1.0)) == Identity.of(built(1.0))
        True
        >>> Identity.of(built(1.0)).changes(Identity.of(built(2.0)))
        ["the prior of 'x'"]
        """
        graphs = _graphs(model)
        found: dict[str, Digested] = {}
        for rv in model.free_RVs:
            found[f"the prior of {rv.name!r}"] = graphs.of_made(rv)
        for rv in model.observed_RVs:
            found[f"the likelihood of {rv.name!r}"] = graphs.of_made(rv)
            found[f"the data of {rv.name!r}"] = graphs.of(model.rvs_to_values[rv])
        for potential in model.potentials:
            found[f"{_POTENTIAL}{potential.name!r}"] = graphs.of(potential)
        for rv, transform in model.rvs_to_transforms.items():
            if transform is not None:
                found[f"the transform of {rv.name!r}"] = graphs.of_value(transform)
        for name, dims in model.named_vars_to_dims.items():
            if model.named_vars[name] in model.free_RVs:
                found[f"the dims of {name!r}"] = graphs.of_value(tuple(dims))
        flags = (pytensor.config.floatX, model.check_bounds)
        found["`floatX` or `check_bounds`"] = graphs.of_value(flags)
        whole = hashlib.blake2b(digest_size=16)
        for name in sorted(found):
            whole.update(name.encode() + b"\0" + found[name].digest)
        return cls(
            digest=whole.hexdigest(),
            parts={n: [d.digest.hex()[:12], *sorted(d.values)] for n, d in found.items()},
            values={title: content[:12] for title, content in graphs.values.items()},
            undigested={n: sorted(d.undigested) for n, d in found.items() if d.undigested},
        )

    @property
    def is_certain(self) -> bool:
        """Whether equal digests say that models are the same."""
        return not self.undigested

    @property
    def potentials(self) -> dict[str, str]:
        """Digests of the potentials by what they are called."""
        return {n: part[0] for n, part in self.parts.items() if n.startswith(_POTENTIAL)}

    def changes(self, other: "Identity") -> list[str]:
        """Name what is different in another model; nothing where it is the same.

        Of parts that cannot be digested nothing is said.
        """
        if self.digest == other.digest:
            return []
        if not self.parts or not other.parts:
            # too large to be stored
            return [] if self.undigested or other.undigested else ["a part that was not recorded"]
        changed = {t for t in self.values if self.values[t] != other.values.get(t, self.values[t])}
        different, used = [], set()
        for name in dict.fromkeys([*self.parts, *other.parts]):
            mine, theirs = self.parts.get(name), other.parts.get(name)
            if name in self.undigested or name in other.undigested:
                continue
            if mine is None or theirs is None:
                different.append(name)
            elif mine[0] != theirs[0]:
                because = changed & {*mine[1:]} & {*theirs[1:]}
                used |= because
                if not because:
                    different.append(name)
        return [*sorted(used), *different]

    def to_json(self) -> str:
        """Write the identity as a text, to be stored with a run."""
        text = json.dumps({"format": FORMAT} | asdict(self), sort_keys=True)
        # HDF5 takes attributes of up to 64 KiB
        if len(text) <= 48_000:
            return text
        short = Identity(self.digest, {}, {}, {"part": ["operations"]} if self.undigested else {})
        return short.to_json()

    @classmethod
    def from_json(cls, text: Any) -> "Identity | None":
        """Read an identity; None where there is none, or one of another version."""
        try:
            plain = json.loads(text)
            if plain.pop("format") != FORMAT:
                return None
            return cls(**plain)
        except (TypeError, ValueError, KeyError, AttributeError):
            return None


def recipe(model: pm.Model) -> list[Any]:
    """Everything that what is compiled for a model depends on, to be compared by `Kept`.

    The identity of the model, the order of its variables, and what its initial point is made of.
    Operations that cannot be digested have to be the same objects: compiled code calls them.
    """
    identity, graphs = Identity.of(model), _graphs(model)
    starts = [
        (graphs.of(start) if isinstance(start, Variable) else graphs.of_value(start)).digest
        for start in model.rvs_to_initial_values.values()
    ]
    names = [variable.name for variable in (*model.basic_RVs, *model.potentials, *model.value_vars)]
    objects = [] if identity.is_certain else [*model.basic_RVs, *model.potentials]
    return [(identity.digest, *names, *starts), *objects]


def digest_deterministics(model: pm.Model) -> tuple[Any, ...]:
    """Names and digests of what is recorded of a model beside its variables."""
    graphs = _graphs(model)
    return tuple((v.name, graphs.of(v).digest) for v in model.deterministics)


def _graphs(model: pm.Model) -> GraphDigest:
    titles = {variable: f"the data {variable.name!r}" for variable in model.data_vars}
    for name, length in model.dim_lengths.items():
        if isinstance(length, SharedVariable):
            titles[length] = f"the length of the dim {name!r}"
    return GraphDigest({rv: rv.name for rv in model.basic_RVs}, titles)


def listed(changes: list[str]) -> str:
    """Write changes as part of a sentence.

    Examples
    --------
    >>> listed(["the prior of 'x'", "the data of 'y'"])
    "the prior of 'x' and the data of 'y'"
    """
    most = 6
    few = changes[:most]
    if len(changes) > most:
        few.append(f"{len(changes) - most} more")
    return " and ".join([", ".join(few[:-1]), few[-1]] if len(few) > 1 else few)


class Kept[T]:
    """One compiled thing for each model that is still alive.

    What it was compiled from is compared before it is given out again, since whoever holds a model
    can change it unnoticed. A thing must not refer to the model itself, or neither is collected.

    Examples
    --------
    >>> kept = Kept[str]()
    >>> model = pm.Model()
    >>> kept.get(model, [(1,)], lambda: "first"), kept.get(model, [(1,)], lambda: "second")
    ('first', 'first')
    >>> kept.get(model, [(2,)], lambda: "third")
    'third'
    """

    def __init__(self) -> None:
        self._things: WeakKeyDictionary[pm.Model, tuple[list[Any], T]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._things)

    def get(self, model: pm.Model, content: Sequence[Any], make: Callable[[], T]) -> T:
        """Give what was made for the same content, or make it.

        Tuples in `content` are compared by value. Everything else, such as the variables of a
        graph, has to be the same object.
        """
        known = self._things.get(model)
        if known is not None and _same(known[0], content):
            return known[1]
        thing = make()
        self.put(model, content, thing)
        return thing

    def put(self, model: pm.Model, content: Sequence[Any], thing: T) -> None:
        """Keep a thing that was made elsewhere, to be given out for the same content."""
        self._things[model] = list(content), thing


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return len(first) == len(second) and all(
        a is b or (isinstance(a, tuple) and a == b) for a, b in zip(first, second, strict=True)
    )
