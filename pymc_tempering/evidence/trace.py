"""How the estimate of log Z settled as a run went on."""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import numpy as np
import xarray as xr

from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.evidence.common import MethodEstimate
from pymc_tempering.evidence.stored import COLLECTORS, recorded_statistics
from pymc_tempering.transform.analysis import bridge_chains
from pymc_tempering.transform.record import PER_DRAW, JointRecord
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["LogZTrace", "log_z_trace"]


class LogZTrace(NamedTuple):
    """Estimates of log Z from the first draws of a run, for more and more of them.

    Attributes
    ----------
    draws : ndarray of int of shape (n_points,)
        Draws per chain that each estimate rests on.
    per_chain : ndarray of shape (n_points, n_chains)
        In nats; infinite or nan where neighbouring levels share no draws yet.
    log_z : ndarray of shape (n_points,)
        Mean over chains.
    se, df : ndarray of shape (n_points,)
        Standard error in nats and degrees of freedom of its interval.
    lower, upper : ndarray of shape (n_points,)
        Stochastic bounds; nan for methods without.
    seconds : ndarray of shape (n_points, n_chains)
        Wall time that each chain took for its draws, tuning not counted; nan where the run did not
        record it.
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

    Parallel tempering is estimated by BAR (:func:`pymc_tempering.estimators.bar.bar_ladder`),
    which costs less than the MBAR of the final estimate and differs from it by far less than the
    error; other methods by their own estimator. Numbers of draws are spaced geometrically, as the
    error falls with the square root.

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
    if not isinstance(n_points, int | np.integer) or n_points < 2:
        raise OptionError(f"`n_points` is {n_points!r}; expected a whole number of at least 2.")
    method, statistics = recorded_statistics(idata)
    cheaper = {"pt": _collect_bar, "joint_ct": _collect_bridge}
    collect = cheaper.get(method) or import_module(COLLECTORS[method][0]).collect
    per_draw, whole = statistics, {}
    if method == "joint_ct":
        per_draw = {name: array for name, array in statistics.items() if name in PER_DRAW}
        whole = {name: array for name, array in statistics.items() if name not in PER_DRAW}
    recorded = {name: array for name, array in per_draw.items() if array.ndim >= 2}
    shape = recorded["delta" if method == "joint_ct" else "base_id"].shape[:2]
    n_draws = shape[1]
    first = min(max(n_draws // 50, 2), n_draws)
    draws = np.unique(np.geomspace(first, n_draws, n_points).round().astype(np.int64))
    rows = []
    for n in draws:
        parts = collect(whole | {name: array[:, :n] for name, array in recorded.items()})
        error = log_z_standard_error(parts.log_z, parts.influences)
        rows.append((parts, error))
    nan = np.nan
    seconds = statistics.get("perf_counter_diff", np.full(shape, nan))
    return LogZTrace(
        draws,
        np.stack([parts.log_z for parts, _ in rows]),
        np.array([parts.log_z.mean() for parts, _ in rows]),
        np.array([error.se for _, error in rows]),
        np.array([error.df for _, error in rows]),
        np.array([nan if parts.lower is None else parts.lower for parts, _ in rows]),
        np.array([nan if parts.upper is None else parts.upper for parts, _ in rows]),
        np.cumsum(seconds, axis=1).T[draws - 1],
    )


def _collect_bridge(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    return MethodEstimate(*bridge_chains(JointRecord.from_statistics(statistics)))


def _collect_bar(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    log_z, influences = [], []
    for delta, betas in zip(statistics["delta"], statistics["betas"], strict=True):
        n = int(np.isfinite(betas[0]).sum())
        estimate = bar_ladder(delta[..., :n].reshape(-1, n), betas[0, :n])
        log_z.append(estimate.log_z[-1])
        influences.append(estimate.influence)
    return MethodEstimate(np.array(log_z), influences)
