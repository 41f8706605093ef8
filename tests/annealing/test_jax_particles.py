"""Annealed particles by JAX against exact answers and numba's; skipped where JAX is missing."""

import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_tempering import testing
from pymc_tempering.annealing import jax_particles as module
from pymc_tempering.annealing import particles
from pymc_tempering.annealing.particles import anneal
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.model import python_density
from pymc_tempering.model.compile import compile_density
from tests.black_box import Quadratic, black_box

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install jax")
N = 3000
BOUND = 5.5  # standard errors: 4e-8 of a normal, below 1e-6 for weights as light as these


def run(name, seed, backend="jax", **options):
    """Few levels and long steps, so that moves matter and a third of them fail."""
    target = testing.TARGETS[name]()
    # nothing is symmetric about where the base lies
    base = GaussianBase(
        target.mean + 0.3 * np.sqrt(np.diag(target.cov)), 1.2 * np.linalg.cholesky(target.cov)
    )
    given = {
        "betas": np.linspace(0.0, 1.0, 25) ** 1.5, "step_size": 0.9, "direction": "both",
        "n_particles": N, "draws": target.draw(np.random.default_rng([seed, 1]), 40_000),
    }  # fmt: skip
    result = anneal(
        target.model(), base=base, tune=0, random_seed=seed, backend=backend, progressbar=False,
        **given | options,
    )  # fmt: skip
    return target, result


def deviations(target, result):
    """Of both means of weights and the weighted mean of the ends, in standard errors."""
    base, edge = result.base, target.parts.edge
    mass = 1.0
    if target.name == "hard_edge_gaussian":
        mass = stats.norm.sf(edge, base.mean[0], base.standard_deviation[0])
    forward = np.exp(result.log_weights_forward - target.log_z)
    reverse = np.exp(target.log_z - result.log_weights_reverse)
    ends = np.nan_to_num(result.positions) - target.mean
    means = [forward - 1.0, reverse - mass, *(forward[:, None] * ends).T]
    return np.array([x.mean() / (x.std() / np.sqrt(x.size)) for x in means])


@pytest.fixture(autouse=True)
def quick_to_compile(monkeypatch):
    """Most of the time of these tests would be that of the optimiser."""
    compiled, options = jax.jit, {"xla_backend_optimization_level": 0}

    def quickly(*function, **kwargs):
        # PyTensor's is called inside of others, where options are refused; and a decorator
        other = not function or function[0].__name__ == "jax_funcified_fgraph"
        return compiled(*function, **kwargs | ({} if other else {"compiler_options": options}))

    monkeypatch.setattr(jax, "jit", quickly)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("asymmetric_bimodal", {}),
        ("hard_edge_gaussian", {}),
        ("correlated_gaussian", {"n_leapfrog": 3, "transitions": "fresh_momentum"}),
        ("asymmetric_bimodal", {"transitions": "random_walk"}),
    ],
)
def test_weights_are_exact_and_have_the_law_of_numbas(name, options, seed):
    """False alarms: below 1e-5 for exact means and two comparisons of distributions together."""
    target, by_jax = run(name, seed, **options)
    assert np.abs(deviations(target, by_jax)).max() < BOUND
    assert 0.1 < np.nanmean(by_jax.acceptance_rate) < 0.99
    assert abs(by_jax.log_z - target.log_z) < BOUND * by_jax.log_z_se
    by_numba = run(name, seed, backend="numba", **options)[1]
    for direction in ("log_weights_forward", "log_weights_reverse"):
        both = [getattr(result, direction) for result in (by_jax, by_numba)]
        assert stats.ks_2samp(*both).pvalue > 1e-6
    rates = np.stack([result.acceptance_rate[1:] for result in (by_jax, by_numba)])
    # of two means of at least N each, whose summands have a standard deviation of at most a half
    assert np.abs(rates[0] - rates[1]).max() < 6 * 0.5 * np.sqrt(2 / N)
    assert by_jax.n_gradients == 2 * N * (1 + 24 * options.get("n_leapfrog", 1))


MUTANTS = {
    "increments of others": ("= point if reverse else before", "= before if reverse else point"),
    "a rejected momentum goes on": ("(accepted, moved, -momentum)", "(accepted, moved, momentum)"),
    "the report's misprint": ("jnp.sqrt(1.0 - kept) * noise", "(1.0 - kept) * noise"),
    "no move is rejected": ("accepted = coin < rate", "accepted = coin < rate + 1.0"),
    "no Jacobian": ("value + log_det", "value"),
    "kinetic energy": ("0.5 * momentum @ momentum", "0.4 * momentum @ momentum"),
    "one temperature too cold": ("levels = (betas[1:]", "levels = (betas[:-1]"),
    "full last kick": ("jnp.where(i == n_steps - 1, 0.5, 1.0)", "1.0"),
}  # fmt: skip


