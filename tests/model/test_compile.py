"""A model's density as a C function: the right numbers, clear refusals, a safe cache."""

import os
import subprocess
import sys

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_tempering.errors import ModelError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.graph import in_python
from pymc_tempering.model.identity import Identity
from tests.fresh import fresh_process


def with_data_and_dims():
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        x = pm.Data("x", np.array([0.5, -1.0, 2.0, 0.1]))
        index = pm.Data("index", np.array([0, 1, 2, 1]))
        slope = pm.Normal("slope", 1.0, 2.0, dims="group")
        sigma = pm.HalfNormal("sigma", 1.5)
        mu = pm.Deterministic("mu", slope[index] * x)
        pm.Normal("y", mu, sigma, observed=np.array([0.3, -0.8, 1.1, 0.0]))
    return model


def with_potential():
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 3.0)
        b = pm.Beta("b", 2.0, 5.0)
        pm.Potential("penalty", -((a - 3.0 * b) ** 2))
    return model


def with_ordered_and_simplex():
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.array([1.0, 2.0, 4.0]))
        mu = pm.Normal(
            "mu", [-1.0, 0.5, 2.0], 2.0, transform=pm.distributions.transforms.ordered,
            initval=[-2.0, 0.0, 3.0],
        )  # fmt: skip
        low = pm.Uniform("low", -2.0, 5.0)
        parts = pm.Normal.dist(mu + low, 0.7)
        pm.Mixture("y", w, parts, observed=np.array([-0.5, 1.0, 2.5, 3.0]))
    return model


def with_missing_values():
    with pm.Model() as model:
        mu = pm.Normal("mu", 2.0, 1.0)
        sigma = pm.Exponential("sigma", 0.5)
        pm.Normal("y", mu, sigma, observed=np.ma.masked_invalid([1.0, np.nan, 2.5, np.nan]))
    return model


def with_correlations():
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        x = pm.MvNormal("x", np.zeros(2), chol=chol)
        pm.Poisson("k", pm.math.exp(x), observed=np.array([3, 0]))
    return model


MODELS = {
    f.__name__: f
    for f in (
        with_data_and_dims, with_potential, with_ordered_and_simplex, with_missing_values,
        with_correlations,
    )
}  # fmt: skip


# whose transforms other models of the tests have, too
LONG = ("with_correlations", "with_ordered_and_simplex")


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LONG else name
        for name in sorted(MODELS)
    ],
)
def test_value_and_gradient(name, rng):
    model = MODELS[name]()
    density = compile_density(model)
    with in_python():
        logp = model.compile_logp(mode="FAST_COMPILE")
    assert density.dim == sum(np.size(v) for v in model.initial_point().values())
    np.testing.assert_array_equal(density.start, density.points.ravel(model.initial_point()))
    step = 1e-6
    for z in density.start + rng.uniform(-1.0, 1.0, (5, density.dim)):
        value, grad = density.value_and_grad(z)
        assert value == pytest.approx(float(logp(density.points.unravel(z))), rel=1e-10)
        differences = [
            (density.value_and_grad(z + step * e)[0] - density.value_and_grad(z - step * e)[0])
            / (2 * step)
            for e in np.eye(density.dim)
        ]
        np.testing.assert_allclose(grad, differences, rtol=1e-4, atol=1e-4)


def test_invalid_parameters_have_no_density():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, initval=1.0)
        pm.Normal("y", 0.0, x, observed=0.5)
    density = compile_density(model)
    assert np.isfinite(density.value_and_grad([0.5])[0])
    assert density.value_and_grad([-0.5])[0] == -np.inf


def test_vectors_of_another_length_are_refused():
    density = compile_density(with_potential())
    with pytest.raises(ModelError, match=r"2 unconstrained values.*shape \(3,\)"):
        density.value_and_grad(np.zeros(3))


def test_later_data_do_not_reach_a_compiled_density():
    model = with_data_and_dims()
    density, before = compile_density(model), Identity.of(model)
    value, _ = density.value_and_grad(density.start)
    with model:
        pm.set_data({"x": np.array([9.0, 9.0, 9.0, 9.0])})
    assert density.value_and_grad(density.start)[0] == value
    assert before.changes(Identity.of(model)) == ["the data 'x'"]
    assert compile_density(model).value_and_grad(density.start)[0] != value
    assert [rv.name for rv in model.free_RVs] == ["slope", "sigma"]


def test_a_model_whose_variables_have_no_entries_is_refused():
    with pm.Model() as model:
        x = pm.Normal("x", shape=0)
        pm.Normal("y", x.sum(), 1.0, observed=0.3)
    with pytest.raises(ModelError, match=r"free variables \['x'\] have no entries"):
        compile_density(model)


