"""Which explorer a step uses, from what the user said."""

from pymc_tempering.engine.explorers.explore import EXPLORERS
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.errors import OptionError
from pymc_tempering.options import check_choice, check_positive, check_probability

__all__ = ["explorer_settings"]


def explorer_settings(
    explorer: str | ExplorerSettings,
    *,
    target_accept: float,
    trajectory_length: float,
    max_steps: int,
) -> ExplorerSettings:
    """Check which explorer moves the replicas, and its options.

    Parameters
    ----------
    explorer : str or ExplorerSettings
        A name of :data:`pymc_tempering.engine.explorers.explore.EXPLORERS`, with default settings
        unless it is "hamiltonian", or settings.
    target_accept, trajectory_length, max_steps
        Of Hamiltonian moves.

    Raises
    ------
    OptionError
    """
    hamiltonian = Hamiltonian(
        aim=check_probability("target_accept", target_accept),
        trajectory_length=float(check_positive("trajectory_length", trajectory_length)),
        max_steps=check_positive("max_steps", max_steps, integer=True),
    )
    if isinstance(explorer, str) and explorer == "hamiltonian":
        return hamiltonian
    if hamiltonian != Hamiltonian():
        raise OptionError(
            "`target_accept`, `trajectory_length` and `max_steps` are options of Hamiltonian moves "
            f"and explorer={explorer!r} was given. Pass settings of that explorer instead."
        )
    if isinstance(explorer, ExplorerSettings):
        return explorer
    return EXPLORERS[check_choice("explorer", explorer, EXPLORERS)]()
