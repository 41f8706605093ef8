"""Variables that a model depends on through comparisons alone, of which gradients say nothing.

A change point in continuous time enters as ``switch(t < tau, before, after)``: the density is a
staircase along it, with a gradient of zero on every step. Moves that follow gradients go by
chance there, and an ascent does not go at all.
"""

from collections.abc import Iterable
from typing import Any

import pymc as pm

from pymc_tempering.private import is_step

__all__ = ["MOST_DIM", "staircase_names"]

MOST_DIM = 30
"""Unconstrained values up to which such a model does without gradients: slices go from coordinate
to coordinate, and the Gaussian that they start from is fitted to weighted draws."""


def staircase_names(model: pm.Model) -> list[str]:
    """Names of continuous free variables that all else depends on through comparisons alone.

    Parameters
    ----------
    model : pymc.Model

    Examples
    --------
    >>> import numpy as np
    >>> with pm.Model() as model:
    ...     tau, rate = pm.Uniform("tau", 0.0, 10.0), pm.Exponential("rate", 1.0)
    ...     late = pm.math.switch(np.arange(10) < tau, 0.0, 1.0)
    ...     y = pm.Normal("y", rate * late, observed=np.zeros(10))
    >>> staircase_names(model)
    ['tau']
    """
    free = set(model.free_RVs)
    random = free | set(model.observed_RVs)
    parameters = [parent for rv in random for parent in rv.owner.inputs]
    ends = [*parameters, *model.potentials]
    smooth, all_reached = (_reached(ends, random, cross=cross) for cross in (False, True))
    return [
        rv.name
        for rv in model.free_RVs
        if rv in all_reached and rv not in smooth and rv.dtype.startswith("float")
    ]


def _reached(ends: Iterable[Any], stops: set[Any], *, cross: bool) -> set[Any]:
    """Random variables that the ends are made from, directly; across steps too, or not."""
    waiting, seen = list(ends), set()
    while waiting:
        variable = waiting.pop()
        if variable in seen:
            continue
        seen.add(variable)
        if variable in stops or variable.owner is None:
            continue
        if cross or not is_step(variable):
            waiting.extend(variable.owner.inputs)
    return seen & stops
