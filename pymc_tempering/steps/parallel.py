"""Parallel tempering as a PyMC step method."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.ensembles.swap import SWAP_SCHEMES
from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.options import check_choice, check_unknown
from pymc_tempering.references.fit import match_moments
from pymc_tempering.references.local_runs import DEEP
from pymc_tempering.references.posterior import PosteriorDraws
from pymc_tempering.schedule.grid import check_levels, make_schedule
from pymc_tempering.steps.arguments import Requested, explorer_settings
from pymc_tempering.steps.budget import MOST_SCANS, ScanPlan
from pymc_tempering.steps.common import TemperedStep
from pymc_tempering.steps.compound_ladder import AnyLadder
from pymc_tempering.steps.ladder_run import LadderRun
from pymc_tempering.steps.reference import ReferenceChoice
from pymc_tempering.steps.tuning import FIRST_LEVELS, MIXTURE_LEVELS, Tuner, overdisperse
from pymc_tempering.types import FloatArray

_DEFAULT, _LOCAL = Hamiltonian(), Gist()
"""How replicas move where nobody says, and where there are funnels; asked for by every draw."""


@dataclass(frozen=True, kw_only=True)
class LadderRequested(Requested):
    """What the user asked of a ladder.

    ``betas`` is a schedule that is kept, ``swap_scheme`` a position in `SWAP_SCHEMES`. The number
    of scans follows from tuning if it ``adapts_scans``; if it ``keeps_mixture``, chains have to
    start from one of the local fits.
    """

    n_levels: int
    betas: FloatArray | None
    swap_scheme: int
    adapts_scans: bool
    keeps_mixture: bool


class ParallelTempering(TemperedStep):
    r"""Non-reversible parallel tempering with Hamiltonian moves.

    Replicas at inverse temperatures :math:`0 = \beta_0 < \dots < \beta_N = 1` have the densities

    .. math:: \log \pi_k(z) = \log b(z) + \beta_k \, \delta(z) - \log z(\beta_k), \qquad
              \delta = \log \pi - \log b

    between a Gaussian base *b* and the posterior. Each scan moves every replica (an independent
    draw at beta = 0, Hamiltonian moves elsewhere) and then proposes to exchange neighbours, even
    pairs on even scans and odd pairs on odd ones (DEO; Syed et al. 2021, algorithm 1). What
    ``pm.sample`` records is the replica at beta = 1: ordinary draws from the posterior. The
    recorded ``delta`` of all replicas give the log marginal likelihood, without new sampling:
    :func:`pymc_tempering.estimate_logz`.

    During tuning, rounds of doubling length adapt base, number of levels, schedule and step sizes.
    All of it stops at the end of tuning, after which every scan leaves the target exactly
    invariant.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model, the default; anything less is refused.
    n_levels : int, optional
        Upper bound on the number of levels, base and target included. The number in use follows
        the barrier, about ``2 Lambda + 1``; statistics of unused levels are nan. Default 24: room
        for a barrier of 11.
    betas : array_like, optional
        A fixed schedule, increasing from 0 to 1; it is then not adapted.
    base : GaussianBase, GivenReference, DataTree, "prior", "gaussian" or "mixture", optional
        Where the path starts: a Gaussian, as of :func:`pymc_tempering.fit_base`; a density of your
        own (:mod:`pymc_tempering.references.own`); the Gaussian of the posterior draws of an
        earlier run; "prior", so that `delta` is the log likelihood. "gaussian": fits of all
        modes that ascents from many starts led to, and one wide Gaussian with the moments
        of all. "mixture": those fits as they are, with a t of the wide one's scales at a weight of
        0.15. By default tuning decides between the two.
    adapt_base : bool
        Refine the base from draws at beta = 1 during tuning. Default True.
    search : {"default", "thorough", "none"}
        How far to search for modes before the run: with 50,000 gradients for all chains (15,000 at
        most while one mode matters), with 500,000, or from the initial point alone.
    scans_per_draw : int
        Scans for each recorded draw. By default tuning finds how many an error of log Z of 0.04
        nats takes in each chain, 0.02 in four, between 4 and 50; where that is more than 10,000
        gradients, of up to 0.1, 0.05 in four, by their fourth root. Scans not run are nan in
        `delta`.
    explorer : {"hamiltonian", "slice", "gist"} or ExplorerSettings, optional
        How a replica moves, default "hamiltonian", or "slice" for models without a gradient, or
        "gist", with steps around the local scale, where short runs before the chains find funnels
        (`pymc_tempering.references.local_runs`, `pymc_tempering.engine.explorers`).
    target_accept : float
        Acceptance rate of the Hamiltonian moves that tuning aims at, default 0.8.
    trajectory_length : float
        Longest simulated time of a move, in base coordinates, where a quarter of an orbit is pi/2.
        Default 1.5.
    max_steps : int
        Largest number of gradient evaluations of a move, default 64.
    swap_scheme : {"deo", "seo", "sweep", "alternating_sweep"}
        Default "deo"; the others are there to be compared with.
    model : pymc.Model, optional
        Default: the model of the context.
    rng : optional
        Seed or generator; ``pm.sample`` replaces it for every chain.

    Raises
    ------
    ModelError, BaseError, ScheduleError, OptionError
        Before any sampling; see :mod:`pymc_tempering.errors`.

    References
    ----------
    .. [1] S. Syed, A. Bouchard-Côté, G. Deligiannidis, A. Doucet (2021). Non-reversible parallel
       tempering: a scalable highly parallel MCMC scheme. JRSS B 84(2).

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> with pm.Model():
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    ...     step = pm_temper.ParallelTempering(scans_per_draw=8)
    ...     idata = pm.sample(100, tune=50, step=step, chains=2, cores=1, random_seed=1,
    ...                       progressbar=False, quiet=True)
    >>> idata.posterior["x"].shape
    (2, 100)
    """

    name = "parallel_tempering"
    method = "pt"
    default_tune_steps = 130
    _requested: LadderRequested
    _looks_in_tuning = True  # to choose by what it sees

    def __init__(  # noqa: PLR0913 - every option by its name, as of PyMC's own steps
        self,
        vars: Any = None,
        *,
        n_levels: int | None = None,
        betas: Any = None,
        base: GaussianBase | xr.DataTree | str | None = None,
        adapt_base: bool = True,
        search: str = "default",
        scans_per_draw: int | None = None,
        explorer: str | ExplorerSettings | None = None,
        target_accept: float = 0.8,
        trajectory_length: float = 1.5,
        max_steps: int = 64,
        swap_scheme: str = "deo",
        model: pm.Model | None = None,
        rng: Any = None,
        **kwargs: Any,
    ) -> None:
        check_unknown(type(self), kwargs)
        most, fixed = check_levels(n_levels, betas, 24)
        check_choice("swap_scheme", swap_scheme, SWAP_SCHEMES)
        keeps_mixture = isinstance(base, str) and base == "mixture"
        if isinstance(base, PosteriorDraws):
            self.known_draws, base = base, None
        requested = LadderRequested(
            scans_per_draw=MOST_SCANS if scans_per_draw is None else scans_per_draw,
            adapt_base=adapt_base, search=search,
            **explorer_settings(explorer, target_accept, trajectory_length, max_steps),
            n_levels=most, betas=fixed, swap_scheme=SWAP_SCHEMES.index(swap_scheme),
            adapts_scans=scans_per_draw is None,
            uses_fits=keeps_mixture or (base is None and adapt_base and fixed is None),
            keeps_mixture=keeps_mixture,
        )  # fmt: skip
        self.chain_error: float | None = None
        base = None if keeps_mixture else base
        self._prepare(requested, vars, model, base, rng, level=most, pair=most - 1)

    @property
    def n_levels(self) -> int:
        """Levels at most."""
        return self._requested.n_levels

    def _reset_chain(self) -> None:
        self._run: LadderRun | None = None
        self._funnel_depth = 0.0  # of the chain under way

    @property
    def adapts_scans(self) -> bool:
        """Whether the number of scans of a draw follows from tuning."""
        return self._requested.adapts_scans

    @property
    def _chain_settings(self) -> ExplorerSettings:
        """How replicas of the chain under way move: by local step sizes where funnels were met."""
        settings = self._source.explorer
        by_default = not self._requested.is_fixed and settings == _DEFAULT
        return _LOCAL if by_default and self._funnel_depth >= DEEP else settings

    def _start_chain(self, point: dict[str, np.ndarray]) -> LadderRun:
        known = self._known()
        pooled, modes = known.pooled, known.modes
        base = self._source.base or pooled
        distance = np.linalg.norm(base.to_base(modes), axis=1)
        # a base that may not adapt does not lead to modes as many standard deviations away
        out_of_reach = int((distance > max(5.0, np.sqrt(self.dim) + 2.0)).sum())
        n_levels = FIRST_LEVELS
        if self._source.base is None:
            base = overdisperse(base, len(modes))
            n_levels = FIRST_LEVELS if len(modes) > 1 else FIRST_LEVELS // 2
        elif self._requested.adapt_base and out_of_reach:
            # draws of a run that was stuck in one mode: start from what both know
            base = overdisperse(match_moments([base, pooled], np.zeros(2)), len(modes) + 1)
        self._funnel_depth = known.search.funnel_depth
        path, choice = self._path(base), ReferenceChoice(
            known, uses_fits=self._requested.uses_fits, fixed=self._requested.keeps_mixture,
            drawn_from=self.known_draws is not None,
        )  # fmt: skip
        if choice.at_start is not None:
            path, n_levels = path.starting_from(choice.at_start), MIXTURE_LEVELS
        betas = self._requested.betas
        if betas is None:
            betas = make_schedule("geometric", min(n_levels, self.n_levels))
        # where the user names no place, the best mode is at beta = 1
        ladder = self._new_ladder(path, betas, self._places(modes[::-1], point))
        n_steps = self._current.n_tune if self.tune else 0
        # copies are modes to get to, but alike
        n_modes = len(modes) if choice.orbit is None else max(len(modes), 2)
        tuner = Tuner(
            ladder, n_steps, pooled if self.searches else None, n_modes, choice,
            max_levels=self.n_levels, adapts_schedule=self._requested.betas is None,
            adapts_base=self._requested.adapt_base,
        )  # fmt: skip
        if self._source.base is None or self._requested.adapt_base:
            out_of_reach = 0
        self._run = LadderRun(tuner, out_of_reach)
        return self._run

    def stop_tuning(self) -> None:
        """Fix base, schedule and step sizes; every later scan is exactly invariant."""
        self.tune = False
        if self._run is not None:
            self._run.ladder.stop_adaptation()
            self._run.tuner.blocks = []
            self._run = LadderRun(self._run.tuner, self._run.n_unreached_modes)
            self._settle(self._run)

    def _settle(self, run: LadderRun) -> None:
        tuner = run.tuner
        variance = tuner.scan_variance if tuner.finished else np.nan
        run.n_scans_requested, run.n_scans = self._scans.settled(
            variance, tuner.scan_cost, run.ladder.n_levels, run.choice.n_evaluations
        )

    @property
    def _scans(self) -> ScanPlan:
        return ScanPlan(
            self.scans_per_draw, self.adapts_scans, self.chain_error, self._current.n_draws,
            self._current.account,
            self.density.n_each * self._chain_settings.most_evaluations(self.dim),
        )  # fmt: skip

    @property
    def least_share(self) -> int:
        """Gradients that a chain cannot do without."""
        return self._scans.least_share(self.n_levels)

    def _scans_of_next(self, run: LadderRun) -> int:
        n_levels = run.ladder.n_levels
        if not self.tune:
            if not run.n_scans:  # without any tuning
                self._settle(run)
            return self._scans.of_draw(run.n_draws, run.n_scans, n_levels)
        # the last round was of the ladder as it is now, and no estimate takes draws of tuning
        return 0 if run.tuner.finished else self._scans.of_tuning(n_levels, self.n_levels)

    def _advance(self, point: dict[str, np.ndarray]) -> tuple[FloatArray, dict[str, Any]]:
        run = self._run or self._start_chain(point)
        adapt = self.tune and not run.tuner.finished
        n_scans = self._scans_of_next(run)
        if not n_scans:
            return self._idle(point, self.density.n_each * run.choice.counted())
        record = run.ladder.run(
            n_scans, self.rng, adapt=adapt, keep_positions=adapt and run.tuner.base_may_change
        )
        record.counts["n_gradients"] += self.density.n_each * run.choice.counted()
        # of few scans one divergence in a draw is no tenth of its trajectories
        n_scans = max(n_scans, 10) if self.adapts_scans else n_scans
        statistics = run.statistics(record) | self._of_ensemble(run.ladder, record.counts, n_scans)
        self._current.visits.n_missed = run.n_unreached_modes + run.choice.n_missed
        target = run.ladder.target_position
        if adapt:
            left = self._current.account.left_to_tune - record.counts["n_gradients"]
            run.tuner.update(record, self.rng, left=left)
        self._charge_off_record(run.ladder)
        if (orbit := run.choice.orbit) is not None:
            target = orbit.shuffled(target[None], self.rng)[0]
        return target, statistics

    def _state(self) -> dict[str, Any] | None:
        if self._run is None:
            return None
        return self._run.state() | {"funnel_depth": self._funnel_depth}

    def _restore(self, state: dict[str, Any]) -> None:
        self._funnel_depth = state["funnel_depth"]
        ladder = self._restored_ladder(state["tuner"]["ladder"])
        tuner = Tuner.resumed(state["tuner"], ladder)
        self._run = LadderRun.restored(state, tuner=tuner)

    def _new_ladder(self, path: TemperedPath, betas: FloatArray, places: FloatArray) -> AnyLadder:
        return Ladder(
            path, betas, places, self.rng, settings=self._chain_settings,
            swap_scheme=self._requested.swap_scheme,
        )  # fmt: skip

    def _restored_ladder(self, state: dict[str, Any]) -> AnyLadder:
        return Ladder.restored(
            state,
            path=self._any_path(),
            settings=self._chain_settings,
            swap_scheme=self._requested.swap_scheme,
        )
