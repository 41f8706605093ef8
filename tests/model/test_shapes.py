"""Shapes that do not fit: the error says of what."""

import numpy as np
import pymc as pm
import pytest

from pymc_tempering.errors import ModelError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.freeze import naming_shapes


def test_data_that_were_set_to_another_length():
    with pm.Model() as model:
        slope = pm.Data("slope", [1.0, 2.0])
        pm.Normal("y", slope * pm.Normal("x", shape=2), 1.0, observed=[1.0, 2.0])
        pm.set_data({"slope": [1.0, 2.0, 3.0]})
    with pytest.raises(ModelError, match=r"slope \(3,\), y \(observed\) \(2,\), x \(2,\)"):
        compile_density(model)


def test_observations_of_another_length():
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        effect = pm.Normal("effect", dims="group")
        pm.Normal("y", effect, 1.0, observed=np.zeros(4), dims="group")
    with pytest.raises(ModelError, match=r"y \(observed\) \(4,\), effect \(3,\)"):
        compile_density(model)


def test_the_term_that_is_wrong_is_named():
    with pm.Model() as model:
        pm.Normal("x")
        pm.Normal("z", shape=3)

    def refuse(vars):
        if vars[0].name == "z":
            raise ValueError("no")

    model.logp = refuse
    message = "at 'z': no Shapes of data and variables: z"
    with pytest.raises(ModelError, match=message), naming_shapes(model):
        raise ValueError("no")
