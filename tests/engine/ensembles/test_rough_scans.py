"""Scans of every ensemble are invariant where the density jumps and gradients are not numbers.

False-alarm rate 1e-3 for every test here. A kick may be any function of position, so that moves
stay exact; a planted one that depends on the point before is found.
"""

import numpy as np
import pytest
from laws import ASKEW, ExactPath, GaussianLaw, pair_statistics
from loops import annealing_kernel, ladder_kernel, pair_kernel
from planted import with_planted
from rough import BAD_BELOW, JUMP_AT, Rough

from pymc_tempering.engine.ensembles.annealing_runs import anneal_ensemble, annealing_scans
from pymc_tempering.engine.ensembles.ladder_scans import ladder_scans
from pymc_tempering.engine.ensembles.pair_scans import (
    LEVEL_UPDATES,
    Bias,
    continuous_scans,
    simulated_scans,
)
from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.engine.path.path import evaluate_target
from pymc_tempering.engine.tally import BAD_GRADIENTS
from pymc_tempering.testing import invariance_test

N = 40_000
BETAS = np.array([0.0, 0.15, 0.5, 1.0])
STEPS = np.array([1.5, 0.9, 0.7, 0.5])
WIDTHS = np.array([1.5, 1.4, 1.0, 0.8])
ROUGH = ExactPath(Rough(), GaussianLaw(ASKEW))
SEEN = ROUGH.in_coordinates(ASKEW)
# not minus log z: an error that perfect weights would hide has to show
BIAS = np.array([0.0, -0.3, 0.2, ROUGH.target.log_z + 0.8])
SETTINGS = {"hamiltonian": Hamiltonian(max_steps=4), "slice": Slice(), "gist": Gist(max_steps=4)}
SCALES = {"hamiltonian": STEPS, "slice": WIDTHS, "gist": STEPS}


def features(z):
    """What a kick that is no function of position, or a jump that is passed over, moves first."""
    return {
        "delta": ROUGH.delta(z).clip(-20.0, 10.0), "z0": z[:, 0], "z1": z[:, 1],
        "beyond the jump": (z[:, 0] > JUMP_AT) + 0.0,
        "bad gradient": (z[:, 1] < BAD_BELOW) + 0.0,
    }  # fmt: skip


def ladder(explorer, plant, rng, n):
    kernel = ladder_kernel(
        SEEN, BETAS, SCALES[explorer], settings=SETTINGS[explorer], n_scans=2,
        scans=plant(ladder_scans),
    )  # fmt: skip
    statistics = {
        f"{name} at {k}": lambda s, name=name, k=k: features(s[:, k])[name]
        for k in range(BETAS.size)
        for name in features(np.zeros((1, 2)))
    }
    result = invariance_test(
        kernel, lambda rng, n: ROUGH.draw_levels(rng, n, BETAS), statistics, n=n, rng=rng,
        n_steps=2, vectorized=True,
    )  # fmt: skip
    return result, kernel.record.counts.sum(axis=0)


def pair(scans, level_update, explorer, plant, rng, n):
    levels = level_update is not None
    kernel = pair_kernel(
        plant(scans), SEEN, Bias(BETAS, BIAS, BETAS), SCALES[explorer],
        settings=SETTINGS[explorer], level_update=level_update,
    )  # fmt: skip
    statistics = pair_statistics(ROUGH) | {
        f"{which} {name}": lambda s, at=at, name=name: features(s[:, at : at + 2])[name]
        for which, at in (("z", 0), ("y", 3))
        for name in ("z1", "beyond the jump", "bad gradient")
    }
    result = invariance_test(
        kernel, lambda rng, n: ROUGH.draw_joint(rng, n, BETAS, BIAS, levels=levels), statistics,
        n=n, rng=rng, n_steps=2, vectorized=True,
    )  # fmt: skip
    return result, kernel.log.counts.sum(axis=0)


def continuous(*args):
    return pair(continuous_scans, None, *args)


def simulated(*args):
    return pair(simulated_scans, LEVEL_UPDATES.index("independent"), *args)


def neighbouring(*args):
    return pair(simulated_scans, LEVEL_UPDATES.index("neighbour"), *args)


def annealing(explorer, plant, rng, n):
    """The explorer moves the draws; what is annealed has moves of its own."""
    kernel = annealing_kernel(
        SEEN, BETAS, STEPS, n_leapfrog=2, settings=SETTINGS[explorer],
        target_scale=SCALES[explorer][-1], n_scans=2, ensemble=plant(anneal_ensemble),
        scans=plant(annealing_scans),
    )  # fmt: skip
    statistics = {
        name: lambda z, name=name: features(z)[name] for name in features(np.zeros((1, 2)))
    }
    result = invariance_test(
        kernel, ROUGH.target.draw, statistics, n=n, rng=rng, n_steps=2, vectorized=True
    )
    return result, None


ENSEMBLES = [ladder, continuous, simulated, neighbouring, annealing]


def right(scans):
    return scans


@pytest.mark.statistical
@pytest.mark.parametrize("explorer", SETTINGS)
@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_scans_are_invariant(ensemble, explorer, rng):
    result, counts = ensemble(explorer, right, rng, N)
    assert not result.rejected, result
    assert counts is None or counts[BAD_GRADIENTS] > N


def as_at_the_point_before(path, u, grad, work):
    before = grad.copy()
    log_target, bad_gradient = evaluate_target(path, u, grad, work)
    if bad_gradient:
        grad[:] = before
    return log_target, bad_gradient


@pytest.mark.slow
def test_gradients_that_stay_what_they_were_are_found(rng):
    """P-value far beyond the rate of false alarms."""
    wrong = {evaluate_target: as_at_the_point_before}
    result, _ = ladder("hamiltonian", lambda scans: with_planted(scans, wrong), rng, 2 * N)
    assert result.p_value < 1e-6, result
