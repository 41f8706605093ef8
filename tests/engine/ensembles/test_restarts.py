"""Whether the replica at the target came there from the base in a block of scans."""

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.ensembles.pair import TemperedPair
from pymc_tempering.engine.ensembles.pair_scans import Bias, continuous_scans, simulated_scans
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath

BETAS = np.array([0.0, 0.1, 0.3, 1.0])
SETTINGS = Hamiltonian(max_steps=3)
LENGTH = 6


def ensemble(kind, rng, offset=0.7):
    """Of the target and a base beside it, so that the target is left and reached now and then."""
    target = testing.correlated_gaussian()
    path = TemperedPath.from_base(target, GaussianBase(target.mean + offset, np.ones(target.dim)))
    if kind is Ladder:
        return Ladder(path, BETAS, target.start, rng, settings=SETTINGS)
    bias = Bias(BETAS, np.zeros(4), BETAS)
    return TemperedPair(
        path, bias, np.full(4, 0.5), target.start, target.start, scans=kind, settings=SETTINGS
    )


@pytest.mark.parametrize("kind", [Ladder, simulated_scans, continuous_scans])
def test_a_block_knows_what_arrived_in_it(kind):
    """Against the arrivals of single scans: that of the last replica is one of them, or is not."""
    first, second = np.random.default_rng(3), np.random.default_rng(3)
    single, block = ensemble(kind, first), ensemble(kind, second)
    found = {True: 0, False: 0}
    for _ in range(400):
        arrived = []
        for _ in range(LENGTH):
            record = single.run(1, first)
            n_restarts = record.counts["n_tempered_restarts"]
            assert record.tempered_restart == (n_restarts == 1)
            arrived += [single._target_row] * n_restarts
        together = block.run(LENGTH, second)
        assert together.counts["n_tempered_restarts"] == len(arrived)
        assert together.tempered_restart == (single._target_row in arrived)
        found[together.tempered_restart] += len(arrived) > 0
    # arrivals that went away again within the block are seen as well
    assert min(found.values()) >= 3, found
    assert single.state()["last_end"].max() >= 3


@pytest.mark.parametrize("kind", [Ladder, simulated_scans, continuous_scans])
def test_round_trips_do_not_depend_on_blocks(kind):
    """A replica that came up in one block and goes back in another has made one."""
    first, second = np.random.default_rng(4), np.random.default_rng(4)
    single, block = ensemble(kind, first), ensemble(kind, second)
    trips = [single.run(1, first).counts["n_round_trips"] for _ in range(600)]
    assert block.run(600, second).counts["n_round_trips"] == sum(trips) > 20


@pytest.mark.parametrize("kind", [Ladder, simulated_scans, continuous_scans])
def test_nothing_comes_from_a_base_far_away(kind, rng):
    apart = ensemble(kind, rng, offset=1e3)
    assert not any(apart.run(LENGTH, rng).tempered_restart for _ in range(20))
