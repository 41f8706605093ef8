"""Directions in which flat variables move together without end: a posterior without an integral.

An intercept and the effects of all groups, each with a flat prior, are seen by their sums alone.
Such a model runs, and what it prints tells how far replicas had come.
"""

from collections.abc import Callable

import numpy as np
import pymc as pm

from pymc_tempering.errors import ModelError
from pymc_tempering.model.point import PointMap
from pymc_tempering.private.of_pymc import is_improper
from pymc_tempering.types import FloatArray, IntArray

_N_MORE = 8
"""Places more than flat entries, whose gradients a direction has to be at right angles to."""

_STEPS = np.array([1.0, -1.0, 1e3, -1e3, 1e6, -1e6])
"""Along a direction, in the units of the variables. Draws of flat variables a million apart are
named as those of no posterior, too."""

_SAME = 1e-4  # share of 1 + |log density| by which it may change along a direction: rounding


@np.errstate(all="ignore")
def check_integrable(
    value_and_grad: Callable[[FloatArray], tuple[float, FloatArray]], points: PointMap,
    start: FloatArray, frozen: pm.Model,
) -> None:  # fmt: skip
    """Refuse a model whose log density stays the same along a line of flat variables.

    A ModelError names the variables. The line is at right angles to all gradients around the start
    (D,), and the density is looked at far out along it.

    Examples
    --------
    >>> import pymc_tempering as pm_temper
    >>> with pm.Model() as model:
    ...     level, effects = pm.Flat("level"), pm.Flat("effects", shape=2)
    ...     _ = pm.Normal("y", level + effects, 1.0, observed=[0.3, 1.2])
    >>> pm_temper.estimate_logz(model)
    Traceback (most recent call last):
    pymc_tempering.errors.ModelError: The variables ['level', 'effects'] are flat, and the log ...
    """
    names, flat = _flat_entries(points, frozen)
    if flat.size < 2:
        return
    rng = np.random.default_rng(0)
    places = start + rng.normal(size=(flat.size + _N_MORE, start.size))
    # at the others the density may be so low that nothing shows beside it
    places[0] = start
    gradients = np.stack([value_and_grad(z)[1][flat] for z in places])
    known = np.isfinite(gradients).all(axis=1)
    if known.sum() < flat.size:
        return
    _, sizes, directions = np.linalg.svd(gradients[known])
    for direction in directions[sizes <= 1e-9 * sizes.max()]:
        way = np.zeros_like(start)
        way[flat] = direction
        if all(_lasts(value_and_grad, z, way) for z in places[known][:3]):
            moving = {str(n) for n, x in zip(names, direction, strict=True) if abs(x) > 1e-6}
            listed = [name for name in dict.fromkeys(map(str, names)) if name in moving]
            raise ModelError(
                f"The variables {listed} are flat, and the log density stays the same where they "
                "move together, however far, so the posterior is improper and log Z infinite. Give "
                "one of them a proper prior, or leave one out."
            )


def _flat_entries(points: PointMap, frozen: pm.Model) -> tuple[list[str], IntArray]:
    """Entries of flat variables without bounds, and the name of the variable of each."""
    flat = {rv.name for rv in frozen.free_RVs if is_improper(rv)}
    names = np.repeat(np.array(points.names, dtype=object), points.sizes)
    entries = np.flatnonzero([name in flat for name in names])
    return names[entries].tolist(), entries


def _lasts(
    value_and_grad: Callable[[FloatArray], tuple[float, FloatArray]], z: FloatArray,
    direction: FloatArray,
) -> bool:  # fmt: skip
    here = value_and_grad(z)[0]
    there = np.array([value_and_grad(z + step * direction)[0] for step in _STEPS])
    return bool(np.isfinite(here) and (np.abs(there - here) <= _SAME * (1.0 + abs(here))).all())
