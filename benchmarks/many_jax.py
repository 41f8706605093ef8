"""Tempered SMC by BlackJAX for a batch of data sets at once, under ``jax.vmap``."""

from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc import adaptive_tempered, resampling
from blackjax.smc.tuning.from_particles import particles_covariance_matrix

TARGET_ESS, ACCEPTANCE, N_LEAPFROG = 0.5, 0.65, 10


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
