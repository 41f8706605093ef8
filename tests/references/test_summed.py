"""Values with a soft constraint on their sum: what is sparse without it, Newton steps, log Z."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp
from scipy.stats import halfnorm, norm

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.sparse_precision import solve
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.structure import _summed, common_value, neighbours_of, structures_of
from pymc_tempering.references.conditional import conditional_fit
from pymc_tempering.references.nested_laplace import NestedLaplace
from pymc_tempering.references.quality import EXACT, trimmed_variance
from tests.profiles import LEAST_ERROR, share_lost

N, ERROR = 13, 0.6
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (4, 5), (5, 6), (6, 7), (7, 8), (8, 5), (8, 9),
         (9, 10), (10, 11), (11, 12), (2, 9)]  # fmt: skip
NEAR = np.zeros((N, N))
for one, other in EDGES:
    NEAR[one, other] = NEAR[other, one] = 1.0
DATA = np.random.default_rng(3).normal(0.4, 1.1, N)
SOFT = 0.02


def areas(counts: bool = False) -> pm.Model:
    """Effects of areas that neighbours share, a mean, a scale; an offset that is no part of it."""
    with pm.Model() as model:
        sd, mean = pm.HalfNormal("sd", 1.0), pm.Normal("mean", 0.0, 2.0)
        own = pm.Normal("own", 0.0, 0.5, shape=N)
        shared = pm.ICAR("shared", W=NEAR, zero_sum_stdev=SOFT)
        effect = mean + own + sd * shared
        if counts:
            pm.Poisson("y", pm.math.exp(effect), observed=np.round(np.exp(DATA)).astype(int))
        else:
            pm.Normal("y", effect, ERROR, observed=DATA)
    return model


def exact() -> float:
    """Log Z, with all but the scale integrated out: an ICAR is no proper density by itself."""
    log_sd = np.linspace(-9.0, 2.0, 600)
    precision = np.diag(NEAR.sum(axis=1)) - NEAR + np.ones((N, N)) / (SOFT * N) ** 2
    constant = -0.5 * np.log(2.0 * np.pi) - np.log(SOFT * N)
    # of the integral over the shared effects, which are normal with this covariance
    constant += 0.5 * N * np.log(2.0 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]
    others = (0.5**2 + ERROR**2) * np.eye(N) + 2.0**2
    terms = []
    for sd in np.exp(log_sd):
        cov = others + sd**2 * np.linalg.inv(precision)
        quadratic = DATA @ np.linalg.solve(cov, DATA)
        log_likelihood = -0.5 * (quadratic + np.linalg.slogdet(2.0 * np.pi * cov)[1])
        terms.append(log_likelihood + halfnorm.logpdf(sd) + np.log(sd))
    return float(constant + logsumexp(terms) + np.log(log_sd[1] - log_sd[0]))


@pytest.fixture(scope="module")
def normal():
    return compile_density(areas())


@pytest.fixture(scope="module")
def poisson():
    return compile_density(areas(counts=True))


def one_of(density):
    """Structure in which scale and mean are globals."""
    (found,) = [one for one in structures_of(density)[0] if len(one.globals) == 2]
    return found


def test_a_value_in_common_is_that_of_most_pairs():
    rng = np.random.default_rng(1)
    block = np.full((9, 9), -2.5)
    # 35 of 72 pairs are others, and no row of the diagonal counts
    aside = np.flatnonzero(~np.eye(9, dtype=bool))
    block.flat[rng.permutation(aside)[:35]] = rng.normal(size=35)
    np.fill_diagonal(block, rng.normal(size=9))
    assert common_value(block) == -2.5
    block.flat[rng.permutation(aside)] = np.where(np.arange(72) < 36, -2.5, rng.normal(size=72))
    assert common_value(block) == 0.0
    assert common_value(rng.normal(size=(9, 9))) == 0.0
    assert common_value(np.eye(9)) == 0.0
    # of six pairs three are alike: half is not more than half
    block = np.array([[0.0, 3.0, 3.0, 3.0], [3.0, 0.0, 1.0, 5.0], [3.0, 1.0, 0.0, 7.0],
                      [3.0, 5.0, 7.0, 0.0]])  # fmt: skip
    assert common_value(block) == 0.0


def test_it_is_there_at_all_points_and_the_largest_counts():
    rng, sizes = np.random.default_rng(2), [3, 9, 1, 12]
    first, second = (rng.normal(size=(25, 25)) for _ in range(2))
    of_nine, of_twelve = np.ix_(range(3, 12), range(3, 12)), np.ix_(range(13, 25), range(13, 25))
    first[of_nine], second[of_nine], first[of_twelve] = 2.0, 3.0, 5.0
    assert _summed(sizes, [first, second]).tolist() == list(range(3, 12))
    second[of_twelve] = 4.0
    assert _summed(sizes, [first, second]).tolist() == list(range(13, 25))
    # three are as dense as one likes
    first[:3, :3] = second[:3, :3] = 1.0
    assert _summed(sizes[:1], [first, second]).size == 0


def test_neighbours_are_those_without_the_sum(normal):
    neighbours, summed, _ = neighbours_of(normal, np.random.default_rng(4))
    names = np.repeat(normal.points.names, normal.points.sizes)
    shared = np.flatnonzero(names == "shared")
    assert summed.tolist() == shared.tolist()
    expected = (NEAR > 0.0) | np.eye(N, dtype=bool)
    assert (neighbours[np.ix_(shared, shared)] == expected).all()
    assert one_of(normal).n_colours < N // 2 + 1


def test_a_sum_that_counts_at_one_point_alone_makes_all_of_them_neighbours():
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 1.0)
        x = pm.Normal("x", 0.0, sd, shape=N)
        side = pm.math.switch(sd > 1.0, 1.0, 0.0)
        pm.Potential("sum", -side * x.sum() ** 2)
    neighbours, summed, _ = neighbours_of(compile_density(model), np.random.default_rng(5))
    assert summed.size == 0
    assert neighbours.all()


def test_the_precision_is_that_of_a_sparse_one_and_a_sum(poisson):
    structure = one_of(poisson)
    nested = NestedLaplace(poisson, structure, poisson.start)
    found = nested.at(np.array([[-0.3, 0.2], [0.4, -0.1]]), np.ones(2))
    factor, at = structure.factor, structure.locals[structure.factor.order]
    n = at.size
    a = np.isin(at, structure.summed).astype(float)
    for z, entries, value in zip(found.z, found.factors, found.log_marginal, strict=True):
        lower = np.zeros((n, n))
        column = np.repeat(np.arange(n), np.diff(factor.begins))
        lower[factor.rows, column] = entries[: factor.rows.size]
        ends = z + 1e-4 * np.eye(poisson.dim)[at][:, None] * np.array([[1.0], [-1.0]])
        grads = np.array([[poisson.value_and_grad(end)[1][at] for end in pair] for pair in ends])
        precision = (grads[:, 1] - grads[:, 0]) / 2e-4
        in_common = 1.0 / (SOFT * N) ** 2
        expected = precision - in_common * np.outer(a, a)
        np.testing.assert_allclose(lower @ lower.T, expected, rtol=0, atol=1e-3)
        np.testing.assert_allclose(entries[-n - 1 : -1], np.linalg.solve(expected, a), rtol=1e-3)
        half = 0.5 * np.linalg.slogdet(precision)[1]
        log_density, grad = poisson.value_and_grad(z)
        assert value == pytest.approx(log_density - half, abs=1e-3)
        step = np.linspace(-1.0, 2.0, n)
        expected = np.linalg.solve(precision, step)
        b = step.copy()
        assert solve(nested.system, entries, b) == pytest.approx(step @ expected, rel=1e-3)
        np.testing.assert_allclose(b, expected, rtol=0, atol=1e-3 * np.abs(expected).max())
        # what is left of Newton's steps, in standard deviations
        assert grad[at] @ np.linalg.solve(precision, grad[at]) < 1e-5


def test_the_slope_of_the_marginal_density_is_that_of_differences(poisson):
    structure, steps = one_of(poisson), np.full(2, 1e-3)
    start = NestedLaplace(poisson, structure, poisson.start).at(np.array([[0.1, 0.2]]), np.ones(2))
    nested = NestedLaplace(poisson, structure, start.z[0])
    g = np.array([0.15, 0.1])
    slope = nested.marginal(g, steps)[1]
    for i, along in enumerate(0.02 * np.eye(2)):
        solved = nested.at(np.array([g, g + along, g - along]), np.ones(2)).log_marginal
        assert slope[i] == pytest.approx((solved[1] - solved[2]) / 0.04, abs=0.02)


def test_normal_areas_leave_nothing_to_explain(normal):
    found = conditional_fit(normal, one_of(normal), normal.start, np.random.default_rng(6))
    assert found.variance < EXACT
    nested = NestedLaplace(normal, one_of(normal), found.map.from_base(np.zeros(normal.dim)))
    assert share_lost(nested, found.map) < LEAST_ERROR
    u = np.random.default_rng(7).standard_normal((2000, normal.dim))
    values, _ = found.map.pulled_back(normal.address, u)
    log_weights = values - norm.logpdf(u).sum(axis=1)
    # of 2000 weights with this V, four errors are 0.006
    assert logsumexp(log_weights) - np.log(len(u)) == pytest.approx(exact(), abs=0.007)


@pytest.mark.parametrize("seed", [20, 21])
def test_log_z_of_areas_is_right(seed):
    """Errors of four standard errors: a false alarm in 15,000."""
    with pytest.warns(TemperingWarning, match="dropped constants"):
        estimate = pm_temper.estimate_logz(
            areas(), random_seed=seed, cores=1, progressbar=False, quiet=True
        )
    assert [warning.code for warning in estimate.warnings] == ["dropped_constants"]
    assert abs(estimate.log_z - exact()) < 4.0 * estimate.se + 1e-3


def test_counts_bend_with_their_only_parents(poisson):
    """The effect that an area has alone bends with the one that it shares."""
    rng = np.random.default_rng(8)
    made = conditional_fit(poisson, one_of(poisson), poisson.start, rng).map
    laws, n = made.laws, len(made.laws.pair)
    shift = np.array(laws.shift)
    shift[-n:] += laws.pair[:, 0]
    straight = made.with_laws(laws._replace(shift=shift, pair=np.zeros((n, 2))))
    u = np.random.default_rng(9).standard_normal((4000, poisson.dim))

    def variance(of):
        values, _ = of.pulled_back(poisson.address, u)
        return trimmed_variance(values - norm.logpdf(u).sum(axis=1))

    assert variance(made) < 0.5 * variance(straight)
