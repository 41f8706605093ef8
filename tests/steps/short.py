"""Short runs of a step on a target with exact answers, and what they recorded."""

import pymc as pm

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.results.statistics import unpacked

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}


def sample(step, target, seed, draws=400, tune=100, **options):
    # whether local fits find every mode from one starting point is another test
    options.setdefault("base", GaussianBase.from_moments(target.mean, 1.5 * target.cov))
    with target.model():
        return pm.sample(
            draws, tune=tune, step=step(**options), chains=2, random_seed=seed, **QUIET
        )


def statistics_of(idata):
    return unpacked({name: values.values for name, values in idata.sample_stats.items()})
