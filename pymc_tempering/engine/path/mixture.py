"""A mixture of local Gaussians as the reference of a path, with a defensive component.

Its log density in the coordinates of a path is

    log(share t(u; 0, I) + (1 - share) sum_k w_k N(u; m_k, C_k))

with a multivariate t that has the scales of the coordinates' Gaussian. The mixture has each mode's
own shape where one is known, by a transport map where no Gaussian fits it. It covers, if thinly,
what lies many standard deviations outside of all of them: tails that no Gaussian has, and a wide
mode around a narrow one. Compiled code sees it as the arrays of :mod:`.components`.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from pymc_tempering.engine.path.components import Components, is_diagonal
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.transport import NO_TERMS, TransportMap
from pymc_tempering.errors import BaseError
from pymc_tempering.numerics import LOG_2PI, log_t_constant
from pymc_tempering.types import FloatArray, IntArray

type LocalDensity = GaussianBase | TransportMap
"""What a mixture knows of a mode."""

DEFENSIVE_SHARE = 0.15
"""Weight of the defensive component."""

DEFENSIVE_DOF = 1.0
"""Its degrees of freedom: with these, one draw in ten is beyond eight standard deviations, whatever
the dimension. See "What bounds the mixture" in benchmarks/README.md."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """K local fits with weights, and a defensive t of the scales of a path's coordinates.

    The weights (K,) are shares of what the defensive component, of weight `share` and `dof` degrees
    of freedom, leaves; they are positive and add up to 1. Anything else is refused with a
    BaseError. With an `orbit` each fit stands for all of its images, which share its weight.

    Examples
    --------
    >>> fits = (GaussianBase([-2.0], [0.5]), GaussianBase([2.0], [0.5]))
    >>> wide = Coordinates.of(GaussianBase([0.0], [2.0]))
    >>> mixture = Mixture(fits, np.array([0.3, 0.7]))
    >>> mixture.responsibilities(np.array([[-2.0], [2.0], [9.0]]), wide).round(2).tolist()
    [[0.06, 0.94, 0.0], [0.02, 0.0, 0.98], [1.0, 0.0, 0.0]]
    """

    fits: tuple[LocalDensity, ...]
    weights: FloatArray
    share: float = DEFENSIVE_SHARE
    dof: float = DEFENSIVE_DOF
    orbit: Orbit | None = None

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        dims = {fit.dim for fit in self.fits}
        if len(dims) != 1 or weights.shape != (len(self.fits),):
            raise BaseError(
                f"A mixture was given fits of dimensions {sorted(dims)} and weights of shape "
                f"{weights.shape}; expected one weight for each of at least one fit."
            )
        bounded = 0.0 < self.share < 1.0 and 0.0 < self.dof < np.inf
        if not (weights > 0.0).all() or abs(weights.sum() - 1.0) > 1e-9 or not bounded:
            raise BaseError(
                f"A mixture was given weights {weights}, a defensive share {self.share} and "
                f"{self.dof} degrees of freedom; expected positive weights that add up to 1, a "
                "share between 0 and 1, and finite positive degrees of freedom."
            )
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "fits", tuple(self.fits))

    # read-only arrays are writeable again after a pickle, so it is rebuilt through the constructor
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fits, np.array(self.weights), self.share, self.dof, self.orbit)

    @property
    def dim(self) -> int:
        """Number of coordinates D."""
        return self.fits[0].dim

    @property
    def has_map(self) -> bool:
        """Whether any of the fits is a transport map."""
        return any(isinstance(fit, TransportMap) for fit in self.fits)

    @cached_property
    def digest(self) -> str:
        """Identity of fits, weights and defensive component: 16 hex digits."""
        h = hashlib.sha256("".join(fit.digest for fit in self.fits).encode())
        h.update(np.array([*self.weights, self.share, self.dof], dtype="<f8").tobytes())
        if self.orbit is not None:
            h.update(self.orbit.order.tobytes() + self.orbit.sums.tobytes())
        return h.hexdigest()[:16]

    def in_coordinates(self, coordinates: Coordinates) -> Components:
        """Return the mixture as compiled code sees it, images of one fit after another."""
        fits, weights = self.fits, self.weights
        if self.orbit is not None:
            fits = tuple(image for fit in fits for image in self.orbit.of_fit(fit))
            weights = np.repeat(weights / self.orbit.size, self.orbit.size)
        rows = [_rows_in(fit, coordinates) for fit in fits]
        means = coordinates.to_base(np.stack([fit.mean for fit in fits]))
        normal = -0.5 * self.dim * LOG_2PI
        constants = [
            f.residuals.log_constant if isinstance(f, TransportMap) else normal for f in fits
        ]
        log_scales = np.log1p(-self.share) + np.log(weights) + [each.log_det for each in rows]
        defensive = np.log(self.share) + log_t_constant(self.dof, self.dim)
        terms = [fit.terms if isinstance(fit, TransportMap) else NO_TERMS for fit in fits]
        return Components(
            np.concatenate([[defensive], log_scales + constants]),
            np.ascontiguousarray(means),
            np.concatenate([each.entries for each in rows]),
            np.cumsum([0, *(size for each in rows for size in each.sizes)]),
            np.stack([each.begins for each in rows]),
            np.concatenate([each.what for each in terms]),
            np.concatenate([each.coefficients for each in terms]),
            np.cumsum([0, *(len(each.what) for each in terms)]),
            self.dof,
        )

    def log_parts(self, z: FloatArray, coordinates: Coordinates) -> FloatArray:
        """Log densities (nats) of weighted components, defensive first, (n, D) to (n, K + 1)."""
        u = coordinates.to_base(z)
        log_t = log_t_constant(self.dof, self.dim) - 0.5 * (self.dof + self.dim) * np.log1p(
            (u * u).sum(axis=-1) / self.dof
        )
        parts = [np.log(self.share) + log_t - coordinates.base.log_det_scale]
        logs = self._at_images(z)
        of_fits = np.log1p(-self.share) + logsumexp(logs, axis=0) - np.log(len(logs))
        return np.stack([*parts, *of_fits], axis=-1)

    def log_fits(self, z: FloatArray) -> FloatArray:
        """Log density without the defensive component, in nats: (n, D) to (n,)."""
        logs = self._at_images(z)
        return np.asarray(logsumexp(logs, axis=(0, 1)) - np.log(len(logs)))

    def _at_images(self, z: FloatArray) -> FloatArray:
        """Log densities of the weighted fits at the images of ``z``, (n, D) to (G, K, n)."""
        images = z[None] if self.orbit is None else self.orbit.images(z)
        flat = images.reshape(-1, self.dim)
        logs = np.stack([fit.log_density(flat) for fit in self.fits])
        logs += np.log(self.weights)[:, None]
        return np.asarray(logs.reshape(len(self.fits), len(images), -1).transpose(1, 0, 2))

    def at_home(self, z: FloatArray) -> FloatArray:
        """Take the image of each ``z`` (n, D) at which the fits themselves are highest."""
        if self.orbit is None:
            return z
        return self.orbit.moved(z, self._at_images(z).max(axis=1).argmax(axis=0))

    def at_image(self, z: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Take an image of each ``z`` (n, D) at random, as likely as the fits have it."""
        if self.orbit is None:
            return z
        logs = logsumexp(self._at_images(z), axis=1)
        noise = rng.gumbel(size=logs.shape)
        return self.orbit.moved(z, (logs + noise).argmax(axis=0))

    def log_density(self, z: FloatArray, coordinates: Coordinates) -> FloatArray:
        """Normalised log density in nats: (n, D) to (n,)."""
        return np.asarray(logsumexp(self.log_parts(z, coordinates), axis=-1))

    def responsibilities(self, z: FloatArray, coordinates: Coordinates) -> FloatArray:
        """Probabilities of the components at ``z``, defensive first, (n, D) to (n, K + 1)."""
        parts = self.log_parts(z, coordinates)
        return np.exp(parts - logsumexp(parts, axis=-1, keepdims=True))

    @cached_property
    def shares(self) -> FloatArray:
        """Weights of all components, the defensive one first, shape (K + 1,)."""
        return np.array([self.share, *(1.0 - self.share) * self.weights])

    @cached_property
    def _up_to(self) -> FloatArray:
        """Probabilities of the components and those before them, the defensive one first."""
        up_to = np.cumsum(self.shares)
        return np.asarray(up_to / up_to[-1])

    def draw(
        self, n: int, coordinates: Coordinates, rng: np.random.Generator
    ) -> tuple[FloatArray, IntArray]:
        """Independent draws ``z``, shape (n, D), and which component each is of, shape (n,).

        The defensive component is 0. With an orbit any image is as likely.
        """
        component = self._up_to.searchsorted(rng.random(n), side="right")
        noise = rng.standard_normal((n, self.dim))
        stretch = np.sqrt(self.dof / rng.chisquare(self.dof, n))
        z = coordinates.from_base(stretch[:, None] * noise)
        for k, fit in enumerate(self.fits):
            rows = component == k + 1
            if rows.any():
                z[rows] = fit.from_base(noise[rows])
        if self.orbit is not None:
            of_fits = component > 0
            z[of_fits] = self.orbit.shuffled(z[of_fits], rng)
        return z, component


