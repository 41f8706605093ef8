"""The list of explorers, and the only function that calls their moves."""

from collections.abc import Callable

import numpy as np

from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian, hamiltonian_move
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.engine.move import Explorer, ExplorerSettings, Move, call_move
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas
from pymc_tempering.jit import compiled

EXPLORERS: dict[str, Callable[[], ExplorerSettings]] = {
    "hamiltonian": Hamiltonian,
    "slice": Slice,
    "gist": Gist,
}
"""Settings of the explorers, by name; a new explorer is one file and a line here."""

_MOVE = Move(0.0, 0.0, 0, 0, 0)


@compiled(inline="always")
def explore(
    path: Path, explorer: Explorer, beta: float, scale: float, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> Move:  # fmt: skip
    """Move one replica by a transition that leaves the density at ``beta`` in [0, 1] invariant.

    The density at the replica's position has to be finite; `scale` is what is tuned, a step size or
    a width.
    """
    if explorer.address != 0:
        arguments = path, explorer.options, beta, scale, replicas, row, rng
        return call_move(explorer.address, _MOVE, arguments)
    return hamiltonian_move(path, explorer.options, beta, scale, replicas, row, rng)
