"""State in and out, for everything that a chain has to remember: one function each way.

A state is made of plain arrays, numbers, strings, lists and dictionaries, so that it can be stored
by anything that stores arrays.
"""

from typing import Any, ClassVar, Self

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.transport import Terms, TransportMap

__all__ = ["Stateful", "from_plain", "to_plain"]

_KIND = "kind"


def to_plain(value: Any) -> Any:
    """Copy a value into arrays, numbers, strings, lists and dictionaries.

    TypeError if it cannot be.

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
    if isinstance(value, GaussianBase):
        return {
            _KIND: "gaussian",
            "mean": np.array(value.mean),
            "scale": np.array(value.scale),
            "log_zeta": value.log_zeta,
        }
    if isinstance(value, TransportMap):
        return {
            _KIND: "map",
            "mean": np.array(value.mean),
            "root": np.array(value.root),
            "what": np.array(value.terms.what),
            "coefficients": np.array(value.terms.coefficients),
            "log_zeta": value.log_zeta,
        }
    if isinstance(value, Coordinates):
        return {_KIND: "coordinates", "mean": np.array(value.base.mean), "rows": value.rows.copy()}
    if isinstance(value, Mixture):
        return {
            _KIND: "mixture",
            "fits": to_plain(value.fits),
            "weights": np.array(value.weights),
            "share": value.share,
            "dof": value.dof,
        }
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
        if value.get(_KIND) == "gaussian":
            return GaussianBase(value["mean"], value["scale"], value["log_zeta"])
        if value.get(_KIND) == "map":
            terms = Terms(value["what"], value["coefficients"])
            return TransportMap(value["mean"], value["root"], terms, value["log_zeta"])
        if value.get(_KIND) == "coordinates":
            return Coordinates.from_rows(value["mean"], value["rows"])
        if value.get(_KIND) == "mixture":
            return Mixture(
                tuple(from_plain(value["fits"])), value["weights"], value["share"], value["dof"]
            )
        return {name: from_plain(item) for name, item in value.items()}
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
            setattr(self, name, from_plain(state[name]))
        return self

    @classmethod
    def restored(cls, state: dict[str, Any], **fixed: Any) -> Self:
        """Rebuild an object from its state and the attributes that never change."""
        self = cls.__new__(cls)
        for name, value in fixed.items():
            setattr(self, name, value)
        return self.set_state(state)