def test_random_graphs_are_refused():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("noise", x * pm.Normal.dist(0.0, 1.0))
    with pytest.raises(ModelError, match="changes from call to call"):
        compile_density(model)


def test_densities_finite_nowhere_are_refused_with_the_term():
    with pm.Model() as model:
        pm.Normal("x")
        pm.HalfNormal("bad", 1.0, observed=-1.0)
    with pytest.raises(ModelError, match=r"not finite.*'bad'.*initval"):
        compile_density(model)


def test_one_bad_starting_point_is_no_reason_to_refuse():
    with pm.Model() as model:
        x = pm.Flat("x", initval=0.0)
        pm.Potential("p", pt.switch(x > 0.01, -x, -np.inf))
    assert compile_density(model).start.tolist() == [0.0]


# Two models that differ in a constant alone: the same graph otherwise, and the same dimension.
SCRIPT = """
import sys
import numpy as np, pymc as pm
from numba.core.caching import Cache
from pymc_tempering.model import compile as module
loads = []
original = Cache.load_overload
def load(self, sig, target_context):
    data = original(self, sig, target_context)
    if "tempering_density" in str(self._name):
        loads.append(data is not None)
    return data
Cache.load_overload = load
for sd in map(float, sys.argv[1:]):
    with pm.Model() as model:
        pm.Normal("x", 0.125, sd, shape=2)
    value, grad = module.compile_density(model).value_and_grad(np.array([1.0, 2.0]))
    print(sd, repr(value), *map(repr, grad.tolist()), loads[-1])
"""


def compiled_in_a_fresh_process(*sds):
    return [line.split() for line in fresh_process(SCRIPT, *sds).splitlines()]


def test_cached_wrappers_of_two_models_are_never_confused():
    first = 0.7310
    second = 1.9135
    compiled_in_a_fresh_process(first, second)
    # the other order, from the disk alone, so that any name or counter would give the other model
    rows = compiled_in_a_fresh_process(second, first)
    for sd, (_, value, g0, g1, count_starts) in zip((second, first), rows, strict=True):
        r = np.array([0.875, 1.875]) / sd
        exact = -0.5 * r @ r - np.log(2 * np.pi) - 2 * np.log(sd)
        assert float(value) == pytest.approx(exact, rel=1e-12)
        np.testing.assert_allclose([float(g0), float(g1)], -r / sd, rtol=1e-12)
        assert count_starts == "True"


_FIRST_AND_LATER = """
import hashlib, numpy as np, pymc as pm
from pymc_tempering.model.compile import compile_density
rng = np.random.default_rng(0)
group, x = rng.integers(0, 40, 500), rng.normal(size=500)
with pm.Model() as model:
    mu, tau = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("tau", 1.0)
    a = pm.Normal("a", mu, tau, shape=40)
    pm.Normal("y", a[group] * x, 0.7, observed=rng.normal(size=500))
density = compile_density(model)
digest = hashlib.md5()
for z in rng.normal(size=(20, density.dim)):
    value, grad = density.value_and_grad(z)
    digest.update(np.append(grad, value).tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_first_and_later_processes_agree_to_the_last_bit(tmp_path):
    """A seed has to give the same draws with a cold cache of compiled code and with a warm one."""
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        "PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'pytensor'}",
    }
    digests = [
        subprocess.run(
            [sys.executable, "-c", _FIRST_AND_LATER], env=environment, check=True, text=True,
            capture_output=True,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert len(digests[0]) > 30
    assert digests[0] == digests[1]


def impossible_at_first(**kwargs):
    """The initial point of `top` is 5, and what was observed lies beyond."""
    with pm.Model() as model:
        top = pm.Uniform("top", 0.0, 10.0, **kwargs)
        pm.Uniform("y", 0.0, top, observed=9.0)
    return model


def test_starts_from_a_draw_of_the_prior_where_the_initial_point_has_no_density():
    density = compile_density(impossible_at_first())
    top = 10.0 / (1.0 + np.exp(-density.start[0]))
    assert 9.0 < top < 10.0
    assert np.isfinite(density.value_and_grad(density.start)[0])
    again = compile_density(impossible_at_first())
    assert np.array_equal(again.start, density.start)


def test_a_chosen_start_is_not_passed_over():
    with pytest.raises(ModelError, match=r"nor at 7 points around it\. Terms .*'y': -inf"):
        compile_density(impossible_at_first(initval=5.0))


def test_refuses_where_no_draw_of_the_prior_has_density_either():
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.Uniform("top", 0.0, 8.0), observed=9.0)
    with pytest.raises(ModelError, match=r"7 points around it nor at 512 draws from the prior"):
        compile_density(model)
