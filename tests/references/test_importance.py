"""The mass of known modes from draws of their fits."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.elbo import UNKNOWN, importance_evidence
from tests.references.conftest import two_gaussians


@pytest.fixture(scope="module")
def target():
    """Two Gaussians with 0.3 and 0.7 of the mass."""
    return testing.asymmetric_bimodal(weights=(0.3, 0.7))


def fits(target, rng, widen=1.0):
    """Of both modes, from exact draws; the lighter first."""
    draws = target.draw(rng, 40_000)
    upper = draws[:, 0] > target.mean[0]
    groups = sorted([draws[upper], draws[~upper]], key=len)
    return [GaussianBase(x.mean(axis=0), widen * np.linalg.cholesky(np.cov(x.T))) for x in groups]


@pytest.mark.statistical
@pytest.mark.parametrize("widen", [1.0, 1.3])
def test_is_log_z_where_all_modes_are_known_however_often(target, widen, rng):
    """With an error that is true: of 400 estimates, four of its errors at 1e-4."""
    light, heavy = fits(target, rng, widen)
    for modes in ([light, heavy], [light, heavy, heavy, light, heavy]):
        found = [importance_evidence(target, modes, rng) for _ in range(400)]
        ratio = np.exp([one.value - target.log_z for one in found])
        assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / 20.0
        se = np.sqrt(np.mean([one.se**2 for one in found]))
        assert ratio.std() == pytest.approx(se, rel=4.0 / np.sqrt(2 * 400) + 0.1)
        assert found[0].n_gradients == 128 * len(modes)


def test_is_the_share_of_the_modes_that_are_known(rng):
    """Of two that do not overlap."""
    means, sds = np.array([[-9.0, 0.0], [9.0, 1.0]]), np.array([[1.0, 0.5], [0.7, 2.0]])
    density = two_gaussians(np.log([0.3, 0.7]) - 2.0, means, sds)
    target = SimpleNamespace(address=density.address, dim=2)
    for i, share in enumerate((0.3, 0.7)):
        found = importance_evidence(target, [GaussianBase(means[i], sds[i])], rng)
        assert found.value == pytest.approx(np.log(share) - 2.0, abs=1e-9)


def test_nothing_is_known_without_modes_or_beyond_the_support(rng):
    assert importance_evidence(testing.hard_edge_gaussian(), [], rng) == UNKNOWN
    beyond = GaussianBase(np.array([-50.0, 0.0]), np.ones(2))
    found = importance_evidence(testing.hard_edge_gaussian(), [beyond], rng)
    assert found == UNKNOWN._replace(n_gradients=128)
