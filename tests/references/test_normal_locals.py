"""Locals that are normal given the globals: exact moments, and runs without interpolation."""

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy.special import softmax
from scipy.stats import norm

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ensemble import Ensemble
from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_laws import Laws
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.normal_locals import Span
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.model import normal_locals as coordinates
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.normal_locals import NormalLocals, are_normal, n_each, through_normal
from pymc_tempering.model.structure import structures_of
from pymc_tempering.references import normal_locals
from pymc_tempering.references.conditional import ConditionalFit, conditional_fit
from pymc_tempering.references.hierarchy import Hierarchy
from pymc_tempering.references.nested_laplace import NestedLaplace
from pymc_tempering.references.nodes import Ridges, alone, ridges_by_nested
from pymc_tempering.references.quality import TRIMMED, log_weights
from pymc_tempering.steps import arguments
from pymc_tempering.steps.common import TemperedStep
from tests.references.test_hierarchy import DATA, ERRORS, assert_right, groups, of_globals


@pytest.fixture(scope="module")
def density():
    return compile_density(groups())


@pytest.fixture(scope="module")
def structure(density):
    return of_globals(density, 2)


@pytest.fixture(scope="module")
def fitted(density, structure):
    return conditional_fit(density, structure, density.start, np.random.default_rng(8)).map


@pytest.fixture(scope="module")
def made(density, structure, fitted):
    law = alone(fitted.arrays.mean, fitted.arrays.root, fitted.laws)
    return NormalLocals.of(density, structure, law)[0]


@pytest.fixture(scope="module")
def mapped(density, made):
    return through_normal(density, made)


def named(density, z):
    """Entries of places ``z`` (n, D) by the names of their variables."""
    ends = np.cumsum(density.points.sizes)[:-1]
    return dict(zip(density.points.names, np.split(z, ends, axis=1), strict=True))


def moments(mu, tau):
    """Means and standard deviations of the groups given what is common to them."""
    precision = 1.0 / tau**2 + 1.0 / ERRORS**2
    return (mu / tau**2 + DATA / ERRORS**2) / precision, 1.0 / np.sqrt(precision)


