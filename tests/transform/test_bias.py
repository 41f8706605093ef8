import itertools

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.integrate import quad

from pymc_tempering.errors import OptionError, ScheduleError
from pymc_tempering.estimators.continuous import log_beta_density
from pymc_tempering.transform.bias import Bias

KNOTS = np.array([0.0, 1e-3, 0.05, 0.4, 1.0])
VALUES = np.array([0.0, -3.0, -7.0, -6.5, -9.0])


def compiled(bias):
    beta = pt.dscalar("beta")
    value = bias.graph(beta)
    return pytensor.function([beta], [value, pytensor.grad(value, beta)], mode="FAST_COMPILE")


def test_passes_through_its_values():
    np.testing.assert_allclose(Bias(KNOTS, VALUES)(KNOTS), VALUES, atol=1e-12)


@pytest.mark.parametrize("bias", [Bias(KNOTS, VALUES), Bias.linear(-2.5)])
def test_graph_is_the_function_and_its_slope(bias, rng):
    function = compiled(bias)
    for beta in [*rng.uniform(size=20), 1e-9, 5e-4, 1 - 1e-9]:
        value, slope = function(beta)
        assert value == pytest.approx(float(bias(beta)), abs=1e-10)
        assert slope == pytest.approx(float(bias.slope(beta)), rel=1e-8)


def test_slope_is_continuous_at_knots():
    bias = Bias(KNOTS, VALUES)
    inside = KNOTS[1:-1]
    np.testing.assert_allclose(
        bias.slope(inside * (1 - 1e-10)), bias.slope(inside * (1 + 1e-10)), rtol=1e-5, atol=1e-5
    )


def test_piecewise_linear_is_within_tolerance_everywhere(rng):
    bias = Bias(KNOTS, VALUES)
    knots, values = bias.piecewise_linear(1e-4)
    beta = np.concatenate([rng.uniform(size=5000), 1e-3 * rng.uniform(size=5000)])
    assert np.abs(np.interp(beta, knots, values) - bias(beta)).max() <= 1.01e-4


@pytest.mark.parametrize("delta", [-40.0, 0.0, 3.0, 60.0])
def test_density_of_beta_agrees_with_quadrature(delta):
    bias = Bias(KNOTS, VALUES)

    def density(beta):
        return np.exp(beta * delta - bias(beta) - max(delta, 0.0))

    total = sum(
        quad(density, *ends, epsabs=0, epsrel=1e-10)[0] for ends in itertools.pairwise(KNOTS)
    )
    got = log_beta_density([delta], *bias.piecewise_linear(), 1.0)[0]
    assert got == pytest.approx(np.log(density(1.0) / total), abs=3e-5)


def test_linear_is_one_exact_piece():
    knots, values = Bias.linear(4.2).piecewise_linear()
    assert knots.tolist() == [0.0, 1.0]
    assert values.tolist() == [0.0, 4.2]


def test_arrays_are_copied_and_read_only():
    values = VALUES.copy()
    bias = Bias(KNOTS, values)
    values[0] = 99.0
    assert bias.values[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        bias.values[0] = 1.0


@pytest.mark.parametrize("values", [[0.0, np.nan], [0.0], [[0.0, 1.0]], ["a", "b"]])
def test_refuses_values_that_are_no_bias(values):
    with pytest.raises(OptionError, match="values of a bias"):
        Bias([0.0, 1.0], values)


def test_refuses_knots_that_are_no_schedule():
    with pytest.raises(ScheduleError):
        Bias([0.1, 1.0], [0.0, 1.0])
