"""Whether the errors of bridge sampling are right: coverage over repeated chains with known log Z.

Draws are transformed autoregressive chains, so that each has exactly the distribution of its target
and no sampler is needed. For every case: root mean square error, median reported error over it, the
share of 95 % intervals that hold the exact value, and how often which warning was given.

    python benchmarks/bridge.py --seeds 200
"""

import argparse
import json
import time
from collections import Counter

import numpy as np
from figures import ROOT, console, rmse, table
from scipy import stats
from scipy.signal import lfilter
from scipy.special import gammaln

from pymc_tempering.evidence.bridge import bridge_draws, findings, largest_r_hat
from pymc_tempering.evidence.checks.chains import rhat_limit

N_CHAINS = 4


def gaussian(dim, rng):
    """Correlated Gaussian with condition number 100 and random axes."""
    axes, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    sd = np.geomspace(0.3, 3.0, dim)
    factor = axes * sd
    return (
        lambda z: stats.norm.logpdf(z @ axes / sd).sum(axis=-1) - np.log(sd).sum(),
        lambda u: u @ factor.T,
    )


def by_quantiles(log_density, quantile):
    """Independent coordinates of one law."""
    return (
        lambda z: log_density(z).sum(axis=-1),
        lambda u: quantile(stats.norm.cdf(u)),
    )


def student(dof):
    return by_quantiles(stats.t(dof).logpdf, stats.t(dof).ppf)


def log_gamma(shape):
    return by_quantiles(
        lambda z: shape * z - np.exp(z) - gammaln(shape),
        lambda p: np.log(stats.gamma(shape).ppf(p)),
    )


def laplace():
    return by_quantiles(stats.laplace.logpdf, stats.laplace.ppf)


def funnel():
    """Scale exp(z_0) of all other coordinates, z_0 standard normal."""

    def log_density(z):
        scaled = z[:, 1:] * np.exp(-z[:, :1])
        return (
            stats.norm.logpdf(z[:, 0])
            + stats.norm.logpdf(scaled).sum(axis=-1)
            - scaled.shape[1] * z[:, 0]
        )

    def transform(u):
        return np.concatenate([u[..., :1], u[..., 1:] * np.exp(u[..., :1])], axis=-1)

    return log_density, transform


def two_modes():
    """Weights 0.3 and 0.7, three standard deviations apart from their middle."""

    def log_density(z):
        low, high = stats.norm.logpdf(z, -3.0, 1.0), stats.norm.logpdf(z, 3.0, 1.0)
        return np.logaddexp(np.log(0.3) + low, np.log(0.7) + high).sum(axis=-1)

    def transform(u):
        # an exact draw of the mode, and a chain within it
        low = stats.norm.cdf(u[..., 1:]) < 0.3
        return np.where(low, -3.0, 3.0) + u[..., :1]

    return log_density, transform


def cases():
    rng = np.random.default_rng(0)
    # dimensions, draws of each chain, correlation of successive draws, log density and transform
    return {
        "Gaussian": (5, 500, 0.5, gaussian(5, rng)),
        "Gaussian, slow chains": (5, 1000, 0.95, gaussian(5, rng)),
        "Gaussian, very short": (5, 50, 0.0, gaussian(5, rng)),
        "Gaussian, 36 dimensions": (36, 1000, 0.8, gaussian(36, rng)),
        "log gamma, shape 0.3": (5, 500, 0.5, log_gamma(0.3)),
        "log gamma, shape 1": (20, 500, 0.5, log_gamma(1.0)),
        "Student t, 3 dof": (4, 500, 0.5, student(3)),
        "Student t, 2 dof": (10, 500, 0.5, student(2)),
        "Cauchy": (2, 500, 0.5, student(1)),
        "Laplace": (36, 500, 0.5, laplace()),
        "Laplace, 100 dimensions": (100, 500, 0.5, laplace()),
        "funnel": (5, 500, 0.5, funnel()),
        "two modes, both drawn": (1, 500, 0.5, two_modes()),
    }


def study(name, n_seeds):
    dim, n_draws, correlation, (log_density, transform) = cases()[name]
    # the second coordinate of this one is the choice of the mode
    n_coordinates = dim + (name == "two modes, both drawn")
    started = time.process_time()
    rows, named = [], Counter()
    for seed in range(n_seeds):
        rng = np.random.default_rng([seed, 2026])
        noise = rng.standard_normal((N_CHAINS, n_draws, n_coordinates))
        noise[:, 1:] *= np.sqrt(1.0 - correlation**2)
        chains = lfilter([1.0], [1.0, -correlation], noise, axis=1)
        draws = transform(chains)
        parts = bridge_draws(log_density, draws, rng)
        found = findings(parts, largest_r_hat(draws), rhat_limit(*draws.shape))
        named.update(diagnostic.code for diagnostic in found)
        half = parts.se * stats.t.ppf(0.975, parts.df)
        rows.append((parts.log_z, parts.se, abs(parts.log_z) <= half, parts.ess, bool(found)))
    log_z, se, covered, ess, warned = np.array(rows).T
    own = covered[warned == 0]
    return {
        "case": name,
        "dim": dim,
        "n": N_CHAINS * n_draws,
        "ess": float(np.median(ess)),
        "rmse": float(rmse(log_z)),
        "bias": float(log_z.mean()),
        "se/rmse": float(np.median(se) / rmse(log_z)),
        "covered": int(covered.sum()),
        "runs": n_seeds,
        "covered unwarned": f"{int(own.sum())}/{own.size}",
        "warnings": ", ".join(f"{code} {n}" for code, n in named.most_common()),
        "cpu s a run": (time.process_time() - started) / n_seeds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    arguments = parser.parse_args()
    rows = []
    for name in cases():
        rows.append(study(name, arguments.seeds))
        console.print(f"{name}: {rows[-1]['covered']} of {arguments.seeds} covered")
    table(
        f"bridge sampling over {arguments.seeds} seeds", list(rows[0]),
        [[f"{v:.4f}" if isinstance(v, float) else v for v in row.values()] for row in rows],
    )  # fmt: skip
    covered, total = sum(row["covered"] for row in rows), sum(row["runs"] for row in rows)
    console.print(
        f"95 % intervals hold log Z in {covered} of {total} runs ({100 * covered / total:.1f} %)"
    )
    path = ROOT / "out" / "bridge.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows, indent=1))
    console.print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
