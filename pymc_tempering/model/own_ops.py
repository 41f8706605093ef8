"""What a model says of classes of its own, so that another process knows it too.

PyMC finds the log density of a distribution by the class of its Op. `pm.CustomDist` makes a class
for each variable, and users write theirs in notebooks and scripts: such a class travels with the
model, by value, but what was registered for it stays behind, and a worker that is spawned would
not know its density.
"""

import io
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle
import pymc as pm
from pytensor.graph.traversal import ancestors

from pymc_tempering.private.of_pymc import dispatch_by_op


def registrations(model: pm.Model) -> list[tuple[str, type, Callable[..., Any]]]:
    """What was registered for Ops of the model whose classes cannot be imported.

    Name of the function in :func:`.of_pymc.dispatch_by_op`, class of the Op, and what the function
    does for it.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     x = pm.CustomDist("x", 0.0, logp=lambda value, mu: -abs(value - mu))
    >>> [name for name, *_ in registrations(model)]
    ['logprob', 'logcdf', 'support_point']
    """
    variables = ancestors([*model.basic_RVs, *model.potentials])
    # a dictionary keeps the order, in which a set would differ between processes
    own = {type(v.owner.op): None for v in variables if v.owner is not None}
    return [
        (name, cls, function.registry[cls])
        for cls in own
        if not _is_importable(cls)
        for name, function in dispatch_by_op().items()
        if cls in function.registry
    ]


def made_elsewhere(
    model: pm.Model, make: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Give what ``__reduce__`` returns for an object that `make` makes again from a model."""
    return _make, (registrations(model), make, arguments)


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, pm.Model):
            return super().reducer_override(obj)
        make, arguments, *rest = obj.__reduce_ex__(4)
        return *made_elsewhere(obj, make, arguments), *rest


def packed(obj: Any) -> bytes:
    """Pickle what may hold models, with what was registered for their classes."""
    with io.BytesIO() as file:
        _Pickler(file).dump(obj)
        return file.getvalue()


def _is_importable(cls: type) -> bool:
    """Whether a pickle names the class, so that importing its module registers what belongs to it.

    That of the program itself is another module in a worker.
    """
    module = sys.modules.get(cls.__module__)
    return cls.__module__ != "__main__" and getattr(module, cls.__qualname__, None) is cls


def _make(
    known: list[tuple[str, type, Callable[..., Any]]],
    make: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> Any:
    functions = dispatch_by_op([name for name, *_ in known])
    for name, cls, implementation in known:
        functions[name].register(cls, implementation)
    return make(*arguments)
