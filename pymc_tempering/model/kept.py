"""What was compiled for a model, kept for the next use of the same model in the process."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pymc as pm

__all__ = ["Kept"]


class Kept[T]:
    """One compiled thing for each model that is still there.

    Parameters
    ----------
    shared : bool, default False
        Whether other models of the same content may be given it too.

    Notes
    -----
    What it was compiled from is compared before it is given out again: a model can be changed by
    whoever holds it, and nothing tells. A thing must not refer to the model itself, or neither
    could be collected.

    Examples
    --------
    >>> kept = Kept[str]()
    >>> model = pm.Model()
    >>> kept.get(model, [(1,)], lambda: "first"), kept.get(model, [(1,)], lambda: "second")
    ('first', 'first')
    >>> kept.get(model, [(2,)], lambda: "third")
    'third'
    """

    def __init__(self, *, shared: bool = False) -> None:
        self._shared = shared
        self._things: WeakKeyDictionary[pm.Model, tuple[list[Any], T]] = WeakKeyDictionary()

    def __len__(self) -> int:
        """Number of models for which something is kept."""
        return len(self._things)

    def get(self, model: pm.Model, content: Sequence[Any], make: Callable[[], T]) -> T:
        """Give what was made for the same content, or make it.

        Parameters
        ----------
        model : pymc.Model
        content : sequence
            All that the thing depends on: tuples are compared by value, everything else, such as
            the variables of a graph, has to be the same object.
        make : callable
        """
        known = self._things.get(model)
        if known is not None and _same(known[0], content):
            return known[1]
        others = self._things.values() if self._shared else ()
        alike = [thing for theirs, thing in list(others) if _same(theirs, content)]
        thing = alike[0] if alike else make()
        self.put(model, content, thing)
        return thing

    def put(self, model: pm.Model, content: Sequence[Any], thing: T) -> None:
        """Keep a thing that was made elsewhere, to be given out for the same content.

        Parameters
        ----------
        model : pymc.Model
        content : sequence
            As for :meth:`get`.
        thing : object
        """
        self._things[model] = list(content), thing


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return len(first) == len(second) and all(
        a is b or (isinstance(a, tuple) and a == b) for a, b in zip(first, second, strict=True)
    )
