"""``pm_temper.sample``: ``pm.sample`` with a step, and the estimate attached."""

import functools
import inspect

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import OptionError, TemperingWarning
from pymc_tempering.methods import METHODS, resolve_method
from pymc_tempering.results.statistics import STEP_METHODS
from pymc_tempering.steps.run import build_step, check_run
from pymc_tempering.testing import asymmetric_bimodal

QUICK = {"draws": 60, "tune": 60, "chains": 2, "cores": 1, "progressbar": False, "quiet": True,
         "compute_convergence_checks": False, "random_seed": 4}  # fmt: skip


@pytest.fixture(scope="module")
def target():
    return asymmetric_bimodal()


@pytest.fixture(scope="module")
def model(target):
    return target.model()


@pytest.fixture(scope="module")
def base(target):
    return pm_temper.GaussianBase(target.mean, 1.3 * np.sqrt(np.diag(target.cov)))


@pytest.fixture(scope="module")
def run(model, base):
    return pm_temper.sample(model, scans_per_draw=8, base=base, **QUICK)


def test_attached_estimate_is_that_of_estimate_logz(run):
    estimate = pm_temper.estimate_logz(run)
    group = run["tempering"]
    for name, value in {
        "": estimate.log_z, "_se": estimate.se, "_df": estimate.df, "_ess": estimate.ess
    }.items():  # fmt: skip
        assert float(group[f"log_marginal_likelihood{name}"]) == value
    np.testing.assert_array_equal(group["log_z_chain"], estimate.per_chain)
    assert group["warning_code"].values.tolist() == [w.code for w in estimate.warnings]


def test_draws_are_those_of_pm_sample(model, base, run):
    with model:
        step = pm_temper.ParallelTempering(scans_per_draw=8, base=base)
        plain = pm.sample(step=step, **QUICK)
    np.testing.assert_array_equal(plain["posterior"]["x"], run["posterior"]["x"])


def test_posterior_has_both_modes(target, run):
    share = float((run["posterior"]["x"][..., 0] > 0).mean())
    # 120 draws with little correlation: sd 0.05, and 6 of them either side
    assert abs(share - target.survival(0, 0.0)) < 0.3


# what is said of so few draws depends on them
@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_options_go_to_the_step_and_to_pm_sample(model, base, monkeypatch):
    seen = {}
    real = pm.sample

    @functools.wraps(real)
    def spy(draws, **kwargs):
        seen.update(kwargs, draws=draws)
        return real(draws, **kwargs)

    monkeypatch.setattr(pm, "sample", spy)
    run = pm_temper.sample(
        model, base=base, scans_per_draw=5, n_levels=7, target_accept=0.7,
        discard_tuned_samples=False, idata_kwargs={"log_likelihood": False}, **QUICK,
    )  # fmt: skip
    step = seen["step"]
    assert (step.scans_per_draw, step.n_levels) == (5, 7)
    assert step._source.explorer.aim == 0.7
    assert seen["discard_tuned_samples"] is False
    assert not {"scans_per_draw", "n_levels", "target_accept", "base"} & set(seen)
    assert seen["draws"] == 60
    shape = run["sample_stats"]["delta"].shape
    assert shape[:3] == (2, 60, 5)
    assert shape[3] <= 7  # levels that no chain uses are left away
    assert "warmup_sample_stats" in run.children


def test_tune_defaults_to_what_the_step_needs(model, base, monkeypatch):
    seen = {}

    @functools.wraps(pm.sample)
    def stop(draws, **kwargs):
        seen.update(kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(pm, "sample", stop)
    with pytest.raises(KeyboardInterrupt):
        pm_temper.sample(model, base=base)
    assert seen["tune"] is None
    assert seen["step"].default_tune_steps > 0
    assert seen["chains"] == 4


def test_doubts_are_warned_of_and_stored(model, base):
    with pytest.warns(TemperingWarning) as record:
        run = pm_temper.sample(model, base=base, scans_per_draw=2, **(QUICK | {"draws": 10}))
    diagnostics = [w.message.diagnostic for w in record if w.category is TemperingWarning]
    assert "too_few_effective_draws" in [diagnostic.code for diagnostic in diagnostics]
    for part in ("code", "text", "remedy"):
        stored = run["tempering"][f"warning_{part}"].values.tolist()
        assert stored == [getattr(diagnostic, part) for diagnostic in diagnostics]


@pytest.mark.parametrize("method", sorted(STEP_METHODS))
def test_every_method_has_a_step(method, model):
    options = {"model_option": 1}
    with pytest.raises(OptionError, match="model_option"):
        build_step(METHODS[method], model, options)
    step = build_step(METHODS[method], model, {"discard_tuned_samples": True})
    assert callable(step.step)


def test_build_step_takes_out_what_it_uses(model):
    options = {"scans_per_draw": 3, "quiet": True}
    assert build_step(METHODS["pt"], model, options).scans_per_draw == 3
    assert options == {"quiet": True}


def test_methods(model):
    assert resolve_method("auto").step
    assert resolve_method("st") is METHODS["st"]
    with pytest.raises(OptionError, match=r"options \['seed'\] \(did you mean random_seed\?\)"):
        pm_temper.estimate_logz(model, seed=1)
    with pytest.raises(OptionError, match=r"Unknown method 'smc'.*'pt'"):
        resolve_method("smc")


def test_check_run_accepts_what_pm_sample_does():
    check_run(draws=1, tune=0, chains=1, cores=1, random_seed=None, target_se=0.1)
    check_run(draws=np.int64(5), tune=None, chains=2, cores=None, random_seed=[1, 2026])


def test_public_functions_agree_on_their_arguments():
    sample, estimate = (
        inspect.signature(f).parameters for f in (pm_temper.sample, pm_temper.estimate_logz)
    )
    shared = ("method", "tune", "chains", "random_seed")
    for name in shared:
        assert sample[name].default == estimate[name].default
