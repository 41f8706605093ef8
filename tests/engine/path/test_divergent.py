"""Whether a mass rises without end: where it does, and where it only rises for a while."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_tempering.engine.path import divergent
from pymc_tempering.engine.path.climb import climb
from pymc_tempering.engine.path.divergent import first_rise, rise_beyond
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.noise import n_evaluations
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.model.compile import compile_density

NEAR = GaussianBase(np.zeros(2), np.ones(2))


def along_x(density, value):
    """Flat vector with x there, and y at zero."""
    return density.points.ravel({"x": np.array(value), "y": np.array(0.0)})


def shrinking_scale(rate=1.0):
    """Density times width rise by so many nats for each unit of -x, without end."""
    with pm.Model() as model:
        x, y = pm.Flat("x"), pm.Flat("y")
        pm.Potential("p", -2.0 * rate * x - 0.5 * (y * pt.exp(-rate * x)) ** 2)
    return compile_density(model)


def mode_beside(distance=28.0):
    """A wide mode, many standard deviations away and higher than the one that is known."""
    with pm.Model() as model:
        x, y = pm.Flat("x"), pm.Flat("y")
        other = 60.0 - 0.5 * ((x + distance) / 3.0) ** 2
        pm.Potential("p", pt.logaddexp(-0.5 * x**2, other) - 0.5 * y**2)
    return compile_density(model)


def test_names_a_mass_that_rises_without_end():
    density = shrinking_scale()
    rise = rise_beyond(density, NEAR, along_x(density, -9.0))
    assert rise.coordinate == along_x(density, 1.0).argmax()
    assert rise.nats == pytest.approx((10.0, 10.0), abs=0.5)


def test_a_mode_beside_the_way_is_an_end():
    density = mode_beside()
    at = [density.value_and_grad(along_x(density, x))[0] for x in (-10.0, -20.0, -30.0, -40.0)]
    assert at[0] + 1.0 < at[1]
    assert at[1] + 1.0 < at[2]
    assert at[3] < at[2]
    assert rise_beyond(density, NEAR, along_x(density, -9.0)).coordinate == -1


def test_a_mode_beyond_the_way_is_an_end():
    """The mass rises at all four places, towards the mode where the ascent ended."""
    density = mode_beside(61.0)
    at = [density.value_and_grad(along_x(density, x))[0] for x in (-10.0, -20.0, -30.0, -40.0)]
    assert (np.diff(at) > 1.0).all()
    assert rise_beyond(density, NEAR, along_x(density, -60.7)).coordinate == -1
    # what has no end rises as far behind the place where an ascent gave up
    divergent = shrinking_scale()
    assert rise_beyond(divergent, NEAR, along_x(divergent, -60.7)).coordinate >= 0


def test_widths_are_those_of_the_axes_of_the_mass():
    """Of two that are nearly one: widths along the coordinates rise, and the mass falls."""
    with pm.Model() as model:
        x, y = pm.Flat("x"), pm.Flat("y", shape=2)
        log_sd = -20.0 + 0.3 * abs(x)
        apart = (y[0] - y[1]) * pt.exp(-log_sd)
        pm.Potential("p", -0.5 * (x / 30.0) ** 2 - 0.5 * apart**2 - log_sd - 0.5 * y.sum() ** 2)
    density = compile_density(model)
    end = density.points.ravel({"x": np.array(-9.0), "y": np.zeros(2)})
    near = GaussianBase(np.zeros(3), np.ones(3))
    assert rise_beyond(density, near, end).coordinate == -1


def short_of_the_top(path, u, fixed=None):
    """Climb to a place beside the top, where a Newton step promises two nats."""
    best, _, n_gradients = climb(path, u, fixed)
    best[1 - fixed] += 2.0
    return best, float(new_replicas(path, best[None]).log_target[0]), n_gradients


def test_a_place_that_was_not_climbed_says_nothing(monkeypatch):
    density = shrinking_scale(0.3)
    end = along_x(density, -9.0)
    assert rise_beyond(density, NEAR, end).nats == pytest.approx((3.0, 3.0), abs=0.2)
    monkeypatch.setattr(divergent, "climb", short_of_the_top)
    assert rise_beyond(density, NEAR, end).coordinate == -1


@pytest.mark.parametrize("far", [-9.0, -29.0])
def test_looks_for_rounding_noise_on_the_way_are_counted(far):
    density = shrinking_scale()
    end = along_x(density, far)
    alone = rise_beyond(density, NEAR, end).n_gradients
    assert first_rise(density, NEAR, [end]).n_gradients == alone + n_evaluations(end)
