"""A mode of known mass that no draw comes from."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.evidence.unvisited import unvisited_arrays, unvisited_diagnostics

DIM, SLAB, SPIKE = 6, 5.0, 0.1
SHARE = 0.3


def left(share, n_draws=200, n_chains=2):
    """Statistics of chains that lack this share of an evidence of one."""
    unvisited = np.full((n_chains, n_draws, 8), np.nan)
    unvisited[:, :, 0] = np.log(share)
    return {"log_mass_unvisited": unvisited}


def test_the_share_that_matters():
    [diagnostic] = unvisited_diagnostics(left(0.06), np.zeros(2))
    assert diagnostic.code == "mode_out_of_reach"
    assert np.isclose(diagnostic.measured["lacking"], np.log(1.06))
    assert "lacks its mass: 0.058 nats" in diagnostic.text
    assert unvisited_diagnostics(left(0.04), np.zeros(2)) == []
    # it is the share of the estimate: nats of another model do not count
    assert len(unvisited_diagnostics(left(0.04), np.full(2, -1.0))) == 1
    assert unvisited_diagnostics({}, np.zeros(2)) == []
    # where the evidence is infinite, so may fits be
    [diagnostic] = unvisited_diagnostics(left(0.5), np.full(2, -1e5))
    assert np.isclose(diagnostic.measured["lacking"], 1e5)


def test_few_draws_may_miss_a_mode():
    assert unvisited_diagnostics(left(0.2, 20), np.zeros(2)) == []
    assert len(unvisited_diagnostics(left(0.3, 20), np.zeros(2))) == 1


def test_modes_whose_mass_is_not_known_are_counted_by_the_last_draw():
    statistics = {"n_unreached_modes": np.zeros((2, 50), dtype=int)}
    assert unvisited_diagnostics(statistics, np.zeros(2)) == []
    statistics["n_unreached_modes"][0, :40] = 2  # and found by then
    assert unvisited_diagnostics(statistics, np.zeros(2)) == []
    statistics["n_unreached_modes"][1, 20:] = 2
    [diagnostic] = unvisited_diagnostics(statistics, np.zeros(2))
    assert (diagnostic.code, diagnostic.measured) == ("mode_out_of_reach", {"n_unreached_modes": 2})
    assert unvisited_arrays(statistics)["n_unreached_modes"].tolist() == [0.0, 2.0]
    both = unvisited_diagnostics(statistics | left(0.5), np.zeros(2))
    assert [set(diagnostic.measured) & {"lacking"} for diagnostic in both] == [set(), {"lacking"}]


def test_a_draw_in_one_chain_is_enough():
    statistics = left(0.5)
    statistics["log_mass_unvisited"][1, -1, 0] = np.nan
    statistics["log_mass_unvisited"][1, :, 1] = np.log(0.4)
    assert unvisited_diagnostics(statistics, np.zeros(2)) == []
    # a third one, that both lack
    statistics["log_mass_unvisited"][:, :, 2] = np.log(0.1)
    [diagnostic] = unvisited_diagnostics(statistics, np.zeros(2))
    assert np.isclose(diagnostic.measured["lacking"], np.log(1.1))
    # what was not known at the first draws does not matter
    statistics = left(0.5)
    statistics["log_mass_unvisited"][:, 0] = 0.0
    assert np.allclose(unvisited_arrays(statistics)["log_mass_unvisited"][:, 0], np.log(0.5))


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
    assert diagnostic.code == "mode_out_of_reach"
    assert abs(found.log_z + diagnostic.measured["lacking"]) < 4.0 * found.se + 0.02
    stored = found.idata["tempering"].dataset["log_mass_unvisited"].values
    np.testing.assert_allclose(np.nanmax(stored, axis=1), np.log(SHARE), atol=0.02)


def test_replicas_that_start_from_both_are_quiet(model, seed):
    found = run(model, seed)
    assert found.warnings == ()
    assert abs(found.log_z) < 4.0 * found.se
    assert np.isnan(found.idata["tempering"].dataset["log_mass_unvisited"].values).all()
