"""Annealed particles by BlackJAX on a PyMC model, the whole run in one compiled loop."""

import math
from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc import adaptive_tempered, resampling
from blackjax.smc.tuning.from_particles import particles_covariance_matrix
from blackjax.smc.waste_free import waste_free_smc
from pymc.initial_point import make_initial_point_expression
from pymc.pytensorf import compile as pymc_compile
from pymc.pytensorf import reseed_rngs
from pymc.sampling.jax import get_jaxified_graph
from pytensor.tensor.random.type import RandomGeneratorType

N_LEAPFROG = 10
TARGET_ESS = 0.5
ACCEPTANCE = 0.65


def densities(model):
    """Log prior and log likelihood of flat vectors, as functions of JAX."""
    inputs = [model.rvs_to_values[rv] for rv in model.free_RVs]
    point = model.initial_point()
    shapes = [np.shape(point[value.name]) for value in inputs]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]

    def flat(graph):
        function = get_jaxified_graph(inputs=inputs, outputs=[graph])

        def log_density(z):
            parts = jnp.split(z, ends)
            values = [p.reshape(shape) for p, shape in zip(parts, shapes, strict=True)]
            return function(*values)[0]

        return log_density

    return flat(model.varlogp), flat(model.datalogp)


def prior_draws(model):
    """From a seed and a number to as many flat unconstrained vectors, as `pm.sample_smc` begins."""
    draw = pymc_compile(
        [],
        make_initial_point_expression(
            free_rvs=model.free_RVs, rvs_to_transforms=model.rvs_to_transforms,
            initval_strategies={}, default_strategy="prior", return_transformed=True,
        ),
    )  # fmt: skip
    generators = [v for v in draw.get_shared() if isinstance(v.type, RandomGeneratorType)]

    def draws(seed, n):
        reseed_rngs(generators, seed)
        return np.array([np.concatenate([np.ravel(v) for v in draw()]) for _ in range(n)])

    return draws


def annealing(model, n_particles, moves, waste_free):
    """Return a function of the seed that gives log Z, no error and no warnings."""
    jax.config.update("jax_enable_x64", True)
    hmc = partial(blackjax.hmc.build_kernel(), num_integration_steps=N_LEAPFROG)
    options = {"update_strategy": waste_free_smc(n_particles, moves)} if waste_free else {}
    kernel = adaptive_tempered.build_kernel(
        *densities(model), hmc, blackjax.hmc.init, resampling.systematic, TARGET_ESS, **options
    )
    n_moves = None if waste_free else moves

    def one(carry):
        key, state, step_size, log_z = carry
        key, now = jax.random.split(key)
        covariance = particles_covariance_matrix(state.particles)
        parameters = {"step_size": step_size[None], "inverse_mass_matrix": covariance[None]}
        state, info = kernel(now, state, n_moves, parameters)
        rate = jnp.nanmean(info.update_info.acceptance_rate)
        step_size *= jnp.exp(rate - ACCEPTANCE)
        return key, state, step_size, log_z + info.log_likelihood_increment

    @jax.jit
    def anneal(key, particles):
        start = 1.0 / particles.shape[1] ** 0.25
        carry = (key, adaptive_tempered.init(particles), jnp.asarray(start), jnp.asarray(0.0))
        return jax.lax.while_loop(lambda c: c[1].tempering_param < 1.0, one, carry)[3]

    start = prior_draws(model)

    def run(seed):
        particles = start(seed, n_particles)
        return float(anneal(jax.random.key(seed), jnp.asarray(particles))), None, []

    return run
