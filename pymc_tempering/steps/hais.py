"""Hamiltonian annealed importance sampling as a PyMC step method."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.engine.ensembles.annealer import Annealer, AnnealingRecord, AnnealingSettings
from pymc_tempering.engine.ensembles.annealing_runs import TRANSITIONS
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.state import from_plain, to_plain
from pymc_tempering.errors import ScheduleError
from pymc_tempering.options import (
    check_betas,
    check_choice,
    check_flag,
    check_probability,
    check_unknown,
    check_whole,
)
from pymc_tempering.schedule.annealing import (
    ANNEALING_SCHEDULES,
    annealing_schedule,
    knot_sums,
    n_levels_for_gap,
    schedule_knots,
)
from pymc_tempering.schedule.grid import check_n_levels, make_schedule
from pymc_tempering.steps.arguments import Requested
from pymc_tempering.steps.common import TemperedStep
from pymc_tempering.steps.compound_ladder import AnyLadder
from pymc_tempering.steps.tuning import (
    Tuner,
    overdisperse,
    read_pilot,
    resumed_pilot,
    round_lengths,
    start_pilot,
)
from pymc_tempering.types import FloatArray

N_KNOTS = 33
"""Levels of the schedule that are recorded; a schedule may have thousands."""

PILOT_SCANS = 16
"""Scans of a pilot's block, about the work of one draw of annealing."""


