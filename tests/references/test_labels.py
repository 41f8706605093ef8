"""Labels found one after another by lines, where all of them are seldom right at once."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import expit

from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.structure import structures_of
from pymc_tempering.references.prepare import prepare

FREQUENCIES, SIZES, MOST = np.array([2.37, 4.11, 7.83]), np.array([1.0, 0.8, 0.6]), 20.0


@pytest.fixture(scope="module")
def sinusoids():
    """Three sinusoids without noise, of 1200 frequencies that can be told apart."""
    times = np.random.default_rng(0).uniform(-30.0, 30.0, 100)
    seen = (SIZES * np.cos(2.0 * np.pi * FREQUENCIES * times[:, None])).sum(axis=1)
    with pm.Model() as model:
        angle = 2.0 * np.pi * pm.Uniform("frequency", 0.0, MOST, shape=3) * times[:, None]
        across, up = pm.Normal("across", shape=3), pm.Normal("up", shape=3)
        each = across * pt.cos(angle) + up * pt.sin(angle)
        pm.Normal("seen", each.sum(axis=1), 0.3, observed=seen)
    return compile_density(model)


def test_each_frequency_of_three_sinusoids_is_found(sinusoids, rng):
    """With lines through values of the prior alone, as high as they are, it was in one of four."""
    found = prepare(sinusoids, sinusoids.start, rng)
    best = max(found.fits, key=lambda fit: fit.log_zeta)
    np.testing.assert_allclose(np.sort(MOST * expit(best.mean[:3])), FREQUENCIES, atol=0.01)
    assert found.search.n_gradients < 260_000


def test_what_bends_and_has_no_sparse_part_has_no_hierarchy():
    """Its map would be that of one mode of hundreds."""
    times = np.random.default_rng(0).uniform(-50.0, 50.0, 60)
    with pm.Model() as model:
        scale, level = pm.HalfNormal("scale"), pm.Normal("level")
        angle = 2.0 * np.pi * pm.Uniform("frequency", 0.0, MOST, shape=2) * times[:, None]
        each = pm.Normal("size", shape=2) * pt.cos(angle + pm.Normal("phase", shape=2))
        pm.Normal("seen", level + each.sum(axis=1), scale, observed=np.cos(9.0 * times))
    assert structures_of(compile_density(model))[0] == []
