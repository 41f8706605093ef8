"""Particles in portions, run here, on threads, or on any executor with the same result."""

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from pymc_tempering.engine.ensembles.annealer import Annealer, AnnealingSettings
from pymc_tempering.engine.path.tempered import Density, TemperedPath
from pymc_tempering.engine.state import from_plain
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.types import FloatArray

__all__ = ["N_PORTIONS", "run_particles"]

N_PORTIONS = 16
"""Fixed, so that the generators of the particles do not depend on the number of workers."""


class _Portion(NamedTuple):
    log_weights: FloatArray
    positions: FloatArray
    acceptance_rate: FloatArray
    n_gradients: int


def run_particles(
    annealer: Annealer,
    n_particles: int,
    starts: FloatArray | None,
    executor: Executor | None,
    rng: np.random.Generator,
    on_portion: Callable[[int], None] | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Anneal particles that do not depend on one another.

    With `starts` (n_particles, D), draws of the target, they run in reverse. Threads share the
    compiled density; workers of any other kind of executor compile the model, once each.
    `on_portion` is given the size of each portion that is done.

    Returns
    -------
    log_weights : ndarray of shape (n_particles,)
    positions : ndarray of shape (n_particles, D)
    acceptance_rate : ndarray of shape (n_levels,)
    n_gradients : int
    """
    portions = [p for p in np.array_split(np.arange(n_particles), N_PORTIONS) if p.size]
    rngs = rng.spawn(len(portions))
    tasks = [
        (len(portion), None if starts is None else starts[portion], child)
        for portion, child in zip(portions, rngs, strict=True)
    ]
    state, settings, target = annealer.state(), annealer.settings, annealer.path.target
    pending: Iterable[_Portion]
    futures: list[Future[_Portion]] = []
    threads = isinstance(executor, ThreadPoolExecutor)
    if executor is None:
        pending = (_run(target, state, settings, *task) for task in tasks)
    elif threads or not isinstance(target, CompiledDensity):
        futures = [executor.submit(_run, target, state, settings, *task) for task in tasks]
        pending = (future.result() for future in futures)
    else:
        packed = cloudpickle.dumps(target)
        futures = [executor.submit(_run_packed, packed, state, settings, *t) for t in tasks]
        pending = (future.result() for future in futures)
    done = []
    try:
        for portion_done in pending:
            done.append(portion_done)
            if on_portion is not None:
                on_portion(portion_done.log_weights.size)
    except BaseException:
        running = [future for future in futures if not future.cancel()]
        if threads:
            # they end at once, while the guard around is still there
            wait(running)
        raise
    sizes = np.array([p.size for p in portions])
    rates = np.stack([portion.acceptance_rate for portion in done])
    return (
        np.concatenate([portion.log_weights for portion in done]),
        np.concatenate([portion.positions for portion in done]),
        np.average(rates, axis=0, weights=sizes),
        sum(portion.n_gradients for portion in done),
    )


def _run(
    target: Density,
    state: dict[str, Any],
    settings: AnnealingSettings,
    n_particles: int,
    starts: FloatArray | None,
    rng: np.random.Generator,
) -> _Portion:
    coordinates = from_plain(state["coordinates"])
    annealer = Annealer.restored(state, path=TemperedPath(target, coordinates), settings=settings)
    record = annealer.ensemble(rng, n_particles=n_particles, positions=starts)
    log_weights = record.log_weight_forward if starts is None else record.log_weight_reverse
    return _Portion(
        log_weights, record.positions, record.acceptance_rate, record.counts["n_gradients"]
    )


def _run_packed(target: bytes, *task: Any) -> _Portion:
    return _run(_unpacked(target), *task)


@functools.lru_cache(maxsize=4)
def _unpacked(target: bytes) -> CompiledDensity:
    """Compile once in each worker."""
    density: CompiledDensity = cloudpickle.loads(target)
    return density
