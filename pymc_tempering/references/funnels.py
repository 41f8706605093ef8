"""Whether the scales of a target differ from place to place by more than one step size serves.

In the narrow end of a funnel, of a hierarchy written centred or a horseshoe, a trajectory needs
steps of a fraction of those that the bulk asks for. With one step size, moves into it and out of it
are rejected for hundreds of scans. Its mass comes out too small, and the error does not show it.
"""

import numpy as np

from pymc_tempering.engine.explorers.gist import DISPLACEMENT, FLAT
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import call_density_at
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.types import FloatArray

__all__ = ["DEEP", "N_EVALUATIONS", "N_PLACES", "depth_of_funnels"]

DEEP = 0.8
"""Depth from which steps of local sizes pay: 0.8 to 3 on hierarchies written centred, funnels and
horseshoes, 0.3 to 0.8 on bananas, heavy tails and skewed posteriors (benchmarks/funnels.py)."""

N_PLACES = 200  # draws that are looked at: ten of them are in the narrowest twentieth
N_EVALUATIONS = 2 * N_PLACES  # one beside each


@np.errstate(over="ignore", invalid="ignore")
def depth_of_funnels(density: Density, z: FloatArray, rng: np.random.Generator) -> float:
    """Log of the typical local scale over that in the narrowest twentieth of the draws (n, D).

    The scale of a place comes from the curvature along one random direction, in units of the draws'
    own standard deviations, as in :mod:`pymc_tempering.engine.explorers.gist`. 200 draws are looked
    at; fewer tell little. It is 1 for a factor of e, and up to 0.5 for a Gaussian of few
    dimensions.
    """
    moments = GaussianBase.from_draws(z, full=True, n_effective=len(z))
    root = moments.matrix
    places = np.ascontiguousarray(z[rng.permutation(len(z))[:N_PLACES]])
    directions = rng.standard_normal(places.shape)
    beside = np.ascontiguousarray(places + DISPLACEMENT * directions @ root.T)
    gradients = []
    for points in (places, beside):
        values, grads = np.empty(len(points)), np.empty(points.shape)
        call_density_at(density.address, points, values, grads)
        gradients.append(grads @ root)
    change = np.linalg.norm(gradients[1] - gradients[0], axis=1) / DISPLACEMENT
    curvature = FLAT + change / np.linalg.norm(directions, axis=1)
    log_scales = -0.5 * np.log(curvature[np.isfinite(curvature)])
    if log_scales.size < len(places) // 2:
        return 0.0
    narrow, typical = np.quantile(log_scales, [0.05, 0.5])
    return float(typical - narrow)
