"""Modes that the search knows, and no draw comes from.

A good fit tells the mass of its mode by itself, whatever the chains make of the target: an estimate
of log Z that no draw from it entered lacks as much.
"""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.types import FloatArray

__all__ = ["unvisited_arrays", "unvisited_diagnostics"]

NAME, COUNT = "log_mass_unvisited", "n_unreached_modes"

MIN_SHARE = 0.05
"""Of the estimate: a twentieth of a nat."""

MIN_DRAWS = 10.0
"""That were to be expected in a mode: none of as many independent ones is there once in 20,000
runs."""


def unvisited_arrays(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """What the last draw of each chain says of modes without one, if recorded.

    Parameters
    ----------
    statistics : mapping of ndarray
        ``log_mass_unvisited`` (chain, draw, mode), in nats; NaN where a mode had a draw by then.
        ``n_unreached_modes`` (chain, draw), of those whose mass no fit tells.
    """
    return {
        name: statistics[name][:, -1].astype(float) for name in (NAME, COUNT) if name in statistics
    }


def unvisited_diagnostics(
    statistics: Mapping[str, FloatArray], log_z: FloatArray
) -> list[Diagnostic]:
    """Warnings about modes that the search found, and no draw comes from.

    Parameters
    ----------
    statistics : mapping of ndarray
        As for :func:`unvisited_arrays`.
    log_z : ndarray of shape (n_chains,)
        Estimates of the chains, in nats.

    Returns
    -------
    list of Diagnostic

    Examples
    --------
    >>> left = {"log_mass_unvisited": np.full((2, 100, 1), -2.5)}
    >>> [diagnostic] = unvisited_diagnostics(left, np.array([-1.2, -1.2]))
    >>> diagnostic.code, round(diagnostic.measured["lacking"], 2)
    ('mode_out_of_reach', 0.24)
    >>> left["log_mass_unvisited"][0, 60:] = np.nan
    >>> unvisited_diagnostics(left, np.array([-1.2, -1.2]))
    []
    """
    last = unvisited_arrays(statistics)
    of_known_mass = _lacking(last[NAME], log_z, statistics[NAME].shape[1]) if NAME in last else None
    of_any = _unreached(last[COUNT]) if COUNT in last else None
    return [diagnostic for diagnostic in (of_any, of_known_mass) if diagnostic]


def _lacking(log_masses: FloatArray, log_z: FloatArray, n_draws: int) -> Diagnostic | None:
    """Warning about a mode of known mass that no chain has a draw from."""
    # a mode that one chain was in is no secret: how chains differ is told elsewhere
    in_none = np.min(log_masses, axis=0)
    if np.isnan(in_none).all():
        return None
    log_share = float(np.nanmax(in_none) - np.mean(log_z))
    if not log_share > np.log(max(MIN_SHARE, MIN_DRAWS / (n_draws * len(log_masses)))):
        return None
    lacking = float(np.logaddexp(0.0, log_share))
    return Diagnostic(
        "mode_out_of_reach",
        "no draw comes from a mode that the search found and that a Gaussian fits well, and "
        f"log Z lacks its mass: {lacking:.2g} nats by that fit.",
        "Leave `base` away, or sample with method='pt' and base='mixture', for replicas to "
        "come from that mode as well.",
        {NAME: float(np.nanmax(in_none)), "lacking": lacking},
    )


def _unreached(n_modes: FloatArray) -> Diagnostic | None:
    """Warning about modes that no Gaussian fits."""
    unreached = int(n_modes.max())
    if unreached < 1:
        return None
    return Diagnostic(
        "mode_out_of_reach",
        f"local fits found {unreached} mode(s) from which no draw comes: many standard "
        "deviations outside a base that was given and may not adapt, or of a shape that no "
        "Gaussian has, by height and curvature with much of the mass. Log Z may lack it.",
        "Leave `adapt_base` on, give a wider base, or sample that mode by itself.",
        {COUNT: unreached},
    )
