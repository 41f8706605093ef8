"""GaussianBase: density, coordinates, identity and refusals."""

import pickle

import numpy as np
import pytest
from scipy import stats

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError

MEAN = np.array([1.0, -2.0, 0.5])
SD = np.array([0.5, 2.0, 3.0])
COV = np.array([[1.0, 0.5, -0.2], [0.5, 3.0, 0.7], [-0.2, 0.7, 2.0]])
BASES = {
    "diagonal": GaussianBase(MEAN, SD, -3.0),
    "full": GaussianBase.from_moments(MEAN, COV, -3.0),
}
BASES_PARAM = pytest.mark.parametrize("base", BASES.values(), ids=BASES.keys())


@BASES_PARAM
def test_log_density_is_that_of_scipy(base, rng):
    z = rng.normal(size=(7, 3)) * 3
    exact = stats.multivariate_normal(base.mean, base.covariance)
    np.testing.assert_allclose(base.log_density(z), exact.logpdf(z), rtol=1e-12)
    assert base.log_density(z[0]).shape == ()


@BASES_PARAM
def test_base_coordinates_are_standard_normal(base, rng):
    z = rng.normal(size=(2, 4, 3))
    u = base.to_base(z)
    np.testing.assert_allclose(base.from_base(u), z, rtol=1e-12)
    standard = stats.norm.logpdf(u).sum(-1) - base.log_det_scale
    np.testing.assert_allclose(base.log_density(z), standard, rtol=1e-12)


@BASES_PARAM
def test_draws_have_the_moments_of_the_base(base, rng):
    """Six standard errors over 12 entries: a false alarm in 4e7 runs."""
    n = 40_000
    draws = base.draw(rng, n)
    cov = base.covariance
    assert np.all(np.abs(draws.mean(0) - base.mean) < 6 * np.sqrt(np.diag(cov) / n))
    se = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / n)
    assert np.all(np.abs(np.cov(draws.T) - cov) < 6 * se)


@BASES_PARAM
def test_pickle_equality_and_identity(base):
    copy = pickle.loads(pickle.dumps(base))
    assert copy == base
    assert hash(copy) == hash(base)
    assert copy.digest == base.digest
    assert not copy.mean.flags.writeable
    assert not copy.scale.flags.writeable


def test_a_root_gives_the_covariance_that_it_is_a_root_of(rng):
    """In any units, and in those in which its square has no digits left."""
    for units in (np.ones(3), np.array([1e-70, 1.0, 1e90]), np.array([1e120, 1e-100, 1e-100])):
        root = rng.normal(size=(3, 3))
        base = GaussianBase.from_root(MEAN, units[:, None] * root)
        standard = base.scale / units[:, None]
        np.testing.assert_allclose(standard @ standard.T, root @ root.T, rtol=1e-12)
        assert (np.diagonal(base.scale) > 0.0).all()
        np.testing.assert_array_equal(base.mean, MEAN)


@pytest.mark.parametrize("rows", [[1.0, 2.0, 3.0], [0.0, 2.0, 3.0], [1e-44, 0.0, 7.0]])
def test_a_singular_root_has_a_density(rows, rng):
    """As of second differences at a spike, of which one direction is all that is left."""
    base = GaussianBase.from_root(MEAN, np.outer(rows, [1.0, -1.0, 0.5]))
    np.testing.assert_allclose(base.standard_deviation, 1.5 * np.abs(rows), atol=1e-14)
    assert np.isfinite(base.log_density(np.vstack([MEAN, base.draw(rng, 20)]))).all()


def test_digest_tells_densities_apart_and_ignores_log_zeta():
    base = BASES["diagonal"]
    assert GaussianBase(MEAN, SD, 5.0).digest == base.digest
    assert GaussianBase(MEAN, SD, 5.0) != base
    assert GaussianBase(MEAN + 1e-12, SD).digest != base.digest
    assert GaussianBase(MEAN, np.diag(SD)).digest != base.digest
    negative_zero, zero = GaussianBase([-0.0], [1.0]), GaussianBase([0.0], [1.0])
    assert negative_zero == zero
    assert hash(negative_zero) == hash(zero)


def test_arrays_are_copied_and_read_only():
    mean = MEAN.copy()
    base = GaussianBase(mean, SD)
    mean[0] = 99.0
    assert base.mean[0] == MEAN[0]
    with pytest.raises(ValueError, match="read-only"):
        base.mean[0] = 1.0


def test_moments_of_a_matrix_and_a_diagonal():
    np.testing.assert_allclose(BASES["full"].covariance, COV, rtol=1e-12)
    np.testing.assert_allclose(BASES["full"].standard_deviation, np.sqrt(np.diag(COV)))
    np.testing.assert_allclose(GaussianBase.from_moments(MEAN, SD**2).scale, SD)
    assert np.isclose(BASES["full"].log_det_scale, 0.5 * np.linalg.slogdet(COV)[1])


@pytest.mark.parametrize(
    ("mean", "scale", "message"),
    [
        ([[0.0]], [1.0], "shape"),
        ([], [], "shape"),
        ([0.0, 1.0], [1.0], "shape"),
        ([0.0], [0.0], "positive"),
        ([0.0, 0.0], [1.0, -2.0], "-2 on the diagonal at coordinate 1"),
        ([np.nan], [1.0], "non-finite"),
        ([0.0], [np.inf], "non-finite"),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], "above the diagonal"),
        (["a"], [1.0], "real numbers"),
    ],
)
def test_refuses_improper_input(mean, scale, message):
    with pytest.raises(BaseError, match=message):
        GaussianBase(mean, scale)


def test_refuses_a_log_zeta_that_is_not_finite():
    with pytest.raises(BaseError, match="log_zeta is nan"):
        GaussianBase([0.0], [1.0], np.nan)


@pytest.mark.parametrize(
    ("cov", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ([[1.0, 0.0], [0.5, 1.0]], "not symmetric"),
        ([1.0, 0.0], "positive"),
        ([[1.0, 0.0]], "shape"),
    ],
)
def test_refuses_improper_covariances(cov, message):
    with pytest.raises(BaseError, match=message):
        GaussianBase.from_moments([0.0, 0.0], cov)
