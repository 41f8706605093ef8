"""Where ascents start: around the initial point at several scales, and at draws of the prior."""

import numpy as np

from pymc_tempering.engine.path.density import call_density
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.jit import compiled
from pymc_tempering.types import BoolArray, FloatArray

__all__ = ["inside", "jittered"]

SCALES = (1.0, 2.0, 5.0, 10.0)
"""Standard deviations of the jitter, taken in turn: modes nearby need a small one, modes far away
a large one."""

_MOST_HALVINGS = 20


@compiled
def _finite(address: int, z: FloatArray, out: BoolArray) -> None:
    grad = np.empty(z.shape[1])
    for n in range(z.shape[0]):
        check = call_density(address, z[n], grad)
        for i in range(z.shape[1]):
            check += 0.0 * grad[i]
        out[n] = np.isfinite(check)


def inside(density: Density, points: FloatArray) -> BoolArray:
    """Tell at which rows of ``points`` the log density and its gradient are finite."""
    out = np.empty(len(points), dtype=np.bool_)
    _finite(density.address, np.ascontiguousarray(points), out)
    return out


def jittered(
    density: Density, start: FloatArray, rng: np.random.Generator, n: int, units: FloatArray
) -> FloatArray:
    """Points around a start, in mirrored pairs ``start ± jitter``.

    A start midway between two modes is common, and then each is reached from its own side. Points
    outside the support come nearer by halves, so that narrow supports are met too.

    Parameters
    ----------
    density : Density
        The target's compiled log density and gradient.
    start : ndarray of shape (D,)
    rng : numpy.random.Generator
    n : int
        Number wanted.
    units : ndarray of shape (D,)
        What the scales are multiples of.

    Returns
    -------
    ndarray of shape (m, D)
        Inside the support, m <= n.
    """
    n_pairs = (n + 1) // 2
    scales = np.resize(SCALES, n_pairs)[:, None]
    jitter = scales * units * rng.standard_normal((n_pairs, start.size))
    jitter = np.stack([jitter, -jitter], axis=1).reshape(-1, start.size)[:n]
    fine = inside(density, start + jitter)
    for _ in range(_MOST_HALVINGS):
        if fine.all():
            break
        jitter[~fine] *= 0.5
        fine[~fine] = inside(density, start + jitter[~fine])
    return (start + jitter)[fine]