@pytest.mark.parametrize("seed", [1, 2])
def test_locals_have_their_moments_at_any_globals(density, made, seed):
    """Also where the scale is 0.001 of what it is in the middle."""
    u = np.random.default_rng(seed).standard_normal((30, density.dim))
    u[:10, : made.n_globals] *= 4.0
    at_zero = u.copy()
    at_zero[:, made.n_globals :] = 0.0
    middle, drawn = named(density, made.from_base(at_zero)), named(density, made.from_base(u))
    mean, sd = moments(middle["mu"], np.exp(middle["tau_log__"]))
    np.testing.assert_allclose(middle["theta"], mean, atol=1e-7)
    # groups do not depend on each other, and are in the order in which they are eliminated
    own = np.empty((30, DATA.size))
    positions = made.structure.locals.argsort().argsort()
    own[:, positions[made.structure.factor.order]] = u[:, made.n_globals :]
    np.testing.assert_allclose((drawn["theta"] - mean) / sd, own, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(made.to_base(made.from_base(u)), u, atol=1e-5)


def test_the_density_is_that_of_the_model_and_its_gradient_its_slope(density, made, mapped):
    u = np.random.default_rng(3).standard_normal((6, density.dim))
    z, log_det = made.forward(u)
    for row, at, more in zip(u, z, log_det, strict=True):
        value, grad = mapped.value_and_grad(row)
        assert value == pytest.approx(density.value_and_grad(at)[0] + more, abs=1e-8)
        for i, along in enumerate(1e-3 * np.eye(density.dim)):
            ends = [mapped.value_and_grad(row + way * along)[0] for way in (1.0, -1.0)]
            assert grad[i] == pytest.approx((ends[0] - ends[1]) / 2e-3, rel=2e-3, abs=2e-3)


def test_globals_have_the_density_that_is_left_without_locals(density, made):
    """By the formula, but for a constant."""
    z = made.from_base(2.0 * np.random.default_rng(4).standard_normal((8, density.dim)))
    mu, log_tau = (named(density, z)[name] for name in ("mu", "tau_log__"))
    tau = np.exp(log_tau)
    expected = norm.logpdf(DATA, mu, np.hypot(tau, ERRORS)).sum(axis=1)
    expected += (norm.logpdf(mu, 0.0, 2.0) - np.log1p(tau**2) + log_tau)[:, 0]
    found = [made.marginal.value_and_grad(g)[0] for g in z[:, made.structure.globals]]
    np.testing.assert_allclose(found - expected, found[0] - expected[0], atol=1e-7)


def test_far_away_there_is_no_density_and_no_error(mapped, made):
    for far in (1e3, 1e160):
        u = np.zeros(made.dim)
        u[: made.n_globals] = far
        value, grad = mapped.value_and_grad(u)
        assert not value > -1e3
        assert np.isfinite(grad).all()


def test_where_locals_have_no_precision_there_are_no_numbers(made):
    """Where the scale of the groups overflows, and in no other row."""
    u = np.zeros((2, made.dim))
    u[1, : made.n_globals] = 1e4
    z, log_det = made.forward(u)
    assert np.isfinite(z[0]).all()
    assert np.isfinite(log_det[0])
    assert np.isnan(z[1, made.structure.locals]).all()
    assert np.isnan(log_det[1])
    z[1, made.structure.globals] = made.of_globals.from_base(u[1:, : made.n_globals])
    back = made.to_base(z)
    np.testing.assert_allclose(back[0], u[0], atol=1e-6)
    assert np.isnan(back[1, made.n_globals :]).all()


def counted(density):
    """Give the same density with a list that grows at each call."""
    pointer, calls = ctypes.POINTER(ctypes.c_double), []
    kind = ctypes.CFUNCTYPE(ctypes.c_double, pointer, pointer)
    inner = kind(density.address)

    def call(z, grad):
        calls.append(1)
        return inner(z, grad)

    return density.evaluated_by(kind(call)), calls


def test_an_evaluation_takes_as_many_gradients_as_it_says(density, structure, made):
    other, calls = counted(density)
    mapped = through_normal(other, replace(made, density=other))
    calls.clear()
    mapped.value_and_grad(np.zeros(density.dim))
    assert len(calls) == mapped.n_each == n_each(structure) == 7


def test_another_process_has_the_same(mapped, density):
    there, u = cloudpickle.loads(cloudpickle.dumps(mapped)), np.full(density.dim, 0.3)
    assert there.value_and_grad(u)[0] == mapped.value_and_grad(u)[0]
    assert there.points.map.digest == mapped.points.map.digest


@pytest.mark.parametrize(("kind", "is_normal"), [("normal", True), ("t", False), ("counts", False)])
def test_whether_locals_are_normal_is_seen(kind, is_normal):
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        theta = pm.Normal("theta", 0.0, tau, shape=8)
        data = np.array([3, 1, 0, 2, 6, 1, 2, 4])
        if kind == "normal":
            pm.Normal("y", theta[:6] - 2.0 * theta[1:7], 0.3, observed=data[:6])
        elif kind == "t":
            pm.StudentT("y", nu=30.0, mu=theta, sigma=0.5, observed=data)
        else:
            pm.Poisson("y", pm.math.exp(theta), observed=data)
    density = compile_density(model)
    structure = structures_of(density)[0][0]
    z = np.random.default_rng(5).standard_normal((4, density.dim))
    found, n_gradients = are_normal(density, structure, z, np.random.default_rng(6))
    assert (found, n_gradients) == (is_normal, 12)


def series(kind):
    """A series of a level and a cycle with noise, or of a level whose steps vary as they like."""
    y = np.random.default_rng(31).normal(size=12).cumsum()
    with pm.Model() as model:
        sd, noise = pm.HalfNormal("sd", 1.0), pm.HalfNormal("noise", 1.0)
        first = pm.Normal.dist(0.0, 1.0)
        if kind == "sum":
            level = pm.GaussianRandomWalk("level", sigma=sd, init_dist=first, shape=12)
            rho = pm.Uniform("rho", 0.0, 1.0)
            level += pm.AR("cycle", rho=[rho], sigma=noise, init_dist=first, shape=12)
        else:
            # as many matrices as there are steps
            own = sd * pm.math.exp(noise * np.sin(np.arange(12.0) ** 2) ** 3)
            level = pm.Normal("level", 0.0, own, shape=12)
        pm.Normal("y", level, noise, observed=y)
    return compile_density(model)


@pytest.mark.parametrize(("kind", "n_matrices"), [("sum", 5), ("many", 0)])
def test_few_matrices_make_all_precisions(kind, n_matrices):
    """Then one gradient more gives what those by all colours do, far out, too."""
    density = series(kind)
    structure = structures_of(density)[0][0]
    k, dim = len(structure.globals), density.dim
    assert k == (3 if kind == "sum" else 2)
    law = alone(np.zeros(k), np.eye(k), Laws.normal(dim, k))
    other, calls = counted(density)
    made, n_gradients = NormalLocals.of(other, structure, law)
    assert n_gradients == len(calls)
    assert len(made.span.matrices) == n_matrices
    by_colours = replace(made, span=coordinates._no_span(dim - k))
    assert made.n_each == (2 * (1 + k) + 1 if n_matrices else by_colours.n_each)
    u = np.random.default_rng(32).standard_normal((10, dim))
    u[:, :k] *= 3.0
    # with one too few, colours tell what that was
    less = replace(made, span=Span(*(of[1:] for of in made.span[:3]), made.span.along))
    for other_way in (made, less):
        for found, expected in zip(other_way.forward(u), by_colours.forward(u), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    z = made.from_base(u)
    mapped = through_normal(other, made)
    calls.clear()
    value, _ = mapped.value_and_grad(u[0])
    assert len(calls) == mapped.n_each
    assert value == pytest.approx(density.value_and_grad(z[0])[0] + made.forward(u)[1][0], abs=1e-7)


@pytest.fixture(scope="module")
def regression():
    """A regression whose twenty effects all depend on each other: density, structure and map."""
    rng = np.random.default_rng(33)
    x = rng.normal(size=(40, 20))
    y = x @ rng.normal(size=20) + rng.normal(size=40)
    with pm.Model() as model:
        sd, noise = pm.HalfNormal("sd", 1.0), pm.HalfNormal("noise", 1.0)
        effects = pm.Normal("effects", 0.0, sd, shape=20)
        pm.Normal("y", x @ effects, noise, observed=y)
    density = compile_density(model)
    structure = structures_of(density)[0][0]
    found = conditional_fit(density, structure, density.start, np.random.default_rng(8)).map
    return density, structure, found


@pytest.mark.parametrize(
    ("products", "most", "is_taken"), [(1e4, 3e4, True), (1e4, 2e4, False), (1e2, 3e4, False)]
)
def test_locals_are_as_dear_as_what_precisions_are_made_of(
    monkeypatch, regression, products, most, is_taken
):
    """Not as their colours; unless there is much to factorise."""
    density, structure, fitted = regression
    assert normal_locals._N_OF_LAW * n_each(structure) > most
    monkeypatch.setattr(normal_locals, "_MOST_PRODUCTS", products)
    other, calls = counted(density)
    made, n_gradients = normal_locals.normal_locals_of(
        other, structure, fitted, np.random.default_rng(7), most
    )
    assert len(calls) == n_gradients
    assert (made is not None) == is_taken
    assert not is_taken or (made.n_each == 7 and n_gradients < 1000)


def own_draws(made, n):
    """Weights (n,) of draws of the globals, made wide, and their coordinates (n, k)."""
    u = 1.5 * np.random.default_rng(34).standard_normal((n, made.n_globals))
    values, _ = made.of_globals.pulled_back(made.marginal.address, u)
    return softmax(values + 0.5 * (u * u).sum(axis=1) / 1.5**2), u


def lacking(fitted, off=20.0):
    """The map with locals off by so many standard deviations."""
    shift = np.array(fitted.laws.shift)
    shift[fitted.n_globals :] += off
    return fitted.with_laws(fitted.laws._replace(shift=shift))


@pytest.mark.parametrize(
    ("lacks", "is_used", "most", "takes"),
    [(False, True, 1e6, ConditionalMap), (True, True, 1e6, NormalLocals), (True, True, 1e4, None),
     (False, False, 1e6, NormalLocals), (False, False, 1e4, None)],
)  # fmt: skip
def test_a_map_that_lacks_mass_is_left(
    monkeypatch, density, structure, fitted, lacks, is_used, most, takes
):
    """For normal locals, or for none where their law would be too dear."""
    other, calls = counted(density)
    found = ConditionalFit(lacking(fitted) if lacks else fitted, 1.0 if is_used else 50.0, 0, None)
    judged = lambda *_: (Hierarchy(other, structure, found.map, 1.0), 0)  # noqa: E731
    monkeypatch.setattr(Hierarchy, "_judged", judged)
    made, n_gradients = Hierarchy._without_gaps(
        other, structure, found, np.random.default_rng(7), most
    )
    assert type(made and made.map) is (takes or type(None))
    # three more put the model's start into the coordinates
    assert len(calls) == n_gradients + (3 if takes is NormalLocals else 0)
    assert takes is not NormalLocals or made.variance < 0.2


def test_a_map_that_lacks_mass_is_refused_where_the_law_has_no_root(monkeypatch, density):
    def fails(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(normal_locals, "mass_missed", lambda *_: (1.0, 0))
    monkeypatch.setattr(normal_locals, "mend", fails)
    found, n_gradients = Hierarchy.of(density)
    assert found is None
    assert n_gradients > 0


def test_all_counts_are_of_gradients_of_the_model(mapped):
    """Seven for an evaluation."""
    unit, counts = GaussianBase(np.zeros(mapped.dim), np.ones(mapped.dim)), np.zeros((1, 9), int)
    counts[0, :] = np.arange(1, 10)
    names = "n_gradients", "n_bad_gradients", "n_infinite_density", "n_nan_density"
    made = {}
    for times in (1, 7):
        path = TemperedPath.from_base(replace(mapped, n_each=times), unit)
        ensemble = Ensemble()
        ensemble.path = path
        path.view.faults[:] = 2, 3
        made[times] = ensemble._counted(counts)
    for name, count in made[1].items():
        assert made[7][name] == (7 * count if name in names else count) != 0


def test_evaluations_off_the_record_are_charged_as_gradients(mapped):
    account, ensemble = SimpleNamespace(n_spent=5), Ensemble()
    ensemble.n_off_record = 3
    step = SimpleNamespace(density=mapped, _current=SimpleNamespace(account=account))
    TemperedStep._charge_off_record(step, ensemble)
    assert account.n_spent == 5 + 3 * mapped.n_each
    assert ensemble.n_off_record == 0


@pytest.mark.parametrize("target", [testing.correlated_gaussian(), testing.scaled_normal(dim=1)])
def test_along_a_ridge_a_gaussian_falls_as_its_marginals(target):
    """By 4.5 nats at three standard deviations; along an axis by up to 8."""
    dim, sds = target.dim, np.sqrt(np.diag(target.cov))
    law = alone(target.mean, np.diag(sds), Laws.normal(dim, dim))
    shares = []

    def evaluate(u, share):
        shares.append(share)
        values, grads = law.pulled_back(target.address, u[None])
        return values[0], grads[0]

    found = Ridges.of(evaluate, dim)
    expected = np.tile(-0.5 * np.arange(-5.0, 6.0) ** 2, (dim, 1))
    np.testing.assert_allclose(found.log_mass, expected, atol=0.02)
    assert shares == sorted(shares)
    assert shares[0] == 0.0 < 0.8 < shares[-1] < 1.0
    at_places, _ = law.pulled_back(target.address, found.u.reshape(-1, dim))
    np.testing.assert_allclose(at_places, found.highest.ravel(), rtol=1e-12)


def test_mass_is_missed_as_far_as_a_ridge_leads_to_where_a_map_lacks_it(density, made, fitted):
    """A thousand nats below two standard deviations of one of the two globals."""
    ridges, _ = normal_locals.ridges_of_normal(made)
    places = made.of_globals.from_base(ridges.u)[..., 1]
    lacks = places <= places[1, 3]
    pointer = ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(ctypes.c_double, pointer, pointer)
    inner, i = kind(density.address), made.structure.globals[1]
    low = kind(lambda z, grad: inner(z, grad) - 1e3 * (z[i] <= places[1, 3] + 1e-9))
    expected = (softmax(ridges.highest, axis=1) * lacks).sum(axis=1).max()
    assert 0.001 < expected < 0.5
    found = ridges.mass_missed(density.evaluated_by(low), fitted, np.random.default_rng(9))
    assert found == pytest.approx(expected, rel=1e-9)


def test_some_draws_of_locals_that_are_below_are_no_mass_missed(density, made, fitted):
    """A tenth is, wherever the globals are: of five at a place over half are once in a hundred.

    With one draw at each place mass is missed at 67 of 100 seeds, with five at 9.
    """
    ridges, _ = normal_locals.ridges_of_normal(made)
    pointer = ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(ctypes.c_double, pointer, pointer)
    inner = kind(density.address)
    i = int(np.setdiff1d(np.arange(fitted.dim), made.structure.globals)[0])
    low = kind(lambda z, grad: inner(z, grad) - 1e3 * (np.sin(1e3 * z[i]) > 0.951))
    missed = [ridges.mass_missed(density.evaluated_by(low), fitted, np.random.default_rng(seed))
               for seed in range(100)]  # fmt: skip
    # 30 of 100 are 7 standard deviations above 9
    assert np.mean(np.array(missed) > TRIMMED) < 0.3


@pytest.mark.parametrize(("nats", "lacks"), [(7.0, False), (9.0, True)])
def test_mass_is_missed_where_a_map_has_less_of_it(density, made, fitted, nats, lacks):
    """Where both globals are high at once, to 4.5 standard errors of half as many draws."""
    middle = made.of_globals.from_base(np.zeros(2))

    def forward(u):
        z, log_det = fitted.forward(u)
        return z, log_det + nats * (z[:, made.structure.globals] > middle).all(axis=1)

    less = SimpleNamespace(to_base=fitted.to_base, forward=forward)
    ridges, _ = normal_locals.ridges_of_normal(made)
    other, calls = counted(density)
    found, n_gradients = normal_locals.mass_missed(
        other, less, ridges, replace(made, density=other), np.random.default_rng(9)
    )
    assert len(calls) == n_gradients
    weights, u = own_draws(made, 40_000)
    share = weights @ (made.of_globals.from_base(u) > middle).all(axis=1)
    assert 0.1 < share < 0.5
    most_off = 4.5 * np.sqrt(share * (1.0 - share) / (normal_locals.N_MANY / 2))
    assert found == pytest.approx(share, abs=most_off) if lacks else found < 0.01


def test_ridges_of_the_marginal_density_are_those_of_the_globals(density, structure, fitted, made):
    """Laplace's is exact where locals are normal, and the map has their law."""
    nested = NestedLaplace(density, structure, density.start)
    found = ridges_by_nested(nested, fitted, 1e5)
    expected, _ = normal_locals.ridges_of_normal(made)
    np.testing.assert_allclose(found.log_mass, expected.log_mass, atol=0.05)
    assert ridges_by_nested(NestedLaplace(density, structure, density.start), fitted, 100.0) is None


@pytest.mark.parametrize("lacks", [False, True])
def test_a_map_of_other_locals_that_lacks_mass_is_refused(lacks):
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        theta = pm.Normal("theta", 0.0, tau, shape=8)
        pm.Poisson("y", pm.math.exp(1.0 + theta), observed=[3, 1, 0, 2, 6, 1, 2, 4])
    density = compile_density(model)
    structure, rng = structures_of(density)[0][0], np.random.default_rng(7)
    found = conditional_fit(density, structure, density.start, np.random.default_rng(8))
    if lacks:
        found = found._replace(map=lacking(found.map))
    judged = lambda *_: (Hierarchy(density, structure, found.map, 1.0), 0)  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hierarchy, "_judged", judged)
        made, n_gradients = Hierarchy._without_gaps(density, structure, found, rng, 1e6)
    assert (made is None) == lacks
    assert n_gradients > 24


@pytest.mark.parametrize("off", [20.0, 1e20])
def test_the_law_is_that_of_the_globals(density, structure, fitted, off):
    """Of a map with twice the width, and its locals wrong, or nowhere."""
    laws = lacking(fitted, off).laws
    wide = np.array(laws.log_scale)
    wide[: fitted.n_globals] += np.log(2.0)
    rng, begun = np.random.default_rng(7), fitted.with_laws(laws._replace(log_scale=wide))
    normal, _ = normal_locals.normal_locals_of(density, structure, begun, rng, 1e6)
    ridges, _ = normal_locals.ridges_of_normal(normal)
    found, variance, _ = normal_locals.with_own_law(normal, ridges, rng)
    unit = GaussianBase(np.zeros(density.dim), np.ones(density.dim))
    weights = log_weights(through_normal(density, found), unit, np.random.default_rng(8), 1000)
    assert variance < 0.2
    assert weights.var() < 0.5


@pytest.mark.parametrize("method", ["pt", "st"])
def test_a_run_without_interpolation_is_right(monkeypatch, method):
    """Errors of four standard errors: a false alarm in 15,000 for each of the three numbers."""
    monkeypatch.setattr(normal_locals, "mass_missed", lambda *_: (1.0, 0))
    seen, real = [], Hierarchy.of.__func__
    monkeypatch.setattr(
        Hierarchy,
        "of",
        classmethod(lambda cls, density: seen.append(real(cls, density)) or seen[-1]),
    )
    estimate = pm_temper.estimate_logz(
        groups(), method=method, random_seed=20, cores=1, progressbar=False, quiet=True
    )
    assert isinstance(seen[0][0].map, NormalLocals)
    assert_right(estimate)
    posterior = estimate.idata.posterior
    # and so are the locals
    tau, mu, theta = (posterior[name].to_numpy().reshape(-1, n).T for name, n in
                      (("tau", 1), ("mu", 1), ("theta", DATA.size)))  # fmt: skip
    mean, sd = moments(mu.T, tau.T)
    residuals = (theta.T - mean) / sd
    assert np.abs(residuals.mean(axis=0)).max() < 4.5 / np.sqrt(len(residuals))
    assert np.abs(residuals.var(axis=0) - 1.0).max() < 4.5 * np.sqrt(2.0 / len(residuals))


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_a_run_counts_the_gradients_of_the_model(monkeypatch, density):
    """Counted by the density itself; 9 more of each draw put it into the model's coordinates."""
    other, calls = counted(density)
    monkeypatch.setattr(arguments, "compile_density", lambda *_, **__: other)
    monkeypatch.setattr(normal_locals, "mass_missed", lambda *_: (1.0, 0))
    estimate = pm_temper.estimate_logz(
        groups(), random_seed=4, cores=1, progressbar=False, quiet=True, draws=50, tune=60,
        chains=2,
    )  # fmt: skip
    spent = sum(estimate.gradients.values())
    assert spent > 20_000
    assert spent <= len(calls) < 1.05 * spent
