"""Every call that is given another model says which part of it is another."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.checkpoint.description import describe, differences
from pymc_tempering.comparison.estimates import data_diagnostics
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError, ModelError, TemperingWarning
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.identity import Identity, recipe
from pymc_tempering.results.identity import recorded_identity, with_identity
from tests.identity.pairs import black_box, custom, linear

RUN = {"draws": 40, "tune": 20, "chains": 2, "cores": 1, "scans_per_draw": 2, "random_seed": 4,
       "progressbar": False, "quiet": True, "compute_convergence_checks": False}  # fmt: skip
# of runs as short as these
pytestmark = pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")

OTHERS = {
    "the prior of 'slope'": {"sd": 3.0},
    "the prior of 'spread'": {"scale": 1.6},
    "the transform of 'spread'": {"transform": True},
    "the data 'x_data'": {"x": np.array([0.3, -1.2, 0.7, 2.2])},
    "the data of 'y'": {"y": np.array([0.4, -1.1, 2.3, 0.8])},
    "the likelihood of 'y'": {"link": "tanh"},
    "the potential 'far'": {"far": 6.0},
    "the prior of 'idle'": {"extra": True},
}


@pytest.fixture(scope="module")
def model():
    return linear()


@pytest.fixture(scope="module")
def run(model):
    return pm_temper.sample(model, **RUN)


@pytest.fixture(params=OTHERS)
def other(request):
    """Name of a part, and the model in which it is another."""
    return request.param, linear(**OTHERS[request.param])


def refused(part):
    return pytest.raises(DataError, match=part)


def test_a_stored_run_with_its_model(run, other):
    with refused(other[0]):
        pm_temper.estimate_logz(run, model=other[1])


def test_chains_that_would_be_added(run, other):
    with refused(other[0]):
        pm_temper.estimate_logz(run, model=other[1], target_se=0.1)


def test_bridge_sampling(run, other):
    with refused(other[0]):
        pm_temper.estimate_logz(run, model=other[1], method="bridge")


def test_prior_sensitivity(run, other):
    with refused(other[0]):
        pm_temper.prior_sensitivity(run, other[1])


def test_chains_put_together(run, other):
    chains = [run.isel(chain=[0]), with_identity(run.isel(chain=[1]), Identity.of(other[1]))]
    with refused(other[0]):
        pm_temper.concat_chains(chains)


def test_a_folder_of_resume(model, other):
    kept, now = (describe(m, "step", Identity.of(m), 1, {}, {}) for m in (model, other[1]))
    assert f"{other[0]} changed" in differences(kept, now)
    assert differences(kept, kept) == []


@dataclass
class Tailed:
    """A reference whose draws do not tell its tail."""

    tail: float

    def draw(self, rng, n):
        return rng.standard_normal((n, 2))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (
            GaussianBase(np.zeros(2), np.ones(2), log_zeta=-3.0),
            GaussianBase(np.zeros(2), np.ones(2), log_zeta=-4.0),
        ),
        (GaussianBase(np.zeros(2), np.ones(2)), GaussianBase(np.zeros(2), np.full(2, 1.0 + 1e-15))),
        (Tailed(3.0), Tailed(4.0)),
        (np.zeros(20), np.zeros(20, dtype=int)),
    ],
    ids=["log_zeta", "scale", "tail", "dtype"],
)
def test_a_folder_of_resume_tells_bases_alike_apart(model, one, two):
    described = [
        describe(model, "step", Identity.of(model), 1, {"base": base}, {}) for base in (one, two)
    ]
    assert differences(*described) != []
    assert differences(described[0], described[0]) == []


def test_average(run, other):
    evidence = LogZEstimate(
        -3.0, 0.1, "pt", np.zeros(2), idata=with_identity(run, Identity.of(other[1]))
    )
    with refused(other[0]):
        pm_temper.average(
            {"a": run, "b": run}, {"a": evidence, "b": evidence}, group="posterior", random_seed=1
        )


def test_the_same_model_again(run, model):
    """Rebuilt; and through a file's attributes, slices, and the chains of two runs."""
    again = linear()
    assert recorded_identity(run) == Identity.of(again)
    part = run.isel(draw=slice(0, 20))
    together = pm_temper.concat_chains([part.isel(chain=[0]), part.isel(chain=[1])])
    assert recorded_identity(together) == Identity.of(again)
    # nothing is known of chains of which a part says nothing
    bare = with_identity(part.isel(chain=[1]), None)
    assert recorded_identity(pm_temper.concat_chains([part.isel(chain=[0]), bare])) is None
    assert recipe(again) == recipe(model)
    assert compile_density(model) is compile_density(model)
    log_z = float(run["tempering"]["log_marginal_likelihood"])
    assert pm_temper.estimate_logz(run, model=again).log_z == pytest.approx(log_z, abs=1e-12)


