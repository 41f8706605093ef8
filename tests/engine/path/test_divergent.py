"""Whether a mass rises without end: where it does, and where it only rises for a while."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_tempering.engine.path.divergent import rise_beyond
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.model.compile import compile_density

NEAR = GaussianBase(np.zeros(2), np.ones(2))


def along_x(density, value):
    """Flat vector with x there, and y at zero."""
    return density.points.ravel({"x": np.array(value), "y": np.array(0.0)})


def shrinking_scale():
    """Density times width rise by a nat for each unit of -x, without end."""
    with pm.Model() as model:
        x, y = pm.Flat("x"), pm.Flat("y")
        pm.Potential("p", -2.0 * x - 0.5 * (y * pt.exp(-x)) ** 2)
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
