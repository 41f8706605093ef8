"""Each exact target against itself: C function, NumPy, PyMC, draws and quadrature must agree."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

from pymc_tempering import testing
from pymc_tempering.errors import OptionError
from pymc_tempering.testing import TARGETS
from tests.fresh import fresh_process

N_DRAWS = 200_000


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]()


def inside_points(target, rng, n=30):
    return np.concatenate([target.draw(rng, n), [target.start]])


def test_c_function_equals_numpy_and_its_gradient_the_difference_quotient(target, rng):
    for z in inside_points(target, rng):
        value, grad = target.value_and_grad(z)
        assert value == pytest.approx(float(target.log_density(z)), rel=1e-12, abs=1e-10)
        steps = 1e-5 * np.eye(target.dim)
        if not np.all(np.isfinite(target.log_density(z - steps))):
            continue
        quotient = (target.log_density(z + steps) - target.log_density(z - steps)) / 2e-5
        np.testing.assert_allclose(grad, quotient, rtol=1e-5, atol=1e-5)


def test_model_has_the_same_log_density_at_the_flat_unconstrained_point(target, rng):
    model = target.model()
    (value,) = model.value_vars
    logp = model.compile_logp(mode="FAST_COMPILE")
    assert np.shape(model.initial_point()[value.name]) == (target.dim,)
    assert np.isfinite(logp(model.initial_point()))
    for z in inside_points(target, rng, 8):
        expected = target.log_density(z)
        assert logp({value.name: z}) == pytest.approx(float(expected), rel=1e-9, abs=1e-9)


def test_draws_have_the_stated_survival_function(target, rng):
    """Two quantile tests per coordinate, at most 6, each 1e-5: false alarm 6e-5."""
    z = target.draw(rng, N_DRAWS)
    assert z.shape == (N_DRAWS, target.dim)
    for i in range(target.dim):
        for x in np.quantile(target.draw(rng, 2_000)[:, i], [0.15, 0.7]):
            p = float(target.survival(i, x))
            count = int(np.sum(z[:, i] > x))
            assert stats.binomtest(count, N_DRAWS, p).pvalue > 1e-5, (i, x)


def test_survival_is_a_survival_function(target):
    for i in range(target.dim):
        p = target.survival(i, target.mean[i] + np.linspace(-300.0, 300.0, 2001))
        assert p.shape == (2001,)
        assert np.all(np.diff(p) <= 1e-6)
        assert p[0] == pytest.approx(1.0, abs=1e-3)
        assert p[-1] == pytest.approx(0.0, abs=1e-3)


def test_draws_have_the_stated_mean_and_covariance(target, rng):
    """At most 9 z-tests at 5 standard errors: false alarm below 1e-5; t(1.5) is left out."""
    z = target.draw(rng, N_DRAWS)
    finite = np.isfinite(np.diag(target.cov))
    r = (z - target.mean)[:, finite]
    error = r.mean(axis=0) / (r.std(axis=0) / np.sqrt(N_DRAWS))
    assert np.all(np.abs(error) < 5.0)
    # t(5) has no eighth moment but a fourth, which the standard error of the variance needs
    products = r[:, :, None] * r[:, None, :]
    error = (products.mean(0) - target.cov[np.ix_(finite, finite)]) * np.sqrt(N_DRAWS)
    assert np.all(np.abs(error) < 5.0 * products.std(axis=0))


def test_draws_follow_the_density_itself(target, rng):
    """Importance weights of a wide Gaussian, against draws: 4 boxes, 5 errors each, 3e-6."""
    centre, width = target.draw(rng, 50_000).mean(0), target.draw(rng, 50_000).std(0)
    width = np.minimum(width, 6.0)
    z = target.draw(rng, N_DRAWS)
    proposal = stats.norm(centre, 2.0 * width)
    u = proposal.rvs(size=(N_DRAWS, target.dim), random_state=rng)
    weight = np.exp(target.log_density(u) - target.log_z - proposal.logpdf(u).sum(-1))
    for sign in (-1.0, 1.0):
        for distance in (0.2, 1.0):
            here = np.all(np.abs(z - centre - sign * 0.4 * width) < distance * width, axis=1)
            there = np.all(np.abs(u - centre - sign * 0.4 * width) < distance * width, axis=1)
            se = np.hypot(here.std(), (weight * there).std()) / np.sqrt(N_DRAWS)
            assert abs(here.mean() - (weight * there).mean()) < 5.0 * se


@pytest.mark.parametrize("name", ["trimodal_1d"])
def test_log_z_by_an_independent_integrator(name):
    target = TARGETS[name]()
    area, _ = integrate.quad(
        lambda x: np.exp(float(target.log_density([x]))), -15, 15, points=[-4, 0.5, 3.5], limit=200
    )
    assert np.log(area) == pytest.approx(target.log_z, abs=1e-8)


def test_hard_edge_is_minus_infinity_with_zero_gradient_beyond_the_edge():
    target = testing.hard_edge_gaussian(edge=0.8)
    for first in (0.8, 0.3, -5.0):
        value, grad = target.value_and_grad([first, -1.0, 2.0])
        assert value == -np.inf
        assert np.all(grad == 0.0)
        assert target.log_density([first, -1.0, 2.0]) == -np.inf
    assert np.isfinite(target.value_and_grad([0.81, -1.0, 2.0])[0])
    logp = target.model().compile_logp(mode="FAST_COMPILE")
    assert logp({"x": np.array([0.79, -1.0, 2.0])}) == -np.inf
    assert np.isfinite(logp({"x": np.array([0.81, -1.0, 2.0])}))


def test_skewed_gamma_needs_the_jacobian(rng):
    target = testing.skewed_gamma()
    z = target.draw(rng, 5)
    without = target.log_density(z) - z.sum(axis=1)
    (rv,) = target.model().free_RVs
    assert rv.name == "x"
    bare = stats.gamma.logpdf(np.exp(z), [0.8, 3.0], scale=[2.0, 0.5]).sum(1) + target.log_z
    np.testing.assert_allclose(without, bare)
    np.testing.assert_allclose(target.constrain(z), np.exp(z))


def test_heavy_tail_without_variance_says_so():
    target = testing.heavy_tail()
    assert target.cov[0, 0] == np.inf
    assert target.cov[1, 1] == pytest.approx(4.0 * 5.0 / 3.0)


def test_parameters_reach_the_compiled_function():
    """Equal code with other parameters must not be served from numba's caches."""
    for factory, other in [
        (testing.asymmetric_bimodal, {"separation": 3.0}),
        (testing.trimodal_1d, {"log_z": 5.0}),
        (testing.heavy_tail, {"dof": (2.5, 4.0)}),
        (testing.skewed_gamma, {"shape": (2.0, 1.5)}),
        (testing.banana, {"bend": 0.1}),
        (testing.hard_edge_gaussian, {"edge": -1.0}),
        (testing.scaled_normal, {"sd": 3.0}),
        (testing.correlated_gaussian, {"log_z": 0.0}),
    ]:
        z = factory().start + 0.37
        for target in (factory(), factory(**other), factory()):
            expected = float(target.log_density(z))
            assert target.value_and_grad(z)[0] == pytest.approx(expected, rel=1e-12)
        assert factory().address == factory().address != factory(**other).address


