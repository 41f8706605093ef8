"""Log Z of a series whose components may each be nothing, against exact values.

    make vanishing
    python benchmarks/vanishing.py --lengths 150 --data 6 --seeds 3
    python benchmarks/vanishing.py --counts --lengths 60

A level that is a random walk and an autoregression, observed with noise, as people write them, with
half-normal scales: which of the three explains the data is open, so that the posterior reaches to
where each is zero. Given its four globals the series is normal, so that log Z is a mean over the
prior (points of Sobol, several times scrambled, whose means say the error), each point by a Kalman
filter. With ``--counts`` data are Poisson counts of the exponential of the two, and a particle
filter of each point gives its likelihood without bias. For each series: V of the map, and of
default runs of several seeds the error of log Z, the error that they state, gradients, and
warnings.
"""

import argparse

import numba as nb
import numpy as np
import pymc as pm
from figures import QUIET, table
from scipy.special import gammaln, logsumexp
from scipy.stats import halfnorm, qmc

import pymc_tempering as pm_temper
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.hierarchy import Hierarchy

N_SCRAMBLES = 8
N_POINTS, N_FILTERED, N_PARTICLES = 2**16, 2**12, 300


def series(seed, n):
    """Make a series (n,)."""
    rng = np.random.default_rng(seed)
    level, cycle = np.cumsum(rng.normal(0.0, 0.2, n)), np.zeros(n)
    for i in range(1, n):
        cycle[i] = 0.7 * cycle[i - 1] + rng.normal(0.0, 0.3)
    return level + cycle + rng.normal(0.0, 0.1, n)


def model_of(y):
    """Write the model, with its locals."""
    with pm.Model() as model:
        sd_level, sd_cycle = pm.HalfNormal("sd_level", 0.5), pm.HalfNormal("sd_cycle", 0.5)
        rho, noise = pm.Uniform("rho", 0.0, 1.0), pm.HalfNormal("noise", 0.5)
        first = pm.Normal.dist(0.0, 1.0)
        level = pm.GaussianRandomWalk("level", sigma=sd_level, init_dist=first, shape=y.size)
        cycle = pm.AR("cycle", rho=[rho], sigma=sd_cycle, init_dist=first, shape=y.size)
        pm.Normal("y", level + cycle, noise, observed=y)
    return model


@nb.njit
def log_likelihoods(y, scales, rho):
    """Log likelihoods (n,) of a series in nats, by the prediction errors of a Kalman filter.

    ``scales`` (n, 3) are those of level, cycle and noise, ``rho`` (n,) the cycle's coefficients.
    """
    out = np.zeros(len(rho))
    for i in range(len(rho)):
        of_level, of_cycle, of_noise = scales[i] ** 2
        # means of the two, their variances and covariance
        level, cycle, p, both, q = 0.0, 0.0, 1.0, 0.0, 1.0
        for t in range(y.size):
            if t > 0:
                cycle, both = rho[i] * cycle, rho[i] * both
                p, q = p + of_level, rho[i] ** 2 * q + of_cycle
            variance, error = p + 2.0 * both + q + of_noise, y[t] - level - cycle
            out[i] -= 0.5 * (np.log(2.0 * np.pi * variance) + error**2 / variance)
            by_p, by_q = p + both, both + q
            level, cycle = level + by_p / variance * error, cycle + by_q / variance * error
            p, q = p - by_p**2 / variance, q - by_q**2 / variance
            both -= by_p * by_q / variance
    return out


def mean_over_prior(n_scales, n, log_likelihoods, seed):
    """Log Z in nats, and its standard error: ``log_likelihoods(scales, rho)`` of n points each."""
    rng, means = np.random.default_rng(seed), []
    for _ in range(N_SCRAMBLES):
        points = qmc.Sobol(n_scales + 1, seed=rng).random(n)
        scales = halfnorm.ppf(points[:, :-1], scale=0.5)
        means.append(logsumexp(log_likelihoods(scales, points[:, -1])) - np.log(n))
    log_z = logsumexp(means) - np.log(N_SCRAMBLES)
    return log_z, np.exp(means - log_z).std(ddof=1) / np.sqrt(N_SCRAMBLES)


