"""Replicas: what is evaluated at a position stays with it."""

import numpy as np
import pytest
from laws import ASKEW, MAPPED, ExactPath, GaussianLaw

from pymc_tempering import testing
from pymc_tempering.engine.path.replicas import (
    N_WORK,
    copy_replica,
    draw_from_reference,
    evaluate,
    new_replicas,
)

PATHS = {
    "gaussian": ExactPath(testing.skewed_gamma(), GaussianLaw(ASKEW)),
    "other": MAPPED,
}


@pytest.fixture(params=list(PATHS))
def exact(request):
    return PATHS[request.param]


def check(exact, replicas, row):
    z = ASKEW.from_base(replicas.u[row])
    log_det = ASKEW.log_det_scale
    log_target = float(exact.target.log_density(z)) + log_det
    log_reference = float(exact.reference.log_density(z)) + log_det
    assert replicas.log_target[row] == pytest.approx(log_target, rel=1e-10)
    assert replicas.log_reference[row] == pytest.approx(log_reference, rel=1e-10)
    assert replicas.delta[row] == pytest.approx(float(exact.delta(z)), rel=1e-10)


def test_new_replicas_are_evaluated_copies(exact, rng):
    u = rng.normal(size=(3, 2))
    replicas = new_replicas(exact.in_coordinates(ASKEW).view, u)
    u[:] = np.nan
    for row in range(3):
        check(exact, replicas, row)
    assert replicas.work.shape == (N_WORK, 2)
    assert all(values.flags.c_contiguous and values.flags.writeable for values in replicas)


def test_evaluation_touches_one_replica(exact, rng):
    path = exact.in_coordinates(ASKEW)
    replicas = new_replicas(path.view, rng.normal(size=(3, 2)))
    before = [values.copy() for values in replicas[:6]]
    replicas.u[1] = rng.normal(size=2)
    evaluate(path.view, replicas, 1)
    check(exact, replicas, 1)
    for now, old in zip(replicas[:6], before, strict=True):
        np.testing.assert_array_equal(now[[0, 2]], old[[0, 2]])
    assert (replicas.grad[1] != before[1][1]).all()


def test_copies_of_replicas_share_nothing(exact, rng):
    path = exact.in_coordinates(ASKEW)
    replicas = new_replicas(path.view, rng.normal(size=(3, 2)))
    copy_replica(replicas, 0, 2)
    for values in replicas[:6]:
        np.testing.assert_array_equal(values[2], values[0])
    replicas.u[0] += 1.0
    assert (replicas.u[2] != replicas.u[0]).all()


@pytest.mark.statistical
def test_draws_from_a_gaussian_reference(rng):
    """Mean and variance of 2000 draws; |z| > 5 at 6e-7 each, eight of them at most."""
    exact = PATHS["gaussian"]
    path = exact.in_coordinates(ASKEW)
    replicas = new_replicas(path.view, np.zeros((1, 2)))
    u = np.empty((2000, 2))
    for row in range(2000):
        draw_from_reference(path.view, replicas, 0, np.empty(0), rng)
        u[row] = replicas.u[0]
    check(exact, replicas, 0)
    assert (np.abs(u.mean(axis=0)) < 5.0 / np.sqrt(2000)).all()
    assert (np.abs(u.var(axis=0) - 1.0) < 5.0 * np.sqrt(2.0 / 2000)).all()
    assert abs(np.corrcoef(u.T)[0, 1]) < 5.0 / np.sqrt(2000)


def test_draws_from_another_reference_are_those_made_beforehand(rng):
    exact = PATHS["other"]
    path = exact.in_coordinates(ASKEW)
    replicas = new_replicas(path.view, np.zeros((1, 2)))
    state = rng.bit_generator.state
    draws, _, _ = path.draws_and_origins(3, np.random.default_rng(1))
    for draw in draws:
        draw_from_reference(path.view, replicas, 0, draw, rng)
        np.testing.assert_array_equal(replicas.u[0], draw)
        check(exact, replicas, 0)
    assert rng.bit_generator.state == state
