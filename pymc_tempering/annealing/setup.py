"""What annealing starts from: its options checked, an annealer tuned, draws of the target."""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_tempering.engine.ensembles.annealer import Annealer
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.errors import OptionError, ScheduleError
from pymc_tempering.model.at_draws import unconstrained_draws
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.options import as_numbers
from pymc_tempering.progress import Phases
from pymc_tempering.steps.hais import HAIS, PILOT_SCANS
from pymc_tempering.steps.tuning import overdisperse, read_pilot, start_pilot
from pymc_tempering.types import FloatArray

N_SUPPORT_DRAWS = 2000
"""Draws of the reference that say on which share of it the target has any density."""

_THIN = 4
"""Scans from one draw of the target to the next, so that they are nearly independent."""


class HAISInModelCoordinates(HAIS):
    """Without a map, since JAX has none."""

    maps = False


# the log and errors name the step that users know
HAISInModelCoordinates.__name__ = HAIS.__name__


def set_up(
    step: HAIS, n_levels: int, step_size: Any, tune: int, n_draws: int, work: Phases
) -> tuple[Annealer, FloatArray]:
    """Tuned annealer, and draws ``z`` of the target, shape (n_draws, D)."""
    # JAX anneals from one Gaussian, and so numba does here
    options = step._requested = replace(step._requested, uses_fits=False)
    rng, base = step.rng, step._source.base
    if tune == 0 and base is not None:
        betas = step._schedule(n_levels)
        sizes = check_step_size(step_size, betas.size)
        assert sizes is not None
        path = step._path(base)
        return Annealer(path, betas, sizes, options.annealing), np.empty((0, step.dim))
    known = step._known(work.report)
    wide = base or overdisperse(known.pooled, len(known.modes))
    pilot = start_pilot(
        step._path(wide), known, known.modes, rng, n_steps=tune, adapt_base=options.adapt_base,
        settings=Hamiltonian(),
    )  # fmt: skip
    phase = work.add("Pilot run", tune)
    for _ in range(tune):
        pilot.run(PILOT_SCANS, rng)
        phase.advance()
    ladder = pilot.ladder
    assert isinstance(ladder, Ladder)
    if tune > 0:
        result = read_pilot(pilot)
        step._knots = result.betas, result.rejection_rates, pilot.delta
    betas = step._schedule(n_levels)
    sizes = check_step_size(step_size, betas.size)
    is_tuned = sizes is None
    if sizes is None:  # which there is a pilot run for
        sizes = result.step_sizes_at(betas)
    annealer = Annealer(ladder.path, betas, sizes, options.annealing, ladder.scales[-1])
    if is_tuned:
        # each step size is an average over the particles
        annealer.ensemble(rng, n_particles=40, adapt=True)
        annealer.stop_adaptation()
    positions = np.empty((0, step.dim))
    if n_draws:
        ladder.run(tune * PILOT_SCANS // 2, rng)
        record = ladder.run(_THIN * n_draws, rng, keep_positions=True)
        positions = record.target_positions[::_THIN]
    return annealer, positions


def support_mass(annealer: Annealer, rng: np.random.Generator) -> float:
    """Share of draws from the base where the target has any density."""
    ends = np.array([0.0, 1.0])
    short = Annealer(annealer.path, ends, np.ones(2), annealer.settings)
    particles = short.ensemble(rng, n_particles=N_SUPPORT_DRAWS)
    return float(np.mean(np.isfinite(particles.log_weights)))


def check_untuned(
    has_betas: bool, schedule: str, step_size: Any, direction: str, draws: Any
) -> None:
    """Refuse options that need the pilot run which ``tune=0`` leaves out."""
    if not has_betas and schedule in ("barrier", "ess"):
        raise ScheduleError(
            f"schedule={schedule!r} needs the pilot run that tune=0 leaves out. Choose "
            "'linear', 'sigmoidal' or 'geometric', pass `betas`, or a positive `tune`."
        )
    if step_size is None:
        raise OptionError("tune=0 tunes no step sizes. Pass `step_size`, or a positive `tune`.")
    if direction != "forward" and draws is None:
        raise OptionError(
            f"direction={direction!r} needs draws of the posterior, and tune=0 leaves out the "
            "pilot run that they would come from. Pass `draws`, or a positive `tune`."
        )


def check_step_size(step_size: Any, n_levels: int) -> FloatArray | None:
    """Step sizes by level, shape (n_levels,), or None where they are to be tuned."""
    if step_size is None:
        return None
    sizes = as_numbers("step_size", step_size)
    if sizes.shape not in ((), (n_levels,)) or not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise OptionError(
            f"`step_size` has shape {sizes.shape}; expected a positive number or ({n_levels},) "
            "positive numbers, one for each level."
        )
    return np.broadcast_to(sizes, (n_levels,)).copy()


def check_draws(draws: Any, density: CompiledDensity) -> FloatArray | None:
    """Draws of the posterior in the density's coordinates, shape (n, D); None for a pilot run's."""
    if draws is None:
        return None
    if isinstance(draws, xr.DataTree):
        return unconstrained_draws(draws, density)
    array = np.atleast_2d(as_numbers("draws", draws))
    if array.ndim != 2 or array.shape[1] != density.dim or not np.isfinite(array).all():
        raise OptionError(
            f"`draws` has shape {array.shape}; expected finite unconstrained values of shape "
            f"(n, {density.dim}), or a DataTree with posterior draws of this model."
        )
    return density.points.of_values(array)
