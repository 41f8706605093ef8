"""Whether a log density is a number at a place, or the rounding of larger ones.

Where it is a difference of numbers beyond 1e15, as of two ``gammaln`` of a Student t with huge
degrees of freedom, it jumps by whole nats when the place moves by its own last digits. Ascents and
moves climb such noise without end.
"""

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.types import FloatArray

MAX_JITTER = 0.1
"""nats, as a standard deviation: the mean density is then wrong by half its square, 0.005 nats."""

# Mirrored copies: a deviation from six is known to a third. On the way from zero, where one place
# after the other can tell, three miss as few as six: 5 of 285, two 7, one 27
# (benchmarks/noise.py --looks, 2026-11-30).
_N_PAIRS, _N_PAIRS_ON_WAY = 6, 3

NOISE_FREE = 20.0
"""Largest coordinate within which there is none: numbers beyond 1e15 are exponentials of 34."""

# Ratio of places on the way to zero. 1 is lost in exponentials of 37, and near there many places
# look fine by chance: of 168 beyond 33 in seven models 13 were missed with .85, none with .95.
_CLOSER = 0.95


def jitter(
    density: Density, z: FloatArray, only: int | None = None, n_pairs: int = _N_PAIRS
) -> float:
    """Noise of a log density at `z` (D,), as a standard deviation in nats.

    The mean of two mirrored copies, a relative 1e-12 away, is the value itself but for noise, as
    the slope cancels. The copies differ in all coordinates, or in the one given as `only`. Counted
    is what exceeds the last digits of the log density itself; 0 where no copy has a finite density,
    as an edge is no noise.
    """
    signs = np.random.default_rng(z.size).choice([-1.0, 1.0], (n_pairs, z.size))
    lengths = np.linspace(0.5, 1.0, n_pairs)[:, None]  # no two copies share their digits
    if only is not None:
        signs[:, np.arange(z.size) != only] = 0.0
    found = np.inf
    # Noise is the same at both distances. What curvature does in a place of width 1e-12 is ten
    # thousand times less at the second, fifty units of the last digit.
    for relative in (1e-12, 1e-14):
        found = min(found, _off(density, z, relative * lengths * signs * np.abs(z)))
        if found <= MAX_JITTER:
            break
    return found


def _off(density: Density, z: FloatArray, steps: FloatArray) -> float:
    """How far means of mirrored copies are from the value, as the deviation of one value."""
    points = np.concatenate([z[None], z + steps, z - steps])
    with density_guard(), np.errstate(invalid="ignore"):
        values = density_at(density.address, points)[0]
        off = values[1:].reshape(2, -1).mean(axis=0) - values[0]
    off = off[np.isfinite(off)]
    if not off.size:
        return 0.0
    # the variance of a mean of two and that of the value; squares of 1e160 overflow
    largest = max(float(np.abs(off).max()), 1.0)
    deviation = largest * float(np.sqrt(np.mean((off / largest) ** 2) / 1.5))
    # a sum of small terms is as exact as it is, however low
    return max(0.0, deviation - 64.0 * float(np.spacing(abs(values[0]))))


def is_noise(density: Density, z: FloatArray, beside: FloatArray | None = None) -> bool:
    """Whether a log density is rounding noise at `z` (D,), or somewhere on the way there from zero.

    Past the noise, where ``b + 1`` is ``b``, differences are smooth again, and wrong: what was to
    be subtracted is lost. `beside` is a place where there is none.
    """
    return first_noise(density, z, beside) is not None


def first_noise(
    density: Density, z: FloatArray, beside: FloatArray | None = None
) -> FloatArray | None:
    """Return the place itself, or the outermost on its way from zero, that is noise; or None."""
    for k in range(_n_places(z, beside)):
        n_pairs = _N_PAIRS_ON_WAY if k else _N_PAIRS
        if jitter(density, _CLOSER**k * z, n_pairs=n_pairs) > MAX_JITTER:
            return np.asarray(_CLOSER**k * z)
    return None


def n_evaluations(z: FloatArray, beside: FloatArray | None = None) -> int:
    """Evaluations that it takes to say that there is no noise on the way to `z` (D,)."""
    on_way = (2 * _N_PAIRS_ON_WAY + 1) * (_n_places(z, beside) - 1)
    return 2 * _N_PAIRS + 1 + on_way


def _n_places(z: FloatArray, beside: FloatArray | None) -> int:
    largest = max(float(np.abs(z).max()), NOISE_FREE)
    if beside is not None and np.abs(z - beside).max() <= (1.0 - _CLOSER) * largest:
        return 1  # the way to a place no further than the next one on it is known
    return 1 + max(0, int(np.log(NOISE_FREE / largest) / np.log(_CLOSER)))


def noisiest(density: Density, z: FloatArray) -> int:
    """Return the coordinate along which a log density jitters most."""
    return int(np.argmax([jitter(density, z, only=i) for i in range(z.size)]))
