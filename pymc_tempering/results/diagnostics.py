"""Diagnostics in a stored run: an array of strings for each of their parts."""

import json
from collections.abc import Iterable
from operator import methodcaller

import numpy as np
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.diagnostic import Diagnostic, kinds
from pymc_tempering.results.schema import TEMPERING

__all__ = ["diagnostic_variables", "read_diagnostics"]

_PARTS = ("code", "text", "remedy", "measured")
_OTHER_VERSION = (
    "The run was stored with {}, by another version of pymc_tempering. Take that estimate off and "
    "make it anew, as in `estimate_logz(idata.drop_nodes('tempering'))`; what concerns the model "
    "is found again where it is passed. Or read the run with the version that wrote it."
)


def diagnostic_variables(diagnostics: Iterable[Diagnostic]) -> dict[str, xr.Variable]:
    """Variables of the group ``tempering`` that say the diagnostics.

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
    """Diagnostics that a group ``tempering`` has; empty where nothing was doubtful.

    Raises
    ------
    DataError
        If another version wrote them, of kinds that this one does not have.
    """
    names = [f"warning_{part}" for part in _PARTS]
    if not set(names) <= set(dataset.data_vars):
        if dataset.attrs.get("warnings"):
            raise DataError(_OTHER_VERSION.format("warnings as one text"))
        return ()
    columns = [np.atleast_1d(dataset[name].values).astype(str).tolist() for name in names]
    if unknown := sorted(set(columns[0]) - set(kinds())):
        raise DataError(_OTHER_VERSION.format(f"the warnings {unknown}"))
    return tuple(
        Diagnostic(code, text, remedy, json.loads(measured))
        for code, text, remedy, measured in zip(*columns, strict=True)
    )