class _Rows(NamedTuple):
    """Rows of a matrix as :class:`.components.Components` keeps them, and its log determinant."""

    entries: FloatArray
    sizes: IntArray  # (D,), entries of each row
    begins: IntArray  # (D,)
    log_det: float

    @classmethod
    def of_diagonal(cls, diagonal: FloatArray) -> "_Rows":
        log_det = np.cumsum([math.log(abs(entry)) for entry in diagonal])[-1]
        ones = np.ones(diagonal.size, np.int64)
        return cls(diagonal, ones, np.arange(diagonal.size), float(log_det))


def _rows_in(fit: LocalDensity, coordinates: Coordinates) -> _Rows:
    """Return a fit's root in coordinates; of thousands, as a diagonal where it is one."""
    if isinstance(fit, TransportMap):
        root, ends = fit.root @ coordinates.matrix, np.full(fit.dim, fit.dim)
    elif fit.is_diagonal and len(coordinates.rows) == 1:
        return _Rows.of_diagonal(coordinates.rows[0] / fit.scale)
    else:
        root, ends = _root_in(fit, coordinates.matrix), np.arange(1, fit.dim + 1)
        if is_diagonal(root):
            return _Rows.of_diagonal(np.diagonal(root))
    log_det, columns = float(np.linalg.slogdet(root)[1]), np.arange(fit.dim)
    begins = np.minimum((root != 0.0).argmax(axis=1), columns)
    kept = (columns >= begins[:, None]) & (columns < ends[:, None])
    return _Rows(root[kept], ends - begins, begins, log_det)


def _root_in(fit: GaussianBase, matrix: FloatArray) -> FloatArray:
    """Return a fit's root in the coordinates of a matrix, lower triangular."""
    if fit.is_diagonal and is_diagonal(matrix):
        return np.asarray(matrix / fit.scale[:, None])
    if fit.is_diagonal:
        return _lower_root(matrix / fit.scale[:, None])
    return _lower_root(solve_triangular(fit.scale, matrix, lower=True, check_finite=False))


def _lower_root(matrix: FloatArray) -> FloatArray:
    """Lower triangular W with positive diagonal and ``W' W = A' A``, for a square matrix A."""
    upper = np.linalg.qr(matrix[:, ::-1], mode="r")
    lower = upper[::-1, ::-1]
    return np.tril(np.sign(np.diagonal(lower))[:, None] * lower)
