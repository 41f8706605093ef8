"""Modes that the search knows, and no draw comes from.

A good fit tells the mass of its mode by itself, whatever the chains make of the target: an estimate
of log Z that no draw from it entered lacks as much.
"""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.doubt import Doubt
from pymc_tempering.types import FloatArray

__all__ = ["unvisited_arrays", "unvisited_doubts"]

NAME = "log_mass_unvisited"

MIN_SHARE = 0.05
"""Of the estimate: a twentieth of a nat."""

MIN_DRAWS = 10.0
"""That were to be expected in a mode: none of as many independent ones is there once in 20,000
runs."""


def unvisited_arrays(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Log of the mass of well fitted modes without a draw, by chain and mode, if recorded.

    Parameters
    ----------
    statistics : mapping of ndarray
        ``log_mass_unvisited`` (chain, draw, mode), in nats; NaN where a mode had a draw by then.
    """
    return {NAME: statistics[NAME][:, -1]} if NAME in statistics else {}


def unvisited_doubts(statistics: Mapping[str, FloatArray], log_z: FloatArray) -> list[Doubt]:
    """Warning about a mode of known mass that no chain has a draw from.

    Parameters
    ----------
    statistics : mapping of ndarray
        As for :func:`unvisited_arrays`.
    log_z : ndarray of shape (n_chains,)
        Estimates of the chains, in nats.

    Returns
    -------
    list of Doubt
        One at most.

    Examples
    --------
    >>> left = {"log_mass_unvisited": np.full((2, 100, 1), -2.5)}
    >>> [doubt] = unvisited_doubts(left, np.array([-1.2, -1.2]))
    >>> doubt.code, round(doubt.measured["lacking"], 2)
    ('mode_out_of_reach', 0.24)
    >>> left["log_mass_unvisited"][0, 60:] = np.nan
    >>> unvisited_doubts(left, np.array([-1.2, -1.2]))
    []
    """
    if NAME not in statistics:
        return []
    log_masses = unvisited_arrays(statistics)[NAME]
    # a mode that one chain was in is no secret: how chains differ is told elsewhere
    in_none = np.min(log_masses, axis=0)
    if np.isnan(in_none).all():
        return []
    log_share = float(np.nanmax(in_none) - np.mean(log_z))
    n_draws = np.prod(statistics[NAME].shape[:2])
    if not log_share > np.log(max(MIN_SHARE, MIN_DRAWS / n_draws)):
        return []
    lacking = float(np.logaddexp(0.0, log_share))
    return [
        Doubt(
            "mode_out_of_reach",
            "no draw comes from a mode that the search found and that a Gaussian fits well, and "
            f"log Z lacks its mass: {lacking:.2g} nats by that fit.",
            "Leave `base` away, or sample with method='pt' and base='mixture', for replicas to "
            "come from that mode as well.",
            {NAME: float(np.nanmax(in_none)), "lacking": lacking},
        )
    ]
