"""Which explorer a step uses, from what the user requested and what the model offers."""

import logging

from pymc_tempering.engine.explorers.explore import EXPLORERS
from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.options import check_choice, check_positive, check_probability
from pymc_tempering.references.funnels import DEEP

__all__ = ["explorer_settings", "need_gradient", "suited_explorer", "suited_to_funnels"]

# where PyMC says which step methods it assigns
_log = logging.getLogger("pymc")


def explorer_settings(
    explorer: str | ExplorerSettings | None,
    *,
    target_accept: float,
    trajectory_length: float,
    max_steps: int,
) -> tuple[ExplorerSettings, bool]:
    """Check which explorer moves the replicas, and its options.

    Returns its settings, and whether the user requested it by its name or its options. Without a
    name it is "hamiltonian", unless the model says otherwise (:func:`suited_explorer`).
    """
    hamiltonian = Hamiltonian(
        aim=check_probability("target_accept", target_accept),
        trajectory_length=float(check_positive("trajectory_length", trajectory_length)),
        max_steps=check_positive("max_steps", max_steps, integer=True),
    )
    if explorer is None or (isinstance(explorer, str) and explorer == "hamiltonian"):
        return hamiltonian, explorer is not None or hamiltonian != Hamiltonian()
    if hamiltonian != Hamiltonian():
        raise OptionError(
            "`target_accept`, `trajectory_length` and `max_steps` are options of Hamiltonian moves "
            f"and explorer={explorer!r} was given. Pass settings of that explorer instead."
        )
    if isinstance(explorer, ExplorerSettings):
        return explorer, True
    return EXPLORERS[check_choice("explorer", explorer, EXPLORERS)](), True


def suited_explorer(
    name: str, settings: ExplorerSettings, density: CompiledDensity, *, requested: bool
) -> ExplorerSettings:
    """Explorer for what the density of a model offers; the log says where it matters.

    ``settings`` are those that the step, of this name, takes where there is a gradient. A requested
    explorer that needs one which the model has not is a ModelError.
    """
    notes = []
    if settings.needs_gradient and density.no_gradient:
        if requested:
            need_gradient(name, density)
        notes.append(f"no gradient ({density.no_gradient}): slice explorer")
        settings = Slice()
    if density.calls_python:
        notes.append(
            "every evaluation of the density calls Python, slower than machine code, since "
            + density.calls_python
        )
    if notes:
        _log.info("%s: %s", name, "; ".join(notes))
    return settings


def suited_to_funnels(
    settings: ExplorerSettings, depth: float, *, requested: bool
) -> ExplorerSettings:
    """Explorer with steps of local sizes in place of the default one, where a target has funnels.

    ``depth`` in nats is that of the funnels which short runs met; a requested explorer stays.
    """
    return Gist() if depth >= DEEP and not requested and settings == Hamiltonian() else settings


def need_gradient(name: str, density: CompiledDensity) -> None:
    """Refuse a model without a gradient, which what has this name follows."""
    if density.no_gradient:
        raise ModelError(
            f"The log density of this model has no gradient ({density.no_gradient}), which {name} "
            "with these options follows. `ParallelTempering`, `GibbsCT` and `SimulatedTempering` "
            '(`method="pt"`, "gibbs_ct" or "st") take slice sampling instead, where neither an '
            "`explorer` nor options of Hamiltonian moves are given."
        )
