"""Doubts in a stored run: an array of strings for each of their parts."""

import json
from collections.abc import Iterable
from operator import methodcaller
from typing import Any

import numpy as np
import xarray as xr

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.results.schema import TEMPERING

__all__ = ["diagnostic_variables", "read_diagnostics"]

_PARTS = ("code", "text", "remedy", "measured")
_TEXT_OF_EARLIER_VERSIONS = "warnings"


def diagnostic_variables(diagnostics: Iterable[Diagnostic]) -> dict[str, xr.Variable]:
    """Variables of the group ``tempering`` that say the diagnostics.

    Parameters
    ----------
    diagnostics : iterable of Diagnostic

    Returns
    -------
    dict of Variable
        Strings of dimension ``warning``, also where there is none; ``warning_measured`` is JSON.

    Examples
    --------
    >>> diagnostic = Diagnostic("no_overlap", "none.", "Raise `tune`.", {"log_z": float("-inf")})
    >>> stored = xr.Dataset(diagnostic_variables([diagnostic]))
    >>> stored["warning_code"].values.tolist(), stored["warning_measured"].values.tolist()
    (['no_overlap'], ['{"log_z": -Infinity}'])
    >>> read_diagnostics(stored) == (diagnostic,)
    True
    """
    rows = [
        # numbers of NumPy, where one was left, as Python's
        (d.code, d.text, d.remedy, json.dumps(dict(d.measured), default=methodcaller("tolist")))
        for d in diagnostics
    ]
    columns = np.array(rows, dtype=str).reshape(-1, len(_PARTS)).T
    return {
        name: xr.Variable(TEMPERING[name].dims, values, {"long_name": TEMPERING[name].meaning})
        for name, values in zip((f"warning_{part}" for part in _PARTS), columns, strict=True)
    }


def read_diagnostics(dataset: xr.Dataset) -> tuple[Diagnostic, ...]:
    """Doubts that a group ``tempering`` says.

    Returns
    -------
    tuple of Diagnostic
        Empty where nothing was doubtful. Warnings of a version that stored them as one text are
        one diagnostic, which repeats that text.
    """
    names = [f"warning_{part}" for part in _PARTS]
    if not set(names) <= set(dataset.data_vars):
        return _of_earlier_version(dataset.attrs)
    columns = [np.atleast_1d(dataset[name].values).astype(str).tolist() for name in names]
    return tuple(
        Diagnostic(code, text, remedy, json.loads(measured))
        for code, text, remedy, measured in zip(*columns, strict=True)
    )


def _of_earlier_version(attrs: dict[Any, Any]) -> tuple[Diagnostic, ...]:
    text = " ".join(str(attrs.get(_TEXT_OF_EARLIER_VERSIONS, "")).split())
    if not text:
        return ()
    diagnostic = Diagnostic(
        "warned_by_earlier_version",
        f"the run was stored with this text, whose parts are not told apart: {text}",
        "Estimate the model anew for warnings with codes and figures.",
    )
    return (diagnostic,)