def test_a_file(run, tmp_path):
    run.to_netcdf(tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc") as stored:
        assert recorded_identity(stored) == recorded_identity(run)


def test_runs_of_earlier_versions_are_compared_by_densities(run, model):
    """At every draw: at most of these the potential is the same, and the prior nearly."""
    old = with_identity(run, None)
    pm_temper.estimate_logz(old, model=linear())
    slopes = run["posterior"]["slope"]
    edge = float(slopes.quantile(0.9))
    # draws repeat where nothing moved, so that a tenth of them is a matter of the last bits
    few, n = linear(far=-0.3, edge=edge), int((slopes > edge).sum())
    with refused(rf"at {n} of 80 draws, by up to 0.3 nats"):
        pm_temper.estimate_logz(old, model=few)
    with refused(r"of 80 draws, by up to"):
        pm_temper.prior_sensitivity(old, linear(sd=1.0 + 1e-9))


def test_small_differences_of_large_densities():
    """|lp| is 3e5 here, and another prior changes it by no more than 2 nats."""
    y = np.full(2, 550.0)

    def shifted(sd):
        with pm.Model() as model:
            x = pm.Normal("x", 0.0, sd)
            pm.Normal("y", 0.0 * x, 1.0, observed=y)
        return model

    model = shifted(1.0)
    density = compile_density(model)
    draws = np.random.default_rng(3).normal(size=(2, 60))
    lp = np.vectorize(lambda x: density.value_and_grad(np.array([x]))[0])(draws)
    stored = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset({"x": (("chain", "draw"), draws)}),
            "sample_stats": xr.Dataset({"lp": (("chain", "draw"), lp * (1.0 + 1e-15))}),
        }
    )
    assert lp.max() < -3e5
    estimate = pm_temper.estimate_logz(stored, model=model, random_seed=1)
    assert np.isfinite(estimate.log_z)
    with refused("of 120 draws"):
        pm_temper.estimate_logz(stored, model=shifted(3.0))


def test_functions_with_a_state_are_compared_by_densities():
    """A list that a function appends to is not of the identity; what it returns is looked at."""
    model = black_box(2.0, hidden=[])
    density = compile_density(model)
    draws = np.linspace(-1.0, 2.0, 60).reshape(2, 30)
    lp = np.vectorize(lambda x: density.value_and_grad(np.array([x]))[0])(draws)
    stored = with_identity(
        xr.DataTree.from_dict(
            {
                "posterior": xr.Dataset({"x": (("chain", "draw"), draws)}),
                "sample_stats": xr.Dataset({"lp": (("chain", "draw"), lp)}),
            }
        ),
        Identity.of(model),
    )
    pm_temper.prior_sensitivity(stored, black_box(2.0, hidden=[1, 2]), prior_scale={"x": (1.1,)})
    with refused("at 20 of 60 draws, by up to 0.5 nats"):
        pm_temper.prior_sensitivity(stored, black_box(1.5, hidden=[]))


def test_a_step_says_what_changed_since():
    values = np.array([0.2, 0.9])
    with pm.Model():
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x + pt.as_tensor(values), 1.0, observed=[0.0, 0.5])
        step = pm_temper.ParallelTempering()
    values[0] = 5.0
    with pytest.raises(ModelError, match="the likelihood of 'y'"):
        step.setup_chain(np.random.default_rng(1), 1, 1)


def density_at(model, place):
    return compile_density(model).value_and_grad(np.array(place))[0]


