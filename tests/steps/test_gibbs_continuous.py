"""GibbsCT as a PyMC step: posterior draws, log Z, seeds, states, refusals."""

import numpy as np
import pymc as pm
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.common import combine
from pymc_tempering.evidence.gibbs_ct import collect
from pymc_tempering.results.statistics import unpacked
from pymc_tempering.steps.gibbs_continuous import GibbsCT

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}


def sample(target, seed, draws=400, tune=100, chains=2, **options):
    # whether local fits find every mode from one starting point is another test
    options.setdefault("base", GaussianBase.from_moments(target.mean, 1.5 * target.cov))
    with target.model():
        step = GibbsCT(**options)
        return pm.sample(draws, tune=tune, step=step, chains=chains, random_seed=seed, **QUIET)


def statistics_of(idata):
    return unpacked({name: values.values for name, values in idata.sample_stats.items()})


def test_knots_share_the_time_after_tuning(seed):
    """No piece has less than a third or more than three times its share."""
    idata = sample(testing.asymmetric_bimodal(), seed, draws=600, tune=200)
    s = statistics_of(idata)
    for chain in range(2):
        counts, _ = np.histogram(s["beta"][chain], s["knots"][chain, 0])
        share = counts / counts.mean()
        assert share.min() > 1 / 3
        assert share.max() < 3.0
        assert np.ptp(s["bias"][chain], axis=0).max() == 0.0
        assert np.ptp(s["step_size"][chain], axis=0).max() == 0.0


def test_published_method_has_one_slope(seed):
    """n_knots = 1 and a number: the bias is beta log_zeta, and log Z is still right."""
    target = testing.asymmetric_bimodal()
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    idata = sample(target, seed, log_zeta=target.log_z, n_knots=1, base=base, adapt_base=False)
    s = statistics_of(idata)
    assert s["knots"][0, 0].tolist() == [0.0, 1.0]
    assert s["bias"][0, 0].tolist() == [0.0, target.log_z]
    estimate = combine(collect(s), "gibbs_ct")
    assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
    assert estimate.se < 0.1


def test_a_wrong_slope_is_warned_of(seed):
    """With log zeta far too low all the time is spent near beta = 1."""
    target = testing.asymmetric_bimodal()
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    idata = sample(target, seed, draws=50, log_zeta=target.log_z - 200.0, base=base)
    warnings = combine(collect(statistics_of(idata)), "gibbs_ct").warnings
    assert "levels_hardly_visited" in [w.code for w in warnings]


def test_draws_of_tuning_are_refused_by_the_estimate(seed):
    s = statistics_of(sample(testing.trimodal_1d(), seed, draws=5, tune=20, scans_per_draw=4))
    s["bias"] = s["bias"].copy()
    s["bias"][0, 1] += 0.1
    with pytest.raises(DataError, match="mixes tuning"):
        collect(s)
