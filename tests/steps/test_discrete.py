"""Parallel tempering by compiled Gibbs sweeps, and which step a discrete model is given."""

import logging
from dataclasses import replace

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from hard_targets import judge
from hard_targets.discrete import COUPLINGS, DISCRETE

import pymc_tempering as pm_temper
from pymc_tempering.engine.explorers.gibbs import GibbsHamiltonian, GibbsSlice
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.errors import BaseError, ModelError, OptionError
from pymc_tempering.model import compile as compile_module
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.freeze import finite_supports, starting_points
from pymc_tempering.model.machine_code import machine_code
from pymc_tempering.model.point import PointMap
from pymc_tempering.progress import plan
from pymc_tempering.steps.discrete import discrete_step
from tests.steps.ising import LOG_Z, RUN, STATES, ising, probabilities


def model_of(*variables):
    """Model of variables that are made in its context, with a likelihood."""
    with pm.Model() as model:
        for variable in variables:
            variable()
        pm.Potential("likelihood", 0.1 * sum(rv.sum() for rv in model.free_RVs))
    return model


def supports_of(model):
    return finite_supports(model, PointMap.from_model(model))


def test_supports_are_what_distributions_say():
    model = model_of(
        lambda: pm.Bernoulli("a", 0.3),
        lambda: pm.Normal("x", shape=2),
        lambda: pm.Categorical("b", [[0.2, 0.8, 0.0], [0.5, 0.2, 0.3]]),
        lambda: pm.Categorical("c", pm.Dirichlet("p", np.ones(4))),
        lambda: pm.DiscreteUniform("d", [-3, 2], [4, 2]),
        lambda: pm.Binomial("e", [2, 5], pm.Beta("q", 1, 1)),
        lambda: pm.BetaBinomial("f", 1.0, 2.0, n=3),
        lambda: pm.HyperGeometric("g", N=20, k=8, n=4),
        lambda: pm.OrderedLogistic("h", 0.1, [0.0, 1.0]),
    )
    points = PointMap.from_model(model)
    places = dict(zip(points.names, np.cumsum([0, *points.sizes]).tolist(), strict=False))
    expected = [
        ("a", 0, 0, 2), ("b", 0, 0, 3), ("b", 1, 0, 3), ("c", 0, 0, 4), ("d", 0, -3, 8),
        ("d", 1, 2, 1), ("e", 0, 0, 3), ("e", 1, 0, 6), ("f", 0, 0, 4), ("g", 0, 0, 5),
        ("h", 0, 0, 3),
    ]  # fmt: skip
    assert supports_of(model) == tuple(
        (places[name] + i, lowest, n) for name, i, lowest, n in expected
    )


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        (lambda: pm.Poisson("k", 3.0), r"'k' \(Poisson\) is not known to have finitely many"),
        (
            lambda: pm.Binomial("k", pm.Bernoulli("n", 0.5) + 1, 0.5),
            "'k'.*depend on other",
        ),
        (lambda: pm.DiscreteUniform("k", 0, 500), "'k' has 501 values"),
    ],
    ids=["endless", "not constant", "many"],
)
def test_without_small_supports_pymc_moves_the_replicas(variable, reason, caplog):
    model = model_of(variable)
    with pytest.raises(ModelError, match=reason):
        supports_of(model)
    with caplog.at_level(logging.INFO, logger="pymc"):
        assert discrete_step(model, {}) is pm_temper.CompoundTempering
    assert "PyMC's own step methods move the replicas" in caplog.text
    # asked for, it is refused by name
    assert discrete_step(model, {"explorer": "slice"}) is pm_temper.DiscreteTempering


def test_who_asks_for_pymc_gets_it(caplog):
    options = {"explorer": "pymc", "scans_per_draw": 3}
    with caplog.at_level(logging.INFO, logger="pymc"):
        assert discrete_step(ising(), options) is pm_temper.CompoundTempering
    assert options == {"scans_per_draw": 3}
    assert caplog.text == ""


