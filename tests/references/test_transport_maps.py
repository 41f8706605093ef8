"""Which fits get another shape, from gradients or from a short run, and which stay."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.transport import SKEW, TransportMap
from pymc_tempering.references import bending
from pymc_tempering.references.coverage import Search
from pymc_tempering.references.elbo import evaluate_elbo
from pymc_tempering.references.prepared import GAUSSIAN_FITS, MAPPED, Prepared
from pymc_tempering.references.third_order import EXACT, ThirdOrder
from pymc_tempering.references.transport_maps import fit_maps
from tests.references.test_third_order import AT_MAXIMUM, REGRESSION, gamma_density

FOUND = Search((9,), 0, 0, 1000, 0.0)


def prepared(*fits):
    return Prepared(fits[0], fits, FOUND)


@pytest.fixture
def no_runs(monkeypatch):
    """Raise where a short run would begin."""

    def run(*args):
        raise AssertionError("a short run")

    monkeypatch.setattr(bending, "map_by_run", run)


def test_gradients_save_a_run(no_runs, rng):
    found = fit_maps(REGRESSION, prepared(AT_MAXIMUM), rng)
    (shape,) = found.shapes
    assert found.kind == MAPPED
    assert SKEW in shape.terms.what[:, 1]
    assert shape.log_zeta == pytest.approx(0.8, abs=0.01)
    # of all rounds, of what is checked before and after
    assert 1000 + 5 * 500 < found.search.n_gradients < 1000 + 10 * 500 + 2000


def test_one_dimension(no_runs, rng):
    target = SimpleNamespace(address=gamma_density.address, dim=1)
    found = fit_maps(target, prepared(GaussianBase(np.log([4.0]), np.array([0.5]), 0.0)), rng)
    assert found.kind == MAPPED
    np.testing.assert_allclose(found.shapes[0].residuals.skew, [0.5], atol=0.1)


def test_a_gaussian_that_is_off_is_mended(gaussian, no_runs, rng):
    off = GaussianBase(gaussian.mean + 0.2, 0.9 * np.sqrt(np.diag(gaussian.cov)), 0.0)
    found = fit_maps(gaussian, prepared(off), rng)
    (shape,) = found.shapes
    assert found.kind == GAUSSIAN_FITS
    assert found.fits == found.shapes
    assert shape.log_zeta == pytest.approx(gaussian.log_z, abs=2e-3)
    assert evaluate_elbo(gaussian, shape, rng).variance < EXACT


def test_what_is_exact_costs_no_more_than_to_see_it(gaussian, no_runs, rng):
    fit = GaussianBase.from_moments(gaussian.mean, gaussian.cov, gaussian.log_z)
    found = fit_maps(gaussian, prepared(fit), rng)
    assert found.shapes == (fit,)
    assert found.search.n_gradients == 1000 + 400 + 4 * gaussian.dim


@pytest.mark.parametrize(
    ("variance", "k", "kept"), [(0.09, 0.4, True), (0.09, 0.6, False), (0.11, 0.4, False),
                                (0.004, 0.6, True)]
)  # fmt: skip
def test_a_shape_is_kept_where_its_weights_are_good(variance, k, kept, rng, monkeypatch):
    target = testing.banana()
    fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
    shape = fit_maps(REGRESSION, prepared(AT_MAXIMUM), rng).shapes[0]
    runs = []
    monkeypatch.setattr(bending, "third_order_fit", lambda *args: ThirdOrder(shape, variance, 500))
    monkeypatch.setattr(bending, "log_weights", lambda *args: None)
    monkeypatch.setattr(bending, "pareto_k", lambda weights: k)
    monkeypatch.setattr(
        bending, "map_by_run",
        lambda *args: runs.append(args) or bending.Run(GAUSSIAN_FITS, None, 0, 0.0),
    )  # fmt: skip
    found = bending._shape_of(target, fit, rng, np.inf, may_run=True)
    assert (found.shape is shape) == kept
    assert len(runs) == (not kept)


def test_heavy_tails_are_left_to_draws(rng, monkeypatch):
    """Gradients at a fit's own draws do not see them.

    A run keeps no shape for one seed in forty. False alarms: 1.5e-4.
    """

    def third_order_fit(*args):
        raise AssertionError("a fit of third order")

    monkeypatch.setattr(bending, "third_order_fit", third_order_fit)
    target = testing.heavy_tail()
    fit = GaussianBase(target.mean, np.array([1.0, 2.2]), target.log_z)
    found = [bending._shape_of(target, fit, r, np.inf, may_run=True) for r in rng.spawn(5)]
    assert sum(isinstance(run.shape, TransportMap) for run in found) >= 3


def test_the_other_modes_are_mended_and_have_no_runs(no_runs, rng, monkeypatch):
    """Beyond the fits that may have a run, as long as the search took enough more."""
    monkeypatch.setattr(bending, "MOST_FITS", 0)
    shape = fit_maps(REGRESSION, prepared(AT_MAXIMUM), rng).shapes[0]
    assert isinstance(shape, TransportMap)
    target = testing.banana()
    fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
    assert fit_maps(target, prepared(fit), rng).shapes == (fit,)
    monkeypatch.setattr(bending, "_MOST_OF_SEARCH", -1.0)
    assert fit_maps(REGRESSION, prepared(AT_MAXIMUM), rng).shapes == (AT_MAXIMUM,)
