"""Which reference a chain of parallel tempering starts from: one wide Gaussian or a mixture.

Measured during tuning, and fixed with it. The wide Gaussian is the explorer that is trusted where
several modes are known: it goes first, and the mixture takes over once its overlap with the draws
that the Gaussian brought says that it covers them. It gives way again where its own swaps say that
it does not.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_tempering.engine.ensembles.ladder import Ladder, ScanRecord
from pymc_tempering.engine.ensembles.ladder_like import LadderLike
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.engine.path.tempered import Density, TemperedPath
from pymc_tempering.engine.state import Stateful
from pymc_tempering.references.elbo import evaluate_elbo
from pymc_tempering.references.halo import one_place
from pymc_tempering.references.mixture import (
    first_mixture,
    refined_mixture,
    swap_rejection,
    with_fit_of_strays,
)
from pymc_tempering.results.statistics import N_COMPONENTS
from pymc_tempering.steps.visits import MOST_GRADIENTS, not_visited
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["ReferenceChoice", "Round", "log_reference", "n_to_settle", "settled_rule"]

MAX_REJECTION = 0.5
"""Rejection rate between mixture and target beyond which the Gaussian stays. Mixtures that cover
reject 0.15 to 0.3; rare passages hide in the mean swap rates of one that does not."""

MAX_BARRIER = 0.8
"""Barrier of the mixture's own path beyond which the Gaussian comes back."""

MAX_UNCOVERED = 0.1
"""Share of the target's draws at which the wide component has ten times the density of any local
fit, beyond which a mode has none: few levels would hardly ever lead there."""

_RESTARTS_PER_FIT = 4
"""Arrivals from the Gaussian for each local fit, before the mixture may take over: a mode with a
sixth of the mass is missed by 24 of them once in 80 times."""

_RESTARTS_TO_SETTLE = 10
"""The same, before tuning may stop with the Gaussian."""

_CLEARLY_UNCOVERED = 0.3
"""Share of the draws without a fit at which ten arrivals in all are enough for that."""

MAX_VARIANCE = 0.1
"""Variance of the log weights of a fit's draws, in nats squared and without the lowest 2 %, beyond
which the posterior is not Gaussian enough to start from the fits of one place."""

_CHECKED = 400

_ENOUGH_SCANS = 100
"""Scans of a round below which its barrier says too little to turn back."""

_DRAWS_PER_RESTART = 4
_TRIAL_DRAWS = 200
_MOST_TARGET_DRAWS = 1000
_FIRST_LEVELS = 4


def log_reference(path: TemperedPath, z: FloatArray) -> FloatArray:
    """Log density of a path's Gaussian or mixture at ``z`` of shape (n, D), in nats."""
    if path.mixture is None:
        return path.base.log_density(z)
    return path.mixture.log_density(z, path.coordinates)


def n_to_settle(rule: str, fits: Sequence[GaussianBase]) -> int:
    """Evaluations of the density that :func:`settled_rule` takes."""
    return _CHECKED * len(fits) if rule == "measured" and fits and one_place(fits) else 0


def settled_rule(rule: str, density: Density, fits: Sequence[GaussianBase]) -> str:
    """Rule of a chain, which is the wide Gaussian where fits of one place are of no Gaussian.

    The mixture would be rid of the tails by one chain and not by another, with errors that few
    scans do not show: of 20 runs on ``testing.banana`` 16 covered log Z, and 19 from the Gaussian.

    Parameters
    ----------
    rule : {"gaussian", "mixture", "measured"}
    density : Density
    fits : sequence of GaussianBase
    """
    if not n_to_settle(rule, fits):
        return rule
    # a check and no draw: the same in every chain
    rng = np.random.default_rng(0)
    worst = max(evaluate_elbo(density, fit, rng, _CHECKED).variance for fit in fits)
    return rule if worst <= MAX_VARIANCE else "gaussian"


class Round(NamedTuple):
    """What a round of tuning brought.

    Attributes
    ----------
    coordinates : Coordinates
        Of the round, whose Gaussian has not seen its draws.
    positions : ndarray of shape (n, D)
        At beta = 1.
    log_target : ndarray of shape (n,)
        There, in nats.
    barrier : float
    cost : float
        Variance of log Z times the number of gradients, in nats squared; nan where not known.
    n_restarts : int
    log_z, se : float
        From the round alone, in nats.
    """

    coordinates: Coordinates
    positions: FloatArray
    log_target: FloatArray
    barrier: float
    cost: float
    n_restarts: int
    log_z: float
    se: float


