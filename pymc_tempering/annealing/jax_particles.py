"""Annealed particles by JAX: many at once, on whatever device JAX computes.

The moves are those of :mod:`pymc_tempering.engine.ensembles.annealing_runs`, and so is the law of
the log weights; random numbers are JAX's own. A particle that started where the density is zero is
moved on like the others, since all of a batch do the same, and its weight is set in the end.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_tempering.engine.ensembles.annealer import Annealer, Particles
from pymc_tempering.engine.ensembles.annealing_runs import TRANSITIONS
from pymc_tempering.engine.explorers.hamiltonian import (
    LOG_SHORTEST_STEP,
    MAX_ACCEPTED_ERROR,
    SHORT_STEP_PROBABILITY,
)
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import HALF_LOG_2PI
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import ModelError, OptionError, WorkerError
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.jax_density import JaxDensity, jax_density
from pymc_tempering.model.open_data import value_of
from pymc_tempering.model.python_density import check_jax, jax_is_installed
from pymc_tempering.options import check_choice
from pymc_tempering.types import FloatArray

_MEMORY_CPU = 2**22
"""Bytes of intermediate results of a batch, which then stay in the cache. Gradients a second were
within a quarter of those of the best size, and up to twice as many as with 1024 particles
(`benchmarks/jax_backend.py --batches`)."""

_MEMORY_DEVICE = 2**30
"""The same on a GPU or TPU, a small part of its memory: gradients a second were within a tenth of
those of the best size (an H200)."""

BACKENDS = ("numba", "jax", "auto")


def check_backend(backend: str, executor: Any, base: Any) -> None:
    """Refuse what JAX does not do, before anything is compiled."""
    if check_choice("backend", backend, BACKENDS) != "jax":
        return
    check_jax()
    if executor is not None:
        raise OptionError(
            f"`executor` is {executor!r:.80}, and `backend` is 'jax', which uses all cores or the "
            "GPU by itself; expected one of them. Leave the other away."
        )
    if not _is_gaussian(base):
        raise OptionError(
            f"`base` is {base!r:.80}, and `backend` is 'jax', which starts from a Gaussian; "
            "expected a GaussianBase, or draws to fit one to. Leave `backend` at 'numba'."
        )


def _is_gaussian(base: Any) -> bool:
    if isinstance(base, str):
        return base == "gaussian"
    return base is None or isinstance(base, GaussianBase | xr.DataTree)


def density_for_jax(
    backend: str, density: CompiledDensity, *, executor: Any, base: Any, n_gradients: int
) -> JaxDensity | None:
    """Compile the density for JAX if that is asked for, or if "auto" finds that it pays."""
    if backend == "jax":
        return jax_density(density)
    model = density.model
    n_observed = sum(np.size(value_of(model.rvs_to_values[rv])) for rv in model.observed_RVs)
    able = executor is None and _is_gaussian(base) and jax_is_installed()
    if backend == "numba" or not able or not pays(n_observed * n_gradients):
        return None
    try:
        return jax_density(density)
    except (ModelError, WorkerError):
        return None


def pays(work: float) -> bool:
    """Whether JAX is faster, compilation included, at so many observed values times gradients."""
    import jax

    on_cpu = jax.default_backend() == "cpu"
    return bool(work >= (_BREAK_EVEN_CPU if on_cpu else _BREAK_EVEN_DEVICE))


_BREAK_EVEN_CPU = 10**9
"""On the two cores of a CPU JAX was faster from 1.1 to 3.4e8 on in 17 of 18 cases, a logistic
regression with 300 to 100,000 rows (`benchmarks/jax_backend.py`)."""

_BREAK_EVEN_DEVICE = 10**8
"""On an H200 from 3.5 to 7.3e7 on in 21 of 21 cases, with 100 to 100,000 rows."""


class _Point(NamedTuple):
    """Where a particle is."""

    u: Any  # (D,)
    log_target: Any  # nats
    gradient: Any  # (D,)


def jax_particles(
    annealer: Annealer, density: JaxDensity, n_particles: int, starts: FloatArray | None,
    rng: np.random.Generator, on_portion: Callable[[int], None],
) -> Particles:  # fmt: skip
    """Anneal independent particles in batches, of one size so that JAX compiles once.

    As :func:`pymc_tempering.annealing.particles.run_particles`, for a Gaussian reference. The
    random numbers of a particle depend on the seed and its number, not on the batch.
    """
    import jax

    is_reverse = starts is not None
    with jax.enable_x64(True):
        data = [jax.numpy.asarray(array) for array in density.data.values()]
        size = min(batch_size(density, data, annealer.path.dim), n_particles)
        one = annealing_function(annealer, density, reverse=is_reverse)
        many = jax.jit(jax.vmap(one, in_axes=(0, 0, *[None] * len(data))))
        # of a kind whose numbers are the same in any batch
        key = jax.random.key(int(rng.integers(2**63)), impl="threefry2x32")
        keys = jax.random.split(key, n_particles)
        u = np.zeros((n_particles, 0)) if starts is None else annealer.coordinates.to_base(starts)
        done = []
        for first in range(0, n_particles, size):
            rows = np.minimum(np.arange(first, first + size), n_particles - 1)
            n_new = min(size, n_particles - first)
            done.append([np.asarray(found)[:n_new] for found in many(keys[rows], u[rows], *data)])
            on_portion(n_new)
    log_weights, ends, rates = (np.concatenate(parts) for parts in zip(*done, strict=True))
    alive = np.isfinite(log_weights)
    moves = annealer.settings.n_leapfrog * (annealer.n_levels - 1)
    return Particles(
        log_weights,
        annealer.coordinates.from_base(ends),
        np.append(np.nan, rates[alive].sum(axis=0) / max(int(alive.sum()), 1)),
        {"n_gradients": n_particles * (1 + moves)},
    )


def batch_size(density: JaxDensity, data: list[Any], dim: int) -> int:
    """Particles whose gradients together fit into the memory that they should, at least one.

    JAX is asked what a few of them take.
    """
    import jax

    n = 16
    both = jax.vmap(jax.value_and_grad(density.log_density), in_axes=(0, *[None] * len(data)))
    compiled = jax.jit(both).lower(np.zeros((n, dim)), *data).compile()
    needed = compiled.memory_analysis().temp_size_in_bytes // n + 8 * 10 * dim
    return fitting(needed, jax.default_backend())


def fitting(needed: float, platform: str) -> int:
    """Particles that fit into the memory of a batch, each of which takes so many bytes."""
    return max(1, int((_MEMORY_CPU if platform == "cpu" else _MEMORY_DEVICE) // needed))


def annealing_function(
    annealer: Annealer, density: JaxDensity, *, reverse: bool
) -> Callable[..., Any]:
    """Make a function of JAX that anneals one particle.

    It takes a key, the position ``u`` (D,) that a reverse run starts from, and the data as further
    arguments. It returns the log weight in nats, the end of the run (D,), and the acceptance
    probabilities of the transitions (n_levels - 1,). ``jax.vmap`` makes an ensemble of it, also
    over data sets.
    """
    import jax
    import jax.numpy as jnp

    settings, dim = annealer.settings, annealer.path.dim
    kind = TRANSITIONS[settings.kind]
    evaluate = _evaluation(annealer.path, density)
    walks = kind == "random_walk"
    move = _walk(evaluate) if walks else _trajectory(evaluate, settings.n_leapfrog)
    betas = jnp.asarray(annealer.betas)
    levels = (betas[1:], jnp.diff(betas), jnp.asarray(annealer.scales[1:]))

    def refreshed(momentum: Any, step: Any, noise: Any) -> Any:
        kept = 0.5 ** (step * settings.n_leapfrog) if kind == "hamiltonian" else 0.0
        return jnp.sqrt(kept) * momentum + jnp.sqrt(1.0 - kept) * noise

    def transition(data: Any, state: Any, level: Any) -> Any:
        point, momentum, key, log_weight = state
        beta, increment, scale = level
        key, for_noise, for_uniforms = jax.random.split(key, 3)
        noise = jax.random.normal(for_noise, (dim,))
        jitter, is_short, how_short, coin = jax.random.uniform(for_uniforms, (4,))
        step = scale * (0.8 + 0.4 * jitter)
        if settings.short_steps:
            shorter = jnp.exp(-how_short * LOG_SHORTEST_STEP)
            step *= jnp.where(is_short < SHORT_STEP_PROBABILITY, shorter, 1.0)
        # backwards all comes in the reversed order, see `annealing_runs`
        if reverse or walks:
            momentum = noise if walks else refreshed(momentum, step, noise)
        before = point
        end, moved, rate = move(beta, step, point, momentum, data)
        accepted = coin < rate
        point = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), end, point)
        momentum = jnp.where(accepted, moved, -momentum)
        if not reverse and not walks:
            momentum = refreshed(momentum, step, noise)
        at = point if reverse else before
        delta = at.log_target + 0.5 * at.u @ at.u + dim * HALF_LOG_2PI
        log_weight += increment * delta
        return (point, momentum, key, log_weight), rate

    def run(key: Any, start: Any, *data: Any) -> tuple[Any, Any, Any]:
        key, for_position, for_momentum = jax.random.split(key, 3)
        first = evaluate(start if reverse else jax.random.normal(for_position, (dim,)), data)
        state = (first, jax.random.normal(for_momentum, (dim,)), key, jnp.asarray(0.0))
        (point, _, _, log_weight), rates = jax.lax.scan(
            lambda state, level: transition(data, state, level), state, levels, reverse=reverse
        )
        nothing = jnp.nan if reverse else -jnp.inf
        return jnp.where(jnp.isfinite(first.log_target), log_weight, nothing), point.u, rates

    return run


def _evaluation(path: TemperedPath, density: JaxDensity) -> Callable[[Any, Any], _Point]:
    """Make a function of ``u`` (D,) and the data that evaluates the target there."""
    import jax
    import jax.numpy as jnp

    coordinates, log_det = path.coordinates, path.base.log_det_scale
    is_diagonal = len(coordinates.rows) == 1
    mean = jnp.asarray(path.base.mean)
    scale = jnp.asarray(coordinates.rows[0] if is_diagonal else coordinates.matrix)
    value_and_grad = jax.value_and_grad(density.log_density)

    def evaluate(u: Any, data: Any) -> _Point:
        value, gradient = value_and_grad(mean + (scale * u if is_diagonal else scale @ u), *data)
        # a kick may be any function of position
        gradient = jnp.where(jnp.isfinite(gradient) & jnp.isfinite(value), gradient, 0.0)
        gradient = scale * gradient if is_diagonal else scale.T @ gradient
        return _Point(u, jnp.where(jnp.isfinite(value), value + log_det, -jnp.inf), gradient)

    return evaluate


def _energy(beta: Any, point: _Point, momentum: Any) -> Any:
    at_base = 0.5 * (1.0 - beta) * point.u @ point.u
    return 0.5 * momentum @ momentum + at_base - beta * point.log_target


def _trajectory(evaluate: Callable[[Any, Any], _Point], n_steps: int) -> Callable[..., Any]:
    """Make the move of `follow`: the end, the momentum there, and the rate of acceptance."""
    import jax
    import jax.numpy as jnp

    def kicked(momentum: Any, strength: Any, point: _Point) -> Any:
        return momentum + strength * (point.gradient + point.u)

    def move(beta: Any, step: Any, start: _Point, momentum: Any, data: Any) -> tuple[Any, ...]:
        cosine, sine = jnp.cos(step), jnp.sin(step)

        def leap(i: Any, state: Any) -> Any:
            point, p, inside = state
            x, p = cosine * point.u + sine * p, cosine * p - sine * point.u
            point = evaluate(x, data)
            p = kicked(p, jnp.where(i == n_steps - 1, 0.5, 1.0) * step * beta, point)
            return point, p, inside & jnp.isfinite(point.log_target)

        first = (start, kicked(momentum, 0.5 * step * beta, start), jnp.asarray(True))
        end, p, inside = jax.lax.fori_loop(0, n_steps, leap, first)
        error = _energy(beta, end, p) - _energy(beta, start, momentum)
        rate = jnp.exp(-jnp.maximum(error, 0.0))
        return end, p, jnp.where(inside & (jnp.abs(error) < MAX_ACCEPTED_ERROR), rate, 0.0)

    return move


def _walk(evaluate: Callable[[Any, Any], _Point]) -> Callable[..., Any]:
    """Make the move of `random_walk_move`, whose noise comes as momentum."""
    import jax.numpy as jnp

    def move(beta: Any, step: Any, start: _Point, noise: Any, data: Any) -> tuple[Any, ...]:
        end = evaluate(start.u + step * noise, data)
        error = _energy(beta, end, noise) - _energy(beta, start, noise)
        inside = jnp.isfinite(end.log_target)
        return end, noise, jnp.where(inside, jnp.exp(-jnp.maximum(error, 0.0)), 0.0)

    return move
