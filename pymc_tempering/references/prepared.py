"""What a search for modes hands on."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity
from pymc_tempering.engine.path.transport import TransportMap
from pymc_tempering.references.coverage import Search
from pymc_tempering.types import FloatArray

__all__ = [
    "CURVED",
    "GAUSSIAN_FITS",
    "MAPPED",
    "MAPPED_ROUGHLY",
    "NEARLY_GAUSSIAN",
    "Prepared",
    "centre",
]

GAUSSIAN_FITS, NEARLY_GAUSSIAN, MAPPED, MAPPED_ROUGHLY, CURVED = range(5)
"""How well the fits do: as they are; not quite, and bending gains little; those that did not are
bent; so that some levels are still needed; one did not, and no bend was found yet that does. The
worst of all fits."""


@dataclass(frozen=True)
class Prepared:
    """What is known of a target before any tempering.

    Attributes
    ----------
    anchor : GaussianBase
        The local fits combined by matched moments, with an ELBO as ``log_zeta``.
    fits : tuple of GaussianBase
        The distinct local fits, not widened, the best ELBO first; without those of negligible mass.
    search : Search
    unsure : tuple of GaussianBase
        Maxima, with their curvature, of modes with poor fits that may hold much of the mass.
    place : ndarray of shape (D,), optional
        Where replicas start in place of the means, which between modes may have no density.
    shapes : tuple of LocalDensity
        What a mixture is made of: the fits, with bent ones in place of some.
    kind : int
        `GAUSSIAN_FITS`, `NEARLY_GAUSSIAN`, `MAPPED`, `MAPPED_ROUGHLY` or `CURVED`.
    sure : tuple of GaussianBase
        Good fits of the heaviest modes, with the log of their mass as ``log_zeta``, by mass.
    """

    pooled: GaussianBase
    fits: tuple[GaussianBase, ...]
    search: Search
    poorly_fitted: tuple[GaussianBase, ...] = ()
    place: FloatArray | None = None
    shapes: tuple[LocalDensity, ...] = ()
    kind: int = GAUSSIAN_FITS
    well_fitted: tuple[GaussianBase, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", self.shapes or self.fits)

    @cached_property
    def modes(self) -> FloatArray:
        """Where replicas start, inside of the fits: ``z``, shape (n_modes, D), or the one place."""
        if self.place is not None:
            return self.place[None]
        return np.stack([centre(shape) for shape in self.shapes])


def centre(shape: LocalDensity) -> FloatArray:
    """Somewhere inside: the mean of a bent one may be beside it."""
    if isinstance(shape, TransportMap):
        return shape.from_base(np.zeros((1, shape.dim)))[0]
    return shape.mean
