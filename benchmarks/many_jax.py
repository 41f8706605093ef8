"""JAX for many data sets at once, under ``jax.vmap``: BlackJAX's tempered SMC, and densities alone.

    python benchmarks/many_jax.py

prints densities and gradients a CPU second, of all threads, of 400 draws for each of many data
sets: by numba, one after another, as `estimate_many` has them, and by JAX, with batches of data
sets in ``lax.map``. Where JAX computes on a device, its seconds are those of the clock. Beside them
the share of the CPU seconds of `estimate_many` that is spent on densities of many draws at a time,
which is what JAX could take over, and so how many times as fast the whole would be at most.
"""

import time
import warnings
from functools import partial
from unittest.mock import patch

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc import adaptive_tempered, resampling
from blackjax.smc.tuning.from_particles import particles_covariance_matrix
from figures import console, table
from many import densities, seconds_of_gradient
from many_cases import CASES

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.jax_density import jax_density
from pymc_tempering.references import full_rank, quality

TARGET_ESS, ACCEPTANCE, N_LEAPFROG = 0.5, 0.65, 10

N_DRAWS, N_DATA_SETS, BATCHES = 400, 64, (1, 4, 16, 64)
"""Of the comparison of densities; data sets that JAX evaluates at once."""


def annealing(case, n_particles, moves):
    """From a seed and data (n, n_obs) to log Z (n,): adaptive levels, HMC with tuned step sizes."""
    jax.config.update("jax_enable_x64", True)
    arrays = [jnp.asarray(a) for a in case.arrays]
    hmc = partial(blackjax.hmc.build_kernel(), num_integration_steps=N_LEAPFROG)

    def prior(z):
        return -0.5 * (z * z).sum() - 0.5 * case.dim * jnp.log(2.0 * jnp.pi)

    def one(key, y):
        def likelihood(z):
            logits = case.logits(jnp, z[None], *arrays)[0]
            return -jnp.logaddexp(0.0, (1.0 - 2.0 * y) * logits).sum()

        kernel = adaptive_tempered.build_kernel(
            prior, likelihood, hmc, blackjax.hmc.init, resampling.systematic, TARGET_ESS
        )

        def step(carry):
            key, state, step_size, log_z = carry
            key, now = jax.random.split(key)
            covariance = particles_covariance_matrix(state.particles)
            variances = jnp.diagonal(jnp.atleast_2d(covariance))
            parameters = {
                "step_size": step_size[None], "inverse_mass_matrix": variances[None],
            }  # fmt: skip
            state, info = kernel(now, state, moves, parameters)
            rate = jnp.nanmean(info.update_info.acceptance_rate)
            step_size *= jnp.exp(rate - ACCEPTANCE)
            return key, state, step_size, log_z + info.log_likelihood_increment

        key, now = jax.random.split(key)
        particles = jax.random.normal(now, (n_particles, case.dim))
        start = jnp.asarray(1.0 / case.dim**0.25)
        carry = (key, adaptive_tempered.init(particles), start, jnp.asarray(0.0))
        return jax.lax.while_loop(lambda c: c[1].tempering_param < 1.0, step, carry)[3]

    batch = jax.jit(jax.vmap(one))

    def run(seed, data):
        keys = jax.random.split(jax.random.key(seed), len(data))
        return np.asarray(batch(keys, jnp.asarray(data, dtype=float)))

    return run


def seconds_of_density(for_jax, z, observed, batch, gradient):
    """Seconds of one density by JAX, the median of five, and those of compiling.

    ``z`` (sets, draws, D) and ``observed`` (sets, n_obs).
    """
    others = {name: jnp.asarray(v) for name, v in for_jax.data.items()}
    of = jax.value_and_grad(for_jax.log_density) if gradient else for_jax.log_density

    def of_all(z, observed, others):
        def of_set(both):
            data = (others | {"y": both[1]}).values()
            return jax.vmap(lambda z: of(z, *data))(both[0])

        return jax.lax.map(of_set, (z, observed), batch_size=batch)

    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    began = clock()
    run = jax.jit(of_all).lower(z, observed, others).compile()
    compiling, times = clock() - began, []
    for _ in range(5):
        began = clock()
        jax.block_until_ready(run(z, observed, others))
        times.append((clock() - began) / (z.shape[0] * z.shape[1]))
    return float(np.median(times)), compiling


def share_of_draws(case, observed):
    """Of the CPU seconds of `estimate_many`, on densities of many draws at once."""
    spent = [0.0]

    def timed(*arguments):
        began = time.process_time()
        found = density_at(*arguments)
        spent[0] += time.process_time() - began
        return found

    options = {"random_seed": 1, "progressbar": False}
    options |= {} if case.reference is None else {"reference": case.reference}
    model = case.build(observed[0])
    pm_temper.estimate_many(model, {"y": observed[:2]}, **options)
    with patch.object(quality, "density_at", timed), patch.object(
        full_rank, "density_at", timed
    ):  # fmt: skip
        began = time.process_time()
        pm_temper.estimate_many(model, {"y": observed}, **options)
        return spent[0] / (time.process_time() - began)


def main():
    warnings.simplefilter("ignore")
    for build in CASES.values():
        rng = np.random.default_rng(1)
        case = build(rng)
        observed = case.simulate(N_DATA_SETS, rng)
        z = 0.5 * rng.normal(size=(N_DATA_SETS, N_DRAWS, case.dim))
        alone = seconds_of_gradient(densities(case, observed[0])[1], rng)
        rows = [["numba, gradients", "", f"{1.0 / alone:,.0f}", "1.00", ""]]
        with jax.enable_x64(True):
            for_jax = jax_density(compile_density(case.build(observed[0])))
            arrays = jnp.asarray(z), jnp.asarray(observed)
            for gradient in (False, True):
                for batch in BATCHES:
                    of_one, compiling = seconds_of_density(for_jax, *arrays, batch, gradient)
                    rows.append([
                        f"JAX, {'gradients' if gradient else 'densities'}", batch,
                        f"{1.0 / of_one:,.0f}", f"{alone / of_one:.2f}", f"{compiling:.1f}",
                    ])  # fmt: skip
        share, best = share_of_draws(case, observed), max(float(row[3]) for row in rows)
        head = ["", "data sets at once", "a second", "over numba", "compiling, s"]
        table(f"{case.title}: {N_DRAWS} draws for each of {N_DATA_SETS} data sets", head, rows)
        console.print(
            f"Densities of draws are {share:.2f} of the CPU seconds: with these by JAX the whole is"
            f" {1.0 / (1.0 - share + share / best):.2f} times as fast at most."
        )


if __name__ == "__main__":
    main()
