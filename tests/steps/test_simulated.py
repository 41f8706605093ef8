"""SimulatedTempering as a PyMC step: posterior draws, log Z, seeds, states, refusals."""

import numpy as np
import pymc as pm
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.common import combine
from pymc_tempering.evidence.st import collect
from pymc_tempering.results.statistics import unpacked
from pymc_tempering.steps.simulated import SimulatedTempering

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}


def sample(target, seed, draws=400, tune=100, chains=2, **options):
    # whether local fits find every mode from one starting point is another test
    options.setdefault("base", GaussianBase.from_moments(target.mean, 1.5 * target.cov))
    with target.model():
        step = SimulatedTempering(**options)
        return pm.sample(draws, tune=tune, step=step, chains=chains, random_seed=seed, **QUIET)


def statistics_of(idata):
    return unpacked({name: values.values for name, values in idata.sample_stats.items()})


def test_levels_share_the_time_after_tuning(seed):
    """No level has less than a third or more than three times its share."""
    idata = sample(testing.asymmetric_bimodal(), seed, draws=600, tune=200)
    parts = collect(statistics_of(idata))
    share = parts.arrays["level_probability"]
    relative = share / np.nanmean(share, axis=1, keepdims=True)
    assert np.nanmin(relative) > 1 / 3
    assert np.nanmax(relative) < 3.0
    s = statistics_of(idata)
    for name in ("log_level_weights", "betas", "step_size"):
        used = s[name][:, :, np.isfinite(s[name][0, 0])]
        assert np.ptp(used, axis=1).max() == 0.0


def test_every_level_has_its_own_log_z(seed):
    """RTS at each level of a fixed schedule against quadrature, 5 reported errors."""
    target = testing.trimodal_1d()
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    betas = [0.0, 0.1, 0.3, 0.6, 1.0]
    idata = sample(target, seed, betas=betas, base=base, adapt_base=False)
    arrays = collect(statistics_of(idata)).arrays
    exact = target.log_z_path(betas, base)
    # eq. 15 and 16: the bias is far below the error, and the error is honest
    assert np.abs(arrays["log_z_bias"]).max() < 0.01
    z_scores = (arrays["log_z_levels"] - exact)[:, 1:] / np.sqrt(arrays["log_z_variance"][:, 1:])
    assert np.abs(z_scores).max() < 5.0
    assert arrays["log_z_variance"].max() < 0.05**2


@pytest.mark.parametrize("level_update", ["independent", "neighbour"])
def test_both_level_updates_are_right(level_update, seed):
    target = testing.asymmetric_bimodal()
    idata = sample(target, seed, level_update=level_update)
    estimate = combine(collect(statistics_of(idata)), "st")
    assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
    recorded = statistics_of(idata)
    chains = zip(recorded["betas"][:, 0], recorded["beta"], strict=True)
    level = np.stack([np.searchsorted(betas, beta).ravel() for betas, beta in chains])
    steps = np.abs(np.diff(level))
    assert (steps.max() == 1) == (level_update == "neighbour") or level.max() == 1


def test_weights_start_from_nothing_without_a_pilot_run(seed):
    """Fixed betas and adapt_base=False: initial iterations of section 2.4 alone, log Z = -300."""
    target = testing.trimodal_1d(log_z=-300.0)
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    idata = sample(target, seed, betas=[0.0, 0.1, 0.4, 1.0], base=base, adapt_base=False)
    s = statistics_of(idata)
    assert -s["log_level_weights"][:, 0, -1] == pytest.approx(-300.0, abs=1.5)
    estimate = combine(collect(s), "st")
    assert abs(estimate.log_z + 300.0) < 4.5 * estimate.se


def test_fixed_weights_stay(seed):
    target = testing.trimodal_1d()
    weights = [0.0, -0.5, -0.6]
    idata = sample(
        target, seed, draws=20, betas=[0.0, 0.3, 1.0], log_level_weights=weights, scans_per_draw=4
    )
    assert (statistics_of(idata)["log_level_weights"] == np.array(weights)).all()


def test_draws_of_tuning_are_refused_by_the_estimate(seed):
    s = statistics_of(sample(testing.trimodal_1d(), seed, draws=5, tune=20, scans_per_draw=4))
    s["betas"] = s["betas"].copy()
    s["betas"][0, 1, 1] += 0.01
    with pytest.raises(DataError, match="mixes tuning"):
        collect(s)
