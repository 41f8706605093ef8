"""Hamiltonian annealed importance sampling as a PyMC step method."""

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.engine.ensembles.annealer import AnnealingRecord, AnnealingSettings
from pymc_tempering.engine.ensembles.annealing_runs import TRANSITIONS
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase, base_id
from pymc_tempering.errors import ScheduleError
from pymc_tempering.options import (
    check_betas,
    check_choice,
    check_flag,
    check_positive,
    check_probability,
    check_unknown,
)
from pymc_tempering.progress import is_diverging
from pymc_tempering.schedule.annealing import ANNEALING_SCHEDULES, knot_sums, schedule_knots
from pymc_tempering.schedule.grid import check_n_levels
from pymc_tempering.steps.annealing_tuner import AnnealingRequested, AnnealingTuner
from pymc_tempering.steps.common import TemperedStep
from pymc_tempering.steps.tuning import PilotStart
from pymc_tempering.types import FloatArray

__all__ = ["HAIS"]

N_KNOTS = 33
"""Levels of the schedule that are recorded; a schedule may have thousands."""


class HAIS(TemperedStep):
    r"""Hamiltonian annealed importance sampling, as draws from the posterior.

    A particle starts from the base and is annealed along
    :math:`0 = \beta_0 < \dots < \beta_N = 1`; transition *k* leaves
    :math:`\pi_k \propto b \exp(\beta_k \delta)` invariant, and the momentum survives from one to
    the next but for a part :math:`\gamma = 1 - 2^{-\epsilon L}` of its power. Its weight

    .. math:: W = \exp \sum_k (\beta_k - \beta_{k-1}) \, \delta(z_{k-1})

    has mean Z exactly. Each scan

    1. anneals a new particle and accepts it against the current one with probability
       :math:`\min(1, W' / W)`;
    2. moves the accepted end point y by a Hamiltonian transition at beta = 1;
    3. draws W afresh by the exact reversal of an annealing run, started from y.

    What ``pm.sample`` records is y: draws from the posterior. The forward weights W' (a stochastic
    lower bound of log Z) and the reverse weights W (an upper bound) are recorded both, and
    :func:`pymc_tempering.estimate_logz` combines them by Bennett's ratio.

    During tuning a short parallel tempering run finds base, schedule and step sizes, and annealing
    runs then adapt step sizes and the number of levels. All of it stops at the end of tuning.

    Parameters
    ----------
    n_levels : int, optional
        Levels of the schedule, base and target included. By default adapted until the gap between
        reverse and forward log weights is about 1.5 nats, where about half of the particles are
        accepted; at most 2000.
    betas : array_like, optional
        A fixed schedule, increasing from 0 to 1.
    schedule : {"barrier", "ess", "linear", "sigmoidal", "geometric"}
        Where levels are put, if `betas` is not given: equal communication barrier between
        neighbours (the default), constant conditional ESS, or a fixed shape.
    scans_per_draw : int
        Particles for each recorded draw, default 4.
    transitions : {"hamiltonian", "fresh_momentum", "random_walk"}
        "fresh_momentum" draws all of the momentum afresh (plain AIS with HMC), "random_walk" is
        Metropolis with Gaussian proposals; both are there to be compared with.
    n_leapfrog : int
        Steps in each transition, default 1: with more levels instead, weights vary less.
    short_steps : bool
        Make one step in five up to 20 times shorter, so that particles enter narrow funnels.
        Default True; costs a fifth of the precision where there is no funnel.
    target_accept : float, optional
        Acceptance rate of the transitions that tuning aims at. Default 0.8, and 0.3 for
        "random_walk".
    vars, base, adapt_base, search, model, rng
        As for :class:`pymc_tempering.ParallelTempering`, but for ``base="mixture"``.

    Raises
    ------
    ModelError, BaseError, ScheduleError, OptionError
        Before any sampling; see :mod:`pymc_tempering.errors`.

    References
    ----------
    .. [1] J. Sohl-Dickstein, B. J. Culpepper (2012). Hamiltonian annealed importance sampling for
       partition function estimation. Redwood technical report.
    .. [2] C. Andrieu, A. Doucet, R. Holenstein (2010). Particle Markov chain Monte Carlo methods.
       JRSS B 72(3).

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_tempering.steps.hais import HAIS
    >>> with pm.Model():
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    ...     idata = pm.sample(100, tune=50, step=HAIS(), chains=2, cores=1, random_seed=1,
    ...                       progressbar=False, quiet=True)
    >>> idata.posterior["x"].shape
    (2, 100)
    """

    name = method = "hais"
    _requested: AnnealingRequested
    _trips = "restarts"

    def __init__(  # noqa: PLR0913 - every option by its name, as of PyMC's own steps
        self,
        vars: Any = None,
        *,
        n_levels: int | None = None,
        betas: Any = None,
        schedule: str = "barrier",
        base: GaussianBase | xr.DataTree | str | None = None,
        adapt_base: bool = True,
        search: str = "default",
        scans_per_draw: int = 4,
        transitions: str = "hamiltonian",
        n_leapfrog: int = 1,
        short_steps: bool = True,
        target_accept: float | None = None,
        model: pm.Model | None = None,
        rng: Any = None,
        **kwargs: Any,
    ) -> None:
        check_unknown(type(self), kwargs)
        if betas is not None and n_levels is not None:
            raise ScheduleError("Both `betas` and `n_levels` were given; leave `n_levels` away.")
        requested = AnnealingRequested.checked(
            scans_per_draw=scans_per_draw,
            adapt_base=adapt_base,
            search=search,
            n_levels=None if n_levels is None else check_n_levels(n_levels),
            betas=None if betas is None else check_betas(betas),
            schedule=check_choice("schedule", schedule, ANNEALING_SCHEDULES),
            annealing=annealing_settings(transitions, n_leapfrog, short_steps, target_accept),
        )
        self._prepare(requested, vars, model, base, rng, level=N_KNOTS)

    def _reset_chain(self) -> None:
        self._tuner: AnnealingTuner | None = None

    def _start_chain(self, point: dict[str, np.ndarray]) -> None:
        base, pooled, modes = self._first_base()
        self._tuner = AnnealingTuner(
            PilotStart(self._path(base), pooled, modes, self._places(modes, point)),
            self._requested,
            n_steps=self._current.n_tune if self.tune else 0,
            widen=self._source.base is None,
            rng=self.rng,
        )

    @density_guard()
    def stop_tuning(self) -> None:
        """Fix base, schedule and step sizes; every later scan is exactly invariant."""
        self.tune = False
        if self._tuner is not None:
            self._tuner.stop(self.rng)

    def _advance(self, point: dict[str, np.ndarray]) -> tuple[FloatArray, dict[str, Any]]:
        if self._tuner is None:
            self._start_chain(point)
        tuner = self._tuner
        assert tuner is not None
        record = tuner.run(self.scans_per_draw, self.rng, adapt=self.tune)
        return tuner.ensemble.target_position, self._statistics(tuner, record)

    def _statistics(self, tuner: AnnealingTuner, record: AnnealingRecord | None) -> dict[str, Any]:
        annealer, values = tuner.annealer, self._recorder.blank()
        counts = tuner.pilot_counts if record is None else record.counts
        diverging = is_diverging(counts["n_target_divergences"], self.scans_per_draw)
        if record is not None and annealer is not None:
            values |= {
                "log_weight_forward": record.log_weight_forward,
                "log_weight_reverse": record.log_weight_reverse,
                "accepted": record.accepted,
                "betas": schedule_knots(annealer.betas, N_KNOTS),
                "step_size": schedule_knots(annealer.scales, N_KNOTS),
                "acceptance_rate": schedule_knots(record.acceptance_rate, N_KNOTS),
                "n_zero_density_at": knot_sums(record.zero_density, N_KNOTS),
                "n_levels": annealer.n_levels,
            }
        return values | {
            "global_barrier": tuner.global_barrier,
            **self._recorder.counted(counts),
            "diverging": diverging,
            "base_id": base_id(tuner.ensemble.base),
            "model_logp": tuner.ensemble.target_log_density,
        }

    def _state(self) -> dict[str, Any] | None:
        return None if self._tuner is None else self._tuner.state()

    def _restore(self, state: dict[str, Any]) -> None:
        self._tuner = AnnealingTuner.from_state(state, self._any_path(), self._requested)


def annealing_settings(
    transitions: str, n_leapfrog: int, short_steps: bool, target_accept: float | None
) -> AnnealingSettings:
    """Check the options of the transitions."""
    kind = TRANSITIONS.index(check_choice("transitions", transitions, TRANSITIONS))
    if target_accept is None:
        target_accept = 0.3 if transitions == "random_walk" else 0.8
    return AnnealingSettings(
        kind=kind,
        n_leapfrog=check_positive("n_leapfrog", n_leapfrog, integer=True),
        short_steps=check_flag("short_steps", short_steps) and transitions != "random_walk",
        target_accept=check_probability("target_accept", target_accept),
        target=Hamiltonian(),
    )
