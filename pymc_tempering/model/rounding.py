"""Whether two log densities at the same draws differ by more than rounding."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_tempering.model.interpreted import interpreted
from pymc_tempering.types import BoolArray, FloatArray, IntArray

__all__ = ["differing", "size_of_terms", "term_sizes"]

_UNITS = 300.0
"""Rounding errors that a sum may have, in units of the last digit of what is summed."""


def differing(
    recorded: FloatArray,
    now: FloatArray,
    sizes: Callable[[IntArray], FloatArray],
    eps: float = float(np.finfo(np.float64).eps),
) -> BoolArray:
    """Draws at which two log densities are not the same up to rounding.

    Parameters
    ----------
    recorded, now : ndarray of shape (n,)
        In nats.
    sizes : callable
        From positions of draws to the magnitude, in nats, of what is summed there. Asked only
        where the sums themselves do not explain the difference.
    eps : float, optional
        Relative precision of the numbers.

    Examples
    --------
    >>> recorded, now = np.array([-1.0, -1.0, 3e5]), np.array([-1.0 + 1e-11, -1.5, 3e5 + 1e-3])
    >>> differing(recorded, now, lambda index: np.full(index.size, 1e3)).tolist()
    [False, True, True]
    """
    with np.errstate(invalid="ignore"):
        difference = np.abs(recorded - now)
    same = (recorded == now) | (np.isnan(recorded) & np.isnan(now))
    same |= difference <= _UNITS * eps * (1.0 + np.abs(recorded))
    left = np.flatnonzero(~same & np.isfinite(difference))
    if left.size:
        same[left] = difference[left] <= _UNITS * eps * (1.0 + sizes(left))
    return ~same


def size_of_terms(model: pm.Model) -> Any:
    """Graph of the sum of the magnitudes of all terms of a model's log density.

    Parameters
    ----------
    model : pymc.Model
    """
    return sum((pt.abs(term).sum() for term in model.logp(sum=False)), start=pt.constant(0.0))


def term_sizes(model: pm.Model, points: Sequence[Mapping[str, Any]]) -> FloatArray:
    """Sum of the magnitudes of all terms of a log density, in nats, at points.

    Parameters
    ----------
    model : pymc.Model
    points : sequence of mapping
        Values of the value variables by name.
    """
    function = interpreted(model.value_vars, size_of_terms(model), on_unused_input="ignore")
    names = [variable.name for variable in model.value_vars]
    return np.array([float(function(*(point[name] for name in names))) for point in points])
