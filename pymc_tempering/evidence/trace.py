"""How the estimate of log Z settled as a run went on."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.evidence.stored import recorded_statistics
from pymc_tempering.methods import load
from pymc_tempering.options import check_whole
from pymc_tempering.types import FloatArray, IntArray


class LogZTrace(NamedTuple):
    """Estimates of log Z from the first draws of a run, for more and more of them; in nats.

    Attributes
    ----------
    draws : ndarray of int of shape (n_points,)
        Draws per chain that each estimate rests on.
    per_chain : ndarray of shape (n_points, n_chains)
        Infinite or nan where neighbouring levels share no draws yet.
    log_z, se, df, lower, upper : ndarray of shape (n_points,)
        Mean over chains, its error with degrees of freedom, and stochastic bounds; nan without.
    seconds : ndarray of shape (n_points, n_chains)
        Wall time of these draws, tuning not counted; nan where it was not recorded.
    """

    draws: IntArray
    per_chain: FloatArray
    log_z: FloatArray
    se: FloatArray
    df: FloatArray
    lower: FloatArray
    upper: FloatArray
    seconds: FloatArray


def log_z_trace(idata: xr.DataTree, n_points: int = 24) -> LogZTrace:
    """Estimate log Z from the first draws only, for more and more of them.

    Parallel tempering is estimated by BAR (:func:`pymc_tempering.estimators.bar.bar_ladder`), which
    costs less than the MBAR of the final estimate and differs from it by far less than the error,
    with the same controls where draws are enough; other methods by their own estimator. Numbers of
    draws are spaced geometrically, as the error falls with the square root.

    Parameters
    ----------
    idata : xarray.DataTree
    n_points : int, default 24
        Largest number of prefixes; fewer where there are fewer draws.

    Returns
    -------
    LogZTrace

    Raises
    ------
    DataError
        If the run is not tempered.
    OptionError
        If `n_points` is below 2.
    """
    check_whole("n_points", n_points, 2)
    method, statistics = recorded_statistics(idata)
    collect = load(method.collect_part or method.collect)
    per_draw = method.per_draw or tuple(statistics)
    recorded = {name: array for name, array in statistics.items() if name in per_draw}
    whole = {name: array for name, array in statistics.items() if name not in per_draw}
    shape = recorded[method.needs[0]].shape[:2]
    n_draws = shape[1]
    first = min(max(n_draws // 50, 2), n_draws)
    draws = np.unique(np.geomspace(first, n_draws, n_points).round().astype(np.int64))
    rows = [
        collect(whole | {name: array[:, :n] for name, array in recorded.items()}) for n in draws
    ]
    errors = [log_z_standard_error(row.log_z, row.influences) for row in rows]
    seconds = statistics.get("perf_counter_diff", np.full(shape, np.nan))
    return LogZTrace(
        draws,
        np.stack([row.log_z for row in rows]),
        np.array([row.log_z.mean() for row in rows]),
        np.array([error.se for error in errors]),
        np.array([error.df for error in errors]),
        np.array([row.lower for row in rows], dtype=np.float64),
        np.array([row.upper for row in rows], dtype=np.float64),
        np.cumsum(seconds, axis=1).T[draws - 1],
    )
