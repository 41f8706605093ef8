"""Runs of models whose labels can be exchanged: one mode of each class, and draws of all."""

from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import pymc_tempering as pm_temper
from pymc_tempering.references.prepare import fit_base

Y = np.array([-2.2, -1.9, -1.4, 2.1, 3.3])


def two_means(spread=3.0):
    """Mixture of two Gaussians of known weights and widths, whose means have no order."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, spread, shape=2)
        pm.NormalMixture("y", np.array([0.5, 0.5]), mean, sigma=1.0, observed=Y)
    return model


def exact_log_z(spread=3.0):
    """Sum over all allocations, given which the data are Gaussian."""
    terms = []
    for allocation in product((0, 1), repeat=Y.size):
        same = np.equal.outer(allocation, allocation)
        covariance = np.eye(Y.size) + spread**2 * same
        terms.append(multivariate_normal.logpdf(Y, np.zeros(Y.size), covariance))
    return logsumexp(terms) - Y.size * np.log(2.0)


@pytest.mark.statistical
def test_log_z_is_exact_and_draws_are_of_both_orders(seed):
    """Log Z, and the share of draws of an order, half. False alarms: 1e-5."""
    estimate = pm_temper.estimate_logz(
        two_means(), chains=4, cores=1, random_seed=seed, progressbar=False, quiet=True,
    )  # fmt: skip
    assert abs(estimate.log_z - exact_log_z()) < 4.5 * estimate.se
    assert estimate.se < 0.05
    assert not estimate.warnings
    # one Gaussian stands for both
    assert (estimate.idata["tempering"]["n_components"] >= 1).all()
    ordered = np.diff(estimate.idata["posterior"]["mean"].values, axis=-1) > 0.0
    assert abs(ordered.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(ordered.size)


def test_one_of_two_images_is_counted(seed):
    with two_means():
        base = fit_base(random_seed=seed)
    # both images are in the Gaussian of the moments
    assert base.mean[0] == pytest.approx(base.mean[1])
    np.testing.assert_allclose(base.covariance, base.covariance[::-1, ::-1])
    assert base.standard_deviation[0] > 2.0
