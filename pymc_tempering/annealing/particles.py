"""Annealed importance sampling with an ensemble of independent particles."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import cloudpickle
import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.annealing.jax_particles import check_backend, density_for_jax, jax_particles
from pymc_tempering.annealing.setup import (
    N_SUPPORT_DRAWS,
    HAISInModelCoordinates,
    check_draws,
    check_step_size,
    check_untuned,
    set_up,
    support_mass,
)
from pymc_tempering.engine.ensembles.annealer import Annealer, AnnealingSettings, Particles
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.state import from_plain
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.hais import ensemble_estimate
from pymc_tempering.model.jax_density import JaxDensity
from pymc_tempering.model.point import PointMap
from pymc_tempering.options import (
    check_betas,
    check_choice,
    check_names,
    check_random_seed,
    check_whole,
    resolve_model,
)
from pymc_tempering.progress import compiling, phases
from pymc_tempering.schedule.grid import check_n_levels
from pymc_tempering.steps.hais import HAIS
from pymc_tempering.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class AnnealingResult:
    """Particles of an ensemble and what they say of log Z.

    Attributes
    ----------
    log_weights_forward : ndarray of shape (n_particles,)
        In nats; -inf for particles that started where the target has no density. Empty for
        ``direction="reverse"``.
    log_weights_reverse : ndarray of shape (n_particles,)
        In nats, with the sign of the forward run; empty for ``direction="forward"``.
    positions : ndarray of shape (n_particles, D)
        Ends of the forward particles, draws of the target once weighted: PyMC's unconstrained
        values, one variable of ``model.value_vars`` after another. nan where the weight is zero.
    betas, step_sizes : ndarray of shape (n_levels,)
    acceptance_rate : ndarray of shape (n_levels,)
        Mean acceptance probability of the transitions of both directions.
    base : GaussianBase
        Where particles began: in the coordinates of its map, if the model got one, as hierarchies
        do.
    n_gradients : int
        Evaluations of the density and its gradient by the particles; the pilot is not counted.
    estimate : LogZEstimate
        With ``lower`` from the forward and ``upper`` from the reverse particles.
    """

    log_weights_forward: FloatArray
    log_weights_reverse: FloatArray
    positions: FloatArray
    betas: FloatArray
    step_sizes: FloatArray
    acceptance_rate: FloatArray
    base: GaussianBase
    n_gradients: int
    estimate: LogZEstimate

    @property
    def log_z(self) -> float:
        """Estimate of log Z in nats."""
        return self.estimate.log_z

    @property
    def log_z_se(self) -> float:
        """Standard error of :attr:`log_z`."""
        return self.estimate.se


class AnnealOptions(TypedDict, total=False):
    """Options of :func:`anneal` that few runs need; all are explained there."""

    betas: Any
    schedule: str
    base: GaussianBase | xr.DataTree | str | None
    adapt_base: bool
    step_size: float | Sequence[float] | FloatArray | None
    transitions: str
    n_leapfrog: int
    short_steps: bool
    target_accept: float | None
    executor: Executor | None
    backend: str


def anneal(
    model: pm.Model | None = None, *, n_particles: int = 200, n_levels: int = 1000,
    direction: str = "forward", draws: xr.DataTree | FloatArray | None = None, tune: int = 200,
    random_seed: Any = None, progressbar: bool = True, **options: Unpack[AnnealOptions],
) -> AnnealingResult:  # fmt: skip
    r"""Anneal independent particles and estimate log Z from their weights.

    Forward particles run from the base to the target. The mean of their weights is Z, so that the
    estimate is below log Z in expectation. Reverse particles run from draws of the target by the
    exact reversal: ``-log mean(1 / W)`` is above log Z in expectation. Both together bound log Z
    from both sides and are combined by Bennett's ratio.

    Parameters
    ----------
    model : pymc.Model, optional
        Default: the model of the context.
    n_particles : int
        In each direction, default 200 as in Sohl-Dickstein & Culpepper (2012).
    n_levels : int
        Levels of the schedule, base and target included, default 1000.
    direction : {"forward", "reverse", "both"}
    draws : DataTree or ndarray of shape (n, D), optional
        Draws of the posterior that reverse particles start from: those of an earlier run, or PyMC's
        unconstrained values, one variable of ``model.value_vars`` after another. Fewer than
        `n_particles` are continued by Hamiltonian transitions; the error then is that of means by
        draw, and fewer than 20 are warned of. Of more, evenly spaced ones are taken. Default: from
        a pilot run of parallel tempering.
    tune : int
        Blocks of 16 scans of the pilot run, default 200. 0 leaves it out: `base` (or local fits),
        a fixed schedule and a `step_size` are then used as they are.
    random_seed : int or numpy.random.Generator, optional
    progressbar : bool
        Show how far pilot run and particles are. Default True.
    betas : array_like, optional
        A fixed schedule, increasing from 0 to 1, instead of `n_levels` and `schedule`.
    step_size : float or array_like of shape (n_levels,), optional
        In base coordinates, where the base has standard deviation 1. Default: tuned by dual
        averaging in pilot runs, by level.
    schedule, base, adapt_base, transitions, n_leapfrog, short_steps, target_accept
        As for :class:`pymc_tempering.HAIS`.
    executor : concurrent.futures.Executor, optional
        Runs the particles in portions, in threads or processes, also of dask, ray or mpi4py. The
        result does not depend on it. Default: in this thread.
    backend : {"numba", "jax", "auto"}
        What moves the particles. "numba", the default: one after another. "jax": many at once, on
        all cores or on a GPU, in double precision; from a Gaussian base, with random numbers of
        its own, and without the map that numba's particles of a hierarchy move in. Setting up and
        the pilot run are numba's all the same. "auto": JAX where it is installed, can compute the
        model, and was measured to be faster for as much data and work; numba where there is a map.

    Returns
    -------
    AnnealingResult

    Raises
    ------
    ModelError, BaseError, ScheduleError, OptionError, DataError
        Before any sampling.
    DensityError
        If Python code that the model calls raises.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    >>> result = anneal(model, n_particles=100, n_levels=50, direction="both", random_seed=1,
    ...                 progressbar=False)
    >>> exact = -0.5 * np.log(2 * np.pi * 1.25) - 0.5 / 1.25
    >>> bool(abs(result.log_z - exact) < 0.1)
    True
    """
    check_choice("direction", direction, ("forward", "reverse", "both"))
    check_whole("n_particles", n_particles, 1)
    check_whole("tune", tune, 0)
    check_random_seed(random_seed)
    model = resolve_model(model, "anneal")
    check_names("anneal", options, anneal_options())
    betas, step_size = options.get("betas"), options.get("step_size")
    executor, backend = options.get("executor"), options.get("backend", "numba")
    check_backend(backend, executor, options.get("base"))
    n = check_n_levels(n_levels) if betas is None else check_betas(betas).size
    check_step_size(step_size, n)
    if tune == 0:
        schedule = options.get("schedule", "barrier")
        check_untuned(betas is not None, schedule, step_size, direction, draws)
    of_step: dict[str, Any] = {
        k: v for k, v in options.items() if k not in ("step_size", "executor", "backend")
    }
    with compiling(progressbar):
        kind = HAISInModelCoordinates if backend == "jax" else HAIS
        step = kind(n_levels=n if betas is None else None, model=model, **of_step)
        per_particle = n * options.get("n_leapfrog", 1) * (2 if direction == "both" else 1)
        for_jax = density_for_jax(
            backend, step.density, executor=executor, base=options.get("base"),
            n_gradients=n_particles * per_particle,
        )  # fmt: skip
    where = for_jax or executor
    starts = check_draws(draws, step.density)
    setup_rng, forward_rng, reverse_rng = np.random.default_rng(random_seed).spawn(3)
    step.setup_chain(setup_rng, tune, 0)
    n_draws = n_particles if direction != "forward" and starts is None else 0
    nothing = {"n_gradients": 0}
    forward = reverse = Particles(np.empty(0), np.empty((0, step.dim)), np.empty(0), nothing)
    origins = None
    with density_guard(), phases(progressbar) as work:
        annealer, pilot_draws = set_up(step, n_levels, step_size, tune, n_draws, work)
        if direction != "forward":
            starts = pilot_draws if starts is None else starts
            origins = _origins(starts, n_particles)
            # copies of a draw stay draws of the target, and part from one another in ten moves
            starts = annealer.continue_draws(starts, n_particles, 10, setup_rng)
        if direction != "reverse":
            forward = _run_particles(
                annealer, n_particles, None, where, forward_rng,
                work.add("Forward particles", n_particles).advance,
            )  # fmt: skip
        if direction != "forward":
            reverse = _run_particles(
                annealer, n_particles, starts, where, reverse_rng,
                work.add("Reverse particles", n_particles).advance,
            )  # fmt: skip
    rates = [run.acceptance_rate for run in (forward, reverse) if run.log_weights.size]
    return AnnealingResult(
        log_weights_forward=forward.log_weights,
        log_weights_reverse=reverse.log_weights,
        positions=_positions(forward, step.density.points),
        betas=annealer.betas,
        step_sizes=annealer.scales,
        acceptance_rate=np.mean(rates, axis=0),
        base=annealer.base,
        n_gradients=forward.counts["n_gradients"] + reverse.counts["n_gradients"],
        estimate=ensemble_estimate(
            forward.log_weights,
            reverse.log_weights,
            support_mass(annealer, setup_rng),
            N_SUPPORT_DRAWS,
            origins,
        ),
    )


def anneal_options() -> set[str]:
    """Names of all arguments of :func:`anneal`."""
    named = set(inspect.signature(anneal).parameters) - {"options"}
    return named | set(AnnealOptions.__annotations__)


def _positions(particles: Particles, points: PointMap) -> FloatArray:
    """Where particles with a weight ended, in PyMC's values; nan for the others."""
    weighted = np.isfinite(particles.log_weights)
    values = np.full(particles.positions.shape, np.nan)
    values[weighted] = points.values(particles.positions[weighted])
    return values


