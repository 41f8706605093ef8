"""What speaks against a run of joint continuous tempering, each by itself, and a good run."""

import numpy as np
import pytest

from pymc_tempering.evidence.checks import diagnose
from pymc_tempering.evidence.common import run_of
from pymc_tempering.evidence.run import MethodEstimate

GOOD = {
    "n_round_trips": np.array([20, 25]),
    "weight_ess": np.array([300.0, 280.0]),
    "base_weight_ess": np.array([90.0, 80.0]),
    "n_divergences": np.array([0.0, 1.0]),
    "base_mean_error": np.array([1.2, np.nan]),
    "beta": np.zeros((2, 1000)),
    "support_mass": np.ones(2),
}


def diagnostics(**changes):
    influences = [0.1 * np.random.default_rng(i).normal(size=1000) for i in range(2)]
    parts = MethodEstimate(np.zeros(2), influences, arrays=GOOD | changes, least_support=0.05)
    return diagnose(run_of(parts, "joint_ct"))


def test_a_good_run_has_none():
    assert diagnostics() == ()


@pytest.mark.parametrize(
    ("changes", "code", "measured"),
    [
        (
            {"n_round_trips": np.array([20, 0])},
            "mode_missing",
            {"no_round_trips": {"n_round_trips": [0], "chain": [1]}},
        ),
        ({"weight_ess": np.array([3.0, 4.0])}, "weights_collapse", {"weight_ess": 7.0}),
        (
            {"n_divergences": np.array([300.0, 0.0])},
            "divergences",
            {"n_divergences": 300, "transitions": 2000},
        ),
        (
            {"support_mass": np.full(2, 1e-5)},
            "no_base_overlap",
            {"outside_target": {"support_mass": pytest.approx(1e-5)}},
        ),
        (
            {"base_mean_error": np.array([1.0, 9.0])},
            "base_not_recovered",
            {"base_mean_error": 9.0, "chain": [1]},
        ),
    ],
)
def test_each_failing_run_raises_its_own(changes, code, measured):
    [diagnostic] = diagnostics(**changes)
    assert diagnostic.code == code
    assert diagnostic.measured == measured


def test_beyond_an_edge_divergences_and_the_mean_of_the_base_say_nothing():
    changes = {"n_divergences": np.array([300.0, 0.0]), "base_mean_error": np.array([9.0, 9.0])}
    assert diagnostics(support_mass=np.full(2, 0.5), **changes) == ()
