"""A whole scan, as the samplers run it: leaves its target invariant, and wrong ones are found.

False-alarm rate 1e-3 for every invariance test here. Power: a planted error counts as found when
the test rejects and a shift exceeds the one that it finds with probability 0.99.
"""

import itertools
import math
from functools import cache
from pathlib import Path

import numba
import numpy as np
import pytest
from pymc_tempering.kernels import parallel, swap
from pymc_tempering.kernels.adaptation import new_dual_averaging
from pymc_tempering.kernels.density import evaluate
from pymc_tempering.kernels.hmc import log_base
from pymc_tempering.kernels.swap import DEO, SWAP_SCHEMES
from pymc_tempering.steps.replicas import Replicas

from pymc_tempering import testing
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase

BETAS = np.array([0.0, 0.15, 0.5, 1.0])
OPTIONS = {"trajectory_length": 1.5, "max_steps": 8, "target_accept": 0.8}


@cache
def setting(name):
    """Target, a base that is off in place, scale and correlation, and delta's statistics."""
    target = testing.TARGETS[name]()
    sd = np.sqrt(np.diag(target.cov))
    factor = np.diag(1.4 * sd)
    factor[-1, 0] = -0.4 * sd[-1]
    base = GaussianBase(target.mean + 0.3 * sd, factor)
    return target, base, testing.delta_statistics(target, base, BETAS.size)


def scans(base, address, *, n_scans=2, scheme=DEO, adapt=False, step_size=0.6):
    """Kernel on one state (n_levels, D): `n_scans` scans by the class that every step uses."""

    def kernel(states, rng):
        chain = Replicas(
            address, base, BETAS, base.from_base(np.zeros((1, base.dim))), rng,
            swap_scheme=scheme, **OPTIONS,
        )  # fmt: skip
        step_sizes = np.full(BETAS.size, step_size)
        positions = base.to_base(states)
        for u in positions:
            chain.u[:] = u
            chain.replica_at[:] = np.arange(BETAS.size)
            for level in range(BETAS.size):
                chain._evaluate(level)
            chain.scan = 0
            chain.step_sizes = step_sizes.copy()
            chain.restart_adaptation()
            chain.run(n_scans, rng, adapt=adapt)
            u[:] = chain.u[chain.replica_at]
        return base.from_base(positions)

    return kernel


def check(kernel, name, statistics, rng, n=10_000):
    target, base, _ = setting(name)
    return testing.invariance_test(
        kernel,
        lambda rng, n: target.draw_levels(rng, n, BETAS, base),
        statistics,
        n=n,
        rng=rng,
        alpha=1e-3,
        vectorized=True,
    )


def assert_found(result):
    """Rejected, by a shift above the one that this run finds with probability 0.99."""
    means = result.table[result.table["test"] == "mean"]
    assert result.rejected, result
    assert (means["shift"].abs() > means["detectable"]).any(), result


TARGETS = ["asymmetric_bimodal", "hard_edge_gaussian", "skewed_gamma"]


@pytest.mark.statistical
@pytest.mark.parametrize("name", TARGETS)
def test_scans_leave_every_level_invariant(name, rng):
    """False alarm 2e-3 per target."""
    target, base, deltas = setting(name)
    kernel = scans(base, target.address)
    for statistics in (None, deltas):
        result = check(kernel, name, statistics, rng)
        assert not result.rejected, result


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", SWAP_SCHEMES)
def test_every_swap_scheme_is_invariant(scheme, rng):
    """False alarm 1e-3 per scheme."""
    target, base, deltas = setting("asymmetric_bimodal")
    kernel = scans(base, target.address, n_scans=3, scheme=SWAP_SCHEMES.index(scheme))
    result = check(kernel, "asymmetric_bimodal", deltas, rng)
    assert not result.rejected, result


def source_of(module, *changes):
    text = Path(module.__file__).read_text(encoding="utf-8")
    # what is not in a file cannot be kept on disk
    text = text.replace(
        "from pymc_tempering.jit import compiled", "import numba\ncompiled = numba.njit"
    )
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} is not in {module.__name__} once: mend this test"
        text = text.replace(old, new)
    return text


