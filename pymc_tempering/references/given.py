"""A base that a user gave: whether it is one, and of this model."""

from typing import Any

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import BaseError, OptionError
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.options import did_you_mean
from pymc_tempering.types import FloatArray

__all__ = ["check_cover", "check_gaussian", "not_covered"]


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
        close = did_you_mean([base], names) if isinstance(base, str) else ""
        own = ", or an object with `draw`, `log_density` and `gradient`" if names else ""
        raise OptionError(
            f"`base` is {base!r:.80}{close}; expected None, {known}a GaussianBase (from "
            f"`pymc_tempering.fit_base`), a DataTree with posterior draws of this model{own}."
        )
    if base.dim != density.dim:
        raise BaseError(
            f"The base has {base.dim} dimensions, but the model has {density.dim} unconstrained "
            f"values {dict(zip(density.points.names, density.points.shapes, strict=True))}. Fit "
            "the base with `pymc_tempering.fit_base(model)`."
        )
    return base


def not_covered(where: str) -> BaseError:
    """Error of a base without density where the posterior has some.

    Parameters
    ----------
    where : str
        Where that was found.
    """
    return BaseError(
        f"The base has no density {where}, where the posterior has some. No replica comes there "
        "from the base, so its mass would be missing from log Z. Leave `base` away for a Gaussian, "
        "which covers everything, or take a base that has the support of the posterior."
    )


def check_cover(path: TemperedPath, z: FloatArray) -> None:
    """Refuse a reference that leaves out points of the posterior.

    Parameters
    ----------
    path : TemperedPath
    z : ndarray of shape (n, D)
        Where the posterior is known to be, such as its modes.

    Raises
    ------
    BaseError
    """
    uncovered = path.uncovered(z)
    if uncovered.any():
        raise not_covered(
            f"at {uncovered.sum()} of {len(z)} modes and starting points, such as the "
            f"unconstrained values {z[uncovered][0].round(4).tolist()}"
        )
