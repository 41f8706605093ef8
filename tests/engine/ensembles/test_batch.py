"""An ensemble that is one vectorised batch: all replicas moved at once by array code.

Nothing above it knows. The tuner of parallel tempering tunes it, the ladder's estimators read its
record, and the step method records it through ``pm.sample``.
"""

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import ScanRecord
from pymc_tempering.engine.ensembles.swap import DEO, swap_probability, swap_sweep, track_trips
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.state import Stateful
from pymc_tempering.engine.tally import EVALUATIONS, counts_by_name, new_counts
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.schedule.grid import make_schedule
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.steps.tuning import Tuner
from pymc_tempering.testing.exact import base_log_density

AIM = 0.3


def tempered(betas, delta, log_base):
    """Log densities of all levels, shape (n_levels,), up to constants."""
    return log_base + betas * delta


def beta_forgotten(betas, delta, log_base):
    """Planted: every level but the base is the target."""
    return log_base + delta


class Batch(Stateful):
    """Random walks of all replicas by one call of a vectorised density; level 0 draws anew."""

    mixture, n_off_record = None, 0
    _changing = ("base", "betas", "z", "delta", "log_base", "replica_at", "last_end", "scales",
                 "scan", "n_adapted")  # fmt: skip

    def __init__(self, target, base, betas, start, rng, log_path=tempered):
        self.target, self.log_path = target, log_path
        self.base, self.betas, self.scan = base, betas, 0
        self.last_end = np.zeros(betas.size, dtype=np.int64)
        self.scales, self.n_adapted = np.full(betas.size, 0.5), 0
        self._place(np.where(betas[:, None] > 0.5, start[-1], self._draw(betas.size, rng)))

    @property
    def n_levels(self):
        return self.betas.size

    @property
    def path(self):
        return TemperedPath.from_base(self.target, self.base)

    @property
    def target_position(self):
        return self.z[self.replica_at[-1]].copy()

    @property
    def target_log_density(self):
        return float(self.target.log_density(self.target_position))

    def _draw(self, n, rng):
        return self.base.from_base(rng.standard_normal((n, self.base.dim)))

    def _densities(self, z):
        log_base = base_log_density(z, self.base)
        return self.target.log_density(z) - log_base, log_base

    def _place(self, z):
        """Put replicas at `z`, in order of levels."""
        self.z, self.replica_at = z, np.arange(len(z))
        self.delta, self.log_base = self._densities(z)

    def run(self, n_scans, rng, *, adapt=False, keep_positions=False):
        acceptance, swaps = np.zeros(self.n_levels), 0.0
        counts = new_counts(1)
        deltas, positions = np.empty((n_scans, self.n_levels)), []
        for row in deltas:
            rates = self._move(rng)
            counts[0, EVALUATIONS] += self.n_levels
            acceptance += rates
            if adapt:
                self.n_adapted += 1
                self.scales *= np.exp((rates - AIM) / np.sqrt(self.n_adapted))
            row[:] = self.delta[self.replica_at]
            gaps = zip(np.diff(self.betas), row[:-1], row[1:], strict=True)
            swaps += np.array([swap_probability(*gap) for gap in gaps])
            swap_sweep(DEO, self.scan, self.betas, self.delta, self.replica_at, rng)
            track_trips(self.replica_at, self.last_end, counts[0])
            self.scan += 1
            row[:] = self.delta[self.replica_at]
            if keep_positions:
                positions.append(self.target_position)
        return ScanRecord(deltas, swaps / n_scans, acceptance / n_scans, counts_by_name(counts),
                          np.zeros(self.n_levels, int), np.array(positions),
                          np.array([[0], [n_scans]]))  # fmt: skip

    def _move(self, rng):
        """Move all replicas, and return the acceptance probabilities by level."""
        at = self.replica_at
        z, delta, log_base = self.z[at], self.delta[at], self.log_base[at]
        steps = rng.standard_normal(z.shape) * self.scales[:, None] * self.base.standard_deviation
        steps[0] = self._draw(1, rng)[0] - z[0]
        new, new_base = self._densities(z + steps)
        log_ratio = (self.log_path(self.betas, new, new_base)
                     - self.log_path(self.betas, delta, log_base))  # fmt: skip
        rates = np.exp(np.minimum(log_ratio, 0.0))
        rates[0] = 1.0
        accepted = rng.random(self.n_levels) < rates
        self.z[at] = np.where(accepted[:, None], z + steps, z)
        self.delta[at] = np.where(accepted, new, delta)
        self.log_base[at] = np.where(accepted, new_base, log_base)
        return rates

    def stop_adaptation(self):
        self.last_end = np.zeros(self.n_levels, dtype=np.int64)

    def change_schedule(self, betas):
        nearest = np.abs(betas[:, None] - self.betas).argmin(axis=1)
        # that of level 0 means nothing
        self.scales = np.interp(betas, self.betas[1:], self.scales[1:])
        self._place(self.z[self.replica_at][nearest])
        self.betas, self.n_adapted = betas, 0
        self.stop_adaptation()

    def change_base(self, base):
        self.base = base
        self._place(self.z[self.replica_at])

    def rescue_target(self):
        return False


TARGET = testing.asymmetric_bimodal()


def estimate(target, rng, **planted):
    """Log Z and its standard error, after the rounds of parallel tempering."""
    base = GaussianBase.from_moments(target.mean + 1.0, 9.0 * target.cov)
    batch = Batch(target, base, make_schedule("geometric", 8), target.start[None], rng, **planted)
    tuner = Tuner(batch, 120, base, 2, max_levels=8, adapts_base=False)
    while not tuner.finished:
        tuner.run(10, rng)
    batch.stop_adaptation()
    record = batch.run(3000, rng)
    found = mbar(record.delta, batch.betas)
    return found.log_z[-1], log_z_standard_error(found.log_z[-1:], [found.influence]).se, record


@pytest.mark.slow
@pytest.mark.statistical
def test_a_batch_is_tuned_and_estimated_as_a_ladder_is(rng):
    """False alarm 1e-4: four standard errors."""
    log_z, se, record = estimate(TARGET, rng)
    assert se < 0.1
    assert log_z == pytest.approx(TARGET.log_z, abs=4.0 * se)
    assert record.counts["n_round_trips"] > 50
    assert (record.acceptance_rate[1:] > 0.1).all()


def test_a_batch_that_forgets_beta_is_noticed(rng):
    log_z, se, _ = estimate(TARGET, rng, log_path=beta_forgotten)
    assert abs(log_z - TARGET.log_z) > 4.0 * max(se, 0.1)


class BatchTempering(ParallelTempering):
    """Parallel tempering of a batch as a step of PyMC."""

    def _new_ladder(self, path, betas, places):
        return Batch(TARGET, path.base, betas, places, self.rng)

    def _restored_ladder(self, state):
        return Batch.restored(state, target=TARGET, log_path=tempered)


@pytest.mark.statistical
def test_a_batch_as_a_step_of_pymc(seed):
    """False alarm 1e-4: four standard errors of the estimate that `estimate_logz` reports."""
    with TARGET.model():
        step = BatchTempering(scans_per_draw=10, n_levels=8, base=GaussianBase.from_moments(
            TARGET.mean, 1.5 * TARGET.cov))  # fmt: skip
        idata = pm.sample(
            150, tune=100, chains=2, cores=1, step=step, random_seed=seed, progressbar=False,
            quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    found = pm_temper.estimate_logz(idata)
    assert found.log_z == pytest.approx(TARGET.log_z, abs=4.0 * found.se)
    assert found.se < 0.1
