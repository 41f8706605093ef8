"""Parallel tempering by PyMC's own step methods: an ensemble whose moves are Python code."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_tempering as pm_temper
from pymc_tempering.engine.state import to_plain
from pymc_tempering.engine.tally import new_counts
from pymc_tempering.errors import BaseError, ModelError
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.model.powered import PoweredModel
from pymc_tempering.progress import plan
from pymc_tempering.references.prior import PriorDraws
from pymc_tempering.steps.compound_ladder import CompoundLadder, PriorPath, PyMCMoves
from tests.steps.ising import DELTA, LOG_PRIOR, LOG_Z, RUN, STATES, ising, probabilities

BETAS = np.array([0.0, 0.3, 1.0])


@pytest.fixture(scope="module")
def parts():
    powered = PoweredModel.of(ising())
    return PriorPath(powered, PriorDraws(powered.model, powered.points)), PyMCMoves(powered)


def numbers(z):
    """Which of the states each row is."""
    return (z @ [8, 4, 2, 1]).astype(int)


def test_both_densities_are_those_of_the_model(parts):
    path, _ = parts
    found = np.array([path.target.log_densities(state.astype(float)) for state in STATES])
    np.testing.assert_allclose(found, np.column_stack([LOG_PRIOR, DELTA]), rtol=1e-12)


def after_a_scan(parts, betas, n, rng):
    """States by level after one scan from exact states, shape (n, n_levels)."""
    path, moves = parts
    ladder = CompoundLadder(path, moves, betas, STATES[:1].astype(float), rng)
    ladder.run(1, rng)
    found = np.empty((n, BETAS.size), dtype=int)
    for row in range(n):
        for level, beta in enumerate(BETAS):
            exact = STATES[rng.choice(16, p=probabilities(beta))]
            ladder._put(ladder.replica_at[level], exact.astype(float))
        ladder.run(1, rng)
        found[row] = numbers(ladder.z[ladder.replica_at])
    return found


def p_values(found):
    return [
        stats.chisquare(np.bincount(found[:, k], minlength=16), len(found) * probabilities(beta))
        .pvalue
        for k, beta in enumerate(BETAS)
    ]  # fmt: skip


@pytest.mark.statistical
def test_a_scan_leaves_every_level_as_it_is(parts, rng):
    """Three tests at 1e-4 each; one scan at another beta is found."""
    assert min(p_values(after_a_scan(parts, BETAS, 700, rng))) > 1e-4
    assert min(p_values(after_a_scan(parts, np.array([0.0, 0.8, 1.0]), 700, rng))) < 1e-4


@pytest.mark.statistical
def test_log_z_of_a_ladder_against_the_sum(parts, rng):
    path, moves = parts
    ladder = CompoundLadder(path, moves, BETAS, STATES[:1].astype(float), rng)
    record = ladder.run(2000, rng, keep_positions=True)
    # draws of neighbouring scans depend on one another: an error of 0.03 for 2000 of them
    assert abs(mbar(record.delta, BETAS).log_z[-1] - LOG_Z) < 0.12
    np.testing.assert_allclose(record.delta[:, -1], DELTA[numbers(record.target_positions)])
    shares = np.bincount(numbers(record.target_positions), minlength=16) / 2000
    np.testing.assert_allclose(shares, probabilities(1.0), atol=0.08)
    assert record.counts["n_round_trips"] > 100
    assert record.counts["n_base_draws"] == record.counts["n_base_support"] == 2000


def test_a_scan_knows_whether_its_draw_came_from_the_base(parts, rng):
    path, moves = parts
    ladder = CompoundLadder(path, moves, BETAS, STATES[:1].astype(float), rng)
    tempered_restart = []
    for _ in range(60):
        record = ladder.run(1, rng)
        tempered_restart.append(record.tempered_restart)
        assert record.tempered_restart == (record.counts["n_tempered_restarts"] == 1)
    assert len(set(tempered_restart)) == 2


def test_a_state_continues_where_it_was(parts):
    path, moves = parts
    rng = np.random.default_rng(3)
    ladder = CompoundLadder(path, moves, BETAS, STATES[:1].astype(float), rng)
    ladder.run(3, rng, adapt=True)
    state, generator = ladder.state(), rng.bit_generator.state
    # of plain values alone, or this raises
    state = to_plain(state)
    expected = ladder.run(20, rng).delta
    ladder.run(5, rng)
    again = CompoundLadder.restored(state, path=path, moves=moves, swap_scheme=0)
    rng.bit_generator.state = generator
    np.testing.assert_array_equal(again.run(20, rng).delta, expected)


def test_a_level_does_not_feel_moves_at_another(parts):
    _, moves = parts
    [counts], z = new_counts(1), STATES[5].astype(float)

    def at_the_target(n_elsewhere):
        moves.start(3, np.random.default_rng(4))
        for _ in range(n_elsewhere):
            moves(1, BETAS, z, counts)
        return np.array([moves(2, BETAS, z, counts)[0] for _ in range(20)])

    expected = at_the_target(0)
    assert (expected != z).any()
    np.testing.assert_array_equal(at_the_target(3), expected)


@pytest.mark.statistical
def test_estimate_logz_takes_it_where_it_is_asked_for():
    """Four errors: 1e-4."""
    model = ising()
    estimate = pm_temper.estimate_logz(model, draws=50, tune=20, explorer="pymc", **RUN)
    assert abs(estimate.log_z - LOG_Z) < 4 * estimate.se
    assert 0.0 < estimate.se < 0.1
    assert estimate.warnings == ()
    assert estimate.method == "pt, mbar"
    up = estimate.idata["posterior"]["up"]
    assert up.dtype.kind == "i"
    tempered_restart = estimate.idata["sample_stats"]["tempered_restart"].values
    assert 0.3 < tempered_restart.mean() < 1.0
    exact = probabilities(1.0) @ STATES
    np.testing.assert_allclose(up.mean(("chain", "draw")), exact, atol=0.15)
    stored = pm_temper.estimate_logz(estimate.idata)
    assert (stored.log_z, stored.se) == (estimate.log_z, estimate.se)


@pytest.mark.slow
@pytest.mark.statistical
def test_a_mixture_with_allocations_against_the_sum():
    """NUTS beside Gibbs steps; the mean is integrated on a grid. Four errors: 1e-4."""
    y, shares, offsets = np.array([-2.2, 0.1, 2.9]), np.array([0.2, 0.5, 0.3]), [-2.0, 0.0, 3.0]
    with pm.Model() as model:
        component = pm.Categorical("component", shares, shape=3)
        mean = pm.Normal("mean", 0.5, 1.0)
        pm.Normal("y", mean + pm.math.stack(offsets)[component], 0.8, observed=y)
    grid = np.linspace(-6.0, 7.0, 4001)
    log_p = stats.norm.logpdf(grid, 0.5, 1.0)
    for value in y:
        terms = [
            np.log(share) + stats.norm.logpdf(value, grid + offset, 0.8)
            for share, offset in zip(shares, offsets, strict=True)
        ]
        log_p = log_p + logsumexp(terms, axis=0)
    exact = logsumexp(log_p) + np.log(grid[1] - grid[0])
    step = pm_temper.CompoundTempering(model=model, n_levels=4, scans_per_draw=4)
    said = plan(step, draws=40, tune=15, chains=2, compiled=1.0, most=np.inf)
    assert "NUTS (mean)" in said
    assert "CategoricalGibbsMetropolis (component)" in said
    # a worker gets the step by pickling
    step = cloudpickle.loads(cloudpickle.dumps(step))
    idata = pm.sample(40, tune=15, step=step, model=step._source.model, **RUN)
    tunes = [state.tune for level in step._moves.states for state in level.methods
             if hasattr(state, "tune")]  # fmt: skip
    assert len(tunes) == len(step._moves.states)
    assert not any(tunes)
    estimate = pm_temper.estimate_logz(idata)
    assert abs(estimate.log_z - exact) < 4 * estimate.se
    assert estimate.se < 0.3
    codes = {diagnostic.code for diagnostic in estimate.warnings}
    assert codes <= {"too_few_effective_draws"}


def test_what_cannot_start_is_refused_by_name():
    with pm.Model() as flat:
        pm.Normal("y", pm.Flat("level") + pm.Bernoulli("k", 0.5), 1.0, observed=1.0)
    with pytest.raises(BaseError, match=r"\['level'\] are flat"):
        pm_temper.CompoundTempering(model=flat)
    with pm.Model() as alone:
        pm.Poisson("k", 3.0)
    with pytest.raises(ModelError, match="neither observed variables nor potentials"):
        pm_temper.CompoundTempering(model=alone)
    with pm.Model() as impossible:
        pm.Potential("never", -np.inf + 0.0 * pm.Poisson("k", 3.0))
    with pytest.raises(ModelError, match="not finite at the model's initial point"):
        pm_temper.estimate_logz(impossible, **RUN)
    with pytest.raises(ModelError, match=r"DiscreteTempering.*CompoundTempering"):
        pm_temper.ParallelTempering(model=ising())
