"""The galaxies' script: its data, its model, and evidences that other means give."""

import csv
import inspect
import math
from pathlib import Path

import galaxies
import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.special import gammaln, logsumexp

import pymc_tempering


def log_z_by_conjugacy():
    """Evidence of K = 1 with the mean integrated by hand, the variance on a grid."""
    y = galaxies.velocities()
    log_variance = np.linspace(0.0, 8.0, 8001)
    variance = np.exp(log_variance)
    n, squares = len(y), ((y - y.mean()) ** 2).sum()
    # The residuals are free of the mean, and the average is N(20, 10**2 + variance / n).
    log_likelihood = (
        -0.5 * (n - 1) * np.log(2 * np.pi * variance)
        - 0.5 * np.log(n)
        - 0.5 * squares / variance
        + stats.norm.logpdf(y.mean(), 20, np.sqrt(100 + variance / n))
    )
    log_prior = stats.invgamma.logpdf(variance, 3, scale=20) + log_variance
    return logsumexp(log_likelihood + log_prior) + math.log(log_variance[1] - log_variance[0])


def log_joint_ordered(x, k):
    """Log joint density of (means, log variances, log ratios of weights), -inf unless ordered."""
    mean, log_variance = x[:, :k], x[:, k : 2 * k]
    log_weight = np.column_stack([x[:, 2 * k :], np.zeros(len(x))])
    log_weight -= logsumexp(log_weight, axis=1, keepdims=True)
    components = log_weight[:, None] + stats.norm.logpdf(
        galaxies.velocities()[:, None], mean[:, None], np.exp(0.5 * log_variance)[:, None]
    )
    log_joint = (
        logsumexp(components, axis=2).sum(axis=1)
        + stats.norm.logpdf(mean, 20, 10).sum(axis=1)
        + (stats.invgamma.logpdf(np.exp(log_variance), 3, scale=20) + log_variance).sum(axis=1)
        + gammaln(k)
        + log_weight.sum(axis=1)
    )
    return np.where((np.diff(mean, axis=1) > 0).all(axis=1), log_joint, -np.inf)


def gibbs_draws(k, n, rng):
    """Draw from the posterior with allocations, labels sorted by mean afterwards."""
    y = galaxies.velocities()
    which = np.digitize(y, np.quantile(y, np.linspace(0, 1, k + 1)[1:-1]))
    variance, draws = np.full(k, 10.0), []
    for i in range(10 * n + 500):
        count, total = np.bincount(which, minlength=k), np.bincount(which, y, minlength=k)
        weight = rng.dirichlet(1 + count)
        precision = count / variance + 1 / 100
        mean = (total / variance + 20 / 100) / precision + rng.normal(size=k) / precision**0.5
        squares = np.bincount(which, (y - mean[which]) ** 2, minlength=k)
        variance = (20 + squares / 2) / rng.gamma(3 + count / 2)
        score = np.log(weight) - 0.5 * np.log(variance) - 0.5 * (y[:, None] - mean) ** 2 / variance
        which = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
        if i >= 500 and i % 10 == 0:
            o = np.argsort(mean)
            ratio = np.log(weight[o][:-1] / weight[o][-1])
            draws.append(np.concatenate([mean[o], np.log(variance[o]), ratio]))
    return np.array(draws)


def log_z_by_importance_sampling(k, rng, n=20_000, width=0.35, df=5):
    """Evidence and its error: t kernels on Gibbs draws of one labelling propose, k! labellings."""
    draws = gibbs_draws(k, 1000, rng)
    dim = draws.shape[1]
    root = width * np.linalg.cholesky(np.cov(draws.T))
    steps = stats.multivariate_t.rvs(shape=np.eye(dim), df=df, size=n, random_state=rng)
    x = draws[rng.integers(len(draws), size=n)] + steps @ root.T
    kernel = stats.multivariate_t(shape=np.eye(dim), df=df)
    inverse = np.linalg.inv(root)
    log_proposal = (
        np.array([logsumexp(kernel.logpdf((row - draws) @ inverse.T)) for row in x])
        - math.log(len(draws))
        + np.linalg.slogdet(inverse)[1]
    )
    log_weights = log_joint_ordered(x, k) - log_proposal
    log_mean = logsumexp(log_weights) - math.log(n)
    relative = np.exp(log_weights - log_mean)
    return log_mean + gammaln(k + 1), relative.std() / math.sqrt(n)


