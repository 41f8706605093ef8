"""How many more draws than expected are of each component, against the mixture's own numbers."""

import numpy as np
import pytest
from scipy import stats

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.components import component_excess
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.path.transport import MEAN, Terms, TransportMap

TARGET = testing.asymmetric_bimodal()
SKEW = np.array([[0.6, 0.0], [0.5, 0.9]])
FITS = {
    "apart": (GaussianBase([-6.0, 1.0], [0.7, 0.5]), GaussianBase([5.0, -0.3], SKEW)),
    "overlapping": (GaussianBase([-0.4, 0.2], [0.7, 0.5]), GaussianBase([0.3, -0.3], SKEW)),
    "mapped": (
        GaussianBase([-2.0, 0.2], [0.7, 0.5]),
        TransportMap(np.array([0.3, 0.1]), SKEW, Terms(np.array([[1, MEAN, 0, 0]]), np.ones(1))),
    ),
}
WEIGHTS = np.array([0.25, 0.75])
COORDINATES = Coordinates.of(GaussianBase([0.1, -0.2], np.array([[2.5, 0.0], [1.0, 1.5]])))


def excess_of(mixture, z):
    components = mixture.in_coordinates(COORDINATES)
    return component_excess(components, mixture.shares, COORDINATES.to_base(z))


@pytest.mark.parametrize("fits", FITS)
def test_it_is_what_responsibilities_add_up_to(fits, rng):
    mixture = Mixture(FITS[fits], WEIGHTS)
    assert mixture.shares.tolist() == pytest.approx([0.15, 0.85 * 0.25, 0.85 * 0.75])
    draws, _ = mixture.draw(40, COORDINATES, rng)
    # where all but the wide one are negligible, and where no digit of it is left
    z = np.vstack([draws, [[300.0, -200.0]], mixture.fits[0].mean[None]])
    expected = (mixture.responsibilities(z, COORDINATES) - mixture.shares).sum(axis=0)
    np.testing.assert_allclose(excess_of(mixture, z), expected, atol=1e-11)
    assert abs(excess_of(mixture, z).sum()) < 1e-11


@pytest.mark.statistical
@pytest.mark.parametrize("fits", FITS)
def test_its_mean_is_zero(fits, rng):
    """Means of 200 batches within 4.5 of their errors, three by three: once in 10,000 seeds."""
    mixture = Mixture(FITS[fits], WEIGHTS)
    draws, _ = mixture.draw(20_000, COORDINATES, rng)
    each = np.array([excess_of(mixture, batch) for batch in draws.reshape(200, 100, 2)]) / 100
    error = each.std(axis=0) / np.sqrt(len(each))
    assert (np.abs(each.mean(axis=0)) < 4.5 * error).all()
    # and the same draws with other weights are not of them
    other = Mixture(FITS[fits], WEIGHTS[::-1])
    wrong = (mixture.responsibilities(draws, COORDINATES) - other.shares).mean(axis=0)
    assert (np.abs(wrong[1:]) > 10.0 * error[1:]).all()


def test_a_ladder_counts_the_draws_of_its_scans(rng):
    """Whatever becomes of them: counted are those at beta = 0, which no swap has moved yet."""
    mixture = Mixture(FITS["apart"], WEIGHTS)
    path = TemperedPath(TARGET, COORDINATES, mixture)
    start = TARGET.draw(rng, 3)
    ladder = Ladder(path, np.array([0.0, 0.4, 1.0]), start, rng, settings=Hamiltonian(max_steps=8))
    assert ladder.run(5, rng, adapt=True).component_excess.size == 0
    ladder.stop_adaptation()
    record = ladder.run(400, rng)
    shares = (record.component_excess + 400 * mixture.shares) / 400
    # apart as they are, nearly all of a draw belongs to its own component
    assert stats.binomtest(round(400 * shares[1]), 400, mixture.shares[1]).pvalue > 1e-5
    assert shares.sum() == pytest.approx(1.0)
    assert np.abs(record.component_excess).max() > 1e-3
    ladder.change_mixture(None)
    assert ladder.run(5, rng).component_excess.size == 0
