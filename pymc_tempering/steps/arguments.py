"""Arguments of steps and runs: variables, base, explorer, what ``pm.sample`` gets, and memory."""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.engine.explorers.explore import EXPLORERS
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Reference
from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.model.at_draws import unconstrained_draws
from pymc_tempering.model.compile import CompiledDensity, compile_density
from pymc_tempering.model.identity import Identity
from pymc_tempering.model.point import PointMap
from pymc_tempering.options import (
    check_choice,
    check_flag,
    check_positive,
    check_probability,
    check_whole,
    did_you_mean,
)
from pymc_tempering.references import REFERENCES
from pymc_tempering.references.hierarchy import Hierarchy
from pymc_tempering.references.local_scales import find_local_scales, scaled
from pymc_tempering.references.own import GivenReference, OwnReference, check_gaussian, is_reference
from pymc_tempering.references.search import SEARCHES
from pymc_tempering.references.windings import find_windings, unwound

# where PyMC says which step methods it assigns
_log = logging.getLogger("pymc")

_BARS = ("combined", "combined+stats", "split", "split+stats", "stats+combined", "stats+split")
_WITH_SHAPE = (np.ndarray, np.generic, list, tuple, int, float)


type GivenBase = GaussianBase | GivenReference | xr.DataTree | str | None
"""What a user may give as ``base``."""


def all_value_vars(vars: Any, model: pm.Model, name: str) -> list[Any]:
    """Check that a step is given all free variables of a model, and return their value variables.

    ``vars`` is what the user gave, None for all; ``name`` that of the step, for the error.
    """
    chosen = model.value_vars if vars is None else vars
    given = [
        model.rvs_to_values.get(variable, variable)
        for variable in (chosen if isinstance(chosen, list | tuple) else [chosen])
    ]
    missing = [v.name for v in model.value_vars if v not in given]
    unknown = [str(v) for v in given if v not in model.value_vars]
    if missing or unknown:
        raise ModelError(
            f"{name} must own all free variables of the model, since its stored densities would be "
            f"stale if another step moved some of them. Left out: {missing}; not variables of this "
            f"model: {unknown}. Leave `vars` away."
        )
    return list(model.value_vars)


def given_base(
    base: GivenBase, density: CompiledDensity, also: tuple[str, ...] = ()
) -> tuple[GaussianBase | None, Reference | None]:
    """Read what a user gave as ``base``: a Gaussian, or a reference; neither for None.

    ``also`` are names that the step itself takes.
    """
    # comparing a DataTree with a string gives another DataTree, which counts as true
    if base is None or (isinstance(base, str) and base == "gaussian"):
        return None, None
    if isinstance(base, str) and base in REFERENCES:
        return None, REFERENCES[base](density)
    if isinstance(base, xr.DataTree):
        return GaussianBase.from_draws(unconstrained_draws(base, density)), None
    if not isinstance(base, str | GaussianBase) and is_reference(base):
        return None, OwnReference(base, density)
    names = ("gaussian", *also, *REFERENCES)
    return check_gaussian(base, density, names), None


def check_passed_on(
    model: pm.Model, points: PointMap, options: Mapping[str, Any], *, chains: int, progressbar: Any
) -> None:
    """Refuse options that ``pm.sample`` is passed, and would refuse late or without a name."""
    if isinstance(progressbar, str):
        check_choice("progressbar", progressbar, _BARS)
    callback = options.get("callback")
    if callback is not None and not callable(callback):
        raise OptionError(
            f"`callback` is {callback!r:.80}; expected a function of the trace and the draw."
        )
    names = options.get("var_names")
    if names is not None:
        if isinstance(names, str):
            raise OptionError(f"`var_names` is {names!r}; expected a list of names: [{names!r}].")
        _check_known("var_names", names, [variable.name for variable in model.unobserved_RVs])
    if options.get("initvals") is not None:
        _check_initvals(model, points, options["initvals"], chains)


def _check_initvals(model: pm.Model, points: PointMap, initvals: Any, chains: int) -> None:
    every = [initvals] if isinstance(initvals, Mapping) else initvals
    if not isinstance(every, list | tuple) or not all(isinstance(v, Mapping | None) for v in every):
        raise OptionError(
            f"`initvals` is {initvals!r:.80}; expected a mapping of names to values, or one for "
            "each chain."
        )
    if every is initvals and len(every) != chains:
        raise OptionError(
            f"`initvals` has mappings for {len(every)} chains, and `chains` is {chains}; pass one "
            "for each, or a single mapping for all."
        )
    shapes = dict(zip(points.names, points.shapes, strict=True))
    by_value = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
    # of a variable itself, which a transform may have shortened, where its type tells
    known = {n: rv.type.shape for n, rv in by_value.items() if None not in rv.type.shape}
    expected = shapes | {rv.name: tuple(known.get(n, shapes[n])) for n, rv in by_value.items()}
    for values in every:
        given = {str(getattr(key, "name", key)): value for key, value in (values or {}).items()}
        _check_known("initvals", given, expected)
        for name, value in given.items():
            # names of strategies, and graphs, have no shape yet
            if isinstance(value, _WITH_SHAPE) and np.shape(value) != expected[name]:
                raise OptionError(
                    f"`initvals` has a value of shape {np.shape(value)} for {name!r}; expected "
                    f"{expected[name]}."
                )


