"""Where does JAX pay for annealed particles? Gradients a second, against numba.

A logistic regression with 8 coefficients, from 100 rows up. Particles are annealed by
`anneal(backend="numba")`, one after another, and by `backend="jax"`, in batches on all cores or on
the device that JAX has. On a CPU seconds are CPU seconds of all threads, since numba's particles
can share the cores by threads as well; on a device they are those of the clock, and numba has one
core. Gradients a second
are those of whole annealing runs, random numbers and all, without compilation. What JAX needs to
compile is a column of its own, and the break-even follows: the number of gradients (particles x
levels) from which a run by JAX, compilation included, is over sooner.

    python benchmarks/jax_backend.py [--full] [--batches] [--whole]

With ``--full`` the figure goes into ``docs/figures``. ``--batches`` shows what the size of a batch
does, from which the memory of a batch was chosen. ``--whole`` shows whole calls of `anneal`, with
pilot and compilation: log Z and seconds of the clock of both.
"""

import argparse
import os
import time
import warnings

import numpy as np
import pymc as pm
from figures import COLOURS, console, plain_log, pyplot, save, table

import pymc_tempering as pm_temper
from pymc_tempering.annealing.jax_particles import annealing_function, batch_size
from pymc_tempering.engine.ensembles.annealer import Annealer, AnnealingSettings
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.jax_density import jax_density

ROWS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
PARTICLES = {"cpu": (16, 128, 1024), "device": (128, 1024, 16_384)}
BATCHES = {"cpu": (4, 16, 64, 256, 1024), "device": (64, 256, 1024, 4096, 16_384)}
N_WHOLE = 2048
N_COEFFICIENTS = 8
SECONDS = 0.3  # about what a measurement takes, the best of three
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def logistic_regression(n_rows, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, N_COEFFICIENTS))
    chance = 1.0 / (1.0 + np.exp(-x @ rng.normal(0.0, 0.7, N_COEFFICIENTS)))
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=N_COEFFICIENTS)
        pm.Bernoulli("y", logit_p=pm.Data("x", x) @ b, observed=(rng.random(n_rows) < chance) * 1)
    return model


def annealer_of(density, n_levels):
    settings = AnnealingSettings(
        kind=0, n_leapfrog=1, short_steps=True, target_accept=0.8, target=Hamiltonian()
    )
    base = GaussianBase(np.zeros(density.dim), np.full(density.dim, 0.3))
    path = TemperedPath.from_base(density, base)
    return Annealer(path, np.linspace(0.0, 1.0, n_levels), np.full(n_levels, 0.1), settings)


def timed(call, clock):
    """Least seconds of three calls, after one more."""
    call()
    spent = []
    for _ in range(3):
        start = clock()
        call()
        spent.append(clock() - start)
    return min(spent)


def levels_for(n_particles, n_rows):
    """So many levels that a run takes about `SECONDS`."""
    return int(np.clip(SECONDS / (n_particles * 2e-8 * n_rows), 3, 200))


def by_numba(density, n_rows, clock):
    """Gradients a second of many particles."""
    n = 16
    levels = levels_for(n, n_rows)
    annealer, rng = annealer_of(density, levels), np.random.default_rng(1)
    return n * levels / timed(lambda: annealer.ensemble(rng, n_particles=n), clock)


