"""Exact joint draws of tempered position, beta and target position; kernels with planted errors."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pymc_tempering
from pymc_tempering.testing.path import base_log_density

PACKAGE = Path(pymc_tempering.__file__).parent


def joint_draws(target, base, betas, bias, rng, n, *, levels):
    """Exact draws of (z, beta, y), shape (n, 2 D + 1).

    By rejection from the mixture of base and normalised target with weights 1 - beta and beta,
    which bounds the geometric path (the inequality of weighted means), and from beta uniform on
    [0, 1], or on the levels. The bias is linear between knots, so its largest factor is at one.
    """
    betas, bias = np.asarray(betas), np.asarray(bias)
    top = np.max(betas * target.log_z - bias)
    kept = []
    missing = n
    while missing > 0:
        size = 4 * missing + 100
        beta = rng.choice(betas, size) if levels else rng.random(size)
        from_base = base.mean + rng.standard_normal((size, target.dim)) * base.scale
        z = np.where((rng.random(size) < beta)[:, None], target.draw(rng, size), from_base)
        log_base = base_log_density(z, base)
        log_target = target.log_density(z) - target.log_z
        with np.errstate(divide="ignore", invalid="ignore"):
            mixture = np.logaddexp(np.log1p(-beta) + log_base, np.log(beta) + log_target)
            path = np.where(beta == 0.0, log_base, (1 - beta) * log_base + beta * log_target)
            path = np.where(beta == 1.0, log_target, path)
        log_accept = path - mixture + beta * target.log_z - np.interp(beta, betas, bias) - top
        accepted = np.flatnonzero(np.log1p(-rng.random(size)) < log_accept)[:missing]
        kept.append(np.column_stack([z[accepted], beta[accepted]]))
        missing -= accepted.size
    tempered = np.concatenate(kept)
    return np.column_stack([tempered, target.draw(rng, n)])


def pair_statistics(target, base):
    """What errors of tempering move first: both deltas, beta, their product, the modes."""
    d = target.dim

    def delta(z):
        return np.clip(target.delta(z, base), target.log_z - 30.0, target.log_z + 10.0)

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


@pytest.fixture(scope="session")
def joint():
    return SimpleNamespace(draws=joint_draws, statistics=pair_statistics)


@pytest.fixture(scope="session")
def planted():
    """Compile a module of the package with parts of its text replaced; the text must be there."""

    def build(module, *replacements):
        path = PACKAGE / Path(*module.split(".")).with_suffix(".py")
        source = path.read_text()
        # what is not in a file cannot be kept on disk
        uncached = (
            "from pymc_tempering.jit import compiled",
            "import numba\ncompiled = numba.njit",
        )
        for old, new in (*replacements, uncached):
            assert old in source, f"{old!r} is no longer part of {path.name}: adapt the test"
            source = source.replace(old, new)
        namespace = {"__name__": "planted"}
        exec(compile(source, str(path), "exec"), namespace)
        return SimpleNamespace(**namespace)

    return build
