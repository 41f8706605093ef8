"""Angles that wind around with a pair of coordinates: found, straight, and exact log Z of both."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from coordinates import check_in_coordinates
from scipy import special, stats

import pymc_tempering as pm_temper
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.windings import find_windings, unwound

MEANS, ERRORS, SPREADS = np.array([0.1, -0.05]), np.array([0.1, 0.15]), np.array([0.2, 0.3])
MIDDLE, KAPPA = 0.5, 60.0
LOG_Z = float(stats.norm.logpdf(MEANS, 0.0, np.hypot(SPREADS, ERRORS)).sum() - np.log(2.0 * np.pi))
"""A shear of the angle, of which the prior is uniform, leaves the evidence of the pair alone."""


def orbit(sign, n=1):
    """The data tell a pair, and the angle plus or minus its direction, but not the angle."""
    with pm.Model() as model:
        pm.Normal("other", 0.0, 1.0)
        phase = pm.VonMises("phase", 0.0, 1e-9, shape=n)
        spreads = zip("xy", SPREADS, strict=True)
        x, y = (pm.Normal(name, 0.0, spread, shape=n) for name, spread in spreads)
        for each, value, error in zip((x, y), MEANS, ERRORS, strict=True):
            pm.Normal(f"of {each.name}", each, error, observed=np.full(n, value))
        longitude = phase + sign * pt.arctan2(y, x)
        law = KAPPA * (pt.cos(longitude - MIDDLE) - 1.0)
        pm.Potential("longitude", law - np.log(2 * np.pi * special.i0e(KAPPA)))
    return model


def entries(density, found):
    """Names of angle and pair, with k for the pair in the order x, y."""
    names = np.repeat(density.points.names, density.points.sizes)
    rows = []
    for angle, x, y, k in found.index:
        turned = names[x] == "y"
        rows.append((names[angle], {names[x], names[y]}, -k if turned else k))
    return rows


@pytest.mark.parametrize("sign", [1, -1])
def test_a_winding_is_found_with_its_sense(sign):
    density = compile_density(orbit(sign))
    found, n_gradients = find_windings(density)
    assert entries(density, found) == [("phase_circular__", {"x", "y"}, sign)]
    assert n_gradients < 5000


def test_other_entries_of_the_same_variables_wind_alike():
    density = compile_density(orbit(1, n=3))
    found, _ = find_windings(density)
    # each angle with the pair of its own entry
    at = found.index - found.index[0]
    np.testing.assert_array_equal(at[:, :3], np.arange(3)[:, None] * np.ones(3))
    assert entries(density, found) == 3 * [("phase_circular__", {"x", "y"}, 1)]


def test_an_angle_that_does_not_wind_stays():
    """One that follows a coordinate, and one that nothing depends on, beside a pair."""
    with pm.Model() as model:
        x, y = pm.Normal("x", 0.1, 0.2), pm.Normal("y", -0.1, 0.1)
        angle, _ = pm.VonMises("angle", 0.0, 1e-9), pm.VonMises("free", 0.3, 0.1)
        pm.Potential("near", KAPPA * pt.cos(angle - x - 2.0 * y))
    assert find_windings(compile_density(model))[0] is None


def test_density_gradient_and_names_in_straight_coordinates(rng):
    density = compile_density(orbit(1))
    found, _ = find_windings(density)
    straight = unwound(density, found)
    for u in rng.normal(size=(5, density.dim)):
        check_in_coordinates(density, found, straight, u)


def test_it_is_the_same_in_another_process(rng):
    density = compile_density(orbit(1))
    straight = unwound(density, find_windings(density)[0])
    there = cloudpickle.loads(cloudpickle.dumps(straight))
    u = rng.normal(size=density.dim)
    assert there.value_and_grad(u)[0] == straight.value_and_grad(u)[0]
    assert there.points.map.digest == straight.points.map.digest


@pytest.mark.statistical
def test_log_z_and_draws_of_what_winds(seed):
    """False alarms: 1e-3."""
    found = pm_temper.estimate_logz(
        orbit(1), draws=200, random_seed=seed, cores=1, progressbar=False, quiet=True,
        max_gradients=150_000,
    )  # fmt: skip
    assert abs(found.log_z - LOG_Z) < stats.t.isf(2.5e-4, 3) * found.se
    assert found.se < 0.05
    posterior = found.idata["posterior"]
    phase, x, y = (posterior[name].values[..., 0] for name in ("phase", "x", "y"))
    longitude = np.angle(np.exp(1j * phase).ravel() @ (x + 1j * y).ravel())
    assert abs(longitude - MIDDLE) < 0.05
