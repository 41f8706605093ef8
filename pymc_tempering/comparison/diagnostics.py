"""What speaks against a comparison: modes that may be missing, and widths of priors that differ."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from pymc_tempering.estimators.diagnostic import Diagnostic, kinds
from pymc_tempering.estimators.result import LogZEstimate

__all__ = ["diagnostics_of_comparison", "mass_missing"]

# a prior that is as wide in all models cancels; the posterior's width may differ a little
_SAME = 2.0


def mass_missing(table: pd.DataFrame) -> "pd.Series[bool]":
    """Which rows of a comparison have warnings that a mode may be missing.

    Parameters
    ----------
    table : DataFrame
        From :func:`pymc_tempering.compare`.
    """
    return table["warning_codes"].map(
        lambda codes: any(c in kinds() and kinds()[c].mass_missing for c in codes.split(", "))
    )


def diagnostics_of_comparison(estimates: Mapping[str, LogZEstimate]) -> dict[str, Diagnostic]:
    """Doubts that matter where models are compared, and that not all of them share.

    Parameters
    ----------
    estimates : mapping of str to LogZEstimate

    Returns
    -------
    dict of Diagnostic
        By the name of the model, which the text says.

    Examples
    --------
    >>> def estimate(width):
    ...     diagnostic = Diagnostic("extremely_wide_priors", "x.", "Look.", {"width of x": width})
    ...     return LogZEstimate(0.0, 0.1, "pt, mbar", [0.0] * 4, (diagnostic,))
    >>> diagnostics_of_comparison({"a": estimate(2e4), "b": estimate(2.1e4)})
    {}
    >>> diagnostics = diagnostics_of_comparison({"a": estimate(2e4), "b": estimate(9e4)})
    >>> [diagnostic.text for diagnostic in diagnostics.values()]
    ["of 'a', x.", "of 'b', x."]
    """
    measured = [
        {
            what: value
            for diagnostic in e.of_comparison
            for what, value in diagnostic.measured.items()
        }
        for e in estimates.values()
    ]
    shared = set[str]()
    for what in set.intersection(*map(set, measured)):
        widths = [float(str(m[what])) for m in measured]
        if max(widths) <= _SAME * min(widths):
            shared.add(what)
    return {
        name: replace(diagnostic, text=f"of {name!r}, {diagnostic.text}")
        for name, estimate in estimates.items()
        for diagnostic in estimate.of_comparison
        if not set(diagnostic.measured) <= shared
    }
