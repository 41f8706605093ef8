"""Control variates: what an estimate owes to quantities whose mean is known.

The draws from a mixture are of its components in numbers that vary, while the weights are known. An
estimate follows these numbers: where a tenth too many draws are of the defensive component, which
has no mass, log Z comes out a tenth of its share too low. Regression on them takes that out, for no
density at all (Owen & Zhou 2000, Safe and effective importance sampling, JASA 95).

The difference of two estimates of the same thing from the same scans is a control, too: regression
on it combines them as their errors and all controls would have it. MBAR gives draws of both ends
the same weight; where controls explain those of one end, these alone are better.
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.errors import DataError
from pymc_tempering.types import FloatArray, IntArray

DRAWS_PER_CONTROL = 10
"""Draws of a chain for each coefficient that is fitted to them."""

LEFT = 0.01
"""Share of what controls explain that is left in. Where they explain all of it, nothing would be
left to say how large the error is, or whether chains agree, but digits that were rounded."""

LEAST_DRAWS = 50
"""Fewer say too little of an error, and scans one by one say more."""


class Controlled(NamedTuple):
    """An estimate of one chain, without what its controls explain."""

    log_z: float  # nats
    influence: FloatArray  # (n,), mean zero: of draws, or of scans where no control was used
    n_controls: int  # coefficients that were fitted


def with_controls(
    log_z: float, influence: FloatArray, controls: FloatArray, n_scans: IntArray,
    second: tuple[float, FloatArray] | None = None,
) -> Controlled:  # fmt: skip
    """Regress the influence of whole draws on controls, and correct log Z by their means.

    Parameters
    ----------
    log_z : float
        In nats.
    influence : ndarray of shape (total of n_scans,)
        Of each scan, mean zero, in nats.
    controls : ndarray of shape (n_draws, n_controls)
        Sums over the scans of a draw of quantities whose expectation is zero.
    n_scans : ndarray of int of shape (n_draws,)
        A draw without scans has no controls.
    second : (log_z, influence), optional
        Another estimate from the same scans, with a finite variance. That which controls explain
        best should be the first.

    Returns
    -------
    Controlled
        Draws, not scans, since a draw from the reference goes on to act in later scans. What
        comes in is returned where draws are too few, no control varies, the influence is not
        known, or half of the estimate would go.

    Raises
    ------
    DataError
        If there is not one row of controls for each number of scans, or not one influence for each
        scan, of either estimate.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> of_scans = rng.normal(size=(200, 4))
    >>> influence = 0.3 * (of_scans - of_scans.mean()).ravel()
    >>> log_z = -2.0 + 0.3 * of_scans.mean()
    >>> better = with_controls(log_z, influence, of_scans.sum(axis=1)[:, None], np.full(200, 4))
    >>> round(float(log_z), 3), round(float(better.log_z), 3)
    (-2.02, -2.0)
    """
    if n_scans.ndim != 1 or controls.shape[:-1] != n_scans.shape:
        raise DataError(
            f"controls has shape {controls.shape} and n_scans {n_scans.shape}; expected (n_draws, "
            "n_controls) and (n_draws,). Pass one row, and the number of scans, for each draw."
        )
    for each in (influence, influence if second is None else second[1]):
        if each.shape != (int(n_scans.sum()),):
            raise DataError(
                f"influence has shape {each.shape}; expected ({int(n_scans.sum())},), one for "
                "each scan of all draws. Pass the influence that goes with these draws."
            )
    as_it_is = Controlled(log_z, influence, 0)
    known = n_scans > 0
    controls, n_scans = controls[known], n_scans[known]
    if len(n_scans) < LEAST_DRAWS or not (np.isfinite(influence).all() and np.isfinite(log_z)):
        return as_it_is
    first = np.cumsum(n_scans) - n_scans
    sums = np.add.reduceat(influence, first)
    # those that vary most, in their order, without those that hardly do: below 10, a control is of
    # a component that ten draws at most were of
    squares = np.square(controls).sum(axis=0)
    most = len(n_scans) // DRAWS_PER_CONTROL
    largest = np.sort(np.argsort(-squares, kind="stable")[:most])
    controls = controls[:, largest[squares[largest] >= 10.0]]
    if second is not None and np.isfinite(second[1]).all():
        differs = np.add.reduceat(second[1] - influence, first) + (second[0] - log_z) * n_scans
        controls = np.column_stack([controls, differs])
    n_controls = controls.shape[1]
    if not n_controls:
        return as_it_is
    # the influence has mean zero by definition, the controls only on average
    columns = np.column_stack([controls, n_scans])
    # a share of the largest singular value below which controls are the sum of others
    coefficients = (1.0 - LEFT) * np.linalg.lstsq(columns, sums, rcond=1e-8)[0]
    n_draws, total = len(n_scans), int(n_scans.sum())
    # what is left lacks as many degrees of freedom as there are coefficients, and their own errors
    # add as much again to that of log Z
    left = (sums - columns @ coefficients) * (n_draws / (n_draws - n_controls))
    correction = float(controls.sum(axis=0) @ coefficients[:-1]) / total
    if correction >= 0.5:
        return as_it_is
    # a mean of weights is linear in them, its logarithm is not
    return Controlled(log_z + float(np.log1p(-correction)), left * n_draws / total, n_controls)