def test_a_density_of_discrete_values_is_for_who_says_so():
    model = ising()
    density = compile_density(model, discrete=True)
    value, gradient = density.value_and_grad(STATES[5].astype(float))
    assert value == pytest.approx(model.compile_logp(mode="FAST_COMPILE")({"up": STATES[5]}))
    np.testing.assert_array_equal(gradient, np.zeros(4))
    # also after it was compiled once
    with pytest.raises(ModelError, match="are discrete"):
        compile_density(model)


def test_compiled_code_is_checked_at_several_discrete_states(monkeypatch):
    """One that is wrong wherever a spin is not as in the initial state is noticed."""
    seen = []

    def wrong(*given):
        code = machine_code(*given)

        def called(z, gradient):
            seen.append(z[: STATES.shape[1]])
            return code.called(z, gradient) + 0.1 * (seen[-1] != seen[0])

        return code._replace(called=called)

    monkeypatch.setattr(compile_module, "machine_code", wrong)
    with pytest.raises(ModelError, match="compiled log density is not that of this model"):
        compile_density(ising(), discrete=True)


def test_starting_points_are_within_the_supports():
    supports = ((1, -3, 8), (2, 2, 1))
    points = starting_points(np.array([0.5, 4.0, 2.0]), supports)
    assert points[0].tolist() == [0.5, 4.0, 2.0]
    assert len(set(points[:, 0])) == len(points)
    values = points[1:, 1]
    assert len(set(values)) > 3
    assert np.isin(values, np.arange(-3, 5)).all()
    assert (points[:, 2] == 2.0).all()


@pytest.mark.statistical
def test_estimate_logz_takes_it_for_discrete_models():
    """Four errors: 1e-4."""
    model = ising()
    estimate = pm_temper.estimate_logz(model, draws=80, tune=60, **RUN)
    assert abs(estimate.log_z - LOG_Z) < 4 * estimate.se
    assert 0.0 < estimate.se < 0.06
    assert estimate.warnings == ()
    assert estimate.method == "pt, mbar"
    posterior, stats = estimate.idata["posterior"], estimate.idata["sample_stats"]
    assert posterior["up"].dtype.kind == "i"
    exact = probabilities(1.0) @ STATES
    np.testing.assert_allclose(posterior["up"].mean(("chain", "draw")), exact, atol=0.2)
    # one draw from the prior, three levels at most below, and a flip of each of four spins
    assert int(stats["n_round_trips"].sum()) > 100
    stored = pm_temper.estimate_logz(estimate.idata)
    assert (stored.log_z, stored.se) == (estimate.log_z, estimate.se)


@pytest.fixture(scope="module")
def selection():
    return DISCRETE["selection"]()


@pytest.mark.statistical
@pytest.mark.parametrize("explorer", [pytest.param(None, marks=pytest.mark.slow), "hamiltonian"])
def test_indicators_and_slopes_against_the_sum(selection, explorer):
    """Log Z and the posterior of three columns, each at four errors: 3e-4."""
    step = pm_temper.DiscreteTempering(model=selection.model, explorer=explorer, scans_per_draw=20)
    assert type(step._source.explorer) is (GibbsSlice if explorer is None else GibbsHamiltonian)
    said = plan(step, draws=100, tune=60, chains=2, compiled=1.0, most=np.inf)
    kind = "slices" if explorer is None else "Hamiltonian moves"
    assert f"Gibbs sweeps (chosen: 20 values of 10 entries) and {kind} (slope)" in said
    # a worker gets the step by pickling
    step = cloudpickle.loads(cloudpickle.dumps(step))
    idata = pm.sample(100, tune=60, step=step, model=step._source.model, **RUN)
    estimate = pm_temper.estimate_logz(idata)
    assert judge(selection, estimate, idata).wrong == ()
    assert estimate.se < 0.2
    slope, chosen = (idata["posterior"][name].values for name in ("slope", "chosen"))
    assert set(np.unique(chosen)) == {0, 1}
    # coordinates are of the posterior where they are, and whole numbers stay what they are
    ladder = step._run.ladder
    whole = list(ladder.path.whole)
    np.testing.assert_array_equal(ladder.base.mean[whole], 0.0)
    np.testing.assert_array_equal(ladder.base.standard_deviation[whole], 1.0)
    assert len(np.unique(slope)) == slope.size
    assert ladder.base.mean[np.argmax(ladder.base.mean)] > 0.3


