"""Log Z where densities are differences of huge numbers, and numbers that are too large for it.

    python benchmarks/noise.py
    python benchmarks/noise.py --models beta_binomial --seeds 2
    python benchmarks/noise.py --looks

Ten models with heavy-tailed priors on arguments of ``gammaln``, ``betaln`` and ``log1p``, beyond
1e15 of which the log likelihood is rounding noise. Each has a likelihood with a limit, so that no
data keep the argument from there. Beside log Z: by quadrature over the logarithms of the variables
up to 1e8, where arithmetic is good, and the largest log likelihood there. "above" are numbers
larger than that. With ``--looks``: how many places beyond the noise each number of mirrored copies
misses, and how many it takes for noise that are nearer than any.
"""

import argparse
import logging
import warnings
from collections import Counter
from unittest import mock

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import QUIET, table
from pymc.distributions.dist_math import betaln
from scipy.special import logsumexp

import pymc_tempering as pm_temper
from pymc_tempering.engine.path import noise
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.powered import PoweredModel

LOG_RANGE = (-16.0, 18.4)
N_NODES = {1: 4000, 2: 180}

_NORMAL = np.array([-1.3, 0.4, 0.1, 1.8, -0.2, 0.9, -0.7, 0.3, -1.1, 0.6, 1.2, -0.4])
_COUNTS = np.array([3, 5, 2, 4, 6, 3, 4, 1, 5, 4])
_TRIALS, _HITS = np.array([12, 9, 15, 20, 11]), np.array([6, 5, 7, 11, 5])


def student_t():
    nu = pm.HalfCauchy("nu", 10.0)
    pm.StudentT("y", nu, mu=0.0, sigma=1.0, observed=_NORMAL)


def student_t_wide():
    nu = pm.LogNormal("nu", 3.0, 4.0)
    pm.StudentT("y", nu, mu=0.2, sigma=0.9, observed=np.tile(_NORMAL, 4))


def beta_binomial():
    a, b = pm.HalfCauchy("a", 2.0), pm.HalfCauchy("b", 2.0)
    pm.BetaBinomial("y", a, b, _TRIALS, observed=_HITS)


def beta_binomial_size():
    size = pm.HalfCauchy("size", 50.0)
    pm.BetaBinomial("y", 0.45 * size, 0.55 * size, _TRIALS, observed=_HITS)


def negative_binomial():
    alpha = pm.HalfCauchy("alpha", 5.0)
    pm.NegativeBinomial("y", mu=3.7, alpha=alpha, observed=_COUNTS)


def negative_binomial_mean():
    alpha, mu = pm.HalfCauchy("alpha", 5.0), pm.HalfNormal("mu", 10.0)
    pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=_COUNTS)


def dirichlet_multinomial():
    size = pm.HalfCauchy("size", 20.0)
    pm.DirichletMultinomial("y", n=30, a=size * np.array([0.2, 0.3, 0.5]), observed=[7, 8, 15])


def ratio_of_gammas():
    x = pm.HalfCauchy("x", 3.0)
    moments = pt.gammaln(x + 0.5) - pt.gammaln(x) - 0.5 * pt.log(x)
    pm.Potential("likelihood", 40.0 * moments - 2.0)


def ratio_of_betas():
    x = pm.HalfCauchy("x", 3.0)
    ratio = betaln(x, 2.5) - betaln(x + 1.0, 2.5)
    pm.Potential("likelihood", -8.0 * ratio + 1.0)


def slope_of_log1p():
    x = pm.HalfCauchy("x", 3.0)
    pm.Potential("likelihood", 5.0 * x * (pt.log1p(x + 1.0) - pt.log1p(x)) - 4.0)


MODELS = (student_t, student_t_wide, beta_binomial, beta_binomial_size, negative_binomial,
          negative_binomial_mean, dirichlet_multinomial, ratio_of_gammas, ratio_of_betas,
          slope_of_log1p)  # fmt: skip


def built(write):
    """Model of one of these functions."""
    with pm.Model() as model:
        write()
    return model


def quadrature(model):
    """Log Z, and the largest log likelihood, where the variables are below 1e8."""
    density = compile_density(model)
    # all of these are positive, so that the coordinates are their logarithms
    nodes = np.linspace(*LOG_RANGE, N_NODES[density.dim])
    grid = np.stack(np.meshgrid(*[nodes] * density.dim), axis=-1).reshape(-1, density.dim)
    logs = np.array([density.value_and_grad(z)[0] for z in grid])
    log_z = logsumexp(logs) + density.dim * np.log(nodes[1] - nodes[0])
    powered = PoweredModel.of(model)
    some = grid[:: max(len(grid) // 4000, 1)]
    return float(log_z), max(powered.log_densities(z)[1] for z in some)


def study(write, n_seeds):
    """Row of one model, and how many of its numbers are above the largest log likelihood."""
    model = built(write)
    exact, largest = quadrature(model)
    estimates = [
        pm_temper.estimate_logz(model, random_seed=seed, draws=60, **QUIET)
        for seed in range(n_seeds)
    ]
    said = Counter(diagnostic.code for estimate in estimates for diagnostic in estimate.warnings)
    numbers = [estimate.log_z for estimate in estimates]
    n_above = sum(number > largest for number in numbers)
    row = [write.__name__, f"{exact:.3f}", f"{largest:.2f}",
           ", ".join(f"{e.log_z:.3f} ± {e.se:.3f}" for e in estimates), n_above,
           max(sum(estimate.gradients.values()) for estimate in estimates) // 1000,
           ", ".join(f"{code} {n}" for code, n in said.most_common())]  # fmt: skip
    return row, n_above


def looks(chosen):
    """Places missed, and taken for noise, by pairs of copies at each place on the way from zero."""
    rng, counts, totals = np.random.default_rng(0), Counter(), Counter()
    for write in chosen:
        density = compile_density(built(write))
        for _ in range(40):
            z, k = density.start.copy(), rng.integers(density.dim)
            if density.dim > 1 and rng.random() < 0.5:
                z += rng.normal(size=density.dim)
            far, near = z.copy(), z.copy()
            far[k], near[k] = rng.uniform(34.5, 80.0), rng.uniform(20.0, 28.0)
            with mock.patch.object(noise, "_CLOSER", 0.98):
                beyond = noise.is_noise(density, far)
            totals.update(far=beyond, near=1)
            for pairs in (6, 4, 3, 2, 1):
                with mock.patch.object(noise, "_N_PAIRS_ON_WAY", pairs):
                    counts["far", pairs] += beyond and not noise.is_noise(density, far)
                    counts["near", pairs] += noise.is_noise(density, near)
    table(
        "looks for noise",
        ("pairs", f"missed of {totals['far']}", f"taken for noise of {totals['near']}"),
        [(pairs, counts["far", pairs], counts["near", pairs]) for pairs in (6, 4, 3, 2, 1)],
    )


def main():
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(write.__name__ for write in MODELS))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--looks", action="store_true", help="only what looks for noise miss")
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    chosen = [write for write in MODELS if write.__name__ in args.models.split(",")]
    if args.looks:
        looks(chosen)
        return
    rows, counts = zip(*(study(write, args.seeds) for write in chosen), strict=True)
    header = ["model", "log Z", "largest log likelihood", "estimates", "above",
              "10^3 gradients at most", "said"]  # fmt: skip
    table(f"{sum(counts)} of {args.seeds * len(rows)} numbers are above the largest log "
          "likelihood", header, list(rows))  # fmt: skip


if __name__ == "__main__":
    main()
