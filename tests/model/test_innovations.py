"""Series and normal values in the coordinates of what they are made of: densities, and runs."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp
from scipy.stats import halfnorm, multivariate_normal

import pymc_tempering as pm_temper
from pymc_tempering.errors import ModelError
from pymc_tempering.model.compile import CompiledDensity, compile_density, compile_prior
from pymc_tempering.model.innovations import Innovations
from pymc_tempering.model.structure import structures_of
from pymc_tempering.references import prepare
from pymc_tempering.references.hierarchy import Hierarchy
from pymc_tempering.references.levels import lacks_neck

Y = np.array([0.3, -0.4, 0.9, 1.6, 1.1, 2.4, 2.0, 2.9])
NOISE = 0.6


def walk(y=Y):
    """A walk with a drift, observed with noise."""
    with pm.Model() as model:
        sd, drift = pm.HalfNormal("sd", 1.0), pm.Normal("drift", 0.0, 0.5)
        level = pm.GaussianRandomWalk(
            "level", mu=drift, sigma=sd, init_dist=pm.Normal.dist(0.2, 0.7), shape=y.size
        )
        pm.Normal("y", level, NOISE, observed=y)
    return model


def several():
    """A batch of walks, and an autoregression around them of which the scale is another walk's."""
    with pm.Model() as model:
        sd, rho = pm.HalfNormal("sd", 1.0), pm.Uniform("rho", -1.0, 1.0)
        first = pm.Normal.dist(0.5, 0.7)
        walks = pm.GaussianRandomWalk("walks", sigma=sd, init_dist=first, shape=(2, 4))
        scale = pm.math.exp(walks[0, 0])
        cycle = pm.AR("cycle", rho=[rho], sigma=scale, init_dist=first, shape=4)
        other = pm.Normal("other", 0.0, sd)
        angle = pm.VonMises("angle", 0.0, 1.0)
        rate = pm.math.exp(walks.sum(axis=0) + cycle + other + angle)
        pm.Poisson("y", rate, observed=[1, 0, 3, 2])
    return model


def by_row(n):
    """Three walks, each with laws of its own."""

    def make():
        with pm.Model() as model:
            sd, drift = pm.HalfNormal("sd", 1.0, shape=3), pm.Normal("drift", 0.0, 0.5, shape=3)
            first = pm.Normal.dist(pm.Normal("begin", shape=3), 0.7)
            walks = pm.GaussianRandomWalk(
                "walks", mu=drift, sigma=sd, init_dist=first, shape=(3, n)
            )
            pm.Poisson("y", pm.math.exp(walks[:, -1]), observed=[1, 0, 3])
        return model

    return make


def long_cycle():
    """Seventy values, of which the first hang on the last by the 64th power, and more."""
    with pm.Model() as model:
        rho, first = pm.Uniform("rho", -1.0, 1.0), pm.Normal.dist(0.0, 1.0)
        cycle = pm.AR("cycle", rho=[rho], sigma=0.4, init_dist=first, shape=70)
        pm.Poisson("y", pm.math.exp(cycle), observed=np.arange(70) % 4)
    return model


def towns():
    """Towns in few regions, all counts, each level around the one above it."""
    rng = np.random.default_rng(3)
    of = np.repeat(np.arange(6), 5)
    rates = np.exp(1 + 0.4 * rng.standard_normal(6)[of] + 0.5 * rng.standard_normal(of.size))
    with pm.Model() as model:
        mean, sds = pm.Normal("mean", 0.0, 1.5), pm.HalfNormal("sds", 1.0, shape=2)
        country = pm.Normal("country", mean, 0.5)
        regions = pm.Normal("regions", country, sds[0], shape=6)
        town = pm.Normal("towns", regions[of], sds[1], shape=of.size)
        pm.Poisson("y", pm.math.exp(town), observed=rng.poisson(rates, (3, of.size)))
    return model


def slopes(n_people=60, n_items=7, seed=1, spread=0.3):
    """Answers of people to items, whose slopes are lognormal."""
    rng = np.random.default_rng(seed)
    slope = np.exp(spread * rng.normal(size=n_items))
    trait, hard = rng.normal(size=(n_people, 1)), rng.normal(size=n_items)
    y = rng.random((n_people, n_items)) < 1.0 / (1.0 + np.exp(hard - slope * trait))
    with pm.Model() as model:
        slope = pm.LogNormal("slope", 0.0, pm.HalfNormal("sd", 1.0), shape=n_items)
        hard = pm.Normal("hard", 0.0, 2.0, shape=n_items)
        trait = pm.Normal("trait", shape=(n_people, 1))
        pm.Bernoulli("y", logit_p=slope * trait - hard, observed=y.astype(int))
    return model


def by_innovations(density):
    """The density non-centred, of which the likeliest choice of globals is as it is."""
    found, _ = structures_of(density)
    return density.non_centred(found[0].globals if found else None)


def second_order():
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 1.0)
        pm.AR("x", rho=[0.5, 0.1], sigma=sd, init_dist=pm.Normal.dist(0.0, 1.0), shape=6)
    return model


