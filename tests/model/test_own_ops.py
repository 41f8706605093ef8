"""Densities of a user's own distributions are known in processes that did not make them."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.own_ops import registrations
from pymc_tempering.model.powered import PoweredModel
from tests.fresh import fresh_process

ELSEWHERE = """
import sys
import cloudpickle
density, powered, z = cloudpickle.load(sys.stdin.buffer)
print(density.value_and_grad(z)[0].hex(), *(x.hex() for x in powered.log_densities(z)))
"""


@pytest.fixture(scope="module")
def model():
    """Of its own distributions: one that is free, one inside another, and one that is observed."""

    def logp(value, mu):
        return -0.25 * (value - mu) ** 4

    with pm.Model() as model:
        x = pm.CustomDist("x", 1.0, logp=logp)
        inner = pm.CustomDist.dist(x, logp=logp)
        pm.Mixture("m", [0.3, 0.7], [inner, pm.Normal.dist(0.0, 1.0)])
        pm.CustomDist("y", x, logp=logp, observed=[0.3, 2.0])
    return model


def test_what_is_registered_for_classes_of_a_model(model):
    found = registrations(model)
    assert len({cls for _, cls, _ in found}) == 3
    assert {"logprob", "logcdf", "support_point"} == {name for name, *_ in found}


def test_nothing_is_carried_for_classes_that_can_be_imported():
    with pm.Model() as model:
        pm.Truncated("x", pm.Gamma.dist(2.0, 1.0), lower=0.5)
    assert registrations(model) == []


def test_densities_in_another_process(model):
    density, powered = compile_density(model), PoweredModel.of(model)
    z = np.array([0.7, -0.4])
    printed = fresh_process(ELSEWHERE, data=cloudpickle.dumps((density, powered, z)))
    there = [float.fromhex(word) for word in printed.split()]
    assert there == [density.value_and_grad(z)[0], *powered.log_densities(z)]
