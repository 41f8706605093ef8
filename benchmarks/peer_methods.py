"""Methods behind one interface, ours and the peers': a problem in, a function of the seed out.

Whatever a method compiles, it compiles while its function is built or called for the first time.
Settings are each method's own defaults where it has any; what it leaves open is said here.
"""

from functools import partial

import numpy as np
import pymc as pm
from figures import QUIET
from peer_models import with_prior
from scipy.special import logsumexp

import pymc_tempering as pm_temper

N_PARTICLES = 2000
"""The default of `pm.sample_smc`; BlackJAX has none."""


def installed(module):
    """Import a peer, or say how to get it."""
    try:
        return __import__(module)
    except ImportError as error:
        raise SystemExit(
            f"{error}. The peers are an extra of this project: pip install --editable '.[bench]', "
            "which `make bench` does; or leave them out: --methods pymc_tempering,sample_smc."
        ) from error


def pymc_tempering(problem):
    """`estimate_logz(model)` as it is."""

    def run(seed):
        estimate = pm_temper.estimate_logz(problem.model, random_seed=seed, **QUIET)
        return float(estimate.log_z), float(estimate.se), [w.code for w in estimate.warnings]

    return run


def nutpie_bridge(problem, draws=1000):
    """Four chains of nutpie, 1000 draws each, then warp-III bridge sampling of this package.

    nutpie's own default is six chains; four are PyMC's default, and cost less.
    """
    nutpie = installed("nutpie")
    compiled = nutpie.compile_pymc_model(problem.model)

    def run(seed):
        idata = nutpie.sample(
            compiled, draws=draws, chains=4, cores=1, seed=seed, progress_bar=False,
            save_warmup=False,
        )  # fmt: skip
        return bridged(idata, problem.model, seed)

    return run


def bridged(idata, model, seed):
    """Bridge sampling of draws of any sampler: log Z, its error, its warnings."""
    estimate = pm_temper.estimate_logz(idata, model=model, random_seed=seed)
    return float(estimate.log_z), float(estimate.se), [w.code for w in estimate.warnings]


def sample_smc(problem):
    """`pm.sample_smc` as it is on one core: 2000 particles, two chains, no error.

    Its kernel is compiled once, where each call of a user's compiles it again.
    """
    model = with_prior(problem)
    kernel = pm.smc.IMH(draws=N_PARTICLES, model=model)

    def run(seed):
        idata = pm.sample_smc(
            N_PARTICLES, kernel=lambda **_: kernel, model=model, chains=2, cores=1,
            random_seed=seed, progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
        ends = [chain[-1] for chain in idata["sample_stats"]["log_marginal_likelihood"].values]
        ends = np.array(ends, dtype=float)
        return float(logsumexp(ends) - np.log(ends.size)), None, []

    return run


def blackjax_smc(problem, moves=10, waste_free=False):
    """BlackJAX's adaptive tempered SMC with HMC, tuned between temperatures as its handbook shows.

    2000 particles, each temperature at an effective sample size of one half, ten HMC moves of ten
    leapfrog steps for every particle; waste-free: 100 particles make 19 moves, and all are kept.
    The mass matrix is the particles' covariance and the step follows the rate of acceptance, to
    0.65. No error.
    """
    from peer_jax import annealing

    installed("blackjax")
    return annealing(with_prior(problem), N_PARTICLES, moves, waste_free)


METHODS = {
    "pymc_tempering": pymc_tempering,
    "nutpie_bridge": nutpie_bridge,
    "nutpie_bridge_5": partial(nutpie_bridge, draws=5000),
    "blackjax_smc": blackjax_smc,
    "blackjax_waste_free": partial(blackjax_smc, moves=20, waste_free=True),
    "sample_smc": sample_smc,
}