class ReferenceChoice(Stateful):
    """Starts a chain from the Gaussian or the mixture, and moves it to the other.

    Parameters
    ----------
    rule : {"gaussian", "mixture", "measured"}
    fits : sequence of GaussianBase
        The distinct local fits as they are.
    unsure : sequence of GaussianBase
        See :attr:`pymc_tempering.references.prepared.Prepared.unsure`.
    """

    _changing = (
        "rule",
        "first",
        "settled",
        "old_betas",
        "old_cost",
        "n_evaluations",
        "rejection",
        "uncovered",
        "log_z_before",
        "log_z_se_before",
        "unsure",
        "n_missed",
        "earlier",
    )

    def __init__(
        self, rule: str, fits: Sequence[GaussianBase], unsure: Sequence[GaussianBase] = ()
    ) -> None:
        self.unsure, self.n_missed = list(unsure), 0
        # without any fit there is nothing to mix
        self.rule = rule if fits else "gaussian"
        self.first: Mixture | None = None if self.rule == "gaussian" else first_mixture(fits)
        self.settled = self.rule != "measured"
        self.old_betas = np.zeros(0)
        self.old_cost = np.inf
        self.n_evaluations = 0
        self.rejection = self.uncovered = np.nan
        self.log_z_before = self.log_z_se_before = np.nan
        self.earlier: list[list[Any]] = []

    @property
    def mixture_at_start(self) -> Mixture | None:
        """What the chain starts from: one place is all that a wide Gaussian knows, too."""
        if self.rule == "mixture" or (self.first is not None and one_place(self.first.fits)):
            return self.first
        return None

    def statistics(self, ladder: LadderLike, record: ScanRecord) -> dict[str, Any]:
        """Statistics of a draw, by name."""
        arrivals, scans = _stored(record.from_component)
        return {
            "n_components": 0 if ladder.mixture is None else len(ladder.mixture.fits),
            "component_arrivals": arrivals,
            "component_scans": scans,
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
        enough = len(positions) >= _ENOUGH_SCANS and left >= MOST_GRADIENTS * len(self.unsure)
        if self.unsure and enough:
            self.n_missed, n = not_visited(density, positions, self.unsure)
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
        if ladder.mixture is not None or self.settled:
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
        assert self.first is not None
        if ladder.mixture is not None:
            self.first = with_fit_of_strays(self.first, ended.coordinates, ended.positions)
        n_effective = min(len(ended.positions), _DRAWS_PER_RESTART * ended.n_restarts)
        mixture = refined_mixture(self.first, ladder.coordinates, ended.positions, n_effective)
        # one that is fitted to few draws explains them better than any that is not
        self.uncovered = _uncovered_share(mixture, ended.coordinates, ended.positions)
        if ladder.mixture is not None and self._disappoints(ended):
            ladder.change_mixture(None)
            if self.old_betas.size:
                ladder.change_schedule(self.old_betas)
            self.first, self.settled = None, True
            self.log_z_before = self.log_z_se_before = np.nan
            return True
        if ladder.mixture is not None:
            self.settled = True
            ladder.change_mixture(mixture)
            return False
        if self.uncovered > _CLEARLY_UNCOVERED and ended.n_restarts >= _RESTARTS_TO_SETTLE:
            self.settled = True
        per_fit = ended.n_restarts / len(mixture.fits)
        if per_fit < _RESTARTS_PER_FIT:
            return False
        covers = self.uncovered <= MAX_UNCOVERED and not self.n_missed
        if covers:
            self.rejection = self._trial(ladder, mixture, ended, rng)
        if not covers or self.rejection >= min(MAX_REJECTION, ended.barrier):
            self.settled = self.settled or per_fit >= _RESTARTS_TO_SETTLE
            return False
        self.earlier = []
        self.old_betas, self.old_cost = ladder.betas, ended.cost
        self.log_z_before, self.log_z_se_before = ended.log_z, ended.se
        ladder.change_mixture(mixture)
        ladder.change_schedule(np.linspace(0.0, 1.0, min(_FIRST_LEVELS, ladder.n_levels)))
        return True

    def _disappoints(self, ended: Round) -> bool:
        """Whether a round from the mixture says that it does not pay."""
        if self.rule != "measured" or len(ended.positions) < _ENOUGH_SCANS:
            return False
        disappointing = ended.barrier > MAX_BARRIER or ended.cost > self.old_cost
        return bool(disappointing or self.uncovered > MAX_UNCOVERED)

    def _trial(
        self, ladder: Ladder, mixture: Mixture, ended: Round, rng: np.random.Generator
    ) -> float:
        """Rejection rate between draws of the mixture and draws of the target."""
        path = ladder.path.starting_from(mixture)
        draws = new_replicas(path.view, path.draws_beforehand(_TRIAL_DRAWS, rng))
        self.n_evaluations += _TRIAL_DRAWS
        n = len(ended.positions)
        kept = np.linspace(0, n - 1, min(n, _MOST_TARGET_DRAWS)).astype(np.int64)
        own = mixture.log_density(ended.positions[kept], path.coordinates)
        delta = ended.log_target[kept] - own
        return swap_rejection(draws.delta, delta)


def _stored(by_component: IntArray) -> IntArray:
    """Counts of the first components, and of all others together, in the last column."""
    if by_component.shape[1] <= N_COMPONENTS:
        return by_component
    first, others = np.split(by_component, [N_COMPONENTS - 1], axis=1)
    return np.column_stack([first, others.sum(axis=1)])


def _uncovered_share(mixture: Mixture, coordinates: Coordinates, positions: FloatArray) -> float:
    """Share of draws where the defensive component has ten times the density of any local fit.

    Weights do not enter, and a little more is not enough: a light fit about as wide as the
    defensive one covers its draws as well.
    """
    weights = np.concatenate([[mixture.share], (1.0 - mixture.share) * mixture.weights])
    parts = mixture.log_parts(positions, coordinates) - np.log(weights)
    return float((parts[:, 0] > parts[:, 1:].max(axis=1) + np.log(10.0)).mean())
