"""What the answers about a path need of a base and of a target."""

from typing import Any, Protocol

import numpy as np

from pymc_tempering.types import FloatArray

__all__ = ["GaussianLike", "TargetLike"]


class GaussianLike(Protocol):
    """Any Gaussian base: ``z = mean + scale u``.

    ``scale`` holds D standard deviations, or a ``(D, D)`` lower Cholesky factor.
    """

    @property
    def mean(self) -> FloatArray:
        """Mean, ``(D,)``."""
        ...

    @property
    def scale(self) -> FloatArray:
        """Standard deviations ``(D,)`` or lower Cholesky factor ``(D, D)``."""
        ...


class TargetLike(Protocol):
    """What :class:`pymc_tempering.testing.exact.ExactTarget` offers to those who integrate it."""

    @property
    def name(self) -> str:
        """Name of the target."""
        ...

    @property
    def dim(self) -> int:
        """D, length of ``z``."""
        ...

    @property
    def log_z(self) -> float:
        """Log normaliser, nats."""
        ...

    @property
    def parts(self) -> Any:
        """A :class:`pymc_tempering.testing.exact.TargetParts`."""
        ...

    def log_density(self, z: FloatArray) -> FloatArray:
        """Log target at ``(..., D)``."""
        ...

    def delta(self, z: FloatArray, base: GaussianLike) -> FloatArray:
        """``log_target - log_base`` at ``(..., D)``."""
        ...

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Exact draws, ``(n, D)``."""
        ...
