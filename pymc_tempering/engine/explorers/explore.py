"""The list of explorers, and the only function that calls their moves."""

from dataclasses import astuple, dataclass
from typing import ClassVar

import numpy as np

from pymc_tempering.engine.explorers.hamiltonian import hamiltonian_move
from pymc_tempering.engine.explorers.move import Explorer, Move
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas
from pymc_tempering.jit import compiled

__all__ = ["EXPLORERS", "ExplorerSettings", "Hamiltonian", "explore"]

HAMILTONIAN = 0


@dataclass(frozen=True)
class ExplorerSettings:
    """Base class of the explorers' settings: frozen numbers, in the order that moves read them."""

    kind: ClassVar[int]
    needs_gradient: ClassVar[bool]
    aim: float

    def packed(self) -> Explorer:
        """Hand the settings to compiled code."""
        aim, *options = astuple(self)
        return Explorer(self.kind, np.array(options, dtype=np.float64), float(aim))


@dataclass(frozen=True)
class Hamiltonian(ExplorerSettings):
    """Hamiltonian moves with fresh momentum.

    Attributes
    ----------
    aim : float
        Acceptance rate that tuning of the step size aims at, default 0.8.
    trajectory_length : float
        Longest simulated time of a move, where a quarter of an orbit is pi / 2. Default 1.5.
    max_steps : int
        Largest number of gradient evaluations of a move, default 64.
    """

    kind: ClassVar[int] = HAMILTONIAN
    needs_gradient: ClassVar[bool] = True
    aim: float = 0.8
    trajectory_length: float = 1.5
    max_steps: int = 64


EXPLORERS: dict[str, type[ExplorerSettings]] = {"hamiltonian": Hamiltonian}
"""Explorers by name."""


@compiled
def explore(
    path: Path,
    explorer: Explorer,
    beta: float,
    scale: float,
    replicas: Replicas,
    row: int,
    rng: np.random.Generator,
) -> Move:
    """Move one replica by a transition that leaves the density at ``beta`` invariant.

    Parameters
    ----------
    path : Path
    explorer : Explorer
    beta : float
        Inverse temperature in [0, 1].
    scale : float
        Tuned: a step size, or a width.
    replicas : Replicas
        The density at the replica's position has to be finite.
    row : int
    rng : numpy.random.Generator
    """
    return hamiltonian_move(path, explorer.options, beta, scale, replicas, row, rng)
