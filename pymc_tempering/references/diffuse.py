"""Diffuse components: mass far wider than a mode's fit, without a maximum of its own.

Of a slab about a spike, ascents end at the spike from wherever they start, and its Gaussian fits it
perfectly. But under Gaussians of the same shape and growing width the mean log density falls by
half the dimension for each unit of the squared width where that is all there is, and far less where
there is more: there the ELBO has a second maximum. Being a mean of logs, it has none of the
variance that importance weights have in many dimensions.

In many dimensions a wide mode may be hidden at a distance, too. A narrower one of ``r`` times its
scale, ``d`` of its scales away, has the higher density at its centre where ``D log(1 / r)`` exceeds
``d^2 / (2 r^2)``, and then all ascents leave it. What no fit explains is seen where starts are
drawn, and it has an ELBO.
"""

from collections.abc import Sequence

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density
from pymc_tempering.references.full_rank import fit_gaussian
from pymc_tempering.references.local import LocalFit, assess
from pymc_tempering.references.quality import GOOD, N_DRAWS, N_ROUGH, evaluate_elbo
from pymc_tempering.references.same_mode import LEAST_DIM, MAX_DIP, unexplained

WIDTHS = 2.0 ** np.arange(9)
"""Multiples of the fit's scale that are looked at."""

MOST_FITS = 4
"""Fits that are looked around, or have a short run, those of most mass."""

NEARBY = 2.0 ** np.arange(-3, 3)
"""Multiples of the scales of starts at which hidden mass is looked for."""

_N_LOOKED_AT = 64
"""Draws of which the median tells what is unexplained."""


def find_diffuse(
    density: Density, fits: Sequence[LocalFit], negligible: float, rng: np.random.Generator,
    most: float = np.inf, starts: GaussianBase | None = None,
) -> tuple[list[LocalFit], int]:  # fmt: skip
    """Look for wide mass around the best fits, and where starts are drawn.

    ``negligible`` are nats below the best mass at which a component does not matter. ``starts`` is
    a Gaussian of starts that depend on nothing; it is looked at where the best fits are good. With
    too few gradients left of ``most`` it is not looked any further. Returns the components, to
    which no start led, and the gradients.
    """
    diffuse: list[LocalFit] = []
    n_gradients = 0
    best = max(fit.mass for fit in fits)
    looks = [(fit.base, WIDTHS, False) for fit in fits[:MOST_FITS]]
    # what a poor fit leaves unexplained is of its own mode, as a funnel's
    are_good = all(fit.variance <= GOOD for fit in fits[:MOST_FITS])
    if starts is not None and starts.dim >= LEAST_DIM and are_good:
        looks.append((starts, NEARBY, True))
    for around, widths, of_starts in looks:
        left = most - n_gradients - N_ROUGH * widths.size - N_DRAWS - 2 * _N_LOOKED_AT
        if left < 0:
            break
        wider = [GaussianBase(around.mean, width * around.scale) for width in widths]
        elbos = [evaluate_elbo(density, base, rng, N_ROUGH).value for base in wider]
        n_gradients += N_ROUGH * widths.size
        top = int(np.argmax(elbos)) if of_starts else _second_maximum(elbos)
        if top is None or elbos[top] < best - negligible - around.dim:
            continue
        if of_starts:
            n_gradients += _N_LOOKED_AT
            if _excess(density, wider[top], [*fits, *diffuse], rng) <= MAX_DIP:
                continue
        base, n_fit = fit_gaussian(density, wider[top], rng, left)
        diffuse_fit = assess(density, base, rng)
        n_gradients += n_fit + N_DRAWS
        if diffuse_fit is None or diffuse_fit.mass < best - negligible:
            continue
        n_gradients += _N_LOOKED_AT
        if _excess(density, diffuse_fit.base, [*fits, *diffuse], rng) > MAX_DIP:
            diffuse.append(diffuse_fit)
    return diffuse, n_gradients


def _second_maximum(elbos: Sequence[float]) -> int | None:
    """Where the ELBO is highest beyond its first fall; None where it falls on."""
    fall = next((i for i in range(1, len(elbos)) if elbos[i] < elbos[i - 1] - 1.0), None)
    if fall is None:
        return None
    after = np.array(elbos[fall:])
    # above the lowest before it: the ELBO may fall on before it rises
    rises = after - np.minimum.accumulate(after)
    return fall + int(rises.argmax()) if rises.max() > 1.0 else None


def _excess(
    density: Density, base: GaussianBase, fits: Sequence[LocalFit], rng: np.random.Generator
) -> float:
    """Nats by which the log density exceeds all fits, in the middle of a Gaussian's draws."""
    z = base.draw(rng, _N_LOOKED_AT)
    return float(np.median(unexplained(density, [fit.weighted for fit in fits], z)))
