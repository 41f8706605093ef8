"""Data that are the same have the same digest, however they come."""

import numpy as np
import pymc as pm
import pytest

from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.results.identity import observed_digest

Y = np.array([0.4, -1.1, 2.3])


def model(*values, names=("y", "w"), data=False):
    with pm.Model() as built:
        mu = pm.Normal("mu")
        for name, value in zip(names, values, strict=False):
            observed = pm.Data(f"{name}_data", value) if data else value
            pm.Normal(name, mu, 1.0, observed=observed)
    return built


def test_a_run_has_the_digest_of_its_model(regression, tempered):
    assert observed_digest(regression) == observed_digest(tempered)
    estimate = LogZEstimate(0.0, 1.0, "x", np.zeros(1), idata=tempered)
    assert observed_digest(estimate) == observed_digest(regression)


def test_names_order_and_storage_do_not_matter():
    digest = observed_digest(model(Y, 2 * Y))
    assert observed_digest(model(2 * Y, Y, names=("a", "b"))) == digest
    assert observed_digest(model(Y, 2 * Y, data=True)) == digest


def test_whole_numbers_equal_floats():
    assert observed_digest(model(np.array([1, 2, 3]))) == observed_digest(
        model(np.array([1.0, 2.0, 3.0]))
    )


@pytest.mark.parametrize(
    "other", [(Y + 1e-12,), (Y[:2],), (Y[::-1],), (Y, Y), (Y[:, None],)],
    ids=["value", "length", "order", "twice", "shape"],
)  # fmt: skip
def test_other_data_have_another_digest(other):
    assert observed_digest(model(*other)) != observed_digest(model(Y))


def test_no_data_no_digest():
    assert observed_digest(model()) is None
    assert observed_digest(LogZEstimate(0.0, 1.0, "x", np.zeros(1))) is None