@dataclass(frozen=True, kw_only=True)
class AnnealingRequested(Requested):
    """What the user asked of annealing.

    ``n_levels`` is None where it adapts, ``betas`` is a schedule that is kept; ``schedule`` is as
    for :func:`pymc_tempering.schedule.annealing.annealing_schedule`.
    """

    n_levels: int | None
    betas: FloatArray | None
    schedule: str
    annealing: AnnealingSettings


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
        if target_accept is None:
            target_accept = 0.3 if transitions == "random_walk" else 0.8
        annealing = AnnealingSettings(
            kind=TRANSITIONS.index(check_choice("transitions", transitions, TRANSITIONS)),
            n_leapfrog=check_whole("n_leapfrog", n_leapfrog, 1),
            short_steps=check_flag("short_steps", short_steps) and transitions != "random_walk",
            target_accept=check_probability("target_accept", target_accept),
            target=Hamiltonian(),
        )
        requested = AnnealingRequested(
            scans_per_draw=scans_per_draw, adapt_base=adapt_base, search=search,
            explorer=Hamiltonian(), is_fixed=True,
            uses_fits=base is None and adapt_base and betas is None,
            n_levels=None if n_levels is None else check_n_levels(n_levels),
            betas=None if betas is None else check_betas(betas),
            schedule=check_choice("schedule", schedule, ANNEALING_SCHEDULES), annealing=annealing,
        )  # fmt: skip
        self._prepare(requested, vars, model, base, rng, level=N_KNOTS)

    def _reset_chain(self) -> None:
        self._pilot: Tuner | None = None
        self._annealer: Annealer | None = None  # None while the pilot runs
        self._lengths = np.zeros(0, dtype=np.int64)  # of the rounds of annealing runs
        self._round = 0
        self._gaps: list[FloatArray] = []  # log weights of the round, of both directions
        # betas, rejection rates and delta of the pilot's last round
        self._knots = (np.array([0.0, 1.0]), np.ones(1), np.zeros((1, 2)))

    def _start_chain(self, point: dict[str, np.ndarray]) -> None:
        known, base = self._known(), self._source.base
        path = self._path(base or known.pooled)
        if base is None:  # one that was fitted leaves out modes
            path = path.moved(overdisperse(path.base, len(known.modes)))
        n_steps = self._current.n_tune if self.tune else 0
        n_pilot = int(np.ceil(0.6 * n_steps))
        self._lengths = round_lengths(n_steps - n_pilot)[-4:]
        self._pilot = start_pilot(
            path, known, self._places(known.modes, point), self.rng, n_steps=n_pilot,
            adapt_base=self._requested.adapt_base, settings=Hamiltonian(),
            uses_fits=self._requested.uses_fits,
        )  # fmt: skip
        if n_steps == 0:
            self._anneal_untuned(self._pilot)

    def _end_pilot(self, pilot: Tuner) -> None:
        result = read_pilot(pilot)
        self._knots = result.betas, result.rejection_rates, pilot.delta
        betas = self._schedule(self._requested.n_levels or 64)
        self._annealer = Annealer(
            result.path, betas, result.step_sizes_at(betas), self._requested.annealing,
            result.step_sizes[-1],
        )  # fmt: skip
        self._annealer.place(result.positions[-1], self.rng)

    def _schedule(self, n_levels: int) -> FloatArray:
        if self._requested.betas is not None:
            return self._requested.betas
        return annealing_schedule(self._requested.schedule, n_levels, *self._knots)

    def _anneal_untuned(self, pilot: Tuner) -> None:
        ladder, asked, betas = pilot.ladder, self._requested, self._requested.betas
        if betas is None:
            kind = "geometric" if asked.schedule in ("barrier", "ess") else asked.schedule
            betas = make_schedule(kind, asked.n_levels or 128)
        assert isinstance(ladder, Ladder)
        self._annealer = Annealer(ladder.path, betas, np.full(betas.size, 0.2), asked.annealing)
        self._annealer.place(ladder.target_position, self.rng)

    @density_guard()
    def stop_tuning(self) -> None:
        """Fix base, schedule and step sizes; every later scan is exactly invariant."""
        self.tune = False
        pilot = self._pilot
        if self._annealer is None and pilot is not None:
            if pilot.blocks:
                self._end_pilot(pilot)
            else:
                self._anneal_untuned(pilot)
        if self._annealer is not None:
            self._annealer.stop_adaptation()
            self._annealer.redraw_weight(self.rng)
            self._round = len(self._lengths)

    def _advance(self, point: dict[str, np.ndarray]) -> tuple[FloatArray, dict[str, Any]]:
        if self._pilot is None and self._annealer is None:
            self._start_chain(point)
        values, annealer, pilot = self._recorder.blank(), self._annealer, self._pilot
        if annealer is None:
            assert pilot is not None
            counts = pilot.run(PILOT_SCANS, self.rng).counts
            counts["n_gradients"] += self.density.n_each * pilot.choice_counted()
            if pilot.finished:
                self._end_pilot(pilot)
            moved: Annealer | AnyLadder = self._annealer or pilot.ladder
        else:
            moved = annealer
            adapt = self.tune and self._round < len(self._lengths)
            record = annealer.run(self.scans_per_draw, self.rng, adapt=adapt)
            counts = record.counts
            if adapt:
                self._update(annealer, record)
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
        _, rejection_rates, deltas = self._knots
        return moved.target_position, values | {
            "global_barrier": rejection_rates.sum() if len(deltas) > 1 else np.nan,
            **self._of_ensemble(moved, counts, self.scans_per_draw),
        }

    def _update(self, annealer: Annealer, record: AnnealingRecord) -> None:
        """Adapt the number of levels at the end of a round, but of the last one."""
        self._gaps.append(np.stack([record.log_weight_forward, record.log_weight_reverse]))
        if len(self._gaps) < self._lengths[self._round]:
            return
        annealer.stop_adaptation()
        is_free = self._requested.betas is None and self._requested.n_levels is None
        if is_free and self._round < len(self._lengths) - 1:
            forward, reverse = np.concatenate(self._gaps, axis=1)
            forward = forward[np.isfinite(forward)]
            gap = np.median(reverse) - np.median(forward) if forward.size else np.inf
            # nats between reverse and forward log weights: where they have a variance V, acceptance
            # per level, V * 2 * Phi(-sqrt(V / 2)), is largest near V = 2.5, and the variance of the
            # mean weight per level, (exp(V) - 1) / V, favours small ones
            n_levels = n_levels_for_gap(annealer.n_levels, gap, 1.5, least=16, most=2000)
            annealer.change_schedule(self._schedule(n_levels))
        annealer.redraw_weight(self.rng)
        self._round, self._gaps = self._round + 1, []

    def _state(self) -> dict[str, Any] | None:
        if self._pilot is None and self._annealer is None:
            return None
        return to_plain({
            "rounds": [self._lengths, self._round, self._gaps, self._knots],
            "pilot": self._pilot if self._annealer is None else None,
            "annealer": self._annealer,
        })  # fmt: skip

    def _restore(self, state: dict[str, Any]) -> None:
        self._lengths, self._round, self._gaps, self._knots = from_plain(state["rounds"])
        asked, path = self._requested, self._any_path()
        if state["annealer"] is not None:
            self._annealer = Annealer.restored(
                state["annealer"], path=path, settings=asked.annealing
            )
        else:
            self._pilot = resumed_pilot(state["pilot"], path, Hamiltonian())