def by_jax(density, n_rows, n_particles, clock, batch=None):
    """Gradients a second, seconds to compile, and the size of a batch."""
    import jax

    with jax.enable_x64(True):
        start = clock()
        for_jax = jax_density(density)
        data = [jax.numpy.asarray(array) for array in for_jax.data.values()]
        size = min(batch or batch_size(for_jax, data, density.dim), n_particles)
        levels = levels_for(size, n_rows) if jax.default_backend() == "cpu" else 200
        one = annealing_function(annealer_of(density, levels), for_jax, reverse=False)
        keys, empty = jax.random.split(jax.random.key(1), size), np.zeros((size, 0))
        many = jax.jit(jax.vmap(one, in_axes=(0, 0, *[None] * len(data))))
        compiled = many.lower(keys, empty, *data).compile()
        compiling = clock() - start
        spent = timed(lambda: jax.block_until_ready(compiled(keys, empty, *data)), clock)
    # a last batch that is not full costs as much as the others
    n_batches = -(-n_particles // size)
    return n_particles * levels / (spent * n_batches), compiling, size


def break_even(numba, jax, compiling):
    """Gradients from which JAX is faster in all; infinite where it never is."""
    saved = 1.0 / numba - 1.0 / jax
    return compiling / saved if saved > 0 else np.inf


def measure(rows, particles, clock):
    found = {}
    for n_rows in rows:
        density = compile_density(logistic_regression(n_rows))
        alone = by_numba(density, n_rows, clock)
        for n in particles:
            found[n_rows, n] = (alone, *by_jax(density, n_rows, n, clock))
    return found


def show(found, device):
    lines = []
    for (n_rows, n), (numba, jax, compiling, size) in found.items():
        even = break_even(numba, jax, compiling)
        lines.append([
            f"{n_rows:,}", f"{n:,}", f"{numba:,.0f}", f"{jax:,.0f}", size, f"{jax / numba:.2f}",
            f"{compiling:.1f}", f"{even:,.0f}" if np.isfinite(even) else "never",
        ])  # fmt: skip
    table(
        f"gradients a second: numba, and JAX on {device}",
        ["rows", "particles", "numba", "JAX", "batch", "JAX / numba", "compiling, s",
         "even from, gradients"],
        lines,
    )  # fmt: skip


def draw(found, device, name, full):
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    rows, particles = (sorted(set(values)) for values in zip(*found, strict=True))
    numba = [found[r, particles[0]][0] for r in rows]
    left.plot(rows, numba, color=COLOURS["exact"], marker="o", ms=4, label="numba")
    for n, colour in zip(particles, (COLOURS["ST"], COLOURS["HAIS"], COLOURS["PT"]), strict=True):
        look = {"color": colour, "marker": "s", "ms": 4}
        left.plot(rows, [found[r, n][1] for r in rows], label=f"JAX, {n:,} particles", **look)
        even = [break_even(*found[r, n][:3]) for r in rows]
        right.plot(rows, even, label=f"{n:,} particles", **look)
    left.set(xlabel="rows of data", ylabel="gradients a second", title=f"JAX on {device}")
    right.set(
        xlabel="rows of data", ylabel="gradients of a run",
        title="above its line, JAX is faster, compilation included",
    )  # fmt: skip
    for axis in (left, right):
        plain_log(axis, subs=(1.0,))
        axis.set_xlim(rows[0] / 1.3, rows[-1] * 1.3)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    save(figure, name, full)


def show_batches(rows, sizes, clock):
    lines = []
    for n_rows in rows:
        density = compile_density(logistic_regression(n_rows))
        tried = [by_jax(density, n_rows, size, clock, size)[0] for size in sizes]
        rate, _, size = by_jax(density, n_rows, 4 * sizes[-1], clock)
        lines.append([f"{n_rows:,}", *(f"{r:,.0f}" for r in tried), f"{rate:,.0f} ({size})"])
    heads = ["rows", *(f"batch of {size}" for size in sizes), "as chosen (batch)"]
    table("JAX: gradients a second by the size of a batch", heads, lines)


def show_whole(rows):
    """Whole calls of `anneal`: seconds of the clock, what was compiled before included."""
    lines = []
    for n_rows in rows:
        model = logistic_regression(n_rows)
        compile_density(model)
        for backend in ("numba", "jax"):
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = pm_temper.anneal(
                    model, n_particles=N_WHOLE, random_seed=1, backend=backend, progressbar=False
                )
            spent = time.perf_counter() - began
            estimate = found.estimate
            lines.append([
                f"{n_rows:,}", backend, f"{estimate.log_z:.4f} ± {estimate.se:.4f}",
                f"{found.n_gradients:,}", f"{spent:.1f}",
            ])  # fmt: skip
    heads = ["rows", "backend", "log Z, nats", "gradients", "seconds"]
    table(f"{N_WHOLE} annealed particles, with pilot and JAX's compilation", heads, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    import jax

    on_cpu = jax.default_backend() == "cpu"
    device = f"{CORES} cores" if on_cpu else str(jax.devices()[0].device_kind)
    kind, name = ("cpu", "jax_backend") if on_cpu else ("device", "jax_backend_device")
    clock = time.process_time if on_cpu else time.perf_counter
    rows = ROWS if options.full else ROWS[:5:2]
    if options.whole:
        show_whole(rows[:1])
    elif options.batches:
        show_batches(rows[::2], BATCHES[kind], clock)
    else:
        found = measure(rows, PARTICLES[kind], clock)
        show(found, device)
        draw(found, device, name, options.full)
    console.print()


if __name__ == "__main__":
    main()
