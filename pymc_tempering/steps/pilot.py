"""A short run of parallel tempering, from which methods with one tempered replica start.

It finds the modes, refines the base, and gives step sizes, barrier and log z(beta) at once. A
single replica would have to learn each of these from the others.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.schedule.adapt import cumulative_barrier, equal_barrier_schedule
from pymc_tempering.schedule.grid import make_schedule
from pymc_tempering.steps.tuning import FIRST_LEVELS, Tuner, TunerSettings
from pymc_tempering.types import FloatArray

__all__ = ["MAX_LEVELS", "PilotResult", "PilotStart", "read_pilot", "resumed_pilot", "start_pilot"]

MAX_LEVELS = 32
"""Levels that a pilot comes to at most: room for a barrier of 15."""


class PilotStart(NamedTuple):
    """What a pilot starts from.

    ``pooled`` are the combined local fits, ``modes`` (n, D) their means, ``places`` (m, D) where
    replicas start: the modes, and a start that the user gave.
    """

    path: TemperedPath
    pooled: GaussianBase
    modes: FloatArray
    places: FloatArray


class PilotResult(NamedTuple):
    """What the last round says.

    The path in its coordinates; at its levels ``betas`` and ``log_z`` (n_levels,), in nats relative
    to the base, with swap ``rejection_rates`` between; tuned ``step_sizes`` at ``step_betas``,
    without the base, which needs none; ``positions`` ``z`` (n_levels, D) on the final schedule.
    """

    path: TemperedPath
    betas: FloatArray
    rejection_rates: FloatArray
    log_z: FloatArray
    step_betas: FloatArray
    step_sizes: FloatArray
    positions: FloatArray

    def equal_barrier(self, n_levels: int) -> tuple[FloatArray, FloatArray]:
        """Inverse temperatures at equal barrier, and log z there, both of shape (n_levels,)."""
        rates = np.maximum(self.rejection_rates, 1e-3)  # or neighbours would coincide
        barrier = cumulative_barrier(rates)
        betas = equal_barrier_schedule(self.betas, rates, n_levels)
        # log z is steep in beta near a wide base, but not in units of barrier
        log_z = PchipInterpolator(barrier, self.log_z)(np.linspace(0.0, barrier[-1], n_levels))
        return betas, np.asarray(log_z)

    def step_sizes_at(self, betas: FloatArray) -> FloatArray:
        """Step sizes at other inverse temperatures, of their shape."""
        return np.exp(np.interp(betas, self.step_betas, np.log(self.step_sizes)))


def start_pilot(
    start: PilotStart,
    *,
    betas: FloatArray | None,
    adapt_base: bool,
    n_steps: int,
    settings: ExplorerSettings,
    rng: np.random.Generator,
) -> Tuner:
    """Ladder of a pilot and its tuner, for so many blocks of scans; `betas`, if given, are kept."""
    first = make_schedule("geometric", FIRST_LEVELS) if betas is None else betas
    ladder = Ladder(start.path, first, start.places, rng, settings=settings)
    limits = TunerSettings(max(MAX_LEVELS, first.size), betas is None, adapt_base)
    return Tuner(ladder, limits, n_steps, start.pooled, len(start.modes))


def resumed_pilot(
    state: dict[str, Any],
    path: TemperedPath,
    *,
    adapt_schedule: bool,
    adapt_base: bool,
    settings: ExplorerSettings,
) -> Tuner:
    """Rebuild a pilot from its state; ``path`` may be in any coordinates."""
    ladder = Ladder.restored(state["ladder"], path=path, settings=settings, swap_scheme=0)
    limits = TunerSettings(max(MAX_LEVELS, ladder.n_levels), adapt_schedule, adapt_base)
    return Tuner.resumed(state, ladder, limits)


def read_pilot(pilot: Tuner) -> PilotResult:
    """What the round under way says, or the last one."""
    ladder, betas = pilot.ladder, pilot.blocks[0]["betas"]
    assert isinstance(ladder, Ladder)
    ladder.stop_adaptation()
    return PilotResult(
        path=ladder.path,
        betas=betas,
        rejection_rates=pilot.rejection_rates,
        log_z=_ladder_log_z(pilot.delta, betas),
        step_betas=ladder.betas[1:].copy(),
        step_sizes=ladder.scales[1:].copy(),
        positions=ladder.positions,
    )


def _ladder_log_z(delta: FloatArray, betas: FloatArray) -> FloatArray:
    """Log z at every level by BAR; between levels that share no draws from their medians.

    ``delta`` has the shape (n_scans, n_levels). A bias needs to know which way to go, no more.
    """
    increments = np.diff(bar_ladder(delta, betas).log_z)
    with np.errstate(invalid="ignore"):
        middle = np.median(np.where(np.isfinite(delta), delta, np.nan), axis=0)
    middle = np.nan_to_num(middle, nan=0.0)
    rough = 0.5 * np.diff(betas) * (middle[1:] + middle[:-1])
    return np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(increments), increments, rough))])
