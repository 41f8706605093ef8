"""Arguments of all tempered steps: which variables they own, and from what they start."""

from typing import Any

import pymc as pm
import xarray as xr

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Reference
from pymc_tempering.errors import ModelError
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.unconstrain import unconstrained_draws
from pymc_tempering.references import REFERENCES
from pymc_tempering.references.own import (
    GivenReference,
    OwnReference,
    check_gaussian,
    is_reference,
)

__all__ = ["all_value_vars", "given_base"]


def all_value_vars(vars: Any, model: pm.Model, name: str) -> list[Any]:
    """Check that a step is given all free variables of a model, and return their value variables.

    Parameters
    ----------
    vars : list, variable or None
        As the user gave them; None for all.
    model : pymc.Model
    name : str
        Of the step, for the error.

    Raises
    ------
    ModelError
        If some are left out, or are of another model.
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
    base: GaussianBase | GivenReference | xr.DataTree | str | None,
    density: CompiledDensity,
    also: tuple[str, ...] = (),
) -> tuple[GaussianBase | None, Reference | None]:
    """Read what a user gave as ``base``: a Gaussian, or a reference; neither for None.

    Parameters
    ----------
    base : GaussianBase, GivenReference, DataTree, str or None
    density : CompiledDensity
    also : tuple of str
        Names that the step itself takes.

    Raises
    ------
    BaseError, OptionError
        For anything else, and for one that does not suit the model.
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