@cache
def wrong_scans(old, new):
    """`parallel_scans`, compiled from its source with one change to the swap probability."""
    swaps = {"__name__": "wrong_swap"}
    exec(source_of(swap, (old, new)), swaps)
    scan = {"__name__": "wrong_scan"}
    exec(source_of(parallel), scan)
    scan.update(swap_probability=swaps["swap_probability"], attempt_swap=swaps["attempt_swap"])
    return scan["parallel_scans"]


RIGHT_EXPONENT = "d_beta * (delta_lower - delta_upper)"
RIGHT_DECISION = "1.0 if exponent >= 0.0 else np.exp(exponent)"
WRONG_SWAPS = {
    "transposed ratio": (RIGHT_EXPONENT, "d_beta * (delta_upper - delta_lower)", 10_000),
    "rate 5 % too high": (RIGHT_DECISION, "min(1.0, 1.05 * np.exp(exponent))", 200_000),
}


@numba.njit
def scan_each(scan, target, step_sizes, row, max_steps, n_scans, states, rng):
    """Apply `n_scans` scans to each state, adapting from `row` afresh if it has entries."""
    n, n_levels, dim = states.shape
    u, grad = np.empty((n_levels, dim)), np.empty((n_levels, dim))
    log_target, delta = np.empty(n_levels), np.empty(n_levels)
    last_end, counts = np.zeros(n_levels, np.int64), np.zeros(6, np.int64)
    work, recorded = np.empty((5, dim)), np.empty((n_scans, n_levels))
    swaps, acceptance = np.zeros(n_levels - 1), np.zeros(n_levels)
    for s in range(n):
        replica_at = np.arange(n_levels)
        for k in range(n_levels):
            u[k] = states[s, k]
            log_target[k] = evaluate(target, u[k], grad[k], work)
            delta[k] = log_target[k] - log_base(u[k])
        scan(
            target, BETAS, step_sizes.copy(), 1.5, max_steps, 0, 0, u, grad, log_target, delta,
            replica_at, last_end, work, recorded, swaps, acceptance,
            counts, row.copy(), 0.8, np.empty((0, dim)), rng,
        )  # fmt: skip
        for k in range(n_levels):
            states[s, k] = u[replica_at[k]]


def compiled_scans(scan, base, address, *, n_scans, adapt=False, step_size=0.6, max_steps=8):
    """As :func:`scans`, for so many states that a call from Python for each would be slow."""
    step_sizes = np.full(BETAS.size, step_size)
    row = new_dual_averaging(step_sizes) if adapt else np.empty((0, 4))

    def kernel(states, rng):
        u = np.ascontiguousarray(base.to_base(states))
        target = Coordinates.of(base).target(address)
        scan_each(scan, target, step_sizes, row, max_steps, n_scans, u, rng)
        return base.from_base(u)

    return kernel


def sharp_statistics(name):
    """Delta of each level and what swaps decide on, the sum of beta delta."""
    _, _, deltas = setting(name)

    def energy(states):
        return sum(beta * deltas[f"delta[{k}]"](states) for k, beta in enumerate(BETAS))

    return deltas | {"energy": energy}


@pytest.mark.statistical
def test_right_scans_pass_where_wrong_swaps_fail(rng):
    """False alarm 1e-3."""
    target, base, _ = setting("asymmetric_bimodal")
    kernel = compiled_scans(parallel.parallel_scans, base, target.address, n_scans=6)
    statistics = sharp_statistics("asymmetric_bimodal")
    result = check(kernel, "asymmetric_bimodal", statistics, rng, 200_000)
    assert not result.rejected, result


@pytest.mark.parametrize("wrong", list(WRONG_SWAPS))
def test_wrong_swaps_are_found(wrong, rng):
    old, new, n = WRONG_SWAPS[wrong]
    target, base, _ = setting("asymmetric_bimodal")
    kernel = compiled_scans(wrong_scans(old, new), base, target.address, n_scans=6)
    statistics = sharp_statistics("asymmetric_bimodal")
    assert_found(check(kernel, "asymmetric_bimodal", statistics, rng, n))


