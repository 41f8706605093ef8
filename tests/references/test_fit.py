"""The base of a model, and of the draws of an earlier run."""

import numpy as np
import pymc as pm
import pytest

from pymc_tempering.errors import BaseError, ModelError, OptionError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.fit import base_from_draws
from pymc_tempering.references.prepare import fit_base, prepare


@pytest.fixture(scope="module")
def two_modes():
    """Modes at -4 (weight 0.7) and 3, one further coordinate; log Z = 0."""
    with pm.Model() as model:
        w = np.array([0.7, 0.3])
        parts = [pm.Normal.dist(-4.0, 0.5), pm.Normal.dist(3.0, 1.0)]
        pm.Mixture("x", w, parts)
        pm.Normal("y", 10.0, 2.0)
    return model


def test_anchor_covers_both_modes(bimodal, rng):
    """Weights: those of the ELBOs, the smaller of which counts as 0.3 before they add up to 1."""
    found = prepare(bimodal, np.zeros(2), rng)
    np.testing.assert_allclose(found.modes, bimodal.modes, atol=0.2)
    w = bimodal.weight / (bimodal.weight + 0.3)
    exact = np.sqrt(
        [w * 0.25 + (1 - w) + 49 * w * (1 - w), w * 0.64 + (1 - w) * 0.16 + 9 * w * (1 - w)]
    )
    np.testing.assert_allclose(found.pooled.standard_deviation, exact, rtol=0.05)
    assert not found.pooled.is_diagonal
    assert abs(found.pooled.log_zeta - bimodal.log_z) < 0.1


def test_one_start_finds_one_mode(bimodal, rng):
    (fit,) = prepare(bimodal, bimodal.modes[1], rng, search="none").fits
    np.testing.assert_allclose(fit.mean, bimodal.modes[1], atol=0.02)
    np.testing.assert_allclose(fit.standard_deviation, bimodal.sds[1], rtol=0.05)


def test_fit_base_of_a_model(two_modes, seed):
    base = fit_base(two_modes, random_seed=seed)
    with two_modes:
        again = fit_base(random_seed=seed)
    assert base == again
    order = compile_density(two_modes).points.names
    x, y = order.index("x"), order.index("y")
    exact = np.sqrt(0.7 * 0.25 + 0.3 + 49 * 0.21)
    np.testing.assert_allclose(base.standard_deviation[[x, y]], [exact, 2.0], rtol=0.15)
    np.testing.assert_allclose(base.mean[[x, y]], [-1.9, 10.0], atol=0.5)
    assert abs(base.log_zeta) < 0.1


def test_refuses_unknown_options(two_modes):
    with pytest.raises(OptionError, match=r"given \['method'\].*leave `method` away"):
        fit_base(two_modes, method="advi")
    with pytest.raises(OptionError, match=r"Unknown search 'wide'.*'thorough'"):
        fit_base(two_modes, search="wide")


def test_refuses_discrete_models():
    with pm.Model() as model:
        pm.Poisson("k", 3.0)
    with pytest.raises(ModelError):
        fit_base(model)


def test_base_from_draws_counts_effective_draws(rng):
    """Draws that repeat 200 times are 20 draws, too few for a matrix in 30 dimensions."""
    cov = 0.8 * np.ones((30, 30)) + 0.2 * np.eye(30)
    independent = rng.multivariate_normal(np.zeros(30), cov, size=4000)
    assert not base_from_draws(independent).is_diagonal
    sticky = np.repeat(independent[:20], 200, axis=0)
    assert base_from_draws(sticky).is_diagonal


def test_base_from_draws_takes_chains_and_bounds(rng):
    draws = rng.normal([1.0, -2.0], [0.5, 4.0], size=(4, 2000, 2))
    base = base_from_draws(draws, min_scale=1.0)
    np.testing.assert_allclose(base.mean, [1.0, -2.0], atol=0.4)
    np.testing.assert_allclose(base.standard_deviation, [1.0, 4.0], rtol=0.1)
    assert base.log_zeta is None
    with pytest.raises(BaseError, match="shape"):
        base_from_draws(np.zeros(3))


def test_base_from_few_or_constant_draws(rng):
    assert base_from_draws(rng.normal(size=(5, 2))).dim == 2
    assert base_from_draws(np.ones((50, 2))).scale.min() > 0
