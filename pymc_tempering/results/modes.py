"""What users see of the modes of a posterior: a table, and the variables that tell modes apart."""

import html
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import decimals_of_error
from pymc_tempering.results.datatree import named_entries
from pymc_tempering.types import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Modes:
    """Modes of a posterior, most probable first; prints as a table.

    Parameters
    ----------
    dataset : xarray.Dataset
        With dimension ``mode``, numbered from 1: ``share``, ``share_se`` and ``share_ess``;
        ``share_chain`` (mode, chain); ``log_z`` and ``log_z_se`` in nats, nan without evidence;
        ``mode_of_draw`` (chain, draw).
    mean, sd : xarray.Dataset
        Of each variable of the posterior within each mode.
    draws : xarray.Dataset
        The posterior. With its labels in one order, the attributes ``exchanged``, names of
        variables, and ``n_orders``.
    warnings : tuple of Diagnostic, default ()
        What speaks against the shares, and what to do.
    """

    dataset: xr.Dataset
    mean: xr.Dataset
    sd: xr.Dataset
    draws: xr.Dataset
    warnings: tuple[Diagnostic, ...] = ()

    def __len__(self) -> int:
        return int(self.dataset.sizes["mode"])

    def telling(self, n: int = 2) -> list[str]:
        """Name `n` scalars that tell the modes apart, best first, as in ``"phone[north]"``."""
        names = [name for name, _, _ in _entries(self.mean)]
        return [names[i] for i in telling_entries(_flat(self.mean), _flat(self.sd), n)]

    def location(self, name: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and standard deviation of a scalar in each mode (n_modes,), and its draws.

        The name is as `telling` writes it; the draws are of shape (n_chains, n_draws).
        """
        entries = {label: (variable, index) for label, variable, index in _entries(self.mean)}
        variable, inner = entries[name]
        index: Any = (..., *inner)
        values = self.draws[variable].transpose("chain", "draw", ...).values[index]
        mean, sd = (d[variable].transpose("mode", ...).values[index]
                    for d in (self.mean, self.sd))  # fmt: skip
        return mean, sd, values

    def to_dataframe(self) -> pd.DataFrame:
        """Return the numbers as a table, one row for each mode.

        Returns
        -------
        pandas.DataFrame
            ``share``, ``share_se``, ``log_z``, ``log_z_se``, ``n_chains`` that visited the mode,
            and the mean of every scalar of the posterior.
        """
        columns = ["share", "share_se", "log_z", "log_z_se"]
        table = self.dataset[columns].reset_coords(drop=True).to_dataframe()
        table["n_chains"] = (self.dataset["share_chain"] > 0).sum("chain").values
        names = [name for name, _, _ in _entries(self.mean)]
        return pd.concat([table, pd.DataFrame(_flat(self.mean), table.index, names)], axis=1)

    def __repr__(self) -> str:
        data = self.dataset
        n_chains, n_draws = (data.sizes[dim] for dim in ("chain", "draw"))
        head = (
            f"{len(self)} mode{'s' if len(self) != 1 else ''} in {n_chains * n_draws} draws of "
            f"{n_chains} chain{'s' if n_chains != 1 else ''}"
        )
        lines = [head]
        if n_orders := self.draws.attrs.get("n_orders"):
            exchanged = ", ".join(self.draws.attrs["exchanged"])
            text = f"each with its copies: {n_orders} orders of the labels of {exchanged}"
            lines += textwrap.wrap(text, 80)
        lines += _fit_columns(self._columns())
        if len(self) > 1 and n_chains <= 8:
            lines += ["", *_fit_columns(self._chain_columns())]
        for warning in self.warnings:
            text = f"  warning: {warning}"
            lines += textwrap.wrap(text, 80, subsequent_indent="    ")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        text = "\n".join(_fit_columns(self._columns()))
        items = "".join(f"<li>{html.escape(str(w))}</li>" for w in self.warnings)
        listed = f"<ul>{items}</ul>" if items else ""
        return f"<div><pre>{html.escape(text)}</pre>{listed}</div>"

    def _columns(self) -> list[list[str]]:
        data = self.dataset
        columns = [["mode", *map(str, data["mode"].values)]]
        if "label" in data.coords:
            columns.append(["label", *(text[:12] for text in map(str, data["label"].values))])
        columns.append(["share", *map(_with_error, data["share"].values, data["share_se"].values)])
        if np.isfinite(data["log_z"]).any():
            log_z = map(_with_error, data["log_z"].values, data["log_z_se"].values)
            columns.append(["log Z (nats)", *log_z])
        visited = (data["share_chain"] > 0).sum("chain").values
        columns.append(["chains", *(f"{n} of {data.sizes['chain']}" for n in visited)])
        for name in self.telling(6):
            mean, sd, _ = self.location(name)
            columns.append([name, *map(_with_spread, mean, sd)])
        return columns

    def _chain_columns(self) -> list[list[str]]:
        data = self.dataset
        columns = [["share by chain", *(f"mode {k}" for k in data["mode"].values)]]
        for chain, shares in zip(data["chain"].values, data["share_chain"].values.T, strict=True):
            columns.append([str(chain), *(f"{share:.3f}" for share in shares)])
        return columns


def telling_entries(mean: FloatArray, sd: FloatArray, n: int) -> list[int]:
    """Choose n scalars that tell modes apart, each adding most to those before it.

    `mean` and `sd` are of shape (n_modes, n_scalars); the result is of indices of scalars.
    """
    one, two = np.triu_indices(len(mean), k=1)
    spread = np.sqrt(0.5 * (sd[one] ** 2 + sd[two] ** 2))
    gap = np.abs(mean[one] - mean[two])
    distance = np.divide(gap, spread, out=np.where(gap > 0.0, np.inf, 0.0), where=spread > 0.0)
    # six deviations apart, modes cannot be told apart better, but more decides between equals
    score = np.minimum(distance, 6.0) + 1e-3 * np.log1p(np.minimum(distance, 1e9))
    known = np.zeros(len(one))
    chosen: list[int] = []
    while len(chosen) < min(n, mean.shape[1]):
        gain = np.maximum(score, known[:, None]).sum(axis=0) + 1e-6 * score.sum(axis=0)
        gain[chosen] = -np.inf
        best = int(np.argmax(gain))
        chosen.append(best)
        known = np.maximum(known, score[:, best])
    return chosen


def _entries(dataset: xr.Dataset) -> list[tuple[str, str, tuple[int, ...]]]:
    """Name of every scalar of a dataset by mode, its variable, and its index there."""
    shapes: dict[str, tuple[int, ...]] = {}
    labels: dict[str, list[Any]] = {}
    for variable, values in dataset.transpose("mode", ...).data_vars.items():
        shapes[str(variable)] = values.shape[1:]
        labels[str(variable)] = [
            values[d].values if d in values.coords else range(values.sizes[d])
            for d in values.dims[1:]
        ]
    return list(named_entries(shapes, labels))


def _flat(dataset: xr.Dataset) -> FloatArray:
    """Every scalar of a dataset by mode, shape (n_modes, n_scalars)."""
    variables = dataset.transpose("mode", ...).data_vars.values()
    parts = [v.values.reshape(dataset.sizes["mode"], -1) for v in variables]
    return np.concatenate(parts, axis=1)


def _with_error(value: float, se: float) -> str:
    digits = max(3, decimals_of_error(se)) if abs(value) <= 1.0 else decimals_of_error(se)
    return f"{value:.{digits}f} ± {se:.{digits}f}" if np.isfinite(se) else f"{value:.{digits}f}"


def _with_spread(mean: float, sd: float) -> str:
    digits = int(np.clip(1 - np.floor(np.log10(sd)), 0, 6)) if sd > 0 else 2
    text = f"{mean:z.{digits}f} ± {sd:.{digits}f}"
    return text if len(text) <= 20 else f"{mean:.2e} ± {sd:.1e}"


def _fit_columns(columns: list[list[str]]) -> list[str]:
    """Lines of a table; columns that do not fit are left out, and long tables cut."""
    shown: list[list[str]] = []
    used = 0
    for column in columns:
        width = max(map(len, column))
        if shown and used + 2 + width > 80:
            break
        shown.append([text.rjust(width) for text in column])
        used += width + (2 if used else 0)
    lines = ["  ".join(row).rstrip() for row in zip(*shown, strict=True)]
    return lines if len(lines) <= 40 else [*lines[:40], f"and {len(lines) - 40} more"]
