"""Where the path to a posterior starts that draws of a posterior of less data are at hand for.

Each mode of the draws has a shape, as a Gaussian or a transport map. The new data move and narrow
it; a few ascents from there find where to, and a fit there takes its place if it fits better. They
are no search for modes: one that the new data open far from all draws is met by chance alone.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity
from pymc_tempering.engine.path.path import Density
from pymc_tempering.errors import BaseError
from pymc_tempering.references.fit import n_independent
from pymc_tempering.references.local import combine_local_bases
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.prepared import (
    NO_SEARCH,
    Effort,
    Prepared,
    Report,
    centre,
    mass_once,
    unwatched,
)
from pymc_tempering.references.quality import FAIR, N_DRAWS, log_weights, trimmed_variance
from pymc_tempering.references.same_mode import owner
from pymc_tempering.references.search import find_modes
from pymc_tempering.types import FloatArray, IntArray

NEARBY = Effort(32, 1000)
"""Ascents that look where the modes went: a few per cent of what a run takes."""


class _Known(NamedTuple):
    """A shape, the Gaussian of the same draws, and V of the shape under the new density."""

    fit: GaussianBase
    shape: LocalDensity
    variance: float

    @property
    def elbo(self) -> float:
        assert self.fit.log_zeta is not None
        return self.fit.log_zeta


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Unconstrained draws (n, D) in the order in which they were made, and their modes (n,).

    ``funnel_depth`` (nats) is that of :class:`.prepared.Search`, as the run of the draws had it.
    """

    draws: FloatArray
    mode: IntArray
    funnel_depth: float = 0.0

    def prepare(
        self, density: Density, rng: np.random.Generator, *, effort: Effort | None = NEARBY,
        prior_points: FloatArray, report: Report = unwatched,
    ) -> Prepared:  # fmt: skip
        """Fit the modes of the draws, and look where a density of more data has moved them.

        Ascents start from draws of each mode, and of the prior: ``prior_points`` (m, D). ``effort``
        is None for densities without a gradient. Raises BaseError where the density is
        zero at draws of all shapes.
        """
        n_modes = int(self.mode.max()) + 1
        drawn = []
        for k in range(n_modes):
            own = self.draws[self.mode == k]
            shape = map_of_draws(own, n_independent(own))
            drawn.append(_assessed(density, GaussianBase.from_draws(own), shape, rng))
        drawn = [each for each in drawn if np.isfinite(each.variance)]
        if not drawn:
            raise BaseError(
                "The posterior draws lie where the new data have no density, so they are no "
                "reference. Sample the model of all data afresh."
            )
        known, found, n = drawn, None, N_DRAWS * n_modes
        if effort is not None:
            start = centre(max(drawn, key=lambda each: each.elbo).shape)
            # one of each mode, of those with most draws
            modes = range(min(n_modes, NEARBY.n_starts // 2))
            of_modes = [rng.choice(self.draws[self.mode == k]) for k in modes]
            starts = np.vstack([of_modes, prior_points])
            found = find_modes(
                density, start, rng, prior_points=starts, effort=effort, report=report
            )
            known = drawn + [_assessed(density, fit, fit, rng) for fit in found.fits]
            n += found.search.n_gradients + N_DRAWS * len(found.fits)
        kept: list[_Known] = []
        for each in sorted(known, key=lambda each: each.variance):
            if not any(_same_place(each, other) for other in kept):
                kept.append(each)
        kept.sort(key=lambda each: each.elbo, reverse=True)
        fits, masses = tuple(each.fit for each in kept), [each.elbo for each in kept]
        # draws and ascents are two searches: a mode without draws is found by one of them
        by_both = [
            1 + (any(_same_place(e, d) for d in drawn) or (owner([e.shape], self.draws) == 0).any())
            for e in kept
        ]
        search = replace(
            NO_SEARCH if found is None else found.search,
            n_gradients=n,
            mass_once=mass_once(masses, by_both),
            funnel_depth=self.funnel_depth,
        )
        return Prepared(
            combine_local_bases(fits),
            fits,
            search,
            () if found is None else found.poorly_fitted,
            shapes=tuple(each.shape for each in kept),
            needs_levels=max(each.variance for each in kept) > FAIR,
            well_fitted=() if found is None else found.well_fitted,
        )


def _assessed(
    density: Density, fit: GaussianBase, shape: LocalDensity | None, rng: np.random.Generator
) -> _Known:
    shape = shape or fit
    weights = log_weights(density, shape, rng, N_DRAWS)
    finite = weights[np.isfinite(weights)]
    if not finite.size:
        return _Known(fit, shape, np.inf)
    elbo = float(finite.mean() + np.log(finite.size / weights.size))
    with_mass = GaussianBase(fit.mean, fit.scale, elbo)
    if isinstance(shape, GaussianBase):
        return _Known(with_mass, with_mass, trimmed_variance(finite))
    return _Known(with_mass, replace(shape, log_zeta=elbo), trimmed_variance(finite))


def _same_place(one: _Known, other: _Known) -> bool:
    """Whether the centre of either is inside the other."""
    return any(
        owner([a.shape], centre(b.shape)[None])[0] == 0 for a, b in ((one, other), (other, one))
    )
