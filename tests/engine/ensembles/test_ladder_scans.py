"""A whole scan, as the samplers run it: leaves its target invariant, and wrong ones are found.

False-alarm rate 1e-3 for every invariance test here. Power: a planted error counts as found when
the test rejects and a shift exceeds the one that it finds with probability 0.99.
"""

import itertools
from functools import cache

import exact_barrier
import numpy as np
import pytest
from densities import gamma_without_jacobian
from laws import ASKEW, MAPPED, delta_statistics, ladder_statistics
from loops import ladder_kernel
from planted import with_planted

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.ensembles.ladder_scans import ladder_scans
from pymc_tempering.engine.ensembles.swap import DEO, SWAP_SCHEMES, swap_probability
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian, _energy
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.estimators.bar import bar_ladder

BETAS = np.array([0.0, 0.15, 0.5, 1.0])
SETTINGS = Hamiltonian(max_steps=8)


@cache
def setting(name):
    """Target, a base that is off in place, scale and correlation, and delta's statistics."""
    target = testing.TARGETS[name]()
    sd = np.sqrt(np.diag(target.cov))
    factor = np.diag(1.4 * sd)
    factor[-1, 0] = -0.4 * sd[-1]
    base = GaussianBase(target.mean + 0.3 * sd, factor)
    return target, base, delta_statistics(target, base, BETAS.size)


def scans(base, density, *, n_scans=2, scheme=DEO):
    """Kernel on states (n, n_levels, D): `n_scans` scans by the class that every step uses."""
    path = TemperedPath.from_base(density, base)

    def kernel(states, rng):
        chain = Ladder(
            path, BETAS, base.from_base(np.zeros((1, base.dim))), rng, settings=SETTINGS,
            swap_scheme=scheme,
        )  # fmt: skip
        positions = base.to_base(states)
        for u in positions:
            chain.u = u
            chain.replica_at[:] = np.arange(BETAS.size)
            chain.scan = 0
            chain.scales = np.full(BETAS.size, 0.6)
            chain.run(n_scans, rng)
            u[:] = chain.u[chain.replica_at]
        return base.from_base(positions)

    return kernel


def compiled_scans(base, density, *, step_size=0.6, max_steps=8, **options):
    """As :func:`scans`, for so many states that a call from Python for each would be slow."""
    path = TemperedPath.from_base(density, base)
    steps = np.full(BETAS.size, step_size)
    return ladder_kernel(path, BETAS, steps, settings=Hamiltonian(max_steps=max_steps), **options)


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
    kernel = scans(base, target)
    for statistics in (None, deltas):
        result = check(kernel, name, statistics, rng)
        assert not result.rejected, result


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", SWAP_SCHEMES)
def test_every_swap_scheme_is_invariant(scheme, rng):
    """False alarm 1e-3 per scheme."""
    target, base, deltas = setting("asymmetric_bimodal")
    kernel = compiled_scans(base, target, n_scans=3, scheme=SWAP_SCHEMES.index(scheme))
    result = check(kernel, "asymmetric_bimodal", deltas, rng)
    assert not result.rejected, result


def sharp_statistics(name):
    """Delta of each level and what swaps decide on, the sum of beta delta."""
    _, _, deltas = setting(name)

    def energy(states):
        return sum(beta * deltas[f"delta[{k}]"](states) for k, beta in enumerate(BETAS))

    return deltas | {"energy": energy}


@pytest.mark.slow
@pytest.mark.statistical
def test_right_scans_pass_where_wrong_swaps_fail(rng):
    """False alarm 1e-3."""
    target, base, _ = setting("asymmetric_bimodal")
    kernel = compiled_scans(base, target, n_scans=6)
    statistics = sharp_statistics("asymmetric_bimodal")
    result = check(kernel, "asymmetric_bimodal", statistics, rng, 200_000)
    assert not result.rejected, result


def transposed(d_beta, delta_lower, delta_upper):
    return swap_probability(d_beta, delta_upper, delta_lower)


def five_per_cent_too_high(d_beta, delta_lower, delta_upper):
    return min(1.0, 1.05 * swap_probability(d_beta, delta_lower, delta_upper))


WRONG_SWAPS = {
    "transposed ratio": (transposed, 10_000),
    "rate 5 % too high": (five_per_cent_too_high, 200_000),
}


@pytest.mark.parametrize(
    "wrong",
    ["transposed ratio", pytest.param("rate 5 % too high", marks=pytest.mark.slow)],
)
def test_wrong_swaps_are_found(wrong, rng):
    function, n = WRONG_SWAPS[wrong]
    target, base, _ = setting("asymmetric_bimodal")
    planted = with_planted(ladder_scans, {swap_probability: function})
    kernel = compiled_scans(base, target, n_scans=6, scans=planted)
    statistics = sharp_statistics("asymmetric_bimodal")
    assert_found(check(kernel, "asymmetric_bimodal", statistics, rng, n))


def test_missing_jacobian_is_found(rng):
    _, base, _ = setting("skewed_gamma")
    kernel = compiled_scans(base, gamma_without_jacobian, n_scans=2)
    assert_found(check(kernel, "skewed_gamma", None, rng))


@pytest.mark.statistical
@pytest.mark.parametrize("adapt", [False, True])
def test_kernel_that_keeps_tuning_is_found(adapt, rng):
    """False alarm 1e-3 for the same kernel without tuning."""
    target, base, _ = setting("hard_edge_gaussian")
    kernel = compiled_scans(base, target, n_scans=24, adapt=adapt, step_size=1.5, max_steps=1)
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
    path = TemperedPath.from_base(target, base)
    chain = Ladder(path, BETAS, target.start, rng, settings=SETTINGS)
    record = chain.run(5, rng)
    z = base.from_base(chain.u[chain.replica_at])
    np.testing.assert_allclose(record.delta[-1], target.delta(z, base), rtol=1e-10)
    assert chain.target_log_density == pytest.approx(float(target.log_density(z[-1])))