@numba.cfunc("float64(CPointer(float64), CPointer(float64))")
def gamma_without_jacobian(z_pointer, grad_pointer):
    """`testing.skewed_gamma` without the term that the log transform adds."""
    z, grad = numba.carray(z_pointer, 2), numba.carray(grad_pointer, 2)
    value = 0.0
    for i in range(2):
        shape, rate = (0.8, 0.5) if i == 0 else (3.0, 2.0)
        value += (shape - 1.0) * z[i] - rate * math.exp(z[i])
        grad[i] = shape - 1.0 - rate * math.exp(z[i])
    return value


def test_missing_jacobian_is_found(rng):
    _, base, _ = setting("skewed_gamma")
    kernel = scans(base, gamma_without_jacobian.address)
    assert_found(check(kernel, "skewed_gamma", None, rng))


@pytest.mark.statistical
@pytest.mark.parametrize("adapt", [False, True])
def test_kernel_that_keeps_tuning_is_found(adapt, rng):
    """False alarm 1e-3 for the same kernel without tuning."""
    target, base, _ = setting("hard_edge_gaussian")
    kernel = compiled_scans(
        parallel.parallel_scans, base, target.address,
        n_scans=24, adapt=adapt, step_size=1.5, max_steps=1,
    )  # fmt: skip
    result = check(
        kernel, "hard_edge_gaussian", sharp_statistics("hard_edge_gaussian"), rng, 60_000
    )
    if adapt:
        assert_found(result)
    else:
        assert not result.rejected, result


def test_recorded_deltas_are_those_of_the_densities(rng):
    """Log z depends on the constants that invariance cannot see, the base's Jacobian among them."""
    target, base, _ = setting("skewed_gamma")
    chain = Replicas(target.address, base, BETAS, target.start, rng, **OPTIONS)
    record = chain.run(5, rng)
    z = base.from_base(chain.u[chain.replica_at])
    np.testing.assert_allclose(record.delta[-1], target.delta(z, base), rtol=1e-10)
    assert chain.target_log_density == pytest.approx(float(target.log_density(z[-1])))


@pytest.mark.statistical
def test_swap_rates_are_the_exact_ones(rng):
    """False alarm 1e-4: four standard errors from batches, three pairs."""
    target, base, _ = setting("skewed_gamma")
    chain = Replicas(target.address, base, BETAS, target.start, rng, **OPTIONS)
    chain.run(200, rng)
    rates = np.array([chain.run(200, rng).swap_acceptance_rate for _ in range(100)])
    exact = target.swap_acceptance_rates(BETAS, base)
    error = rates.std(axis=0, ddof=1) / 10.0
    assert (np.abs(rates.mean(axis=0) - exact) < 4.0 * error + 1e-4).all()


def places(scheme, n_scans, rng):
    """Replica at each level after each scan where the base is the target: all swaps succeed."""
    target = testing.correlated_gaussian()
    base = GaussianBase(target.mean, np.linalg.cholesky(target.cov))
    chain = Replicas(
        target.address, base, BETAS, target.start, rng,
        swap_scheme=SWAP_SCHEMES.index(scheme), **OPTIONS,
    )  # fmt: skip
    rows, trips = [], 0
    for _ in range(n_scans):
        trips += chain.run(1, rng).n_round_trips
        rows.append(chain.replica_at.tolist())
    return rows, trips


def test_pairs_that_meet(rng):
    """Even pairs, then odd ones; whole sweeps carry one replica across the ladder."""
    deo, trips = places("deo", 8 * 10, rng)
    assert deo[:4] == [[1, 0, 3, 2], [1, 3, 0, 2], [3, 1, 2, 0], [3, 2, 1, 0]]
    assert deo[7] == [0, 1, 2, 3]
    assert 4 * 8 <= trips <= 4 * 10
    assert places("sweep", 2, rng)[0] == [[1, 2, 3, 0], [2, 3, 0, 1]]
    assert places("alternating_sweep", 2, rng)[0] == [[1, 2, 3, 0], [0, 1, 2, 3]]
    seo = [[0, 1, 2, 3], *places("seo", 200, rng)[0]]
    even = 0
    for before, after in itertools.pairwise(seo):
        a, b, c, d = before
        assert after in ([b, a, d, c], [a, c, b, d])
        even += after == [b, a, d, c]
    assert 60 < even < 140
