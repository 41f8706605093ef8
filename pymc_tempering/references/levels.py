"""Whether a map lacks what scales reach while the values that they multiply stay in proportion.

Few values with a scale of their own are globals as that is, and a law of these, normal and bent,
does not narrow with the scale by factors. Its own draws do not tell of the neck, nor does a short
run, which hardly enters it: with V of 1.2 and 3.6 two and three runs in eight were .07 to .14 nats
low, four to eight of their errors.
"""

from dataclasses import replace

import numpy as np
from scipy.special import softmax

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.innovations import Innovations
from pymc_tempering.references.nodes import FARTHEST
from pymc_tempering.references.quality import LADDER, N_DRAWS, TRIMMED


@density_guard()
@np.errstate(all="ignore")
def lacks_neck(mapped: CompiledDensity, levels: Innovations | None) -> tuple[bool, int]:
    """Whether a map lacks more mass along a scale of levels than V leaves out; and gradients.

    From each of its draws, with all else as it is non-centred, at whole standard deviations of the
    scale: what share of the mass is where log weights are more than `LADDER` above those of draws.
    """
    if levels is None:
        return False, 0
    own, normal = mapped.points, np.random.default_rng(0).standard_normal((N_DRAWS, mapped.dim))
    other = replace(mapped.inner.points, innovations=levels)
    y = other.of_values(own.values(normal))
    places, most = np.arange(-FARTHEST, FARTHEST + 1), 0.0
    for entry in levels.scales:
        along = np.repeat(y[:, None], len(places), axis=1)
        along[..., entry] += places * y[:, entry, None].std()
        line = along.reshape(-1, mapped.dim)
        u = own.of_values(other.values(line))
        by_map = density_at(mapped.address, u)[0]
        missing = (by_map + 0.5 * (u * u).sum(axis=1)).reshape(-1, len(places))
        log_mass = by_map + other.log_jacobian(line) - own.log_jacobian(u)
        log_mass = np.where(np.isfinite(log_mass), log_mass, -np.inf).reshape(missing.shape)
        lacks = missing > np.median(missing[:, FARTHEST]) + LADDER
        most = max(most, float((softmax(log_mass, axis=1) * lacks).sum(axis=1).mean()))
    return most > TRIMMED, mapped.n_each * levels.scales.size * N_DRAWS * len(places)