def of_t():
    with pm.Model() as model:
        steps = pm.StudentT.dist(nu=4.0, sigma=pm.HalfNormal("sd", 1.0))
        pm.RandomWalk("x", innovation_dist=steps, init_dist=pm.Normal.dist(0.0, 1.0), steps=4)
    return model


def known_scale():
    with pm.Model() as model:
        pm.GaussianRandomWalk("x", sigma=2.0, init_dist=pm.Normal.dist(0.0, 1.0), shape=5)
        pm.Normal("z", 0.0, pm.HalfNormal("sd", 1.0), shape=3)
    return model


@pytest.mark.parametrize("make", [second_order, of_t, known_scale])
def test_what_is_no_such_series_stays_as_it_is(make):
    density = compile_density(make())
    assert Innovations.of(density.model, density.points.initial) is None
    assert density.non_centred() is None


def test_globals_with_a_mean_alone_stay_as_they_are():
    with pm.Model() as model:
        pm.Normal("x", pm.Normal("mean"), 1.0, shape=3)
    assert Innovations.of(model, model.initial_point(), np.arange(4)) is None


# each is a graph to compile, by itself and by its steps
slow = pytest.mark.slow


@pytest.mark.parametrize("make", [
    walk, several, towns, slopes, *(pytest.param(of, marks=slow) for of in (long_cycle, by_row(6))),
])  # fmt: skip
def test_the_density_is_the_same_but_for_the_jacobian(make):
    density = compile_density(make())
    made = by_innovations(density)
    z = 0.5 * np.random.default_rng(3).standard_normal((4, density.dim))
    log_det = made.points.log_jacobian(z)
    for row, more in zip(z, log_det, strict=True):
        point = made.points.unravel(row)
        own = density.points.ravel(point)
        value, grad = made.value_and_grad(row)
        # of an angle the coordinate is the same, and so is its Jacobian
        rest = more - density.points.log_jacobian(own)
        assert value == pytest.approx(density.value_and_grad(own)[0] + rest, abs=1e-9)
        np.testing.assert_allclose(made.points.ravel(point), row, atol=1e-9)
        for i, along in enumerate(1e-5 * np.eye(density.dim)):
            ends = [made.value_and_grad(row + way * along)[0] for way in (1.0, -1.0)]
            assert grad[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("make", "name"), [
    (walk, "level"), (by_row(4), "walks"), (slopes, "slope_log__"),
    pytest.param(long_cycle, "cycle", marks=slow), pytest.param(by_row(6), "walks", marks=slow),
])  # fmt: skip
def test_steps_are_standard_normals_under_the_prior(make, name):
    """Where each row has laws of its own, too, as many as there are steps or not."""
    prior = compile_prior(by_innovations(compile_density(make())))
    z = 0.5 * np.random.default_rng(5).standard_normal(prior.dim)
    ends = np.cumsum([0, *prior.points.sizes])
    k = prior.points.names.index(name)
    _, grad = prior.value_and_grad(z)
    np.testing.assert_allclose(grad[ends[k] : ends[k + 1]], -z[ends[k] : ends[k + 1]], atol=1e-9)


def test_where_the_coefficient_is_zero_there_is_a_gradient():
    made = compile_density(several()).non_centred()
    value, grad = made.value_and_grad(made.points.ravel(made.points.initial))
    assert np.isfinite(value)
    assert np.isfinite(grad).all()
    assert made.points.values(np.empty((0, made.dim))).shape == (0, made.dim)
    assert made.points.log_jacobian(np.empty((0, made.dim))).shape == (0,)


def test_a_model_that_cannot_be_written_so_is_sampled_as_it_is(monkeypatch):
    def fails(*_):
        raise ModelError("no such graph")

    monkeypatch.setattr(CompiledDensity, "non_centred", fails)
    monkeypatch.setattr(Hierarchy, "_as_it_is", lambda *_: (None, 7))
    assert Hierarchy.of(compile_density(walk())) == (None, 7)


def test_a_series_is_what_its_steps_make_of_it():
    density = compile_density(walk())
    made = Innovations.of(density.model, density.points.initial)
    names = [value.name for value in made.model.value_vars]
    sizes = [Y.size if name == "level" else 1 for name in names]
    z = np.random.default_rng(4).standard_normal(sum(sizes))
    of = dict(zip(names, np.split(z, np.cumsum(sizes)[:-1]), strict=True))
    there = dict(zip(names, np.split(made.from_line(z), np.cumsum(sizes)[:-1]), strict=True))
    sd, drift, steps = np.exp(of["sd_log__"]), of["drift"], of["level"]
    expected = np.cumsum(np.append(0.2 + 0.7 * steps[0], drift + sd * steps[1:]))
    np.testing.assert_allclose(there["level"], expected, rtol=1e-12)
    np.testing.assert_allclose(made.log_jacobian(z), np.log(0.7) + (Y.size - 1) * np.log(sd[0]))
    np.testing.assert_array_equal(there["drift"], drift)


