"""A hard target, and the verdict on a run: right, wrong, or wrong in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

__all__ = ["HardTarget", "Part", "Verdict", "judge"]

FAR = 4.0
"""Standard errors beyond which a log Z or a mass counts as wrong."""

MASS_TOLERANCE = 0.05
"""By which a mass may be off besides its Monte Carlo error."""


class Part(NamedTuple):
    """A part of the parameter space whose posterior probability is known.

    Attributes
    ----------
    contains : callable
        Posterior draws to booleans of shape (chain, draw).
    probability : float
    """

    contains: Callable[[xr.Dataset], FloatArray]
    probability: float


@dataclass(frozen=True)
class HardTarget:
    """A model on which samplers go wrong without noticing.

    Attributes
    ----------
    name : str
    kind : str
        What makes it hard.
    model : pymc.Model
    log_z : float
        Exact, in nats; infinite where the model has no evidence.
    parts : mapping of str to Part
    """

    name: str
    kind: str
    model: pm.Model
    log_z: float
    parts: Mapping[str, Part] = field(default_factory=dict)


class Verdict(NamedTuple):
    """What a run on a hard target was.

    Attributes
    ----------
    error : float
        Of log Z, in nats.
    se : float
        That the run reported.
    masses : dict of str to float
        Error of the probability of each part.
    wrong : tuple of str
        What was wrong: "log Z" and names of parts; empty for a good run.
    warned : bool
    """

    error: float
    se: float
    masses: dict[str, float]
    wrong: tuple[str, ...]
    warned: bool

    @property
    def silent(self) -> bool:
        """Whether something was wrong and nothing was said."""
        return bool(self.wrong) and not self.warned


def judge(target: HardTarget, estimate: Any, idata: xr.DataTree) -> Verdict:
    """Compare a run with the exact answers.

    A log Z counts as wrong more than 4 of its standard errors off, a mass where it is off by more
    than 0.05 beyond 4 of its Monte Carlo standard errors, and any finite log Z where the evidence
    is infinite.

    Parameters
    ----------
    target : HardTarget
    estimate : LogZEstimate
    idata : xarray.DataTree
        The run.

    Returns
    -------
    Verdict
    """
    import arviz as az

    error = float(estimate.log_z) - target.log_z
    se = float(estimate.se)
    wrong, masses = [], {}
    if not abs(error) <= FAR * se:
        wrong.append("log Z")
    posterior = idata["posterior"].to_dataset()
    for name, part in target.parts.items():
        inside = np.asarray(part.contains(posterior), dtype=np.float64)
        masses[name] = float(inside.mean() - part.probability)
        mcse = 0.0 if inside.min() == inside.max() else float(az.mcse(inside))
        if abs(masses[name]) > MASS_TOLERANCE + FAR * mcse:
            wrong.append(name)
    return Verdict(error, se, masses, tuple(wrong), bool(estimate.warnings))
