r"""Which reference a chain of parallel tempering starts from: the one of least predicted work.

Candidates are the wide Gaussian, the mixture of what the search fitted, with weights and widths
from draws, and transport maps of the draws. Each has a V, the variance of its log weights
(:mod:`pymc_tempering.references.quality`): of the reference in use from the swaps of a round, of
any other from a trial of swaps between its draws and those of the round. V says how many levels a
path needs and how much each scan tells of log Z, so that the work can be predicted and compared.

What V can not say has no finite prediction: a mixture that leaves draws uncovered, or that no draw
of a known mode has tested, would lead to some of the mass hardly ever.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.path import Density
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.path.transport import TransportMap
from pymc_tempering.engine.state import Stateful
from pymc_tempering.references import quality
from pymc_tempering.references.fit import n_independent
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.mixture import (
    first_mixture,
    mixture_of_draws,
    mixture_of_maps,
    refined_mixture,
    swap_rejection,
    uncovered_share,
    with_fit_of_uncovered,
    with_known,
)
from pymc_tempering.references.prepared import Prepared, centre
from pymc_tempering.references.quality import COARSE, FAIR, LADDER, trimmed_variance
from pymc_tempering.references.same_mode import hides_one, one_place, owner
from pymc_tempering.steps.round import Round, predicted_moves
from pymc_tempering.steps.visits import MOST_GRADIENTS, not_visited
from pymc_tempering.types import FloatArray

MAX_UNCOVERED = 0.1
"""Share of the draws outside of all components from which on a mode has none: few levels would
hardly ever lead there."""

LEAST_RESTARTS = 8
"""Arrivals from the reference without which the draws of a round say nothing of other modes."""

_RESTARTS_PER_FIT = 4
"""Arrivals from the Gaussian for each component, before a mixture may take over: a mode with a
sixth of the mass is missed by 24 of them once in 80 times."""

RESTARTS_PER_MODE = 10
"""The same, before tuning may end with the Gaussian, or with the mixture; and the observations of
the target that a pooled base counts for, for each mode that it is made of."""

_DRAWS_TO_MAP = 200
"""Independent draws after which a mode that no map fits is given up."""

_DRAWS_TO_REFIT = 150
"""Independent draws from which a map in use is fitted again: few would spoil it."""

_ENOUGH_SCANS = 100
"""Scans of a round below which its barrier says too little."""

_TRIAL_DRAWS = 200
"""Draws of a reference on trial, each of which takes an evaluation of the target."""


class ReferenceChoice(Stateful):
    """The reference of one chain, changed after rounds of tuning where that pays.

    Unless it ``uses_fits`` of what was found, the chain keeps the Gaussian, and if ``fixed`` the
    mixture of them. If the modes are ``drawn_from``, by an earlier run, or all but one hold next to
    nothing, it begins with the mixture.

    The chain starts from ``at_start``, None for the Gaussian; if ``settled``, tuning may end with
    the reference in use. ``second_opinion`` is log Z and its error in nats, from the last round of
    the Gaussian before the mixture, and ``n_missed`` the number of poorly fitted modes to which no
    draw of the last round led.
    """

    _changing = (
        "first", "fixed", "wants_map", "settled", "gaussian_variance", "second_opinion", "earlier",
        "poorly_fitted", "n_missed", "n_returns", "n_evaluations", "orbit",
        "n_fitted", "n_own", "is_alone",
    )  # fmt: skip
    at_start: Mixture | None = None
    _fitted: Mixture | None = None

    def __init__(
        self, found: Prepared, *, uses_fits: bool = True, fixed: bool = False,
        drawn_from: bool = False,
    ) -> None:  # fmt: skip
        self.orbit = found.orbit
        self.first = first_mixture(found.shapes, self.orbit) if uses_fits else None
        self.fixed, self.settled = fixed, fixed or self.first is None
        self.poorly_fitted, self.n_missed = list(found.poorly_fitted), 0
        self.n_returns = self.n_evaluations = self.n_fitted = self.n_own = 0
        self.gaussian_variance = np.nan
        self.second_opinion = [np.nan, np.nan]
        self.earlier: list[list[Any]] = []
        self.wants_map = self.is_alone = False
        if self.first is not None:
            # as it is, one chain would find the tails of a Gaussian fit and another would not
            alone = one_place(found.fits)
            self.is_alone = alone or found.one_holds_all
            self.wants_map = alone and (found.needs_levels or self.first.has_map) and not fixed
            good = self.first.has_map or not self.wants_map
            # from a wide Gaussian to modes that hide each other there is a first-order transition
            # with images each start of the search was one for every image
            sure = self.is_alone or drawn_from or self.orbit is not None or hides_one(found.fits)
            if fixed or (good and sure):
                self.at_start = self.first

    @property
    def n_in_use(self) -> int:
        """Gaussians that were fitted to draws and are in use."""
        return self.n_own if self.n_fitted else 0

    def counted(self) -> int:
        """Evaluations of the density since the last call."""
        n, self.n_evaluations = self.n_evaluations, 0
        return n

    def look(self, density: Density, positions: FloatArray, left: float = np.inf) -> None:
        """Count poorly fitted modes that no draw (n, D) of a round leads to, if gradients do."""
        n_modes = len(self.poorly_fitted)
        if n_modes and len(positions) >= _ENOUGH_SCANS and left >= MOST_GRADIENTS * n_modes:
            missed, n = not_visited(density, positions, self.poorly_fitted, self.orbit)
            self.n_missed = sum(missed)
            self.n_evaluations += n

    def end_of_round(self, ladder: Ladder, ended: Round, rng: np.random.Generator) -> bool:
        """Refine the mixture from a round's draws, or change the reference; whether that was so."""
        if self.first is None:
            return False
        # what is known of one image is known of all
        ended = ended._replace(positions=self.first.at_home(ended.positions))
        few = ended.n_restarts < LEAST_RESTARTS and not ended.is_blocked
        ended = self._with_earlier(ended, ladder.mixture)
        if few and not self.wants_map:
            return False
        if ladder.mixture is not None:
            return self._keep_or_return(ladder, ended, rng)
        # of what nothing gets through, nothing is predicted
        self.gaussian_variance = np.inf if ended.is_blocked else ended.variance
        mixture = self._best(ladder, ended, rng)
        if mixture is None:
            self.settled = self.settled or self._seen_enough(ended)
            return False
        self.wants_map = self.wants_map or _is_one_map(mixture)
        if mixture is self._fitted:
            self.n_fitted = ended.n_of_shape
        self.earlier = []
        # draws that lack a mode which the search knows have no second opinion to give
        visited = np.unique(owner(mixture.fits, ended.positions))
        if not ended.is_blocked and (visited >= 0).sum() == len(mixture.fits):
            self.second_opinion = [ended.log_z, ended.se]
        ladder.change_mixture(mixture)
        return True

    def _with_earlier(self, ended: Round, in_use: Mixture | None) -> Round:
        """Add the later half of the rounds before: arrivals count, whichever round they are of.

        A round of a mixture stands alone, since it is to correct the weights; not one of maps.
        """
        if in_use is not None and not in_use.has_map:
            return ended
        if in_use is None:
            self.earlier = self.earlier[(len(self.earlier) + 1) // 2 :]
        self.earlier.append([ended.positions, ended.log_target, ended.n_restarts])
        positions, log_target, n_restarts = zip(*self.earlier, strict=True)
        return ended._replace(
            positions=np.concatenate(positions),
            log_target=np.concatenate(log_target),
            n_restarts=sum(n_restarts),
        )

    def _best(self, ladder: Ladder, ended: Round, rng: np.random.Generator) -> Mixture | None:
        """First candidate that is predicted to take less than the Gaussian in use."""
        assert self.first is not None
        # a mode that the Gaussian does not reach is where a map of the search may lead
        if self.n_missed and not self.first.has_map:
            return None
        limit = COARSE if ended.is_blocked else FAIR
        now = predicted_moves(self.gaussian_variance, least_levels=3)
        for mixture in self._candidates(ladder, ended):
            alone = _is_one_map(mixture)
            tested = alone or self.wants_map or ended.is_blocked
            n_fits = self.n_own if mixture is self._fitted else len(mixture.fits)
            tested = tested or ended.n_restarts >= _RESTARTS_PER_FIT * n_fits
            if not tested or uncovered_share(mixture.fits, ended.positions) > MAX_UNCOVERED:
                continue
            variance = self._on_trial(ladder.path.starting_from(mixture), ended, rng)
            # rare passages between modes hide in the mean of many swaps
            within = alone or mixture is self._fitted or variance <= limit
            if within and predicted_moves(variance, n_tuned=ended.n_tuned) < now:
                return mixture
        return None

    def _candidates(self, ladder: Ladder, ended: Round) -> Iterator[Mixture]:
        """Mixtures that may take the place of the Gaussian, the likeliest first."""
        assert self.first is not None
        refined = self._refined(ladder, ended)
        is_covered = uncovered_share(refined.fits, ended.positions) <= MAX_UNCOVERED
        if is_covered:
            # what is left may be a mode that the search lacks, and draws of the mixture would
            refined = self._refined(ladder, ended, covering=True)
        if is_covered and not self.wants_map:
            yield refined
        else:
            yield from self._maps(refined, ended)
            if self.first.has_map:
                yield refined
        if self.orbit is not None and (fitted := self._of_draws(ended)) is not None:
            self._fitted = fitted
            yield fitted

    def _of_draws(self, ended: Round) -> Mixture | None:
        """Mixture fitted to the draws of a round, and what is known beside these."""
        assert self.first is not None
        fitted = mixture_of_draws(self.first, ended.positions, ended.n_of_shape)
        self.n_own = 0 if fitted is None else len(fitted.fits)
        return fitted and with_known(fitted, self.first)

    def _refined(self, ladder: Ladder, ended: Round, *, covering: bool = False) -> Mixture:
        assert self.first is not None
        if covering:
            self.first = with_fit_of_uncovered(self.first, ended.positions)
        return refined_mixture(self.first, ladder.coordinates, ended.positions, ended.n_effective)

    def _maps(self, mixture: Mixture, ended: Round) -> Iterator[Mixture]:
        """One map of all draws, if it covers what is known, or a map for each component."""
        assert self.first is not None
        z = ended.positions
        n = max(n_independent(z), float(min(ended.n_restarts, len(z))))
        if mixture.has_map and n < _DRAWS_TO_REFIT:
            return
        whole = map_of_draws(z, n)
        if whole is not None:
            centres = np.stack([centre(fit) for fit in self.first.fits])
            if max(uncovered_share([whole], some) for some in (z, centres)) <= MAX_UNCOVERED:
                yield replace(mixture, fits=(whole,), weights=np.ones(1))
                return
        if len(mixture.fits) > 1:
            mapped = mixture_of_maps(mixture, ended.coordinates, z)
            if mapped.has_map:
                yield mapped

    def _on_trial(self, path: TemperedPath, ended: Round, rng: np.random.Generator) -> float:
        """V of the reference of a path from a trial of swaps; infinite where a map is no fit."""
        places, component, n_looked = path.draws_and_origins(_TRIAL_DRAWS, rng)
        if not places.size:
            places = rng.standard_normal((_TRIAL_DRAWS, path.dim))
        delta = new_replicas(path.view, places).delta
        self.n_evaluations += _TRIAL_DRAWS + n_looked
        n = len(ended.positions)
        # no more draws of the target than tell as much of V as those of the reference do
        kept = np.linspace(0, n - 1, min(n, 5 * _TRIAL_DRAWS)).astype(np.int64)
        own = log_reference(path, ended.positions[kept])
        # weights are not known before the target has been drawn from, shapes are
        for k, fit in enumerate(() if path.mixture is None else path.mixture.fits):
            of_fit = delta[component == k + 1]
            if isinstance(fit, TransportMap) and of_fit.size and trimmed_variance(of_fit) > FAIR:
                return np.inf
        return quality.variance_of_rejection(swap_rejection(delta, ended.log_target[kept] - own))

    def _seen_enough(self, ended: Round) -> bool:
        """Whether further draws of the Gaussian would hardly bring a mixture."""
        assert self.first is not None
        if self.wants_map:
            return ended.variance <= LADDER or n_independent(ended.positions) >= _DRAWS_TO_MAP
        uncovered = uncovered_share(self.first.fits, ended.positions) > MAX_UNCOVERED
        n_needed = RESTARTS_PER_MODE * (1 if uncovered else len(self.first.fits))
        return ended.n_restarts >= n_needed

    def _keep_or_return(self, ladder: Ladder, ended: Round, rng: np.random.Generator) -> bool:
        """Refine the mixture in use, or return to the Gaussian."""
        assert self.first is not None
        mixture = ladder.mixture
        assert mixture is not None
        if (fitted := self._better_of_draws(ladder, ended, rng)) is not None:
            mixture = fitted
        elif not mixture.has_map and not self.n_fitted:
            mixture = self._refined(ladder, ended, covering=True)
        elif not self.first.has_map:  # maps of the search are from a run that saw more
            mixture = next(self._maps(mixture, ended), mixture)
        self.settled = True
        if self._pays(ladder, mixture, ended, rng):
            ladder.change_mixture(mixture)
            return False
        ladder.change_mixture(None)
        self.n_returns += 1
        self.second_opinion = [np.nan, np.nan]
        self.earlier = []
        # another map may be fitted, but not for ever: each costs the rounds since the last
        if mixture.has_map and self.n_returns <= 2:
            self.settled = False
        else:
            self.first = None
        return True

    def _better_of_draws(
        self, ladder: Ladder, ended: Round, rng: np.random.Generator
    ) -> Mixture | None:
        """Mixture fitted to more draws than the one in use, if that has a lower V."""
        n = ended.n_of_shape
        if self.orbit is None or self.fixed or n <= self.n_fitted:
            return None
        before, fitted = self.n_own, self._of_draws(ended)
        if fitted is not None:
            # by the same draws: swaps of a round of 50 scans may say three times what V is
            paths = ladder.path.starting_from(fitted), ladder.path
            new, present = (self._on_trial(path, ended, rng) for path in paths)
            if new < present:
                self.n_fitted = n
                return fitted
        self.n_own = before
        return None

    def _pays(
        self, ladder: Ladder, mixture: Mixture, ended: Round, rng: np.random.Generator
    ) -> bool:
        """Whether a round from the mixture says that it takes less than the Gaussian would."""
        if self.fixed or len(ended.positions) < _ENOUGH_SCANS:
            return True
        variance = ended.variance
        # of one place no rare passage to another hides in the mean of swaps
        one = mixture.has_map or self.is_alone or self.orbit is not None
        uncovered = 0.0 if one else uncovered_share(mixture.fits, ended.positions)
        poor = variance > COARSE or uncovered > MAX_UNCOVERED
        if poor and np.isnan(self.gaussian_variance):
            self.gaussian_variance = self._on_trial(ladder.path.starting_from(None), ended, rng)
        # a Gaussian to which no swap leads is no way back
        if poor and not one and np.isfinite(self.gaussian_variance):
            return False
        other = np.nan_to_num(self.gaussian_variance, nan=np.inf)
        again = predicted_moves(other, least_levels=3, n_tuned=ended.n_tuned)
        return predicted_moves(variance) <= again


def log_reference(path: TemperedPath, z: FloatArray) -> FloatArray:
    """Log density of a path's Gaussian or mixture at ``z`` of shape (n, D), in nats."""
    if path.mixture is None:
        return path.base.log_density(z)
    return path.mixture.log_density(z, path.coordinates)


def _is_one_map(mixture: Mixture) -> bool:
    """Whether one map is all, so that there is no other mode to miss."""
    return mixture.has_map and len(mixture.fits) == 1