def test_disk_cache_in_a_fresh_process_does_not_mix_up_parameters():
    code = """
from pymc_tempering import testing
import numpy as np
for sd in (0.5, 0.7, 2.0):
    t = testing.scaled_normal(dim=3, sd=sd)
    z = np.array([0.1, -0.4, 0.9])
    assert abs(t.value_and_grad(z)[0] - t.log_density(z)) < 1e-12, sd
"""
    for _ in range(2):
        fresh_process(code)


def test_targets_pickle(target):
    copy = pickle.loads(pickle.dumps(target))
    assert copy.name == target.name
    assert copy.address == target.address
    assert copy.log_z == target.log_z


def test_no_module_of_testing_imports_pymc_at_import():
    files = list(Path(testing.__file__).parent.glob("*.py"))
    assert files
    for file in files:
        # indented imports, inside functions or under TYPE_CHECKING, are as intended
        for line in file.read_text().splitlines():
            assert not line.startswith(("import pymc as", "from pymc ", "import pytensor")), file


def test_wrong_arguments_are_refused():
    with pytest.raises(OptionError, match="weights"):
        testing.asymmetric_bimodal(weights=(0.5, 0.6))
    with pytest.raises(OptionError, match="dof"):
        testing.heavy_tail(dof=(1.0, 3.0))
    with pytest.raises(OptionError, match="sd"):
        testing.scaled_normal(sd=0.0)
    with pytest.raises(OptionError, match="shape"):
        testing.banana().value_and_grad(np.zeros(3))
