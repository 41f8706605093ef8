"""Both steps with one tempered replica as PyMC runs them: posterior draws, log Z, refusals."""

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.common import combine
from pymc_tempering.evidence.coupled import collect_gibbs_ct, collect_st
from pymc_tempering.results.statistics import unpacked

KINDS = {"gibbs_ct": pm_temper.GibbsCT, "st": pm_temper.SimulatedTempering}
COLLECT = {"gibbs_ct": collect_gibbs_ct, "st": collect_st}
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}


def sample(method, target, seed, draws=400, tune=100, **options):
    # whether local fits find every mode from one starting point is another test
    options.setdefault("base", GaussianBase.from_moments(target.mean, 1.5 * target.cov))
    with target.model():
        step = KINDS[method](**options)
        return pm.sample(draws, tune=tune, step=step, chains=2, random_seed=seed, **QUIET)


def statistics_of(idata):
    return unpacked({name: values.values for name, values in idata.sample_stats.items()})


@pytest.mark.parametrize("name", ["asymmetric_bimodal", "hard_edge_gaussian"])
@pytest.mark.parametrize("method", KINDS)
def test_draws_and_log_z_are_right(method, name, seed):
    """Within 4.5 reported errors (false alarm 1e-5 each); modes by their exact weights."""
    target = testing.TARGETS[name]()
    idata = sample(method, target, seed)
    parts = COLLECT[method](statistics_of(idata))
    estimate = combine(parts, method)
    assert estimate.se < 0.05
    assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
    z = idata.posterior["x"].values
    ess = z.shape[0] * z.shape[1] / 4
    for threshold in (0.0, float(target.mean[0])):
        exact = float(target.survival(0, threshold))
        error = np.sqrt(max(exact * (1 - exact), 1e-3) / ess)
        assert (z[..., 0] > threshold).mean() == pytest.approx(exact, abs=4.5 * error)
    assert (parts.arrays["n_tempered_restarts"] > 100).all()
    tempered_restart = idata.sample_stats["tempered_restart"].values
    assert tempered_restart.mean() > 0.3
    assert not tempered_restart[idata.sample_stats["n_tempered_restarts"].values == 0].any()
    if name == "hard_edge_gaussian":
        assert "no_base_overlap" in [w.code for w in estimate.warnings]
        assert (parts.arrays["support_mass"] < 0.99).all()


def narrow_and_wide():
    """Two modes of six dimensions, and log Z = 0; the narrow one has .3 of the mass."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=6)
        parts = [
            np.log(weight) + pm.logp(pm.Normal.dist(centre, sd), x).sum()
            for weight, centre, sd in ((0.3, 2.0, 0.05), (0.7, -2.0, 1.0))
        ]
        pm.Potential("density", pm.math.logaddexp(*parts))
    return model


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
@pytest.mark.parametrize("method", ["gibbs_ct", "st", "hais"])
def test_chains_start_from_a_mixture_where_it_pays(method, seed):
    """From one Gaussian nine tenths of the draws and more are of the narrow mode (seeds 20 to 22).

    Errors of log Z are .01 to .04 and of the share .01 to .05: a false alarm in 15,000 each.
    """
    estimate = pm_temper.estimate_logz(
        narrow_and_wide(), method=method, chains=2, random_seed=seed, **QUIET
    )
    assert abs(estimate.log_z) < 0.2
    narrow = (estimate.idata.posterior["x"].values[..., 0] > 1.5).mean()
    assert narrow == pytest.approx(0.3, abs=0.2)


@pytest.mark.parametrize(("method", "changed"), [("gibbs_ct", "bias"), ("st", "betas")])
def test_draws_of_tuning_are_refused_by_the_estimate(method, changed, seed):
    target = testing.trimodal_1d()
    s = statistics_of(sample(method, target, seed, draws=5, tune=20, scans_per_draw=4))
    s[changed] = s[changed].copy()
    s[changed][0, 1, 1] += 0.01
    with pytest.raises(DataError, match="mixes tuning"):
        COLLECT[method](s)


def test_knots_share_the_time_after_tuning(seed):
    """No piece has less than a third or more than three times its share."""
    idata = sample("gibbs_ct", testing.asymmetric_bimodal(), seed, draws=600, tune=200)
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
    idata = sample(
        "gibbs_ct", target, seed, log_zeta=target.log_z, n_knots=1, base=base, adapt_base=False
    )
    s = statistics_of(idata)
    assert s["knots"][0, 0].tolist() == [0.0, 1.0]
    assert s["bias"][0, 0].tolist() == [0.0, target.log_z]
    estimate = combine(collect_gibbs_ct(s), "gibbs_ct")
    assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
    assert estimate.se < 0.1


def test_a_wrong_slope_is_warned_of(seed):
    """With log zeta far too low all the time is spent near beta = 1."""
    target = testing.asymmetric_bimodal()
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    idata = sample("gibbs_ct", target, seed, draws=50, log_zeta=target.log_z - 200.0, base=base)
    warnings = combine(collect_gibbs_ct(statistics_of(idata)), "gibbs_ct").warnings
    assert "levels_hardly_visited" in [w.code for w in warnings]


def test_levels_share_the_time_after_tuning(seed):
    """No level has less than a third or more than three times its share."""
    idata = sample("st", testing.asymmetric_bimodal(), seed, draws=600, tune=200)
    parts = collect_st(statistics_of(idata))
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
    idata = sample("st", target, seed, betas=betas, base=base, adapt_base=False)
    arrays = collect_st(statistics_of(idata)).arrays
    exact = target.log_z_path(betas, base)
    # eq. 15 and 16: the bias is far below the error, and the error is honest
    assert np.abs(arrays["log_z_bias"]).max() < 0.01
    z_scores = (arrays["log_z_levels"] - exact)[:, 1:] / np.sqrt(arrays["log_z_variance"][:, 1:])
    assert np.abs(z_scores).max() < 5.0
    assert arrays["log_z_variance"].max() < 0.05**2


@pytest.mark.parametrize("level_update", ["independent", "neighbour"])
def test_both_level_updates_are_right(level_update, seed):
    target = testing.asymmetric_bimodal()
    idata = sample("st", target, seed, level_update=level_update)
    estimate = combine(collect_st(statistics_of(idata)), "st")
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
    idata = sample("st", target, seed, betas=[0.0, 0.1, 0.4, 1.0], base=base, adapt_base=False)
    s = statistics_of(idata)
    assert -s["log_level_weights"][:, 0, -1] == pytest.approx(-300.0, abs=1.5)
    estimate = combine(collect_st(s), "st")
    assert abs(estimate.log_z + 300.0) < 4.5 * estimate.se


def test_fixed_weights_stay(seed):
    target = testing.trimodal_1d()
    weights = [0.0, -0.5, -0.6]
    idata = sample(
        "st",
        target,
        seed,
        draws=20,
        betas=[0.0, 0.3, 1.0],
        log_level_weights=weights,
        scans_per_draw=4,
    )
    assert (statistics_of(idata)["log_level_weights"] == np.array(weights)).all()
