"""How much narrower the funnels of a target are than the rest, from its draws."""

import numpy as np
import pytest
from densities import toy

from pymc_tempering import testing
from pymc_tempering.references.local_runs import DEEP, depth_of_funnels

SPREAD = 3.0


def funnel_in(units):
    """Normals in 5 dimensions whose log variance is normal, of standard deviation 3, in units."""

    @toy(6)
    def funnel(z, grad):
        v = z[5] / units[5]
        total, slope = -0.5 * (v / SPREAD) ** 2, -v / SPREAD**2
        for i in range(5):
            square = np.exp(-v) * (z[i] / units[i]) ** 2
            total -= 0.5 * (square + v)
            grad[i] = -np.exp(-v) * z[i] / units[i] ** 2
            slope += 0.5 * (square - 1.0)
        grad[5] = slope / units[5]
        return total

    return funnel


ONE, MANY = np.ones(6), np.array([1e-4, 1.0, 30.0, 2.0, 1e3, 1e-2])
FUNNELS = [funnel_in(ONE), funnel_in(MANY)]


def draws_of_funnel(rng, n):
    v = rng.normal(0.0, SPREAD, n)
    return np.column_stack([np.exp(0.5 * v)[:, None] * rng.normal(size=(n, 5)), v])


@pytest.mark.statistical
def test_a_funnel_is_deep_whatever_its_units(rng):
    """1.4 to 2.4 in a hundred sets of draws; half of the log variance's 5 % quantile is 2.5."""
    z = draws_of_funnel(rng, 400)
    depth, in_units = (
        depth_of_funnels(target, units * z, np.random.default_rng(1))
        for target, units in zip(FUNNELS, (ONE, MANY), strict=True)
    )
    assert depth > DEEP + 0.2
    assert in_units == pytest.approx(depth, abs=0.01)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["correlated_gaussian", "skewed_gamma"])
def test_what_is_nearly_gaussian_is_not(name, rng):
    """0.2 to 0.5 and 0.5 to 0.75: a direction has one curvature and another one another."""
    target = getattr(testing, name)()
    assert 0.0 < depth_of_funnels(target, target.draw(rng, 400), rng) < DEEP


@toy(2)
def nowhere(z, grad):
    grad[:] = np.nan
    return -np.inf


def test_without_gradients_nothing_is_known(rng):
    target = nowhere
    assert depth_of_funnels(target, rng.normal(size=(50, 2)), rng) == 0.0
