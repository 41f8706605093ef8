"""What is known of a run when its log Z is estimated: one object, read once, for all checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import TemperingError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.estimators.uncertainty import StandardError
from pymc_tempering.model.at_draws import unconstrained_draws
from pymc_tempering.model.compile import CompiledDensity, density_at_hand
from pymc_tempering.results.datatree import named_entries
from pymc_tempering.steps.budget import Budget
from pymc_tempering.types import FloatArray, IntArray

FULL_SUPPORT = 0.99
"""Share of the base on the support of the target beyond which the rest is not worth a warning."""


class Annealed(NamedTuple):
    """What annealing runs in one or both directions say of themselves."""

    n_particles: int
    weight_ess: float
    """Of the forward particles of all chains."""
    pareto_k: float
    """Of the direction that shows what is missing, :func:`.hais.deciding_pareto_k`."""
    gap: float
    """Upper minus lower bound, in nats; nan from one direction alone."""
    gap_error: StandardError
    support_mass: float = 1.0
    n_starts: int | None = None
    """Draws of the posterior that reverse particles share; None where each has its own."""
    acceptance_rates: FloatArray = np.empty(0)
    """Share of new particles that replaced the current one, of each chain."""


@dataclass(frozen=True, eq=False)
class Unconstrained:
    """The density of the model, draws of it (n, D) on the unconstrained scale, and their names.

    ``found`` keeps what several checks ask for, so that the density is asked once.
    """

    density: CompiledDensity
    z: FloatArray
    names: list[str]
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[CompiledDensity, FloatArray, list[str]]:
        """Density, draws and names."""
        return self.density, self.z, self.names

    @classmethod
    def of(cls, model: pm.Model, idata: xr.DataTree) -> "Unconstrained | None":
        """Map draws to that scale; None where they cannot be, as on the edge of a support."""
        try:
            density = density_at_hand(model)
            z = unconstrained_draws(idata, density)
        except TemperingError:
            return None
        shapes = dict(zip(density.points.names, density.points.shapes, strict=True))
        return cls(density, z, [label for label, _, _ in named_entries(shapes)])


@dataclass(frozen=True)
class MethodEstimate:
    """What a method makes of the recorded statistics, before chains are combined."""

    log_z: FloatArray
    """Estimate of each chain, in nats."""
    influences: list[FloatArray]
    """First-order contribution of each scan, or draw, to the error of its chain's estimate (nats),
    of shape (n_scans,) or (n_draws,) for each chain."""
    per_method: dict[str, float] = field(default_factory=dict)
    """Estimates by other methods from the same run, combined over chains."""
    lower: float | None = None
    upper: float | None = None
    arrays: dict[str, FloatArray] = field(default_factory=dict)
    """What else the run says, for the group ``tempering``; the first dimension is the chain."""
    least_support: float = FULL_SUPPORT
    """Share of the base on the support of the target below which the estimate suffers."""
    annealed: Annealed | None = None


@dataclass(frozen=True)
class Request:
    """What was requested of a run; `max_chains` is None where no chains can be added."""

    draws: int
    chains: int
    budget: Budget | None = None
    target_se: float | None = None
    max_chains: int | None = None


@dataclass(frozen=True)
class Run:
    """A run, as far as it is at hand; a check runs where all that it needs is not None."""

    statistics: Mapping[str, FloatArray] = field(default_factory=dict)
    """As recorded, leading dimensions (chain, draw)."""
    draws: Mapping[str, FloatArray] | None = None
    """Of the posterior by variable, and of the log density."""
    parts: MethodEstimate | None = None
    kept: IntArray | None = None
    """Chains whose mean log Z is; empty where they contradict each other."""
    estimate: LogZEstimate | None = None
    """The numbers alone, without warnings."""
    before: xr.Dataset | None = None
    """The group ``tempering`` of an earlier estimate of the run."""
    idata: xr.DataTree | None = None
    model: pm.Model | None = None
    unconstrained: Unconstrained | None = None
    request: Request | None = None
    warnings: tuple[Diagnostic, ...] | None = None
    """Of the checks that ran before; None where they found nothing."""

    @property
    def arrays(self) -> Mapping[str, FloatArray]:
        """What the method says of each chain."""
        return {} if self.parts is None else self.parts.arrays

    @property
    def annealed(self) -> Annealed | None:
        """What the method says of annealing."""
        return None if self.parts is None else self.parts.annealed

    @property
    def support_mass(self) -> float:
        """Share of the base on the support of the target."""
        if self.annealed is not None:
            return self.annealed.support_mass
        return float(np.nanmin(self.arrays.get("support_mass", np.ones(1))))