def test_another_process_has_the_same():
    made = compile_density(several()).non_centred()
    there, z = cloudpickle.loads(cloudpickle.dumps(made)), np.full(made.dim, 0.3)
    assert there.value_and_grad(z)[0] == made.value_and_grad(z)[0]
    np.testing.assert_array_equal(there.points.values(z), made.points.values(z))


def test_what_a_model_is_written_by_is_compiled_once_for_the_same_globals():
    density = compile_density(towns())
    none, sds = np.empty(0, np.int64), np.array([density.dim - 1])
    made = density.non_centred(none)
    assert density.non_centred(none.copy()) is made
    assert density.non_centred() is made
    assert density.non_centred(sds) is not made


def test_levels_between_others_are_no_globals_where_a_map_of_them_fails():
    """As globals few regions are a funnel with their scale: V is 8 to 28,000, by processors."""
    density = compile_density(towns())
    as_it_is, _ = Hierarchy._as_it_is(density, structures_of(density))
    made, _ = Hierarchy.of(density)
    assert made.variance < 1.0
    assert as_it_is is None or as_it_is.variance > 5.0 * made.variance
    names = np.repeat(made.density.points.names, made.density.points.sizes)
    assert "sds_log__" in names[made.structure.globals]
    assert "regions" not in names[made.structure.globals]


@pytest.mark.parametrize(("data", "lacks"), [
    ((60, 7), None), ((60, 10), True), ((200, 10, 1, 0.6), False),
], ids=["no map", "a map without the neck", "one with all mass"])  # fmt: skip
def test_few_lognormal_values_with_a_scale_are_standard_normals_where_a_map_lacks_the_neck(
    data, lacks
):
    """V of the two maps as they are is 1 and .3; of ten items and 60 people a tenth was missing."""
    density = compile_density(slopes(*data))
    read = structures_of(density)
    as_it_is, _ = Hierarchy._as_it_is(density, read)
    levels = density.innovations(read[0][0].globals)
    assert (None if as_it_is is None else lacks_neck(as_it_is.density, levels)[0]) == lacks
    made, _ = Hierarchy.of(density)
    assert made.variance < 4.0
    numbers = [] if lacks is False else [density.points.names.index("slope_log__")]
    innovations = made.density.inner.points.innovations
    assert (innovations.numbers if innovations else []) == numbers


def exact():
    """Log Z, and the means of scale, drift and last level, by a grid of the scale."""
    n = Y.size
    sds = np.linspace(0.0, 6.0, 1202)[1:]
    sums = np.tril(np.ones((n, n)))
    # first value and drift are normal too
    by_drift, means = np.arange(n), np.full(n, 0.2)
    logs, drifts, lasts = [], [], []
    for sd in sds:
        steps = np.diag(np.append(0.7, np.full(n - 1, sd)) ** 2)
        levels = sums @ steps @ sums.T + 0.25 * np.outer(by_drift, by_drift)
        cov = levels + NOISE**2 * np.eye(n)
        logs.append(multivariate_normal(means, cov).logpdf(Y) + halfnorm.logpdf(sd))
        drifts.append(0.25 * by_drift @ np.linalg.solve(cov, Y - means))
        lasts.append(0.2 + levels[-1] @ np.linalg.solve(cov, Y - means))
    logs = np.array(logs)
    weights = np.exp(logs - logsumexp(logs))
    log_z = logsumexp(logs) + np.log(sds[1] - sds[0])
    return log_z, *(float(weights @ np.array(of)) for of in (sds, drifts, lasts))


@pytest.mark.parametrize("method", ["pt", "st"])
def test_a_run_by_innovations_is_right(monkeypatch, method):
    """Errors of four standard errors: a false alarm in 15,000 for each of the four numbers."""
    seen, real = [], Hierarchy._as_it_is.__func__

    def only_the_other(cls, density, read):
        if density.points.innovations is None:
            return None, 0
        seen.append(real(cls, density, read))
        return seen[-1]

    images, find = [], prepare.find_modes

    def looked(*args, **kwargs):
        images.append(kwargs["images"])
        return find(*args, **kwargs)

    monkeypatch.setattr(Hierarchy, "_as_it_is", classmethod(only_the_other))
    monkeypatch.setattr(prepare, "find_modes", looked)
    estimate = pm_temper.estimate_logz(
        walk(), method=method, random_seed=20, cores=1, progressbar=False, quiet=True
    )
    assert seen[0][0] is not None
    # those that the model has are of the series
    assert images == [None]
    log_z, *means = exact()
    assert abs(estimate.log_z - log_z) < 4.0 * estimate.se + 2e-3
    posterior = estimate.idata.posterior
    draws = posterior["sd"], posterior["drift"], posterior["level"][..., -1]
    for of, expected in zip(draws, means, strict=True):
        drawn = of.to_numpy().ravel()
        # as if of half as many independent draws
        assert abs(drawn.mean() - expected) < 4.0 * drawn.std() / np.sqrt(drawn.size / 2)