def _origins(draws: FloatArray, n: int) -> IntArray:
    """Which distinct draw each of n starts descends from, in order of appearance."""
    n_draws = len(draws)
    rows = np.arange(n) % n_draws if n_draws < n else np.arange(n) * n_draws // n
    _, first, index = np.unique(draws[rows], axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[index.ravel()]


def _run_particles(
    annealer: Annealer, n_particles: int, starts: FloatArray | None,
    where: Executor | JaxDensity | None, rng: np.random.Generator,
    on_portion: Callable[[int], None],
) -> Particles:  # fmt: skip
    """Anneal independent particles in portions, here, on threads or any executor: all the same.

    With `starts` (n_particles, D), draws of the target, they run in reverse. Threads share the
    compiled density; workers of any other kind of executor compile the model, once each.
    `on_portion` is given the size of each portion that is done. JAX has another way.
    """
    if isinstance(where, JaxDensity):
        return jax_particles(annealer, where, n_particles, starts, rng, on_portion)
    executor = where
    # 16 whatever the number of workers, on which generators of particles may not depend
    portions = [p for p in np.array_split(np.arange(n_particles), 16) if p.size]
    rngs = rng.spawn(len(portions))
    tasks = [
        (len(portion), None if starts is None else starts[portion], child)
        for portion, child in zip(portions, rngs, strict=True)
    ]
    state, settings, target = annealer.state(), annealer.settings, annealer.path.target
    threads = isinstance(executor, ThreadPoolExecutor)
    pending: Iterable[Particles] = (_run(target, state, settings, *task) for task in tasks)
    futures: list[Future[Particles]] = []
    if executor is not None:
        packed: Any = target if threads else cloudpickle.dumps(target)
        futures = [executor.submit(_run, packed, state, settings, *task) for task in tasks]
        pending = (future.result() for future in futures)
    done = []
    try:
        for portion_done in pending:
            done.append(portion_done)
            on_portion(portion_done.log_weights.size)
    except BaseException:
        running = [future for future in futures if not future.cancel()]
        if threads:
            # they end at once, while the guard around is still there
            wait(running)
        raise
    log_weights, positions, rates, counts = zip(*done, strict=True)
    return Particles(
        np.concatenate(log_weights),
        np.concatenate(positions),
        np.average(np.stack(rates), axis=0, weights=[p.size for p in portions]),
        {"n_gradients": sum(each["n_gradients"] for each in counts)},
    )


def _run(
    target: Density | bytes, state: dict[str, Any], settings: AnnealingSettings, n_particles: int,
    starts: FloatArray | None, rng: np.random.Generator,
) -> Particles:  # fmt: skip
    density = _unpacked(target) if isinstance(target, bytes) else target
    coordinates = from_plain(state["coordinates"])
    annealer = Annealer.restored(state, path=TemperedPath(density, coordinates), settings=settings)
    return annealer.ensemble(rng, n_particles=n_particles, positions=starts)


# compiles once in each worker
_unpacked = functools.lru_cache(maxsize=4)(cloudpickle.loads)
