"""A base that leaves out part of the posterior: refused where it is found, or said afterwards."""

import math

import numpy as np
import pymc as pm
import pytest
from densities import toy

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import BaseError, TemperingWarning
from pymc_tempering.evidence.checks.overlap import base_reaches, bounded, infinite_deltas
from pymc_tempering.references import REFERENCES

SD = 2.0
RUN = {"chains": 2, "cores": 1, "random_seed": 3, "progressbar": False, "quiet": True}


class Half:
    """Half-normal to the right of an edge."""

    dim = 1

    def __init__(self, edge):
        self.edge = edge
        constant = math.log(2.0) - math.log(SD) - 0.5 * math.log(2.0 * math.pi)

        @toy(1)
        def density(z, grad):
            x = (z[0] - edge) / SD
            grad[0] = -x / SD
            return -math.inf if x < 0.0 else constant - 0.5 * x * x

        self._density = density

    @property
    def address(self):
        return self._density.address

    def draw(self, n, rng):
        return self.edge + SD * np.abs(rng.standard_normal((n, 1)))


@pytest.fixture(scope="module")
def model():
    """The posterior is N(0.5, 1 / 2), and starts at 0."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, 1.0, observed=[1.0])
    return model


@pytest.fixture
def half(monkeypatch):
    """Makes a half-normal one of the references by name."""

    def register(edge):
        monkeypatch.setitem(REFERENCES, "half", lambda density: Half(edge))
        return "half"

    return register


def test_a_mode_beside_the_base_is_refused_before_sampling(model, half):
    step = pm_temper.ParallelTempering(model=model, base=half(0.9))
    with pytest.raises(BaseError, match=r"no density at 2 of 2 modes.*Leave `base` away"):
        step.prepare(random_seed=1)


@pytest.mark.parametrize("method", ["pt", "gibbs_ct"])
def test_what_tuning_finds_beside_the_base_is_refused(model, half, method):
    with pytest.raises(BaseError, match="no density at positions that were found while tuning"):
        pm_temper.estimate_logz(model, method=method, base=half(-0.2), tune=20, draws=20, **RUN)


def test_what_sampling_finds_beside_the_base_is_said(model, half):
    with pytest.warns(TemperingWarning, match="base and posterior overlap in part"):
        estimate = pm_temper.estimate_logz(model, base=half(-0.2), tune=0, draws=40, **RUN)
    assert np.isfinite(estimate.log_z)
    [diagnostic] = [
        diagnostic for diagnostic in estimate.warnings if diagnostic.code == "no_base_overlap"
    ]
    delta = estimate.idata["sample_stats"]["delta"].values
    assert diagnostic.measured["outside_base"] == {"infinite delta": np.isposinf(delta).sum()}
    # at beta = 1 alone: elsewhere there is no density
    last = np.isfinite(estimate.idata["sample_stats"]["betas"].values[0, 0]).sum() - 1
    assert not np.isposinf(np.delete(delta, last, axis=-1)).any()


def test_covered_points_are_told_from_others(model):
    density = pm_temper.ParallelTempering(model=model).density
    unit = GaussianBase([0.0], [1.0])
    reference = Half(-0.2)
    path = TemperedPath(density, TemperedPath.from_base(density, unit).coordinates, reference)
    z = np.array([[-0.3], [-0.1], [4.0], [np.nan]])
    assert path.uncovered(z).tolist() == [True, False, False, False]
    assert not TemperedPath.from_base(density, unit).uncovered(z).any()


def test_infinite_deltas_become_larger_than_all_others():
    delta = np.array([[np.inf, 3.0], [-np.inf, -8.0]])
    found = bounded({"delta": delta, "beta": np.array([np.inf])})
    assert found["delta"].tolist() == [[10003.0, 3.0], [-np.inf, -8.0]]
    assert found["beta"].tolist() == [np.inf]
    assert bounded({"target_delta": np.array([np.inf])})["target_delta"].tolist() == [1e4]
    finite = {"delta": delta[1]}
    assert bounded(finite)["delta"] is finite["delta"]
    assert [*infinite_deltas(finite)] == []


def ladder(lead, n_draws=200, n_scans=5, n_levels=4):
    """Statistics of two chains of 3 and 4 levels; the target is once ``lead`` nats higher."""
    betas = np.full((2, n_draws, n_levels), np.nan)
    betas[0, :, :3], betas[1] = [0.0, 0.4, 1.0], [0.0, 0.2, 0.6, 1.0]
    delta = np.full((2, n_draws, n_scans, n_levels), np.nan)
    delta[0, :, :3, :3] = -7.0
    delta[1, :, :3] = -7.0
    delta[1, 3, 1, 0] = 30.0  # a draw of the base says nothing here
    delta[0, 5, 2, 2] += lead
    return {"delta": delta, "betas": betas}


def test_a_base_reaches_where_it_has_draws():
    """1200 scans of the target, of which the logarithm is 7.09."""
    assert base_reaches(ladder(7.0))
    assert not base_reaches(ladder(7.2))


def test_without_levels_nothing_is_known():
    statistics = ladder(0.0)
    assert not base_reaches({"betas": statistics["betas"]})
    assert not base_reaches(statistics | {"delta": statistics["delta"][..., 0]})
    assert not base_reaches(statistics | {"delta": np.full_like(statistics["delta"], np.nan)})