def exact(y, seed):
    """Log Z of a series in nats, and its standard error."""
    return mean_over_prior(3, N_POINTS, lambda *prior: log_likelihoods(y, *prior), seed)


def counts(seed, n):
    """Make a series of counts (n,)."""
    rng = np.random.default_rng(seed)
    level, cycle = 1.0 + np.cumsum(rng.normal(0.0, 0.15, n)), np.zeros(n)
    for i in range(1, n):
        cycle[i] = 0.7 * cycle[i - 1] + rng.normal(0.0, 0.25)
    return rng.poisson(np.exp(level + cycle))


def model_of_counts(y):
    """Write the model."""
    with pm.Model() as model:
        sd_level, sd_cycle = pm.HalfNormal("sd_level", 0.5), pm.HalfNormal("sd_cycle", 0.5)
        rho, first = pm.Uniform("rho", 0.0, 1.0), pm.Normal.dist(0.0, 1.0)
        level = pm.GaussianRandomWalk("level", sigma=sd_level, init_dist=first, shape=y.size)
        cycle = pm.AR("cycle", rho=[rho], sigma=sd_cycle, init_dist=first, shape=y.size)
        pm.Poisson("y", pm.math.exp(level + cycle), observed=y)
    return model


@nb.njit
def log_likelihoods_of_counts(y, constant, scales, rho, rng):
    """Log likelihoods (n,) of counts in nats, by particles that are resampled at each time."""
    out, n = np.zeros(len(rho)), N_PARTICLES
    level, cycle, weights = np.empty(n), np.empty(n), np.empty(n)
    for i in range(len(rho)):
        for t in range(y.size):
            for p in range(n):
                if t == 0:
                    level[p], cycle[p] = rng.standard_normal(), rng.standard_normal()
                else:
                    level[p] += scales[i, 0] * rng.standard_normal()
                    cycle[p] = rho[i] * cycle[p] + scales[i, 1] * rng.standard_normal()
                weights[p] = y[t] * (level[p] + cycle[p]) - np.exp(level[p] + cycle[p])
            largest = weights.max()
            weights[:] = np.exp(weights - largest)
            out[i] += largest + np.log(weights.mean()) - constant[t]
            # at equal distances from a random beginning
            ends = weights.cumsum()
            at = (np.arange(n) + rng.random()) / n * ends[-1]
            kept = np.minimum(np.searchsorted(ends, at), n - 1)
            level[:], cycle[:] = level[kept], cycle[kept]
    return out


def exact_of_counts(y, seed):
    """Log Z of counts in nats, and its standard error."""
    rng, constant = np.random.default_rng(seed), gammaln(y + 1.0)
    return mean_over_prior(
        2, N_FILTERED, lambda *prior: log_likelihoods_of_counts(y, constant, *prior, rng), seed
    )


def study(lengths, data, n_seeds, *, of_counts):
    """Print the table."""
    rows = []
    for n in lengths:
        for seed in data:
            if of_counts:
                y = counts(seed, n)
                model, (log_z, log_z_se) = model_of_counts(y), exact_of_counts(y, seed)
            else:
                y = series(seed, n)
                model, (log_z, log_z_se) = model_of(y), exact(y, seed)
            found, _ = Hierarchy.of(compile_density(model))
            for k in range(1, n_seeds + 1):
                run = pm_temper.estimate_logz(model, random_seed=k, **QUIET)
                rows.append([
                    str(n), str(seed), f"{log_z:.3f} ± {log_z_se:.3f}",
                    f"{found.variance:.1f}" if found else "-", f"{run.log_z - log_z:+.3f}",
                    f"{run.se:.3f}", f"{sum(run.gradients.values()) / 1e3:.0f}",
                    ", ".join(warning.code for warning in run.warnings),
                ])  # fmt: skip
    table(
        f"{'Counts of a' if of_counts else 'A'} level and a cycle, of which each may vanish",
        ["length", "data", "log Z", "V", "error", "stated", "10^3 gradients", "warnings"], rows,
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[60, 150])
    parser.add_argument("--data", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--counts", action="store_true", help="data are Poisson counts")
    args = parser.parse_args()
    study(args.lengths, args.data, args.seeds, of_counts=args.counts)
