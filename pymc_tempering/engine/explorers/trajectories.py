"""What explorers that follow Hamiltonian trajectories can be set to."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from pymc_tempering.engine.move import ExplorerSettings

__all__ = ["TrajectorySettings"]


@dataclass(frozen=True)
class TrajectorySettings(ExplorerSettings):
    """How long trajectories are; a base class.

    Attributes
    ----------
    aim : float
        Acceptance rate that tuning of the step size aims at.
    trajectory_length : float
        Longest simulated time of a move, where a quarter of an orbit is pi / 2. Default 1.5.
    max_steps : int
        Largest number of steps of a move, default 64.
    """

    needs_gradient: ClassVar[bool] = True
    aim: float
    trajectory_length: float = 1.5
    max_steps: int = 64

    def most_evaluations(self, dim: int) -> int:  # noqa: ARG002  trajectories are bounded
        """Steps of the longest trajectory, and two to find scales with."""
        return self.max_steps + 2

    def within(self, reach: float) -> Self:
        """Shorter trajectories: a quarter of an orbit within a mode, which swaps lead out of."""
        if reach == 1.0:
            return self
        return replace(self, trajectory_length=reach * self.trajectory_length)
