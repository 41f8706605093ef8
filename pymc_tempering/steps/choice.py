"""Which reference a chain of parallel tempering starts from: one wide Gaussian or a mixture.

Measured during tuning, and fixed with it. The wide Gaussian is the explorer that is trusted where
several modes are known, or one that no Gaussian fits: it goes first, and the mixture, bent where
its fits are to be, takes over once its overlap with the draws that the Gaussian brought says that
it covers them. It gives way again where its own swaps say that it does not.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_tempering.engine.ensembles.ladder import Ladder, ScanRecord
from pymc_tempering.engine.ensembles.ladder_like import LadderLike
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity, Mixture
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.engine.path.transport import TransportMap
from pymc_tempering.engine.state import Stateful
from pymc_tempering.references.independent import n_independent
from pymc_tempering.references.mixture import (
    barrier_of_rejection,
    first_mixture,
    refined_mixture,
    with_fit_of_uncovered,
)
from pymc_tempering.references.quality import FAIR
from pymc_tempering.references.same_mode import hides_one, one_place
from pymc_tempering.results.statistics import N_COMPONENTS
from pymc_tempering.steps.candidates import MAX_UNCOVERED, Candidate, map_candidate
from pymc_tempering.steps.overlap import (
    TRIAL_DRAWS,
    every_fit_visited,
    trial,
    uncovered_share,
)
from pymc_tempering.steps.round import Round
from pymc_tempering.steps.visits import MOST_GRADIENTS, not_visited
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["FIRST_LEVELS", "ReferenceChoice"]

MAX_REJECTION = 0.5
"""Rejection rate between mixture and target beyond which the Gaussian stays. Mixtures that cover
reject 0.15 to 0.3; rare passages hide in the mean swap rates of one that does not."""

MAX_BARRIER = 0.8
"""Barrier of the mixture's own path beyond which the Gaussian comes back."""

MAX_ROUGH_BARRIER = 2.0
"""The same where a bent fit is known to need levels."""

_RESTARTS_PER_FIT = 4
"""Arrivals from the Gaussian for each local fit, before the mixture may take over: a mode with a
sixth of the mass is missed by 24 of them once in 80 times."""

_RESTARTS_TO_SETTLE = 10
"""The same, before tuning may stop with the Gaussian."""

_CLEARLY_UNCOVERED = 0.3
"""Share of the draws without a fit at which ten arrivals in all are enough for that."""

_ENOUGH_SCANS = 100
"""Scans of a round below which its barrier says too little to turn back."""

MAP_BARRIER = 0.5
"""Barrier of a bent fit of the only mode, as a share of the Gaussian's, up to which it takes over.
No rare passage hides in its swap rates: there is no other mode to pass to."""

_ENOUGH_TO_MAP = 200
"""Independent draws after which a fit that does not bend, or not well enough, is given up."""

_LOW_BARRIER = 1.6
"""Barrier of the Gaussian up to which tuning does not go on for a bend: it would cost more than the
levels that it saves."""

_MOST_RETURNS = 2
"""How often a chain may come back to the Gaussian and bend again."""

_DRAWS_PER_RESTART = 4
FIRST_LEVELS = 4
"""Levels with which a path from a mixture begins."""


