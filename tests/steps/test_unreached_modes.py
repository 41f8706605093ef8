"""A base that is kept as given, and leaves out a mode, is reported.

The heavy mode's own Gaussian as base: the light mode is six of its standard deviations away, no
replica comes back from there, and every other statistic of the run looks perfect.
"""

import warnings
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.methods import METHODS, load
from pymc_tempering.references.prepare import prepare
from pymc_tempering.steps.visits import N_LOOKED_AT

OPTIONS = {
    "draws": 20,
    "tune": 20,
    "chains": 2,
    "cores": 1,
    "progressbar": False,
    "quiet": True,
    "compute_convergence_checks": False,
}


@pytest.fixture(scope="module")
def target():
    return testing.asymmetric_bimodal(weights=(0.1, 0.9))


@pytest.fixture(scope="module")
def heavy_mode(target):
    draws = target.draw(np.random.default_rng(1), 20_000)
    heavy = draws[draws[:, 0] * np.sign(target.mean[0]) > 0]
    return pm_temper.GaussianBase.from_moments(heavy.mean(axis=0), np.cov(heavy.T))


def test_mode_beyond_a_fixed_base_is_named(target, heavy_mode, seed):
    with pytest.warns(TemperingWarning) as caught:
        estimate = pm_temper.estimate_logz(
            target.model(), base=heavy_mode, adapt_base=False, random_seed=seed, **OPTIONS
        )
    [diagnostic] = [w for w in estimate.warnings if w.code == "mode_missing"]
    assert diagnostic.measured["mode_out_of_reach"] == {"n_unreached_modes": 1}
    assert diagnostic in [w.message.diagnostic for w in caught]


# so short a run has little else to say for itself
@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
@pytest.mark.parametrize("wide", [False, True])
def test_no_such_warning_where_the_base_adapts_or_is_wide(target, heavy_mode, seed, wide):
    base = heavy_mode
    if wide:
        base = pm_temper.GaussianBase(target.mean, 1.5 * np.sqrt(np.diag(target.cov)))
    idata = pm_temper.sample(
        target.model(), base=base, adapt_base=not wide, random_seed=seed, **OPTIONS
    )
    assert not idata.sample_stats["n_unreached_modes"].any()


@pytest.mark.parametrize("method", ["st", "gibbs_ct", "hais"])
def test_methods_that_do_not_look_in_tuning_look_in_their_draws(method, monkeypatch, seed):
    """For a mode that no Gaussian fits, so that its fit does not tell which draws are its own."""

    def search(*arguments, **options):
        found = prepare(*arguments, **options)
        [far] = [fit for fit in found.fits if fit.mean[0] > 30.0]
        return replace(found, poorly_fitted=(far,), well_fitted=())

    monkeypatch.setattr("pymc_tempering.steps.common.prepare", search)
    with pm.Model() as model:
        pm.NormalMixture("x", [0.4, 0.6], [0.0, 40.0], [1.0, 2.0], initval=0.0)
    step = load(METHODS[method].step)(
        model=model, base=pm_temper.GaussianBase([0.0], [1.5]), adapt_base=False, scans_per_draw=1
    )
    options = OPTIONS | {"draws": N_LOOKED_AT + 3, "chains": 1}
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = pm.sample(step=step, initvals={"x": 0.0}, random_seed=seed, **options)
        estimate = pm_temper.estimate_logz(run)
    missed = run.sample_stats["n_unreached_modes"].values[0]
    assert missed.tolist() == [0] * (N_LOOKED_AT - 1) + [1] * 4
    [diagnostic] = [w for w in estimate.warnings if w.code == "mode_missing"]
    assert "mode_out_of_reach" in diagnostic.measured
    gradients = run.sample_stats["n_gradients"].values[0]
    others = np.delete(gradients, N_LOOKED_AT - 1)
    assert gradients[N_LOOKED_AT - 1] > others.max() + N_LOOKED_AT
