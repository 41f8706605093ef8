"""A mode of known mass that no draw comes from."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_tempering as pm_temper

DIM, SLAB, SPIKE = 6, 5.0, 0.1
SHARE = 0.3


@pytest.fixture(scope="module")
def model():
    """A spike inside of a slab, which is the prior: log Z is 0."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, SLAB, shape=DIM, initval=np.full(DIM, 2.0))
        slab = pm.logp(pm.Normal.dist(0.0, SLAB), x).sum()
        spike = pm.logp(pm.Normal.dist(2.0, SPIKE), x).sum()
        pm.Potential("spike", pt.logaddexp(np.log1p(-SHARE), np.log(SHARE) + spike - slab))
    return model


def run(model, seed, **options):
    return pm_temper.estimate_logz(
        model, random_seed=seed, chains=2, cores=1, progressbar=False, quiet=True,
        compute_convergence_checks=False, **options,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_a_spike_that_replicas_never_meet_is_named(model, seed):
    """All else about the run looks perfect, and log Z is -0.36."""
    slab = pm_temper.GaussianBase(np.zeros(DIM), np.full(DIM, SLAB))
    found = run(model, seed, base=slab)
    [diagnostic] = found.warnings
    assert list(diagnostic.measured) == ["mode_without_draws"]
    lacking = diagnostic.measured["mode_without_draws"]["lacking"]
    assert abs(found.log_z + lacking) < 4.0 * found.se + 0.02
    stored = found.idata["tempering"].dataset["log_mass_unvisited"].values
    np.testing.assert_allclose(np.nanmax(stored, axis=1), np.log(SHARE), atol=0.02)


def test_replicas_that_start_from_both_are_quiet(model, seed):
    found = run(model, seed)
    assert found.warnings == ()
    assert abs(found.log_z) < 4.0 * found.se
    assert np.isnan(found.idata["tempering"].dataset["log_mass_unvisited"].values).all()
