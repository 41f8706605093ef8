"""Ensembles continue from their state as if they had not been interrupted, whatever the path."""

import pickle

import numpy as np
import pytest
from laws import ASKEW, MAPPED

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.annealer import Annealer, AnnealingSettings
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.ensembles.pair import TemperedPair
from pymc_tempering.engine.ensembles.pair_scans import Bias, continuous_scans, simulated_scans
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.tempered import TemperedPath

BETAS = np.array([0.0, 0.2, 1.0])
BIAS = Bias(BETAS, np.array([0.0, 0.4, 0.7]), BETAS)
SCALES = np.array([1.0, 0.5, 0.4])
SETTINGS = Hamiltonian(max_steps=4)


def low_rank():
    """Coordinates with few directions, in 40 dimensions and more."""
    covariance = 0.85 * np.eye(45) + 0.15
    base = GaussianBase.from_moments(np.full(45, 0.1), covariance)
    path = TemperedPath.from_base(testing.scaled_normal(dim=45, sd=0.7), base)
    assert path.coordinates.rank == 1
    return path


def other_reference():
    return MAPPED.in_coordinates(ASKEW)


def of_two_fits():
    """From a mixture, which the path that a state is restored on does not have."""
    target = testing.asymmetric_bimodal()
    sd = np.sqrt(np.diag(target.cov))
    fits = tuple(GaussianBase(target.mean + side * sd, 0.5 * sd) for side in (-1.0, 1.0))
    base = GaussianBase(target.mean, 1.5 * sd)
    mixture = Mixture(fits, np.array([0.3, 0.7]))
    return TemperedPath.from_base(target, base).starting_from(mixture)


def ladder(path, rng):
    chain = Ladder(path, BETAS, path.target.start, rng, settings=SETTINGS)
    return chain, {"path": path, "settings": SETTINGS, "swap_scheme": 0}


def continuous(path, rng):
    places = path.target.start, path.target.start
    fixed = {"settings": SETTINGS, "scans": continuous_scans, "level_update": 0}
    return TemperedPair(path, BIAS, SCALES, *places, **fixed), {"path": path, **fixed}


def simulated(path, rng):
    places = path.target.start, path.target.start
    fixed = {"settings": SETTINGS, "scans": simulated_scans, "level_update": 1}
    return TemperedPair(path, BIAS, SCALES, *places, **fixed), {"path": path, **fixed}


def annealed(path, rng):
    settings = AnnealingSettings(0, 2, True, 0.8, SETTINGS)
    chain = Annealer(path, BETAS, SCALES, settings)
    chain.place(path.target.start, rng)
    return chain, {"path": path, "settings": settings}


@pytest.mark.parametrize("make_path", [low_rank, other_reference, of_two_fits])
@pytest.mark.parametrize("make", [ladder, continuous, simulated, annealed])
def test_continues_to_the_last_bit(make, make_path, rng):
    path = make_path()
    chain, fixed = make(path, rng)
    chain.run(40, rng, adapt=True)
    stored = pickle.dumps(chain.state())
    # the path of the run that is continued need not have been in these coordinates
    elsewhere = fixed["path"].moved(GaussianBase(np.zeros(path.dim), np.ones(path.dim)))
    if path.mixture is not None:
        elsewhere = elsewhere.starting_from(None)
    other = type(chain).restored(pickle.loads(stored), **fixed | {"path": elsewhere})
    streams = np.random.default_rng(5), np.random.default_rng(5)
    for adapt in (True, False):
        records = [c.run(15, s, adapt=adapt) for c, s in zip((chain, other), streams, strict=True)]
        for first, second in zip(*records, strict=True):
            np.testing.assert_equal(second, first)
        if not adapt:
            break
        chain.stop_adaptation()
        other.stop_adaptation()
    np.testing.assert_array_equal(other.target_position, chain.target_position)
    assert other.target_log_density == chain.target_log_density
