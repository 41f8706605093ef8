"""Exact draws along a path from any reference: single replicas, and (z, beta, y) together."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_tempering import testing
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.testing.exact import base_log_density


@dataclass(frozen=True)
class GaussianLaw:
    """A Gaussian base as the reference of an exact path."""

    base: GaussianBase

    def log_density(self, z):
        return base_log_density(z, self.base)

    def draw(self, n, rng):
        return self.base.from_base(rng.standard_normal((n, self.base.dim)))


@dataclass(frozen=True)
class ExactReference:
    """One of the package's exact targets, normalised, as the reference of a path."""

    law: Any

    def __post_init__(self):
        assert self.law.log_z == 0.0

    @property
    def address(self):
        return self.law.address

    @property
    def dim(self):
        return self.law.dim

    def log_density(self, z):
        return self.law.log_density(z)

    def draw(self, n, rng):
        return self.law.draw(rng, n)


@dataclass(frozen=True)
class ExactPath:
    """Target and reference with exact draws at every beta between."""

    target: Any
    reference: Any

    def delta(self, z):
        return self.target.log_density(z) - self.reference.log_density(z)

    def in_coordinates(self, base):
        """Return the path as the engine sees it."""
        coordinates = Coordinates.of(base)
        if isinstance(self.reference, GaussianLaw):
            return TemperedPath(self.target, coordinates)
        return TemperedPath(self.target, coordinates, self.reference)

    def draw_tempered(self, n, rng, betas, bias, *, levels):
        """Exact draws of (z, beta), shape (n, D + 1).

        By rejection from the mixture of reference and normalised target with weights 1 - beta and
        beta, which bounds the geometric path (the inequality of weighted means), and from beta
        uniform on [0, 1], or on the levels. The bias is linear between knots, so its largest factor
        is at one.
        """
        target, reference = self.target, self.reference
        betas, bias = np.asarray(betas), np.asarray(bias)
        top = np.max(betas * target.log_z - bias)
        kept = []
        missing = n
        while missing > 0:
            size = 4 * missing + 100
            beta = rng.choice(betas, size) if levels else rng.random(size)
            from_reference = reference.draw(size, rng)
            z = np.where((rng.random(size) < beta)[:, None], target.draw(rng, size), from_reference)
            log_base = reference.log_density(z)
            log_target = target.log_density(z) - target.log_z
            with np.errstate(divide="ignore", invalid="ignore"):
                mixture = np.logaddexp(np.log1p(-beta) + log_base, np.log(beta) + log_target)
                path = np.where(beta == 0.0, log_base, (1 - beta) * log_base + beta * log_target)
                path = np.where(beta == 1.0, log_target, path)
            log_accept = path - mixture + beta * target.log_z - np.interp(beta, betas, bias) - top
            accepted = np.flatnonzero(np.log1p(-rng.random(size)) < log_accept)[:missing]
            kept.append(np.column_stack([z[accepted], beta[accepted]]))
            missing -= accepted.size
        return np.concatenate(kept)

    def draw(self, rng, n, beta):
        """Exact draws at one beta, shape (n, D)."""
        return self.draw_tempered(n, rng, [beta], [0.0], levels=True)[:, :-1]

    def draw_levels(self, rng, n, betas):
        """Exact states of a ladder, shape (n, n_levels, D)."""
        return np.stack([self.draw(rng, n, beta) for beta in betas], axis=1)

    def draw_joint(self, rng, n, betas, bias, *, levels):
        """Exact draws of (z, beta, y), shape (n, 2 D + 1)."""
        tempered = self.draw_tempered(n, rng, betas, bias, levels=levels)
        return np.column_stack([tempered, self.target.draw(rng, n)])


MAPPED = ExactPath(testing.skewed_gamma(), ExactReference(testing.banana(log_z=0.0)))
"""Neither end is Gaussian, nor symmetric."""
ASKEW = GaussianBase(np.array([0.2, -0.4]), np.array([[1.3, 0.0], [-0.3, 0.9]]))
"""Coordinates in which it is explored."""


def pair_statistics(path):
    """What errors of tempering move first: both deltas, beta, their product, the modes."""
    target = path.target
    d = target.dim

    def delta(z):
        return np.clip(path.delta(z), target.log_z - 30.0, target.log_z + 10.0)

    middle = float(np.median(target.draw(np.random.default_rng(0), 10_001)[:, 0]))
    return {
        "delta z": lambda s: delta(s[:, :d]),
        "delta y": lambda s: delta(s[:, d + 1 :]),
        "beta": lambda s: s[:, d],
        "beta delta": lambda s: s[:, d] * delta(s[:, :d]),
        "beta^2": lambda s: s[:, d] ** 2,
        "beta low": lambda s: (s[:, d] < 0.1) + 0.0,
        "beta high": lambda s: (s[:, d] > 0.9) + 0.0,
        "z right": lambda s: (s[:, 0] > 0.0) + 0.0,
        "y right": lambda s: (s[:, d + 1] > 0.0) + 0.0,
        "y upper half": lambda s: (s[:, d + 1] > middle) + 0.0,
        "z0": lambda s: s[:, 0],
        "y0": lambda s: s[:, d + 1],
        "beta z0": lambda s: s[:, d] * s[:, 0],
    }


def ladder_statistics(path, n_levels, place=lambda z: z):
    """Delta by level, which swaps decide on, and coordinates; `place` where these have no mean."""
    deltas = {
        f"delta[{k}]": lambda s, k=k: np.clip(path.delta(s[:, k]), -30.0, 10.0)
        for k in range(n_levels)
    }
    places = {
        f"z[{k}, {i}]": lambda s, k=k, i=i: place(s[:, k])[:, i]
        for k in range(n_levels)
        for i in range(path.target.dim)
    }
    return deltas | places


def check_mixture(mixture, coordinates, target, z, near=1e-9, slopes=1e-5):
    """Compare the compiled density of a mixture with NumPy's, and its gradient with differences."""
    replicas = new_replicas(TemperedPath(target, coordinates, mixture).view, coordinates.to_base(z))
    expected = target.log_density(z) - mixture.log_density(z, coordinates)
    np.testing.assert_allclose(replicas.delta, expected, rtol=near, atol=near)
    u = replicas.u
    for i in range(u.shape[1]):
        h = 1e-5 * np.eye(u.shape[1])[i]
        up, down = (
            mixture.log_density(coordinates.from_base(u + s * h), coordinates) for s in (1, -1)
        )
        slope = replicas.residual[:, i] - u[:, i]
        np.testing.assert_allclose(slope, (up - down) / 2e-5, rtol=slopes, atol=slopes)


def delta_statistics(target, base, n_levels):
    """``delta`` at each level of an ensemble, the statistic that errors of tempering move first.

    Swaps and levels act on a state through delta alone. A swap exponent wrong by a fifth gives
    p-values near 1e-45 with these where the default statistics of the same 50 000 draws stay near
    1e-3. States are ``(n, n_levels, D)``. Values are clipped to 30 nats below ``log_z`` and 10
    above it, so that they are finite beyond edges and have moments under heavy tails.
    """
    low, high = target.log_z - 30.0, target.log_z + 10.0

    def at(level):
        return lambda states: np.clip(target.delta(states[:, level], base), low, high)

    return {f"delta[{level}]": at(level) for level in range(n_levels)}
