"""A path with the code it runs on: target, reference, and the coordinates they are seen in."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from pymc_tempering.engine.path.components import no_components, widest
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase, base_id
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.noise import NOISE_FREE, is_noise, n_evaluations
from pymc_tempering.engine.path.path import GAUSSIAN, MIXTURE, Density, Path
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.types import BoolArray, FloatArray, IntArray

FAR_OUT = 5.0
"""Largest coordinate, in standard deviations, within which fits leave little to a Cauchy. Where
values are 1e3 to 1e8 a scan takes 37 to 142 evaluations more without it, and .03 with it; of a
Student t of three degrees of freedom at 1e3, 48 and 8 (2026-11-28)."""

NO_WEIGHT = 10.0
"""nats below those of the centres of the fits at which the log ratio of a swap has no chance: one
draw in 20,000 is swapped. As log weights they are that over the beta of the level next to it."""


class Reference(Density, Protocol):
    """A normalised density that can be drawn from, positive wherever the target is.

    What it does not cover is missing from log Z.
    """

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws ``z``, shape (n, D)."""


@dataclass(frozen=True)
class TemperedPath:
    """From a reference to a target."""

    target: Density
    # in which replicas move; their Gaussian is the reference, unless another is given
    coordinates: Coordinates
    # a mixture, or any other normalised density; coordinates then only precondition
    reference: Reference | Mixture | None = None
    # entries of z that are whole numbers, shown as they are; they need a reference
    whole: tuple[int, ...] = ()

    @classmethod
    def from_base(cls, target: Density, base: GaussianBase) -> "TemperedPath":
        """Path from a Gaussian."""
        return cls(target, Coordinates.of(base))

    def moved(self, base: GaussianBase | Coordinates) -> "TemperedPath":
        """Return the same path in other coordinates, whose Gaussian takes the place of this one."""
        coordinates = base if isinstance(base, Coordinates) else Coordinates.of(base)
        return replace(self, coordinates=coordinates)

    def as_whole(self, base: GaussianBase) -> GaussianBase:
        """Return a Gaussian with whole numbers independent, in units of 1 around 0."""
        if not self.whole:
            return base
        whole = np.isin(np.arange(base.dim), self.whole)
        mean = np.where(whole, 0.0, base.mean)
        if base.is_diagonal:
            return GaussianBase(mean, np.where(whole, 1.0, base.scale))
        beside = whole[:, None] | whole
        return GaussianBase.from_moments(mean, np.where(beside, np.eye(base.dim), base.covariance))

    def starting_from(self, mixture: Mixture | None) -> "TemperedPath":
        """Return the path from a mixture, or from the Gaussian of the coordinates."""
        return replace(self, reference=mixture)

    @property
    def mixture(self) -> Mixture | None:
        """Reference of the path, where it is one."""
        return self.reference if isinstance(self.reference, Mixture) else None

    @cached_property
    def reach(self) -> float:
        """Largest standard deviation of what is known of a mode, in the coordinates; at most 1."""
        return 1.0 if self.mixture is None else widest(self.view.components)

    @property
    def base(self) -> GaussianBase:
        """Gaussian of the coordinates."""
        return self.coordinates.base

    @cached_property
    def base_id(self) -> int:
        """Identity of :attr:`base`, or of the mixture, as a number that a statistic can hold."""
        own = base_id(self.base)
        return own if self.mixture is None else own ^ int(self.mixture.digest[:13], 16)

    @property
    def dim(self) -> int:
        """Number D of unconstrained values."""
        return self.base.dim

    @property
    def n_each(self) -> int:
        """Gradients of the model that an evaluation of the target takes; mostly one."""
        return int(getattr(self.target, "n_each", 1))

    @cached_property
    def view(self) -> Path:
        """What compiled code is given; valid as long as this object lives."""
        address, components = GAUSSIAN, no_components(self.dim)
        if isinstance(self.reference, Mixture):
            address, components = MIXTURE, self.reference.in_coordinates(self.coordinates)
        elif self.reference is not None:
            address = self.reference.address
        return Path(
            self.target.address,
            address,
            # copies, since numba compiles anew for arrays that are read-only
            np.array(self.base.mean),
            np.array(self.coordinates.rows),
            self.base.log_det_scale,
            components,
            np.zeros(2, dtype=np.int64),
        )

    def uncovered(self, z: FloatArray) -> BoolArray:
        """Which points ``z`` (n, D) have a density where the reference has none; shape (n,)."""
        return np.isposinf(new_replicas(self.view, self.coordinates.to_base(z)).delta)

    def draws_and_origins(
        self, n: int, rng: np.random.Generator, beta: float = 1.0
    ) -> tuple[FloatArray, IntArray, int]:
        """Draw ``u`` from a reference that kernels cannot draw from, shape (n, D), else (n, 0).

        Also which component of a mixture each is of, else 0, and the gradients that
        :meth:`_leave_noise` took. `beta` is of the level that the draws may go to next.
        """
        origins, n_gradients = np.zeros(n, dtype=np.int64), 0
        if self.reference is None:
            return np.empty((n, 0)), origins, 0
        if not isinstance(self.reference, Mixture):
            u = self.coordinates.to_base(self.reference.draw(n, rng))
        else:
            draws, origins = self.reference.draw(n, self.coordinates, rng)
            u = self.coordinates.to_base(draws)
            if not self.whole:
                n_gradients = self._leave_noise(u, draws, origins == 0, beta)
        return np.ascontiguousarray(u), origins, n_gradients

    def _leave_noise(
        self, u: FloatArray, z: FloatArray, defensive: BoolArray, beta: float
    ) -> int:  # fmt: skip
        """Move draws whose log density is rounding noise to where there is no density, in place.

        The tails of a Cauchy go where ``gammaln`` of 1e20 is taken from another, and the result may
        be hundreds of nats. Looked at are those that are far out and have a chance to go to `beta`.
        Returns the gradients that it took, of places that are noise at most.
        """
        far = defensive & (np.abs(z) > NOISE_FREE).any(axis=1) & (np.abs(u) > FAR_OUT).any(axis=1)
        if not far.any():
            return 0
        assert self.mixture is not None
        centres = self.coordinates.to_base(np.stack([fit.mean for fit in self.mixture.fits]))
        delta = new_replicas(self.view, np.concatenate([centres, u[far]])).delta
        of_fits, of_far = np.split(delta, [len(centres)])
        n_gradients = delta.size
        for i in np.flatnonzero(far)[of_far > of_fits.max() - NO_WEIGHT / beta]:
            n_gradients += n_evaluations(z[i])
            if not is_noise(self.target, z[i]):
                continue
            for factor in (1e3, 1e6, 1e9):
                u[i] = self.coordinates.to_base(factor * z[i : i + 1])[0]
                n_gradients += 1
                if new_replicas(self.view, u[i : i + 1]).delta[0] == -np.inf:
                    break
        return n_gradients
