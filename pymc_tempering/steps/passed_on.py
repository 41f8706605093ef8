"""Options that ``pm.sample`` is passed as they are, and would refuse late or without a name."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pymc as pm

from pymc_tempering.errors import OptionError
from pymc_tempering.model.point import PointMap
from pymc_tempering.options import check_choice, did_you_mean

__all__ = ["check_passed_on"]

_BARS = ("combined", "combined+stats", "split", "split+stats", "stats+combined", "stats+split")

_WITH_SHAPE = (np.ndarray, np.generic, list, tuple, int, float)


def check_passed_on(
    model: pm.Model, points: PointMap, options: Mapping[str, Any], *, chains: int, progressbar: Any
) -> None:
    """Refuse options that ``pm.sample`` would end with a raw error for.

    Parameters
    ----------
    model : pymc.Model
    points : PointMap
        Of the model.
    options : mapping
        Of ``pm.sample``.
    chains : int
    progressbar : bool or str

    Raises
    ------
    OptionError
    """
    if isinstance(progressbar, str):
        check_choice("progressbar", progressbar, _BARS)
    callback = options.get("callback")
    if callback is not None and not callable(callback):
        raise OptionError(
            f"`callback` is {callback!r:.80}; expected a function of the trace and the draw."
        )
    names = options.get("var_names")
    if names is not None:
        if isinstance(names, str):
            raise OptionError(f"`var_names` is {names!r}; expected a list of names: [{names!r}].")
        _check_known("var_names", names, [variable.name for variable in model.unobserved_RVs])
    initvals = options.get("initvals")
    if initvals is None:
        return
    every = [initvals] if isinstance(initvals, Mapping) else initvals
    if not isinstance(every, list | tuple) or not all(isinstance(v, Mapping | None) for v in every):
        raise OptionError(
            f"`initvals` is {initvals!r:.80}; expected a mapping of names to values, or one for "
            "each chain."
        )
    if every is initvals and len(every) != chains:
        raise OptionError(
            f"`initvals` has mappings for {len(every)} chains, and `chains` is {chains}; pass one "
            "for each, or a single mapping for all."
        )
    for values in every:
        _check_initvals(model, points, values or {})


def _check_initvals(model: pm.Model, points: PointMap, values: Mapping[Any, Any]) -> None:
    shapes = dict(zip(points.names, points.shapes, strict=True))
    by_value = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
    expected = shapes | {rv.name: _shape(rv, shapes[name]) for name, rv in by_value.items()}
    given = {str(getattr(key, "name", key)): value for key, value in values.items()}
    _check_known("initvals", given, expected)
    for name, value in given.items():
        # names of strategies, and graphs, have no shape yet
        if not isinstance(value, _WITH_SHAPE):
            continue
        if np.shape(value) != expected[name]:
            raise OptionError(
                f"`initvals` has a value of shape {np.shape(value)} for {name!r}; expected "
                f"{expected[name]}."
            )


def _check_known(option: str, names: Iterable[Any], known: Iterable[str]) -> None:
    unknown = sorted(set(map(str, names)) - set(known))
    if unknown:
        raise OptionError(
            f"`{option}` has {unknown}{did_you_mean(unknown, known)}; the model has the variables "
            f"{sorted(known)}."
        )


def _shape(rv: Any, unconstrained: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of a variable itself, which a transform may have shortened."""
    shape = rv.type.shape
    return unconstrained if None in shape else tuple(shape)