def test_compiled_densities_see_every_change():
    """Values that are exchanged, arrays that are changed in place, and a captured number."""
    a, b, c = pytensor.shared(0.5), pytensor.shared(3.0), np.array([0.4, -0.2])
    rate = np.array(1.0)
    with pm.Model() as model:
        x = pm.Normal("x", a, 1.0)
        pm.Normal("y", x + pt.as_tensor(c), b, observed=[2.0, 1.0])
        pm.Potential("far", -rate * pt.abs(x))

    def right():
        return float(model.compile_logp(mode="FAST_COMPILE")({"x": 0.7}))

    first = density_at(model, [0.7])
    assert first == pytest.approx(right(), abs=1e-12)
    same = compile_density(model)
    assert compile_density(model) is same
    a.set_value(3.0)
    b.set_value(0.5)
    second = density_at(model, [0.7])
    assert abs(second - first) > 1.0
    assert second == pytest.approx(right(), abs=1e-12)
    c[:] = [1.4, 0.3]
    third = density_at(model, [0.7])
    assert abs(third - second) > 1.0
    assert third == pytest.approx(right(), abs=1e-12)


@pytest.mark.parametrize("how", ["exchanged", "in place", "resumed"])
def test_log_z_after_a_change(how, tmp_path):
    """x + y of a Gaussian, exactly: N(y; m + c, sqrt(1 + s^2))."""
    m, s, c = pytensor.shared(-0.4), pytensor.shared(2.5), np.array([0.3])
    with pm.Model() as model:
        x = pm.Normal("x", m, 1.0, shape=1)
        pm.Normal("y", x + pt.as_tensor(c), s, observed=[1.7])
    options = RUN | {"resume": tmp_path / "run"} if how == "resumed" else RUN

    def estimate():
        return pm_temper.estimate_logz(model, **options)

    def exact():
        variance = 1.0 + s.get_value() ** 2
        away = 1.7 - m.get_value() - c[0]
        return -0.5 * (np.log(2.0 * np.pi * variance) + away**2 / variance)

    before = estimate()
    assert abs(before.log_z - exact()) < 0.05
    if how == "exchanged":
        m.set_value(2.5)
        s.set_value(-0.4 * -1.0)
    else:
        c[:] = 2.9
    if how == "resumed":
        with refused("the likelihood of 'y' changed"):
            pm_temper.estimate_logz(model, **options)
        return
    after = estimate()
    assert abs(after.log_z - exact()) < 0.05
    assert abs(after.log_z - before.log_z) > 0.15


def potential(data):
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Potential("likelihood", -0.5 * pt.sum((x - pt.as_tensor(data)) ** 2))
    return model


def test_compare_of_potentials():
    one, two = potential(np.array([1.0, 2.0])), potential(np.array([1.0, 2.5]))
    [diagnostic] = data_diagnostics({"one": one, "two": two})
    assert diagnostic.code == "data_not_compared"
    assert diagnostic.measured == {"models": ["one", "two"]}
    again = potential(np.array([1.0, 2.0]))
    assert data_diagnostics({"one": one, "again": again}) == []
    assert data_diagnostics({"a": linear(), "b": linear(sd=2.0)}) == []
    assert [d.code for d in data_diagnostics({"a": linear(), "one": one})] == ["data_not_compared"]
    assert data_diagnostics({"a": custom(1.0), "b": custom(2.0)}) == []


def test_compare_says_so_once(run):
    stored = {
        name: with_identity(run.drop_nodes("observed_data"), Identity.of(potential(data)))
        for name, data in (("one", np.array([1.0, 2.0])), ("two", np.array([1.0, 2.5])))
    }
    estimates = {
        name: LogZEstimate(-3.0, 0.1, "pt", np.full(2, -3.0), idata=idata)
        for name, idata in stored.items()
    }
    with pytest.warns(TemperingWarning, match="it cannot be checked") as said:
        pm_temper.compare(estimates)
    assert len(said) == 1
    with pytest.warns(TemperingWarning, match="it cannot be checked"):
        pm_temper.average(stored, estimates, group="posterior", random_seed=1)


def test_compare_refuses_other_data(run):
    moved = run.copy()
    moved["observed_data"] = xr.DataTree(run["observed_data"].to_dataset() + 1.0)
    with refused("different data"):
        pm_temper.compare({"a": run, "b": moved})