def test_draws_of_the_reference_are_asked_for_by_the_level_that_they_go_to(rng, monkeypatch):
    """Which of them may be rounding noise and get there depends on it."""
    target, base, _ = setting("skewed_gamma")
    path = TemperedPath.from_base(target, base)
    chain = Ladder(path, BETAS, target.start, rng, settings=SETTINGS)
    draw, asked = TemperedPath.draws_and_origins, []

    def spied(path, n, rng, beta):
        asked.append(beta)
        return draw(path, n, rng, beta)

    monkeypatch.setattr(TemperedPath, "draws_and_origins", spied)
    chain.run(5, rng)
    assert asked == [BETAS[1]]


def test_what_one_draw_takes_to_look_for_noise_is_counted(rng, monkeypatch):
    target, base, _ = setting("skewed_gamma")
    chain = Ladder(
        TemperedPath.from_base(target, base), BETAS, target.start, rng, settings=SETTINGS
    )
    u = np.full((1, target.start.size), 0.5)
    monkeypatch.setattr(TemperedPath, "draws_and_origins", lambda *_: (u, np.zeros(1), 7))
    before = chain.n_off_record
    np.testing.assert_array_equal(chain._draw(rng), u[0])
    assert chain.n_off_record == before + 7


@pytest.mark.statistical
def test_swap_rates_are_the_exact_ones(rng):
    """False alarm 1e-4: four standard errors from batches, three pairs."""
    target, base, _ = setting("skewed_gamma")
    path = TemperedPath.from_base(target, base)
    chain = Ladder(path, BETAS, target.start, rng, settings=SETTINGS)
    chain.run(200, rng)
    rates = np.array([chain.run(200, rng).swap_acceptance_rate for _ in range(100)])
    exact = exact_barrier.swap_acceptance_rates(target, BETAS, base)
    error = rates.std(axis=0, ddof=1) / 10.0
    assert (np.abs(rates.mean(axis=0) - exact) < 4.0 * error + 1e-4).all()


def places(scheme, n_scans, rng):
    """Replica at each level after each scan where the base is the target: all swaps succeed."""
    target = testing.correlated_gaussian()
    base = GaussianBase(target.mean, np.linalg.cholesky(target.cov))
    chain = Ladder(
        TemperedPath.from_base(target, base), BETAS, target.start, rng, settings=SETTINGS,
        swap_scheme=SWAP_SCHEMES.index(scheme),
    )  # fmt: skip
    rows, trips = [], 0
    for _ in range(n_scans):
        trips += chain.run(1, rng).counts["n_round_trips"]
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


def forgets_the_reference(beta, u, momentum, log_target, log_reference, gaussian):
    """Energy of a Gaussian reference in place of the given one."""
    return _energy(beta, u, momentum, log_target, log_reference, True)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "wrong", [None] + [pytest.param(w, marks=pytest.mark.slow) for w in ("energy", "swap")]
)
def test_scans_from_a_reference_that_is_not_gaussian(wrong, rng):
    """False alarm 1e-3; an energy without the reference, or transposed swaps, are found."""
    path = MAPPED.in_coordinates(ASKEW)
    planted = {
        None: {}, "energy": {_energy: forgets_the_reference}, "swap": {swap_probability: transposed}
    }[wrong]  # fmt: skip
    scans = with_planted(ladder_scans, planted)
    steps = np.array([1.0, 0.5, 0.5, 0.5])
    kernel = ladder_kernel(path, BETAS, steps, settings=SETTINGS, n_scans=3, scans=scans)
    result = testing.invariance_test(
        kernel, lambda rng, n: MAPPED.draw_levels(rng, n, BETAS), ladder_statistics(MAPPED, 4),
        n=50_000,
        rng=rng, vectorized=True,
    )  # fmt: skip
    assert result.rejected == (wrong is not None), result
    if wrong is None:
        moves = kernel.record.acceptance_sums / kernel.record.acceptance_sums[0]
        assert (moves > 0.5).all()


@pytest.mark.statistical
def test_log_z_and_moments_from_a_reference_that_is_not_gaussian(rng):
    """Log Z by BAR and means at both ends, from 50 blocks: |t| > 5.5 at 1.4e-6 each, five."""
    target, reference = MAPPED.target, MAPPED.reference
    chain = Ladder(MAPPED.in_coordinates(ASKEW), BETAS, target.start, rng, settings=SETTINGS)
    chain.run(500, rng, adapt=True)
    chain.stop_adaptation()
    log_z, means = [], []
    for _ in range(50):
        record = chain.run(400, rng, keep_positions=True)
        log_z.append(bar_ladder(record.delta, BETAS).log_z[-1])
        places = [record.target_positions.mean(axis=0)]
        places.append([record.delta[:, 0].clip(-30.0, 10.0).mean()])
        means.append(np.concatenate(places))
    assert record.counts["n_base_draws"] == 400
    at_reference = MAPPED.delta(reference.draw(400_000, rng)).clip(-30.0, 10.0)
    exact = np.array([target.log_z, *target.mean, at_reference.mean()])
    found = np.column_stack([log_z, means])
    error = found.std(axis=0, ddof=1) / np.sqrt(50)
    error[-1] = np.hypot(error[-1], at_reference.std() / np.sqrt(at_reference.size))
    assert (np.abs(found.mean(axis=0) - exact) < 5.5 * error).all()
    assert (error < [0.03, 0.1, 0.1, 0.1]).all()
