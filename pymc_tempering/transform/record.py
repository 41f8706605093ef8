"""What log Z of joint continuous tempering is made from, in tempered draws and in a result."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.results.names import BETA, DELTA, POSITION, PREFIX, RECORDS
from pymc_tempering.types import BoolArray, FloatArray

__all__ = ["JointRecord", "record_of_draws", "stored_statistics"]


class JointRecord(NamedTuple):
    """Tempered draws and what they were made with.

    Attributes
    ----------
    delta, beta : ndarray of shape (n_chains, n_draws)
    base_delta : ndarray of shape (n_chains, n_base)
        At independent draws from the base, different ones for each chain, so that chains stay
        independent; ``-inf`` outside the support, nan beyond the number of a chain.
    knots, bias : ndarray of shape (n_chains, n_knots)
    diverging : ndarray of bool of shape (n_chains, n_draws), or None
    position : ndarray of shape (n_chains, n_draws, D), or None
        In base coordinates; not stored with a result.
    base_mean_error : ndarray of shape (n_chains,), or None
        Made from `position` before it was left away.
    """

    delta: FloatArray
    beta: FloatArray
    base_delta: FloatArray
    knots: FloatArray
    bias: FloatArray
    diverging: BoolArray | None = None
    position: FloatArray | None = None
    base_mean_error: FloatArray | None = None

    @classmethod
    def from_statistics(cls, statistics: Mapping[str, FloatArray]) -> "JointRecord":
        """Pick the fields from what :func:`stored_statistics` returns, or a part of its draws."""
        fields: dict[str, Any] = {n: statistics[n] for n in cls._fields if n in statistics}
        return cls(**fields)


def stored_statistics(idata: xr.DataTree) -> dict[str, FloatArray]:
    """Read what a result of `untemper` keeps, chain first.

    Raises
    ------
    DataError
        If chains or draws were cut away, or have no finite delta.
    """
    dataset = idata["tempering"].dataset if "tempering" in idata.children else xr.Dataset()
    absent = [name for name in ("chain", "draw") if not dataset.sizes.get(name, 0)]
    if absent:
        raise DataError(
            f"The group `tempering` has nothing along {absent}; expected chains and draws. Select "
            "with lists or slices, as in `idata.isel(chain=[0])`, which keep the dimension."
        )
    if "delta" in dataset:
        _check_delta(dataset["delta"].values)
    return {
        str(name): variable.transpose("chain", "draw", ..., missing_dims="ignore").values
        for name, variable in dataset.data_vars.items()
        if "chain" in variable.dims or str(name).startswith("base_")
    }


def record_of_draws(idata: xr.DataTree) -> tuple[JointRecord, dict[str, FloatArray]]:
    """Read tempered draws.

    Parameters
    ----------
    idata : xarray.DataTree
        What ``pm.sample`` returned inside the model that `temper` made.

    Returns
    -------
    record : JointRecord
    base : dict of ndarray
        ``base_mean`` and ``base_scale``.

    Raises
    ------
    DataError
        If a variable that the tempered model records is missing, or delta is not a number.
    """
    posterior, constants = _find(idata)
    delta = posterior[DELTA].transpose("chain", "draw").values
    _check_delta(delta)
    beta_name = PREFIX + BETA if PREFIX + BETA in posterior else BETA
    n_chains = len(delta)
    position = None
    if POSITION in posterior:
        position = posterior[POSITION].transpose("chain", "draw", ...).values
    record = JointRecord(
        delta=delta,
        beta=posterior[beta_name].transpose("chain", "draw").values,
        base_delta=_in_rows(constants["base_delta"], n_chains),
        knots=np.tile(constants["knots"], (n_chains, 1)),
        bias=np.tile(constants["bias"], (n_chains, 1)),
        diverging=_diverging(idata),
        position=position,
    )
    return record, {name: constants[name] for name in ("base_mean", "base_scale")}


def _check_delta(delta: FloatArray) -> None:
    if np.isnan(delta).any() or not np.isfinite(delta).any(axis=-1).all():
        raise DataError(
            f"`{DELTA}` has {int(np.isnan(delta).sum())} nan values and "
            f"{int((~np.isfinite(delta)).all(axis=-1).sum())} chains without a finite one; "
            "expected finite values. Sample the tempered model from a start inside the support; "
            "put only chains with equal numbers of draws together."
        )


def _in_rows(values: FloatArray, n: int) -> FloatArray:
    """Share out values over n rows, the last ones one shorter where they do not come out even."""
    parts = np.array_split(values, n)
    rows = np.full((n, len(parts[0])), np.nan)
    for row, part in zip(rows, parts, strict=True):
        row[: len(part)] = part
    return rows


def _find(idata: xr.DataTree) -> tuple[xr.Dataset, dict[str, FloatArray]]:
    if not isinstance(idata, xr.DataTree):
        raise DataError(
            f"The argument is of type {type(idata).__name__}; expected the DataTree that "
            "`pm.sample` returns (`return_inferencedata=True`)."
        )
    remedy = (
        "Pass what `pm.sample` returned inside the model that `pymc_tempering.temper` made, with "
        "all its variables (no `var_names`); a result of `untemper` has them no longer."
    )
    if "posterior" not in idata.children:
        groups = sorted(idata.children)
        raise DataError(f"The DataTree has groups {groups}, no `posterior`. {remedy}")
    posterior = idata["posterior"].to_dataset()
    missing = [DELTA] if DELTA not in posterior else []
    if BETA not in posterior and PREFIX + BETA not in posterior:
        missing.append(BETA)
    constant = idata["constant_data"].to_dataset() if "constant_data" in idata.children else {}
    missing += [name for name in RECORDS if name not in constant]
    if missing:
        raise DataError(f"The DataTree lacks the recorded variables {missing}. {remedy}")
    return posterior, {name.removeprefix(PREFIX): constant[name].values for name in RECORDS}


def _diverging(idata: xr.DataTree) -> BoolArray | None:
    if "sample_stats" not in idata.children or "diverging" not in idata["sample_stats"]:
        return None
    diverging = idata["sample_stats"].to_dataset()["diverging"]
    return diverging.transpose("chain", "draw").values.astype(np.bool_)