class ReferenceChoice(Stateful):
    """Starts a chain from the Gaussian or the mixture, and moves it to the other.

    Parameters
    ----------
    rule : {"gaussian", "mixture", "measured", "map"}
    fits : sequence of GaussianBase
        The distinct local fits as they are.
    unsure : sequence of GaussianBase
        See :attr:`pymc_tempering.references.prepared.Prepared.unsure`.
    shapes : sequence of LocalDensity
        What a mixture is made of; by default the fits.
    rough : bool
        Whether these are bent, but so that levels are needed.
    """

    _changing = (
        "max_barrier",
        "rule",
        "first",
        "settled",
        "old_betas",
        "old_cost",
        "old_barrier",
        "n_evaluations",
        "rejection",
        "uncovered",
        "log_z_before",
        "log_z_se_before",
        "poorly_fitted",
        "n_missed",
        "n_returns",
        "earlier",
    )

    def __init__(
        self,
        rule: str,
        fits: Sequence[GaussianBase],
        poorly_fitted: Sequence[GaussianBase] = (),
        shapes: Sequence[LocalDensity] = (),
        *,
        rough: bool = False,
    ) -> None:
        self.max_barrier = MAX_ROUGH_BARRIER if rough else MAX_BARRIER
        self.poorly_fitted, self.n_missed, self.n_returns = list(poorly_fitted), 0, 0
        self.fits, self.shapes = tuple(fits), tuple(shapes or fits)
        # without any fit there is nothing to mix
        self.rule = rule if fits else "gaussian"
        self.first: Mixture | None = None if self.rule == "gaussian" else first_mixture(self.shapes)
        self.settled = self.rule not in ("measured", "map")
        self.old_betas = np.zeros(0)
        self.old_cost, self.old_barrier = np.inf, 0.0
        self.n_evaluations = 0
        self.rejection = self.uncovered = np.nan
        self.log_z_before = self.log_z_se_before = np.nan
        self.earlier: list[list[Any]] = []

    @property
    def mixture_at_start(self) -> Mixture | None:
        """What the chain starts from: one place is all that a wide Gaussian knows, too.

        Between it and modes of which one hides another there is a transition of first order.
        """
        if self.first is None or self.rule == "mixture":
            return self.first
        good = self.first.has_map if self.rule == "map" else self.rule == "measured"
        return self.first if good and (one_place(self.fits) or hides_one(self.fits)) else None

    def statistics(self, ladder: LadderLike, record: ScanRecord) -> dict[str, Any]:
        """Statistics of a draw, by name."""
        arrivals, scans = _stored(record.from_component)
        return {
            "n_components": 0 if ladder.mixture is None else len(ladder.mixture.fits),
            "component_arrivals": arrivals,
            "component_scans": scans,
            "component_excess": _stored(record.component_excess[None])[0],
            "log_z_before": self.log_z_before,
            "log_z_se_before": self.log_z_se_before,
        }

    def counted(self) -> int:
        """Evaluations of the density since this was asked last."""
        n, self.n_evaluations = self.n_evaluations, 0
        return n

    def look(self, density: Density, positions: FloatArray, left: float = np.inf) -> None:
        """Note in how many modes, of those that may hold much, no draw of a round lies.

        Parameters
        ----------
        density : Density
        positions : ndarray of shape (n, D)
        left : float
            Gradients; it is not looked where they might not be enough.
        """
        enough = len(positions) >= _ENOUGH_SCANS and left >= MOST_GRADIENTS * len(
            self.poorly_fitted
        )
        if self.poorly_fitted and enough:
            missed, n = not_visited(density, positions, self.poorly_fitted)
            self.n_missed = sum(missed)
            self.n_evaluations += n

    def together(self, ladder: Ladder, ended: Round) -> Round:
        """Round with the draws and arrivals of those before it, while the Gaussian goes first.

        Arrivals say whether a mode was missed, whichever round they are of. From a mixture, whose
        weights a round is to correct, each round is seen alone.

        Parameters
        ----------
        ladder : Ladder
        ended : Round
        """
        if self.rule == "map":
            # shapes need many draws, and those of one place need no weights
            half = (len(self.earlier) + 1) // 2 if ladder.mixture is None else 0
            self.earlier = self.earlier[half:]
        elif ladder.mixture is not None or self.settled:
            return ended
        self.earlier.append([ended.positions, ended.log_target, ended.n_restarts])
        positions, log_target, n_restarts = zip(*self.earlier, strict=True)
        return ended._replace(
            positions=np.concatenate(positions),
            log_target=np.concatenate(log_target),
            n_restarts=sum(n_restarts),
        )

    def end_of_round(self, ladder: Ladder, ended: Round, rng: np.random.Generator) -> bool:
        """Refine the mixture from a round's draws, and change the reference where it pays.

        Returns whether the reference is another.

        Parameters
        ----------
        ladder : Ladder
        ended : Round
        rng : numpy.random.Generator
        """
        candidate = self._candidate(ladder, ended)
        self.uncovered = candidate.uncovered
        if ladder.mixture is not None:
            return self._keep_or_leave(ladder, candidate, ended)
        per_fit = ended.n_restarts / len(candidate.mixture.fits)
        # a path that lets nothing through says nothing of the modes, ever
        blocked = ended.is_blocked
        enough = candidate.is_whole or per_fit >= _RESTARTS_PER_FIT or blocked
        if self.rule == "map":
            # enough draws to have shown a bend, or too few levels to be worth one
            tried = n_independent(ended.positions) >= _ENOUGH_TO_MAP
            self.settled = self.settled or tried or ended.barrier <= _LOW_BARRIER
            enough = candidate.mixture.has_map
        elif self.uncovered > _CLEARLY_UNCOVERED and ended.n_restarts >= _RESTARTS_TO_SETTLE:
            self.settled = True
        if not enough:
            return False
        # a mode that the Gaussian does not reach is where a shape that was bent there may lead
        missed = self.n_missed > 0 and not self._knows_maps
        covers = self.uncovered <= MAX_UNCOVERED and not missed
        if covers:
            found = trial(ladder, candidate.mixture, ended.positions, ended.log_target, rng)
            self.rejection = found.rejection
            covers = found.variance <= FAIR
            self.n_evaluations += TRIAL_DRAWS
        if not covers or not self._promises(candidate, ended):
            self.settled = self.settled or per_fit >= _RESTARTS_TO_SETTLE
            return False
        if candidate.is_whole:
            self.rule = "map"
        self.earlier = []
        self.old_betas, self.old_cost, self.old_barrier = ladder.betas, ended.cost, ended.barrier
        # draws that lack a mode which the search knows have no second opinion to give
        visited = every_fit_visited(candidate.mixture, ended.coordinates, ended.positions)
        if visited and not blocked:
            self.log_z_before, self.log_z_se_before = ended.log_z, ended.se
        ladder.change_mixture(candidate.mixture)
        ladder.change_schedule(np.linspace(0.0, 1.0, min(FIRST_LEVELS, ladder.n_levels)))
        return True

    @property
    def _knows_maps(self) -> bool:
        """Whether fits were bent before any chain."""
        return any(isinstance(shape, TransportMap) for shape in self.shapes)

    def _candidate(self, ladder: Ladder, ended: Round) -> Candidate:
        """Mixture as a round's draws would have it."""
        assert self.first is not None
        in_use, coordinates, positions = ladder.mixture, ended.coordinates, ended.positions
        if in_use is not None and in_use.has_map:
            kept = Candidate(in_use, uncovered_share(in_use, coordinates, positions))
            if self._knows_maps:
                # from a run of its own, which saw more than a chain that is stuck in a neck
                return kept
            mapped = map_candidate(in_use, self.shapes, coordinates, positions, ended.n_restarts)
            return mapped or kept
        if in_use is not None:
            self.first = with_fit_of_uncovered(self.first, coordinates, positions)
        gaussian_fit = self._straight(ladder, ended)
        if in_use is None and gaussian_fit.uncovered <= MAX_UNCOVERED:
            # what is left over may be a mode that the search lacks, and draws of the mixture would
            self.first = with_fit_of_uncovered(self.first, coordinates, positions)
            gaussian_fit = self._straight(ladder, ended)
        if in_use is None and (self.rule == "map" or gaussian_fit.uncovered > MAX_UNCOVERED):
            mapped = map_candidate(
                gaussian_fit.mixture, self.shapes, coordinates, positions, ended.n_restarts
            )
            return mapped or gaussian_fit
        return gaussian_fit

    def _straight(self, ladder: Ladder, ended: Round) -> Candidate:
        """Mixture of the fits as they are, with weights and widths from a round's draws."""
        assert self.first is not None
        n_effective = min(len(ended.positions), _DRAWS_PER_RESTART * ended.n_restarts)
        mixture = refined_mixture(self.first, ladder.coordinates, ended.positions, n_effective)
        # one that is fitted to few draws explains them better than any that is not
        return Candidate(mixture, uncovered_share(mixture, ended.coordinates, ended.positions))

    def _promises(self, candidate: Candidate, ended: Round) -> bool:
        """Whether the last trial says that the mixture pays."""
        if self.rejection < min(MAX_REJECTION, ended.barrier):
            return True
        barrier = barrier_of_rejection(self.rejection)
        # where the draws are of one mode, weights may be all that is wrong with it
        if ended.is_blocked and barrier <= MAX_BARRIER:
            return True
        return candidate.is_whole and barrier <= MAP_BARRIER * ended.barrier

    def _keep_or_leave(self, ladder: Ladder, candidate: Candidate, ended: Round) -> bool:
        """Refine the mixture in use, or return to the Gaussian."""
        self.settled = True
        if not self._disappoints(ended, has_map=candidate.mixture.has_map):
            ladder.change_mixture(candidate.mixture)
            return False
        ladder.change_mixture(None)
        if self.old_betas.size:
            ladder.change_schedule(self.old_betas)
        self.n_returns += 1
        if candidate.mixture.has_map and self.n_returns <= _MOST_RETURNS:
            self.earlier, self.settled = [], False
        else:
            self.first = None
        self.log_z_before = self.log_z_se_before = np.nan
        return True

    def _disappoints(self, ended: Round, *, has_map: bool) -> bool:
        """Whether a round from the mixture says that it does not pay."""
        if self.rule == "mixture" or len(ended.positions) < _ENOUGH_SCANS:
            return False
        if has_map:
            # costs and tails of so few draws, out of the Gaussian or in it, say less than swaps
            return ended.barrier > max(self.max_barrier, MAP_BARRIER * self.old_barrier)
        # nor do they of a Gaussian that has not seen all modes, where swaps say that this is better
        dear = ended.cost > self.old_cost and ended.barrier > MAP_BARRIER * self.old_barrier
        disappointing = ended.barrier > MAX_BARRIER or dear
        return bool(disappointing or self.uncovered > MAX_UNCOVERED)


def _stored[Kind: (IntArray, FloatArray)](by_component: Kind) -> Kind:
    """Sums of the first components, and of all others together, in the last column."""
    if by_component.shape[1] <= N_COMPONENTS:
        return by_component
    first, others = np.split(by_component, [N_COMPONENTS - 1], axis=1)
    return np.column_stack([first, others.sum(axis=1)])