def _check_known(option: str, names: Iterable[Any], known: Iterable[str]) -> None:
    unknown = sorted(set(map(str, names)) - set(known))
    if unknown:
        raise OptionError(
            f"`{option}` has {unknown}{did_you_mean(unknown, known)}; the model has the variables "
            f"{sorted(known)}."
        )


def check_memory(step: Any, *, draws: int, tune: int | None, chains: int) -> None:
    """Refuse a run whose draws need more memory than the machine has.

    Counted are the unconstrained values and all statistics of every draw, for which PyMC makes room
    before it starts; nothing is refused where the system does not say how much there is.
    """
    try:
        there = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return
    of_draw = 8 * step.dim + sum(
        np.dtype(dtype).itemsize for dtype, _ in step.stats_dtypes_shapes.values()
    )
    kept = draws + (step.default_tune_steps if tune is None else tune)
    needed = float(chains) * kept * of_draw
    if needed > there:
        most = int(there / (chains * of_draw))
        raise OptionError(
            f"{chains} chains of {kept:,} draws, tuning included, take {needed / 2**30:,.0f} GiB "
            f"at {of_draw} bytes a draw or more, and this machine has {there / 2**30:,.0f} GiB. "
            f"Ask for fewer draws, far below {most:,} in a chain, each of more scans "
            "(`scans_per_draw=`): scans serve log Z without being stored as draws."
        )


def explorer_settings(
    explorer: str | ExplorerSettings | None,
    target_accept: float,
    trajectory_length: float,
    max_steps: int,
) -> dict[str, Any]:
    """Check which explorer moves the replicas, and its options: ``explorer`` of `Requested`.

    And ``is_fixed``, where the user requested it by its name or its options. Without a name it is
    "hamiltonian", unless the model says otherwise (:func:`suited_explorer`).
    """
    hamiltonian = Hamiltonian(
        aim=check_probability("target_accept", target_accept),
        trajectory_length=float(check_positive("trajectory_length", trajectory_length)),
        max_steps=check_whole("max_steps", max_steps, 1),
    )
    if explorer is None or (isinstance(explorer, str) and explorer == "hamiltonian"):
        is_fixed = explorer is not None or hamiltonian != Hamiltonian()
        return {"explorer": hamiltonian, "is_fixed": is_fixed}
    if hamiltonian != Hamiltonian():
        raise OptionError(
            "`target_accept`, `trajectory_length` and `max_steps` are options of Hamiltonian moves "
            f"and explorer={explorer!r} was given. Pass settings of that explorer instead."
        )
    if not isinstance(explorer, ExplorerSettings):
        explorer = EXPLORERS[check_choice("explorer", explorer, EXPLORERS)]()
    return {"explorer": explorer, "is_fixed": True}


@dataclass(frozen=True, kw_only=True)
class Requested:
    """What the user asked of a step; what all steps take is checked here.

    ``explorer`` moves the replicas where there is a gradient, and nothing else may if it
    ``is_fixed``. With ``uses_fits`` chains may start from a mixture of the local fits.
    """

    scans_per_draw: int
    adapt_base: bool
    search: str
    explorer: ExplorerSettings
    is_fixed: bool
    uses_fits: bool = False

    def __post_init__(self) -> None:
        check_whole("scans_per_draw", self.scans_per_draw, 1)
        check_flag("adapt_base", self.adapt_base)
        check_choice("search", self.search, SEARCHES)


@dataclass(frozen=True)
class Source:
    """What a step samples: a model, compiled, and where the user has its path start.

    ``explorer`` is the one requested, or what the density needs in its place. ``base`` and
    ``reference`` are None where they are to be found. Of a ``hierarchy`` the density is in the
    coordinates of its map; looking for one took ``n_looked`` gradients.
    """

    model: pm.Model
    identity: Identity
    density: CompiledDensity
    explorer: ExplorerSettings
    base: GaussianBase | None = None
    reference: Reference | None = None
    hierarchy: Hierarchy | None = None
    n_looked: int = 0

    @classmethod
    def of(
        cls, model: pm.Model, base: GivenBase, asked: Requested, *, step: Any, backend: str | None,
        looks: bool,
    ) -> "Source":  # fmt: skip
        """Compile a model for a step, and find what its path starts from.

        A hierarchy, or else angles that wind, are looked for if the step ``looks``, and nothing was
        given to start from.
        """
        density, name = compile_density(model, backend=backend), type(step).__name__
        explorer = suited_explorer(name, asked.explorer, density, requested=asked.is_fixed)
        given = given_base(base, density, ("mixture",) if step.method == "pt" else ())
        hierarchy, n_looked = None, 0
        if given == (None, None) and looks:
            scales, n_looked = find_local_scales(density)
            if scales is not None:
                density = scaled(density, scales)
            else:
                hierarchy, n = Hierarchy.of(density)
                n_looked += n
            if hierarchy is not None:
                density = hierarchy.density
            elif scales is None:
                windings, n = find_windings(density)
                n_looked += n
                density = density if windings is None else unwound(density, windings)
        return cls(model, Identity.of(model), density, explorer, *given, hierarchy, n_looked)


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


def need_gradient(name: str, density: CompiledDensity) -> None:
    """Refuse a model without a gradient, which what has this name follows."""
    if density.no_gradient:
        raise ModelError(
            f"The log density of this model has no gradient ({density.no_gradient}), which {name} "
            "with these options follows. `ParallelTempering`, `GibbsCT` and `SimulatedTempering` "
            '(`method="pt"`, "gibbs_ct" or "st") take slice sampling instead, where neither an '
            "`explorer` nor options of Hamiltonian moves are given."
        )
