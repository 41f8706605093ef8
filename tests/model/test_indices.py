"""Indices that depend on discrete variables or on data: right answers, or an error by name."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.stats import norm

from pymc_tempering.errors import ModelError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.powered import PoweredModel

MEANS = np.array([-3.0, 0.5, 2.0])


@pytest.mark.parametrize("table", [pm.Data, lambda _, values: pt.as_tensor(values)])
def test_density_of_whole_numbers_alone(table):
    probabilities = [0.2, 0.3, 0.5]
    with pm.Model() as model:
        k = pm.Categorical("k", probabilities)
        pm.Normal("y", table("means", MEANS)[k], 0.7, observed=1.3)
    density = compile_density(model, discrete=True)
    for value in range(3):
        log_density, gradient = density.value_and_grad(np.array([float(value)]))
        expected = np.log(probabilities[value]) + norm.logpdf(1.3, MEANS[value], 0.7)
        np.testing.assert_allclose(log_density, expected, rtol=1e-12)
        assert gradient.tolist() == [0.0]


def test_every_value_of_a_discrete_variable_has_to_have_an_entry():
    with pm.Model() as model:
        # the last value is far too improbable for any start to have it
        k = pm.DiscreteUniform("k", 0, 300)
        pm.Normal("y", pm.Data("means", np.arange(300.0))[k], 1.0, observed=1.3)
    with pytest.raises(ModelError, match=r"out of range.*\[300.*index 300 .* size 300"):
        compile_density(model, discrete=True)


def test_data_as_indices():
    with pm.Model() as model:
        x = pm.Normal("x", shape=3)
        pm.Normal("y", x[pm.Data("group", [0, 1, 3])], 1.0, observed=[1.0, 2.0, 3.0])
    with pytest.raises(ModelError, match=r"out of range.*index 3 .* size 3"):
        compile_density(model)


def test_counts_without_end():
    with pm.Model() as model:
        k = pm.Poisson("k", 2.0)
        pm.Normal("y", pm.Data("means", MEANS)[k], 1.0, observed=1.3)
    with pytest.raises(ModelError, match=r"out of range.*'k': array\(3\).*truncate the prior"):
        PoweredModel.of(model).log_densities(np.array([3.0]))
