"""A trial position is evaluated beside the replica, which changes only where it is taken."""

import numpy as np
import pytest

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import (
    evaluate_trial,
    log_tempered,
    new_replicas,
    take_trial,
    trial_position,
)
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.testing import TARGETS

STARTS = np.array([[0.3, -1.1], [0.7, 0.2]])
TRIED = np.array([-0.4, 0.9])


class Known:
    """A target as a reference; ``TemperedPath`` asks for no more than this here."""

    def __init__(self, target):
        self.address, self.dim = target.address, target.dim


@pytest.fixture(params=["gaussian", "other"])
def path(request):
    target = TARGETS["banana"]()
    coordinates = Coordinates.of(GaussianBase([0.5, -1.0], [[1.5, 0.0], [0.4, 0.8]]))
    reference = None if request.param == "gaussian" else Known(TARGETS["heavy_tail"](log_z=0.0))
    return TemperedPath(target, coordinates, reference)


def arrays(replicas):
    return [np.array(part) for part in replicas[:-1]]


def test_a_trial_leaves_every_replica_as_it_was(path):
    replicas = new_replicas(path.view, STARTS)
    before = arrays(replicas)
    trial_position(replicas)[:] = TRIED
    evaluate_trial(path.view, replicas)
    for now, then in zip(arrays(replicas), before, strict=True):
        assert np.array_equal(now, then)


def test_a_trial_that_is_taken_is_a_replica_evaluated_there(path):
    replicas, expected = (
        new_replicas(path.view, u) for u in (STARTS, np.stack([STARTS[0], TRIED]))
    )
    trial_position(replicas)[:] = TRIED
    trial = evaluate_trial(path.view, replicas)
    assert trial.log_target == expected.log_target[1]
    assert trial.log_reference == expected.log_reference[1]
    take_trial(trial, replicas, 1)
    for now, then in zip(arrays(replicas), arrays(expected), strict=True):
        assert np.array_equal(now, then)


def test_log_density_of_the_path():
    assert log_tempered(0.3, -2.0, 5.0) == pytest.approx(0.3 * -2.0 + 0.7 * 5.0)
    assert log_tempered(0.3, -np.inf, 5.0) == -np.inf
    assert log_tempered(0.3, -2.0, -np.inf) == -np.inf
    # the reference does not count there: the target may have density where it has none
    assert log_tempered(1.0, -2.0, -np.inf) == -2.0
    # at the reference, too, no density of the target is none: a replica has to be in the support
    assert log_tempered(0.0, -np.inf, 5.0) == -np.inf