def estimate_galaxies(k, seed):
    return pymc_tempering.estimate_logz(
        galaxies.galaxy_mixture(k),
        draws=1000,
        tune=1000,
        chains=4,
        cores=1,
        random_seed=seed,
        progressbar=False,
    )


def test_values_are_the_published_ones():
    values = galaxies.VELOCITIES_KM_S
    assert len(values) == 82
    assert list(values) == sorted(values)
    assert values[77] == 26960
    assert sum(values) == 1_708_180
    np.testing.assert_allclose(galaxies.velocities()[[0, -1]], [9.172, 34.279])


def test_values_equal_the_shared_table(cases):
    any_case = next(iter(cases.values()))
    table = Path(inspect.getfile(any_case)).parent / "data" / "galaxies.csv"
    with table.open() as file:
        rows = [int(row["velocity_km_s"]) for row in csv.DictReader(file)]
    assert rows == list(galaxies.VELOCITIES_KM_S)


def test_log_density_equals_scipy_with_unequal_components():
    mean, variance = np.array([10.0, 21.0, 33.0]), np.array([0.3, 5.0, 2.0])
    weight = np.array([0.1, 0.75, 0.15])
    y = galaxies.velocities()
    expected = (
        stats.norm.logpdf(mean, 20, 10).sum()
        + stats.invgamma.logpdf(variance, 3, scale=20).sum()
        + stats.dirichlet.logpdf(weight, np.ones(3))
        + logsumexp(
            np.log(weight) + stats.norm.logpdf(y[:, None], mean, np.sqrt(variance)), axis=1
        ).sum()
    )
    model = galaxies.galaxy_mixture(3)
    point = {
        "mean": mean,
        "variance_log__": np.log(variance),
        "weight_simplex__": model.rvs_to_transforms[model["weight"]].forward(weight).eval(),
    }
    log_p = model.compile_logp(jacobian=False, mode="FAST_COMPILE")(point)
    assert log_p == pytest.approx(expected, abs=1e-9)
    assert [v.name for v in galaxies.galaxy_mixture(1).free_RVs] == ["mean", "variance"]


def _tree(**draws):
    """Draws of shape (S, K) as the posterior of one chain."""
    variables = {name: (("chain", "draw", "component"), v[None]) for name, v in draws.items()}
    return xr.DataTree(xr.Dataset(variables))


def test_predictive_density_is_the_average_of_scipy_densities():
    grid = np.array([-1.0, 0.5, 3.0])
    weight = np.array([[0.2, 0.8], [0.6, 0.4]])
    mean = np.array([[0.0, 1.0], [2.0, -1.0]])
    variance = np.array([[1.0, 4.0], [0.25, 9.0]])
    expected = np.mean(
        [stats.norm.pdf(grid[:, None], mean[s], np.sqrt(variance[s])) @ weight[s] for s in (0, 1)],
        axis=0,
    )
    tree = _tree(weight=weight, mean=mean, variance=variance)
    np.testing.assert_allclose(galaxies.predictive_density(tree, grid), expected, rtol=1e-12)
    one = galaxies.predictive_density(_tree(mean=mean[:, :1], variance=variance[:, :1]), grid)
    assert one[0] == pytest.approx(0.5 * (stats.norm.pdf(-1.0) + stats.norm.pdf(-1.0, 2.0, 0.5)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_script_writes_picture_and_table(tmp_path, capsys):
    """The whole demo, with so few draws that its numbers mean nothing."""
    tiny = ["--components=2", "--draws=20", "--chains=2", "--seed=1", f"--output={tmp_path}"]
    galaxies.main(tiny)
    assert (tmp_path / "galaxies.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "galaxies.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 2
    assert str(tmp_path / "galaxies.csv") in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("k", [1, 2, 3])
def test_evidence(seed, rng, k):
    """Fails by chance in fewer than one of 1e3 runs: 99.9 % interval, widened."""
    reference, reference_se = (
        (log_z_by_conjugacy(), 0.0) if k == 1 else log_z_by_importance_sampling(k, rng)
    )
    assert reference_se < 0.05
    estimate = estimate_galaxies(k, seed)
    low, high = estimate.interval(0.999)
    assert low - 3 * reference_se < reference < high + 3 * reference_se
    assert estimate.se < (0.05 if k == 1 else 0.1)