def test_how_continuous_variables_move():
    """By what was asked for, and else by slices where they are few."""

    def settings(n, **options):
        model = model_of(lambda: pm.Bernoulli("k", 0.4), lambda: pm.Normal("x", shape=n))
        step = pm_temper.DiscreteTempering(model=model, **options)
        return replace(step._source.explorer, supports=())

    assert settings(10) == GibbsSlice()
    assert settings(11) == GibbsHamiltonian()
    assert settings(10, max_steps=7) == GibbsHamiltonian(max_steps=7)
    assert settings(11, explorer=Slice(max_expansions=3)) == GibbsSlice(max_expansions=3)


def test_a_state_continues_where_it_was():
    step = pm_temper.DiscreteTempering(model=ising(), scans_per_draw=5)
    point = ising().initial_point()

    def run(state, seed, n):
        step.setup_chain(np.random.default_rng(seed), 20, 20)
        step.chain = state
        if state is not None:
            step.stop_tuning()
        points = [step.step(point)[0]["up"] for _ in range(n)]
        return step.chain, np.array(points)

    state, _ = run(None, 3, 30)
    _, expected = run(state, 4, 15)
    _, again = run(state, 4, 15)
    np.testing.assert_array_equal(again, expected)
    assert len(np.unique(expected, axis=0)) > 1


def test_a_start_of_the_users_is_used():
    step = pm_temper.DiscreteTempering(model=ising(), scans_per_draw=1)
    step.setup_chain(np.random.default_rng(1), 5, 5)
    start = {"up": np.array([1, 0, 0, 1])}
    np.testing.assert_array_equal(step._places(np.zeros((1, 4)), start)[-1], start["up"])
    assert len(step._places(np.zeros((1, 4)), start)) > 4


def test_what_cannot_start_is_refused_by_name():
    with pytest.raises(OptionError, match="'hamiltonian', 'slice'"):
        pm_temper.DiscreteTempering(model=ising(), explorer="gist")
    with pytest.raises(ModelError, match=r"'k' \(Poisson\)"):
        pm_temper.DiscreteTempering(model=model_of(lambda: pm.Poisson("k", 3.0)))
    with pytest.raises(ModelError, match="no discrete free variables"):
        pm_temper.DiscreteTempering(model=model_of(lambda: pm.Normal("x", 1.0, 2.0)))
    with pm.Model() as flat:
        pm.Normal("y", pm.Flat("level") + pm.Bernoulli("k", 0.5), 1.0, observed=1.0)
    with pytest.raises(BaseError, match=r"\['level'\] are flat"):
        pm_temper.DiscreteTempering(model=flat)
    with pm.Model() as alone:
        pm.Bernoulli("k", 0.3)
    with pytest.raises(ModelError, match="neither observed variables nor potentials"):
        pm_temper.DiscreteTempering(model=alone)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", [f"ising_{coupling}" for coupling in COUPLINGS])
def test_an_ising_model_through_its_transition(name):
    """Log Z and the mass of one sign, each at four errors: 1e-4."""
    target = DISCRETE[name]()
    estimate = pm_temper.estimate_logz(target.model, **RUN)
    assert judge(target, estimate, estimate.idata).wrong == ()


@pytest.mark.slow
@pytest.mark.statistical
def test_allocations_and_what_is_left_without_them():
    """Four errors each: 1e-4."""
    estimates = {}
    for name in ("mixture_allocations", "mixture_summed"):
        target = DISCRETE[name]()
        estimates[name] = pm_temper.estimate_logz(target.model, **RUN)
        assert judge(target, estimates[name], estimates[name].idata).wrong == ()
    first, second = estimates.values()
    assert abs(first.log_z - second.log_z) < 4 * np.hypot(first.se, second.se)
