"""What every explorer is told and what it answers."""

from typing import NamedTuple

from pymc_tempering.types import FloatArray

__all__ = ["Explorer", "Move"]


class Explorer(NamedTuple):
    """Which explorer moves the replicas, with its options, as compiled code sees it.

    Attributes
    ----------
    kind : int
        Position in :data:`pymc_tempering.engine.explorers.explore.EXPLORERS`.
    options : ndarray of shape (n_options,)
        What the explorer of this kind declares.
    aim : float
        Mean of the adaptation signal that tuning of the scale aims at.
    """

    kind: int
    options: FloatArray
    aim: float


class Move(NamedTuple):
    """Outcome of one move.

    Attributes
    ----------
    acceptance_rate : float
        Probability with which the proposal was to be accepted; 1 for moves without rejection.
    signal : float
        What the explorer's scale is tuned by: in [0, 1], smaller for larger scales.
    status : int
        See :mod:`pymc_tempering.engine.tally`.
    n_evaluations : int
        Evaluations of the target.
    """

    acceptance_rate: float
    signal: float
    status: int
    n_evaluations: int