def test_planted_bugs_have_their_place():
    """What follows is slow, and would not be missed."""
    source = Path(module.__file__).read_text()
    assert {name: source.count(old) for name, (old, _) in MUTANTS.items()} == dict.fromkeys(
        MUTANTS, 1
    )


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_planted_bugs_are_noticed(mutant, monkeypatch):
    old, new = MUTANTS[mutant]
    source = Path(module.__file__).read_text()
    broken = types.ModuleType("broken")
    exec(compile(source.replace(old, new), "broken", "exec"), vars(broken))
    monkeypatch.setattr(particles, "jax_particles", broken.jax_particles)
    # where all moves are taken, some end beyond the edge, of which the estimators complain
    name = "asymmetric_bimodal" if "rate + 1.0" in new else "hard_edge_gaussian"
    with np.errstate(over="ignore", invalid="ignore"):
        found = deviations(*run(name, 5, n_particles=20_000))
    assert not (np.abs(found) < BOUND).all()


def test_batches_do_not_change_the_result(monkeypatch):
    """But for rounding; the last batch is not full."""
    options = {"n_particles": 50, "step_size": 0.3}
    together = run("hard_edge_gaussian", 3, **options)[1]
    monkeypatch.setattr(module, "batch_size", lambda *_: 7)
    apart = run("hard_edge_gaussian", 3, **options)[1]
    for name in ("log_weights_forward", "log_weights_reverse", "positions"):
        one, other = getattr(together, name), getattr(apart, name)
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def test_batches_are_bounded_by_memory():
    assert [module.fitting(2.0**n, "cpu") for n in (20, 40)] == [4, 1]
    assert module.fitting(2.0**20, "gpu") == 1024


def test_double_precision_is_local():
    with jax.enable_x64(False):
        result = run("correlated_gaussian", 1, n_particles=20)[1]
        assert not jax.config.jax_enable_x64
    w = result.log_weights_forward
    assert w.dtype == np.float64
    assert (w != w.astype(np.float32)).any()


def test_a_base_of_low_rank():
    """In 60 dimensions coordinates have another form."""
    target = testing.scaled_normal(60, 0.7, 1.3)
    root = np.eye(60) + 0.2 * np.ones((60, 60)) / 60
    base = GaussianBase.from_moments(np.full(60, 0.01), 0.6 * root @ root.T)
    result = anneal(
        target.model(), betas=np.linspace(0, 1, 40), base=base, step_size=0.3, tune=0,
        n_particles=500, random_seed=1, backend="jax", progressbar=False,
    )  # fmt: skip
    assert abs(result.log_z - target.log_z) < BOUND * result.log_z_se
    assert result.log_z_se < 0.1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"backend": "jaxx"}, "Unknown backend 'jaxx' \\(did you mean jax"),
        ({"backend": "jax", "base": "prior"}, "starts from a Gaussian"),
        ({"backend": "jax", "executor": ThreadPoolExecutor()}, "uses all cores"),
    ],
)
def test_what_jax_does_not_do(options, match):
    with pytest.raises(OptionError, match=match):
        anneal(testing.hard_edge_gaussian().model(), **options)


def test_auto_takes_jax_where_there_is_much_to_do(monkeypatch):
    """And numba for what JAX cannot compute, or is not there to."""
    density = compile_density(testing.hard_edge_gaussian().model())
    much = {"executor": None, "base": None, "n_gradients": 10**9}
    assert module.density_for_jax("auto", density, **much) is None  # observes nothing
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), 1.0, observed=np.zeros(10))
    density = compile_density(model)
    assert module.density_for_jax("auto", density, **much) is not None
    assert module.density_for_jax("auto", density, **much | {"n_gradients": 10**6}) is None
    assert module.density_for_jax("auto", density, **much | {"base": "prior"}) is None
    assert module.density_for_jax("auto", density, **much | {"executor": 1}) is None
    assert module.density_for_jax("numba", density, **much) is None
    with model:
        pm.Potential("p", Quadratic(lambda _: None)(model["x"][None]))
    assert module.density_for_jax("auto", compile_density(model), **much) is None
    monkeypatch.setattr(module, "jax_is_installed", lambda: False)
    assert module.density_for_jax("auto", density, **much) is None


@pytest.mark.parametrize(("platform", "least"), [("cpu", 10**9), ("gpu", 10**8)])
def test_jax_pays_on_a_device_sooner(monkeypatch, platform, least):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    assert [module.pays(work) for work in (least - 1, least)] == [False, True]


def test_a_model_that_jax_cannot_compute_is_refused_before_anything_runs():
    with pytest.raises(ModelError, match="No JAX conversion for the given `Op`: Quadratic"):
        anneal(black_box(), backend="jax", progressbar=False)


def test_jax_that_is_not_there(monkeypatch):
    monkeypatch.setattr(python_density, "jax_is_installed", lambda: False)
    with pytest.raises(OptionError, match=r"pip install 'pymc-tempering\[jax\]'"):
        anneal(testing.hard_edge_gaussian().model(), backend="jax")
