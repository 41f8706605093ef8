"""What a search for modes hands on."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.coverage import Search
from pymc_tempering.types import FloatArray

__all__ = ["Prepared"]


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
    """

    anchor: GaussianBase
    fits: tuple[GaussianBase, ...]
    search: Search
    unsure: tuple[GaussianBase, ...] = ()
    place: FloatArray | None = None

    @cached_property
    def modes(self) -> FloatArray:
        """Where replicas start: means of the fits, ``z``, shape (n_modes, D), or the one place."""
        if self.place is not None:
            return self.place[None]
        return np.stack([fit.mean for fit in self.fits])
