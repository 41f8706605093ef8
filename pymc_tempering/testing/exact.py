"""A target with every exact answer: as NumPy function, C function and PyMC model at once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pymc_tempering.errors import OptionError
from pymc_tempering.testing import path
from pymc_tempering.testing.path import GaussianLike
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["ExactTarget", "TargetParts"]

_C_DENSITY = ctypes.CFUNCTYPE(
    ctypes.c_double, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double)
)


@dataclass(frozen=True, eq=False)
class TargetParts:
    """The functions an :class:`ExactTarget` is made of; only builders of new targets need it."""

    log_density: Callable[[FloatArray], FloatArray]
    """``(..., D) -> (...)``, log target in nats, -inf outside the support."""
    draw: Callable[[np.random.Generator, int], FloatArray]
    """``(rng, n) -> (n, D)``, exact and independent."""
    survival: Callable[[int, FloatArray], FloatArray]
    """``(coordinate, x) -> P(z[coordinate] > x)``."""
    compile: Callable[[], Any]
    """``() -> cfunc``; the same object for the same parameters, which it keeps alive."""
    build: Callable[[], pm.Model]
    """A model with one variable ``x``; imports pymc inside."""
    recipe: tuple[Callable[..., ExactTarget], tuple[Any, ...]]
    """Factory and arguments, for pickle."""
    constrain: Callable[[FloatArray], FloatArray] = np.asarray
    gaussian: tuple[FloatArray, FloatArray] | None = None
    """Mean and covariance where the target is ``exp(log_scale) N(mean, cov)``, ``z[0] > edge``."""
    log_scale: float = 0.0
    edge: float = -np.inf


@dataclass(frozen=True, eq=False)
class ExactTarget:
    """An unnormalised density on flat unconstrained ``z`` of which everything is known.

    Wherever a compiled density is expected, the target itself will do: it has ``address``, ``dim``
    and ``value_and_grad``. ``log_z`` is the log of the integral of ``exp(log_density)`` in nats,
    ``mean`` and ``cov`` are exact (``inf`` where a coordinate has no variance), ``start`` is a
    point inside the support.

    Examples
    --------
    >>> from pymc_tempering.testing import asymmetric_bimodal
    >>> target = asymmetric_bimodal()
    >>> value, grad = target.value_and_grad(target.start)
    >>> bool(np.isclose(value, target.log_density(target.start)))
    True
    """

    name: str
    dim: int
    log_z: float
    mean: FloatArray
    cov: FloatArray
    start: FloatArray = field(repr=False)
    parts: TargetParts = field(repr=False)

    def __reduce__(self) -> tuple[Callable[..., ExactTarget], tuple[Any, ...]]:
        return self.parts.recipe

    @property
    def address(self) -> int:
        """Address of ``double f(const double* z, double* grad)``; valid until the process ends."""
        return int(self.parts.compile().address)

    def value_and_grad(self, z: ArrayLike) -> tuple[float, FloatArray]:
        """Log density and gradient at `z`, ``(D,)``, by the C function; -inf has gradient zero."""
        position = np.ascontiguousarray(z, dtype=np.float64)
        if position.shape != (self.dim,):
            raise OptionError(
                f"z has shape {position.shape}, expected ({self.dim},). "
                "Pass one flat point; use log_density for many points."
            )
        grad = np.zeros(self.dim)
        pointer = ctypes.POINTER(ctypes.c_double)
        value = _C_DENSITY(self.address)(
            position.ctypes.data_as(pointer), grad.ctypes.data_as(pointer)
        )
        return float(value), grad

    def log_density(self, z: ArrayLike) -> FloatArray:
        """Log target, Jacobians included, at `z` of shape ``(..., D)``; the NumPy reference."""
        return self.parts.log_density(np.asarray(z, dtype=np.float64))

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw `n` exact independent points, shape ``(n, D)``."""
        return self.parts.draw(rng, n)

    def survival(self, coordinate: int, x: ArrayLike) -> FloatArray:
        """Exact ``P(z[coordinate] > x)``, e.g. the weight of the modes on one side of `x`."""
        return self.parts.survival(coordinate, np.asarray(x, dtype=np.float64))

    def model(self) -> pm.Model:
        """Build a ``pm.Model`` of one variable ``x``, shape ``(D,)``, with this log density."""
        return self.parts.build()

    def constrain(self, z: ArrayLike) -> FloatArray:
        """Map flat unconstrained `z`, ``(..., D)``, to the values of ``x`` in a trace."""
        return self.parts.constrain(np.asarray(z, dtype=np.float64))

    def log_path(self, z: ArrayLike, beta: float, base: GaussianLike) -> FloatArray:
        """Log density ``log_base + beta * delta`` at `z`, ``(..., D)``; at 0 without the target."""
        z = np.asarray(z, dtype=np.float64)
        log_base = path.base_log_density(z, base)
        return log_base if beta == 0.0 else (1.0 - beta) * log_base + beta * self.log_density(z)

    def delta(self, z: ArrayLike, base: GaussianLike) -> FloatArray:
        """``log_target - log_base`` at `z`, ``(..., D)``."""
        z = np.asarray(z, dtype=np.float64)
        return self.log_density(z) - path.base_log_density(z, base)

    def draw_path(
        self, rng: np.random.Generator, n: int, beta: float, base: GaussianLike
    ) -> FloatArray:
        """Draw `n` exact independent points of the path at `beta`, shape ``(n, D)``."""
        return path.draw_path(self, rng, n, beta, base)

    def draw_levels(
        self, rng: np.random.Generator, n: int, betas: ArrayLike, base: GaussianLike
    ) -> FloatArray:
        """Draw `n` states of an ensemble at `betas`, ``(n, levels, D)``; scans keep their law."""
        schedule = np.asarray(betas, dtype=np.float64)
        return np.stack([self.draw_path(rng, n, float(b), base) for b in schedule], axis=1)

    def log_z_path(self, betas: ArrayLike, base: GaussianLike) -> FloatArray:
        """Exact ``log z(beta)`` for the normalised Gaussian `base`, nats, shape of `betas`."""
        return path.log_z_path(self, betas, base)
