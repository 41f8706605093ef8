"""A base that a user gave: whether it is one, and of this model."""

from typing import Any

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError, OptionError
from pymc_tempering.model.compile import CompiledDensity

__all__ = ["check_gaussian"]


def check_gaussian(
    base: Any, density: CompiledDensity, names: tuple[str, ...] = ()
) -> GaussianBase:
    """Return `base` if it is a Gaussian with the dimension of the model.

    Parameters
    ----------
    base : object
        Neither None nor draws, which the caller makes a base of.
    density : CompiledDensity
    names : tuple of str
        What may be given as well.

    Raises
    ------
    OptionError
        If it is something else.
    BaseError
        If it has another dimension.
    """
    if not isinstance(base, GaussianBase):
        known = "".join(f"{name!r}, " for name in names)
        raise OptionError(
            f"`base` is {base!r:.80}; expected None, {known}a GaussianBase (from "
            "`pymc_tempering.fit_base`) or a DataTree with posterior draws of this model."
        )
    if base.dim != density.dim:
        raise BaseError(
            f"The base has {base.dim} dimensions, but the model has {density.dim} unconstrained "
            f"values {dict(zip(density.points.names, density.points.shapes, strict=True))}. Fit "
            "the base with `pymc_tempering.fit_base(model)`."
        )
    return base
