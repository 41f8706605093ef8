"""A target with every exact answer: as NumPy function, C function and PyMC model at once.

Also those of the geometric path from a Gaussian base to it: log z(beta) and exact draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, special

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.errors import BaseError, OptionError
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm


def _mean_and_factor(base: GaussianBase, dim: int) -> tuple[FloatArray, FloatArray]:
    mean = np.asarray(base.mean, dtype=np.float64)
    scale = np.asarray(base.scale, dtype=np.float64)
    if mean.shape != (dim,) or scale.shape not in {(dim,), (dim, dim)}:
        raise BaseError(
            f"the base has mean of shape {mean.shape} and scale of shape {scale.shape}, expected "
            f"({dim},) and ({dim},) or ({dim}, {dim}). Make the base for this target's dimension."
        )
    return mean, np.diag(scale) if scale.ndim == 1 else scale


def base_log_density(z: FloatArray, base: GaussianBase) -> FloatArray:
    """Log density of the Gaussian base at `z`, ``(..., D)``, nats.

    Written apart from the package's own base so that tests of that base have a reference.
    """
    mean, factor = _mean_and_factor(base, z.shape[-1])
    residual = (z - mean).reshape(-1, z.shape[-1]).T
    u = linalg.solve_triangular(factor, residual, lower=True)
    log_det = np.log(np.abs(np.diag(factor))).sum()
    return (-0.5 * (u**2).sum(axis=0) - log_det - 0.5 * len(mean) * LOG_2PI).reshape(z.shape[:-1])


def path_gaussian(
    target: ExactTarget, beta: float, base: GaussianBase
) -> tuple[float, FloatArray, FloatArray]:
    """Log normaliser, mean and covariance of the path between two Gaussians, edge left out.

    Products of Gaussian powers are Gaussians: precisions and precision-weighted means add.
    """
    if target.parts.gaussian is None:
        raise OptionError(f"target '{target.name}' is no Gaussian. Use quadrature or draws.")
    m1, cov1 = target.parts.gaussian
    m0, factor = _mean_and_factor(base, target.dim)
    p0, p1 = np.linalg.inv(factor @ factor.T), np.linalg.inv(cov1)
    precision = (1.0 - beta) * p0 + beta * p1
    cov = np.linalg.inv(precision)
    mean = cov @ ((1.0 - beta) * p0 @ m0 + beta * p1 @ m1)
    r0, r1 = m0 - mean, m1 - mean
    log_dets = (1.0 - beta) * np.linalg.slogdet(p0)[1] + beta * np.linalg.slogdet(p1)[1]
    log_z = (
        beta * target.parts.log_scale
        + 0.5 * (log_dets - np.linalg.slogdet(precision)[1])
        - 0.5 * ((1.0 - beta) * r0 @ p0 @ r0 + beta * r1 @ p1 @ r1)
    )
    return float(log_z), mean, cov


def quadrature(target: ExactTarget, base: GaussianBase, n: int) -> tuple[FloatArray, FloatArray]:
    """Nodes ``(n**D, D)`` and log volumes of a trapezium rule in t, ``z = mean + sd sinh(t)``.

    The rule converges exponentially for smooth densities; the sinh reaches polynomial tails, which
    lie along the axes of z, so that a base with correlations does not turn the grid.
    """
    if target.dim > 2 or target.parts.edge > -np.inf:
        raise OptionError(
            f"target '{target.name}' has {target.dim} dimensions"
            f"{' and an edge' if target.parts.edge > -np.inf else ''}; quadrature needs a smooth "
            "target in one or two. Use draw_path, or a Gaussian target."
        )
    mean, factor = _mean_and_factor(base, target.dim)
    # a Student t with 1.5 degrees of freedom has 1e-10 beyond sinh(16)
    t = np.linspace(-16.0, 16.0, n)
    axis, log_width = np.sinh(t), np.log(np.cosh(t) * (t[1] - t[0]))
    sds = np.sqrt((factor**2).sum(axis=1))
    u = np.stack(np.meshgrid(*[axis] * target.dim, indexing="ij"), axis=-1)
    widths = np.meshgrid(*[log_width] * target.dim, indexing="ij")
    log_volume = np.sum(widths, axis=0).ravel() + np.log(sds).sum()
    return mean + sds * u.reshape(-1, target.dim), log_volume


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
        values, grads = density_at(self.address, position[None])
        return float(values[0]), grads[0]

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

    def log_path(self, z: ArrayLike, beta: float, base: GaussianBase) -> FloatArray:
        """Log density ``log_base + beta * delta`` at `z`, ``(..., D)``; at 0 without the target."""
        z = np.asarray(z, dtype=np.float64)
        log_base = base_log_density(z, base)
        return log_base if beta == 0.0 else (1.0 - beta) * log_base + beta * self.log_density(z)

    def delta(self, z: ArrayLike, base: GaussianBase) -> FloatArray:
        """``log_target - log_base`` at `z`, ``(..., D)``."""
        z = np.asarray(z, dtype=np.float64)
        return self.log_density(z) - base_log_density(z, base)

    def draw_path(
        self, rng: np.random.Generator, n: int, beta: float, base: GaussianBase
    ) -> FloatArray:
        """Draw n points, ``(n, D)``, exactly from the path at `beta`.

        Between two Gaussians the path is Gaussian. Otherwise by rejection, from the mixture of base
        and normalised target with weights ``1 - beta`` and ``beta``: by the inequality of weighted
        means ``b**(1-beta) * t**beta <= (1-beta) b + beta t``, so the ratio of the two is an
        acceptance probability and needs no constant. The rate of acceptance is
        ``exp(log z(beta) - beta log Z)``.
        """
        if not 0.0 <= beta <= 1.0:
            raise OptionError(f"beta = {beta}, expected a number in [0, 1].")
        if beta == 1.0:
            return self.draw(rng, n)
        mean, factor = _mean_and_factor(base, self.dim)
        if beta == 0.0:
            return mean + rng.standard_normal((n, self.dim)) @ factor.T
        if self.parts.gaussian is not None and self.parts.edge == -np.inf:
            _, mean, cov = path_gaussian(self, beta, base)
            return mean + rng.standard_normal((n, self.dim)) @ np.linalg.cholesky(cov).T
        kept: list[FloatArray] = []
        missing = n
        # base and target that need more hardly overlap
        for _ in range(10_000):
            size = max(2 * missing, 64)
            from_base = mean + rng.standard_normal((size, self.dim)) @ factor.T
            from_target = self.draw(rng, size)
            z = np.where(rng.random(size)[:, None] < beta, from_target, from_base)
            log_base = base_log_density(z, base)
            log_target = self.log_density(z) - self.log_z
            mixture = np.logaddexp(np.log1p(-beta) + log_base, np.log(beta) + log_target)
            log_accept = (1.0 - beta) * log_base + beta * log_target - mixture
            accepted = z[np.log1p(-rng.random(size)) < log_accept][:missing]
            kept.append(accepted)
            missing -= len(accepted)
            if missing == 0:
                return np.concatenate(kept)
        raise OptionError(
            f"base and target '{self.name}' hardly overlap: {n - missing} of {n} draws at "
            f"beta = {beta} were accepted. Take a wider base, or one nearer to the target."
        )

    def draw_levels(
        self, rng: np.random.Generator, n: int, betas: ArrayLike, base: GaussianBase
    ) -> FloatArray:
        """Draw `n` states of an ensemble at `betas`, ``(n, levels, D)``; scans keep their law."""
        schedule = np.asarray(betas, dtype=np.float64)
        return np.stack([self.draw_path(rng, n, float(b), base) for b in schedule], axis=1)

    def log_z_path(self, betas: ArrayLike, base: GaussianBase) -> FloatArray:
        """Exact ``log z(beta)`` of the geometric path, nats, shape of `betas`; ``log z(0) = 0``.

        Closed form for Gaussian targets in any dimension, also cut off at an edge: there ``log z``
        jumps just above 0, to the log of the base's mass inside. Quadrature for others in one or
        two dimensions, refused unless it reproduces both known ends to 1e-6.
        """
        schedule = np.asarray(betas, dtype=np.float64)
        flat = schedule.ravel()
        if self.parts.gaussian is not None:
            values = np.zeros(len(flat))
            for i, beta in enumerate(flat):
                log_z, mean, cov = path_gaussian(self, float(beta), base)
                inside = special.log_ndtr((mean[0] - self.parts.edge) / np.sqrt(cov[0, 0]))
                values[i] = log_z + (inside if beta > 0.0 else 0.0)
            return values.reshape(schedule.shape)
        z, log_volume = quadrature(self, base, 20_001 if self.dim == 1 else 1_001)
        log_base = base_log_density(z, base)
        with np.errstate(over="ignore"):
            log_target = self.log_density(z)
        error = max(
            abs(special.logsumexp(log_base + log_volume)),
            abs(special.logsumexp(log_target + log_volume) - self.log_z),
        )
        # nats, below what any sampler resolves
        if not error < 1e-6:
            raise OptionError(
                f"quadrature misses the known log z at beta = 0 or 1 by {error:.2g} nats: the base "
                f"is too far from target '{self.name}', or too narrow. Take one of the target's "
                "scale."
            )
        at = ((log_base if b == 0 else (1 - b) * log_base + b * log_target) for b in flat)
        values = np.array([special.logsumexp(log_path + log_volume) for log_path in at])
        return values.reshape(schedule.shape)
