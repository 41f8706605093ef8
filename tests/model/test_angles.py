"""One period of an angle: its coordinate, its density, and evidence by exact Bessel functions."""

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.evidence.same_model import draws_of_model
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.point import Angles, PointMap
from pymc_tempering.references.prior import PriorReference

OBSERVED = np.array([3.0, -2.9, 3.1, -3.1, 2.7])
KAPPA = 4.0
PRIOR = 0.5
"""Concentration about 0.3."""


def mean_direction(initval):
    """Prior and data are von Mises; a scale that nothing depends on stands before the angle."""
    with pm.Model() as model:
        pm.HalfNormal("scale", 2.0)
        mu = pm.VonMises("mu", 0.3, PRIOR, initval=initval)
        norm = OBSERVED.size * np.log(2 * np.pi * special.i0(KAPPA))
        pm.Potential("data", KAPPA * pm.math.cos(mu - OBSERVED).sum() - norm)
    return model


RESULTANT = PRIOR * np.exp(0.3j) + KAPPA * np.exp(1j * OBSERVED).sum()
LOG_Z = float(
    np.log(special.i0(abs(RESULTANT)) / special.i0(PRIOR))
    - OBSERVED.size * np.log(2 * np.pi * special.i0(KAPPA))
)
MEAN = special.i1(abs(RESULTANT)) / special.i0(abs(RESULTANT)) * np.exp(1j * np.angle(RESULTANT))


@pytest.fixture(scope="module")
def far():
    """The posterior lies at the ends of the period, 0.21 from its cut on average."""
    return mean_direction(0.0)


def test_values_and_coordinates_are_inverse(rng):
    angles = Angles(np.array([0, 2]), np.array([3.0, -1.0]))
    z = 3.0 * rng.normal(size=(50, 3))
    values = angles.from_line(z)
    assert (np.abs(values[:, [0, 2]]) <= np.pi).all()
    np.testing.assert_allclose(angles.to_line(values), z, rtol=1e-9)
    turned = values + 2 * np.pi * np.array([2.0, 0.0, -1.0])
    np.testing.assert_allclose(angles.to_line(turned), z, rtol=1e-9)
    np.testing.assert_array_equal(values[:, 1], z[:, 1])
    # also at the very ends
    ends = angles.to_line(np.array([3.0 - np.pi, 0.0, np.pi - 1.0]))
    assert np.isfinite(ends).all()


def test_jacobian_is_the_slope(rng):
    angles = Angles(np.array([1]), np.array([0.7]))
    z, step = rng.normal(size=(20, 2)), np.array([0.0, 1e-6])
    # a cut at pi between the two would be a turn
    rise = angles.from_line(z + step) - angles.from_line(z - step)
    slope = np.remainder(rise[:, 1] + np.pi, 2 * np.pi) - np.pi
    np.testing.assert_allclose(angles.log_jacobian(z), np.log(slope / 2e-6), atol=1e-6)


def test_models_without_them_are_left_alone(rng):
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0, shape=2)
    z = rng.normal(size=2)
    points = PointMap.from_model(model)
    assert points.values(z) is z
    np.testing.assert_array_equal(points.ravel({"x": z}), z)
    assert points.log_jacobian(z) == 0.0


@pytest.mark.parametrize("kappa", [0.5, 200.0])
@pytest.mark.parametrize("initval", [None, 0.0], ids=["cut opposite", "cut at the mean"])
def test_mass_of_one_period_is_that_of_the_prior(kappa, initval):
    """Quadrature over z of the compiled density of a mean at pi: 1, wherever the period begins."""
    with pm.Model() as model:
        pm.VonMises("v", np.pi, kappa, initval=initval)
    density = compile_density(model)
    z = np.linspace(-30.0, 30.0, 6001)
    values = np.array([density.value_and_grad(point) for point in z[:, None]], dtype=object)
    log_density, slope = values[:, 0].astype(float), np.concatenate(values[:, 1])
    assert np.exp(log_density).sum() * (z[1] - z[0]) == pytest.approx(1.0, abs=1e-7)
    differences = np.gradient(log_density, z)
    np.testing.assert_allclose(slope[2000:4001], differences[2000:4001], rtol=0.02, atol=0.05)
    n_modes = np.count_nonzero(np.diff(np.sign(slope[slope != 0.0])) < 0)
    assert n_modes == (1 if initval is None else 2)


def test_evidence_at_the_ends_of_the_period(far):
    """Draws are in PyMC's own space, their `lp` too. Each comparison fails once in 10^5 seeds."""
    estimate = pm_temper.estimate_logz(
        far, draws=100, tune=80, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True
    )
    assert abs(estimate.log_z - LOG_Z) < 4.5 * estimate.se < 0.2
    posterior = estimate.idata["posterior"].dataset
    mu = posterior["mu"].values
    assert (mu > 2.0).any()
    assert (mu < -2.0).any()
    assert (np.abs(mu) <= np.pi).all()
    assert abs(np.exp(1j * mu).mean() - MEAN) < 0.05
    point = {
        "scale_log__": np.log(posterior["scale"].values[1, 7]), "mu_circular__": mu[1, 7]
    }  # fmt: skip
    recorded = estimate.idata["sample_stats"]["lp"].values[1, 7]
    assert recorded == pytest.approx(float(far.compile_logp(mode="FAST_COMPILE")(point)), abs=1e-9)
    # no other model, although the engine's density is in another coordinate
    z = draws_of_model(estimate.idata, compile_density(far), far, max_draws=50)
    assert np.isfinite(z).all()


def test_prior_is_of_one_period(far, rng):
    density = compile_density(far)
    reference = PriorReference(density)
    z, points = reference.draw(400, rng), density.points
    mu = np.array([points.unravel(row)["mu_circular__"] for row in z])
    expected = special.i1(PRIOR) / special.i0(PRIOR)
    # a standard error is 0.034
    assert abs(np.cos(mu - 0.3).mean() - expected) < 0.16
    grid = np.linspace(-30.0, 30.0, 3001)
    flat = np.full((grid.size, 2), 0.4)
    flat[:, points.angles.index[0]] = grid
    values = [reference._density.value_and_grad(point)[0] for point in flat]
    # half-normal, and the Jacobian of its logarithm
    scale = stats.halfnorm(scale=2.0).logpdf(np.exp(0.4)) + 0.4
    assert np.log(np.exp(values).sum() * 0.02) == pytest.approx(scale, abs=1e-6)


def test_tempered_model_has_the_same_density(far, rng):
    base = GaussianBase([0.2, 0.1], [1.0, 3.0])
    tempered = pm_temper.temper(far, base=base, log_zeta=LOG_Z, random_seed=1)
    u = rng.normal(size=2)
    delta = tempered["tempering_delta"].eval({tempered["tempering_u"]: u})
    z = base.mean + base.scale * u
    density = compile_density(far).value_and_grad(z)[0]
    assert float(delta) == pytest.approx(density - base.log_density(z[None])[0], abs=1e-9)
