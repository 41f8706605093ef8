"""State in and out, for everything that a chain has to remember: one function each way.

A state is made of plain arrays, numbers, strings, lists and dictionaries, so that it can be stored
by anything that stores arrays.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.transport import Terms, TransportMap

_KIND = "kind"

_KINDS: dict[str, tuple[type, tuple[str, ...], Callable[..., Any]]] = {
    "gaussian": (GaussianBase, ("mean", "scale", "log_zeta"), GaussianBase),
    "map": (
        TransportMap, ("mean", "root", "terms.what", "terms.coefficients", "log_zeta"),
        lambda what, coefficients, **own: TransportMap(terms=Terms(what, coefficients), **own),
    ),
    "coordinates": (Coordinates, ("base.mean", "rows"), Coordinates.from_rows),
    "orbit": (Orbit, ("order", "sums"), Orbit),
    "mixture": (Mixture, ("fits", "weights", "share", "dof", "orbit"), Mixture),
}  # fmt: skip
"""Class, attributes that make up an object, and what takes these to make it again."""


def to_plain(value: Any) -> Any:
    """Copy a value into arrays, numbers, strings, lists and dictionaries.

    Anything else is a TypeError: what a chain remembers has to be storable.

    Examples
    --------
    >>> to_plain({"n": 3, "x": (1.0, None)})
    {'n': 3, 'x': [1.0, None]}
    """
    if isinstance(value, np.ndarray):
        return value.copy()
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return value
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: to_plain(item) for name, item in value.items()}
    for kind, (of, attributes, _) in _KINDS.items():
        if isinstance(value, of):
            parts = {name.split(".")[-1]: attrgetter(name)(value) for name in attributes}
            return {_KIND: kind} | {name: to_plain(part) for name, part in parts.items()}
    if isinstance(value, Stateful):
        return value.state()
    raise TypeError(f"A state cannot hold {type(value).__name__}.")


def from_plain(value: Any) -> Any:
    """Rebuild a value from :func:`to_plain`, in copies; tuples come back as lists."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if isinstance(value, dict):
        rebuilt = {name: from_plain(item) for name, item in value.items()}
        if value.get(_KIND) in _KINDS:
            return _KINDS[rebuilt.pop(_KIND)][2](**rebuilt)
        return rebuilt
    return value


class Stateful:
    """An object whose state is a list of its attributes.

    A subclass names what changes in ``_changing``. What is fixed at construction is not part of the
    state, and is given again when an object is rebuilt.
    """

    _changing: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        return {name: to_plain(getattr(self, name)) for name in self._changing}

    def set_state(self, state: dict[str, Any]) -> Self:
        """Continue from :meth:`state`, and return the object."""
        for name in self._changing:
            part = getattr(self, name, None)
            if isinstance(part, Stateful):
                part.set_state(state[name])
            else:
                setattr(self, name, from_plain(state[name]))
        return self

    @classmethod
    def restored(cls, state: dict[str, Any], **fixed: Any) -> Self:
        """Rebuild an object from its state and the attributes that never change."""
        self = cls.__new__(cls)
        for name, value in fixed.items():
            setattr(self, name, value)
        return self.set_state(state)
