"""Values with a scale each: found, in coordinates of one width, and exact log Z."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from coordinates import check_in_coordinates
from scipy import special, stats

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.local_scales import find_local_scales, scaled

Y = np.array([0.3, -4.0, 0.1, -0.6, 7.5, 0.2, -0.1, 0.9, -0.4, 0.5, 2.5, -0.2])
ERROR, TAU, NOISE = 0.5, 0.4, 0.3


def horseshoe(*, free=False, slab=np.inf, sd=1.0):
    """One datum for each weight; the common scale and the error known, unless they are free."""
    with pm.Model() as model:
        pm.Normal("other", 1.0, 2.0)
        tau = pm.HalfCauchy("tau", TAU) if free else TAU
        error = pm.HalfNormal("error", NOISE) if free else ERROR
        local = pm.HalfCauchy("local", 1.0, shape=Y.size)
        width = tau * local / pm.math.sqrt(1.0 + (tau * local / slab) ** 2)
        z = pm.Normal("z", 0.0, sd, shape=Y.size)
        pm.Normal("y", width * z / sd, error, observed=Y)
    return model


def log_z():
    """Of the model whose scale is known, by quadrature over the logarithm of each own scale."""
    t = np.linspace(-12.0, 14.0, 4001)
    sd = np.hypot(ERROR, TAU * np.exp(t))[:, None]
    logs = stats.halfcauchy.logpdf(np.exp(t))[:, None] + t[:, None] + stats.norm.logpdf(Y, 0.0, sd)
    return float((special.logsumexp(logs, axis=0) + np.log(t[1] - t[0])).sum())


def test_the_curvature_by_scales_is_found():
    density = compile_density(horseshoe(free=True))
    found, _ = find_local_scales(density)
    names = np.repeat(density.points.names, density.points.sizes)
    assert set(names[found.values]) == {"z"}
    columns = [names[column[0]] for column in found.scales.T]
    assert sorted(columns) == ["error_log__", "local_log__", "tau_log__"]
    assert (np.diff(found.scales[:, columns.index("local_log__")]) == 1).all()
    # the curvature of the data is (tau local / error)^2
    wanted = [{"error_log__": -2.0}.get(name, 2.0) for name in columns]
    np.testing.assert_allclose(found.slopes[0], [0.0, *wanted], atol=0.05)
    np.testing.assert_allclose(found.numbers, 0.0, atol=0.1)


def test_a_prior_of_another_mean_and_width():
    with pm.Model() as model:
        local = pm.HalfCauchy("local", 1.0, shape=Y.size)
        z = pm.Normal("z", np.linspace(-1.0, 1.0, Y.size), 3.0, shape=Y.size)
        pm.Normal("y", local * z, ERROR, observed=Y)
    found, _ = find_local_scales(compile_density(model))
    np.testing.assert_allclose(found.numbers[:, 0], np.linspace(-1.0, 1.0, Y.size))
    np.testing.assert_allclose(np.exp(found.numbers[:, 1]), 3.0)
    # in units of the prior's, 9 / ERROR^2 at scales of 1
    np.testing.assert_allclose(found.slopes[0], [np.log(9.0 / ERROR**2), 2.0], atol=0.1)


def test_a_slab_bounds_the_curvature():
    """One in eight hundred scales is as large, so that draws of the prior hardly see it."""
    found, _ = find_local_scales(compile_density(horseshoe(slab=200.0)))
    np.testing.assert_allclose(
        found.slopes, [[np.log((TAU / ERROR) ** 2), 2.0], [np.log((200.0 / ERROR) ** 2), 0.0]],
        atol=0.1,
    )  # fmt: skip


def test_the_law_of_own_scales_has_the_tails_of_their_prior():
    found, _ = find_local_scales(compile_density(horseshoe()))
    v = stats.norm.ppf([0.01, 0.1, 0.5, 0.9, 0.99])
    u = np.zeros((v.size, found.place.size))
    u[:, found.scales[:, 0]] = v[:, None]
    quantiles = found.from_base(u)[:, found.scales[0, 0]]
    # of 384 draws of the prior
    wanted = np.log(stats.halfcauchy.ppf(stats.norm.cdf(v)))
    np.testing.assert_allclose(quantiles, wanted, atol=0.5, rtol=0.15)


def test_logits_far_from_zero_tell_less():
    """Eleven of twelve successes; the start has a probability of a half, and the mass has not."""
    n_rows = 120
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0, initval=0.0)
        local = pm.HalfCauchy("local", 1.0, shape=n_rows)
        z = pm.Normal("z", shape=n_rows)
        pm.Bernoulli("y", logit_p=mean + 0.01 * local * z, observed=np.arange(n_rows) % 12 > 0)
    density = compile_density(model)
    found, _ = find_local_scales(density)
    ours = np.exp(found.slopes[0, 0] + found.numbers[:, 2]) / 0.01**2
    # at the start 0.25, at a share of eleven in twelve 0.076, within 2.6 sd of the mean
    assert 0.035 < np.median(ours) < 0.15
    # a draw
    assert (found.place != density.start).all()
    np.testing.assert_allclose(scaled(density, found).start, found.to_base(found.place))


def no_own_scale():
    tau = pm.HalfCauchy("tau", 1.0)
    pm.Normal("y", tau * pm.Normal("z", shape=Y.size), ERROR, observed=Y)


def centred():
    local = pm.HalfCauchy("local", 1.0, shape=Y.size)
    pm.Normal("y", pm.Normal("z", 0.0, local, shape=Y.size), ERROR, observed=Y)


def scales_apart():
    local = pm.HalfCauchy("local", 1.0, shape=Y.size)
    pm.Normal("y", pm.Normal("z", shape=Y.size), ERROR, observed=Y)
    pm.Normal("w", local, 1.0, observed=Y)


def few():
    local = pm.HalfCauchy("local", 1.0, shape=3)
    pm.Normal("y", local * pm.Normal("z", shape=3), ERROR, observed=Y[:3])


def few_of_many():
    """Items of a test, whose slopes scale how hard they are, and thrice as many people."""
    slope = pm.LogNormal("slope", 0.0, 0.5, shape=Y.size)
    able = pm.Normal("able", shape=(3 * Y.size, 1))
    at = slope * (able - pm.Normal("hard", shape=Y.size))
    pm.Bernoulli("y", logit_p=at, observed=np.tile(Y > 0.0, (3 * Y.size, 1)).astype(int))


@pytest.mark.parametrize("write", [no_own_scale, centred, scales_apart, few, few_of_many])
def test_where_values_have_no_scale_of_their_own_there_is_none(write):
    with pm.Model() as model:
        write()
    assert find_local_scales(compile_density(model))[0] is None


@pytest.mark.parametrize("slab", [np.inf, 2.0])
def test_density_gradient_and_names_in_coordinates_of_one_width(slab, rng):
    density = compile_density(horseshoe(free=True, slab=slab, sd=3.0))
    found, _ = find_local_scales(density)
    inner = scaled(density, found)
    for u in rng.normal(size=(5, density.dim)):
        check_in_coordinates(density, found, inner, u)


def test_a_product_of_many_curvatures_is_no_infinity():
    """Of twelve scales beyond e^50, with curvatures of e^100 each."""
    density = compile_density(horseshoe(free=True))
    found, _ = find_local_scales(density)
    u = found.to_base(density.start)
    u[found.scales[:, 0]] = 11.0
    z, log_det = found.forward(u[None])
    assert z[0, found.scales[:, 0]].min() > 50.0
    expected = density.value_and_grad(z[0])[0] + log_det[0]
    assert scaled(density, found).value_and_grad(u)[0] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("far", [1e3, 1e100, 1e200, np.inf, np.nan])
def test_far_away_there_is_no_density_and_no_error(far):
    density = compile_density(horseshoe(free=True))
    inner = scaled(density, find_local_scales(density)[0])
    for u in (np.full(density.dim, far), np.full(density.dim, -far)):
        values, grads = density_at(inner.address, u[None])
        assert not np.isfinite(values).any() or np.isfinite(grads).all()


def test_it_is_the_same_in_another_process(rng):
    density = compile_density(horseshoe(free=True))
    inner = scaled(density, find_local_scales(density)[0])
    there = cloudpickle.loads(cloudpickle.dumps(inner))
    u = rng.normal(size=density.dim)
    assert there.value_and_grad(u)[0] == inner.value_and_grad(u)[0]
    assert there.points.map.digest == inner.points.map.digest
    np.testing.assert_array_equal(there.start, inner.start)


@pytest.mark.statistical
def test_log_z_of_a_horseshoe(seed):
    """False alarms: 1e-3."""
    found = pm_temper.estimate_logz(
        horseshoe(), draws=160, random_seed=seed, cores=1, progressbar=False, quiet=True
    )
    assert abs(found.log_z - log_z()) < stats.t.isf(5e-4, 3) * found.se
    assert found.se < 0.06
