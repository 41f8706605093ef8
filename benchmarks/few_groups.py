"""Log Z of hierarchies of few groups under wide priors of their scales, against exact values.

    python benchmarks/few_groups.py --seeds 3

Groups as people write them, with the scale before the mean or after it, centred or not, in one
level or two. Given the scales all is normal, so that log Z is a quadrature over these. For each
model: globals and V of the map, and of default runs of several seeds the errors of log Z in stated
ones, the largest stated one, gradients, and which of them carry a warning.
"""

import argparse
import logging
from functools import partial

import numpy as np
import pymc as pm
from figures import QUIET, table
from scipy.integrate import trapezoid
from scipy.stats import halfcauchy, invgamma, multivariate_normal

import pymc_tempering as pm_temper
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.hierarchy import Hierarchy

MOST = 1000.0
PRIORS = {
    "uniform": (
        lambda name: pm.Uniform(name, 0.0, MOST),
        lambda sd: np.where(sd < MOST, 1.0 / MOST, 0.0),
    ),
    "half-Cauchy": (lambda name: pm.HalfCauchy(name, 25.0), halfcauchy(scale=25.0).pdf),
    "inverse gamma": (
        lambda name: pm.math.sqrt(pm.InverseGamma(name, 0.001, 0.001)),
        lambda sd: 2.0 * sd * invgamma(0.001, scale=0.001).pdf(sd**2),
    ),
}
"""How a scale is drawn, and the density of the standard deviation."""

THREE = np.array([3.0, -2.0, 8.0]), np.array([1.0, 2.0, 1.5])
FOUR = np.array([12.0, -5.0, 3.0, 30.0]), np.array([4.0, 3.0, 6.0, 5.0])
SCHOOLS = (
    np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
    np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
)
NINE = np.array([5.0, 9.0, 4.0, -3.0, -8.0, 1.0, 2.0, 14.0, 6.0]), np.full(9, 2.0)


def one_level(data, prior, *, scale_first=True, centred=True, sd_of_mean=100.0):
    """The model, and the covariance of its data given a scale."""
    y, errors = data
    with pm.Model() as model:
        makers = {"mu": lambda: pm.Normal("mu", 0.0, sd_of_mean),
                  "tau": lambda: PRIORS[prior][0]("tau")}  # fmt: skip
        made = {name: makers[name]() for name in sorted(makers, reverse=scale_first)}
        mean, scale = made["mu"], made["tau"]
        if centred:
            group = pm.Normal("group", mean, scale, shape=y.size)
        else:
            group = mean + scale * pm.Normal("z", shape=y.size)
        pm.Normal("y", group, errors, observed=y)
    return model, prior, y, 1, lambda sd: np.diag(errors**2 + sd**2) + sd_of_mean**2


def two_levels(prior, *, scale_first=True):
    """Three schools in each of three districts; the same."""
    (y, errors), of_school = NINE, np.repeat(np.arange(3), 3)
    same = (of_school[:, None] == of_school).astype(float)
    names = ("sd_of_districts", "sd_of_schools")
    with pm.Model() as model:
        if scale_first:
            sds = [PRIORS[prior][0](name) for name in names]
        mean = pm.Normal("mu", 0.0, 100.0)
        if not scale_first:
            sds = [PRIORS[prior][0](name) for name in names]
        district = pm.Normal("district", mean, sds[0], shape=3)
        school = pm.Normal("school", district[of_school], sds[1], shape=9)
        pm.Normal("y", school, errors, observed=y)
    return (
        model,
        prior,
        y,
        2,
        lambda upper, lower: np.diag(errors**2 + lower**2) + upper**2 * same + 100.0**2,
    )


CASES = {
    "3 groups, uniform": partial(one_level, THREE, "uniform"),
    "3 groups, uniform, mean first": partial(one_level, THREE, "uniform", scale_first=False),
    "3 groups, uniform, non-centred": partial(one_level, THREE, "uniform", centred=False),
    "3 groups, uniform, mean within 10^4": partial(one_level, THREE, "uniform", sd_of_mean=1e4),
    "3 groups, half-Cauchy": partial(one_level, THREE, "half-Cauchy"),
    "3 groups, half-Cauchy, mean first": partial(
        one_level, THREE, "half-Cauchy", scale_first=False
    ),
    "4 groups, inverse gamma": partial(one_level, FOUR, "inverse gamma"),
    "8 schools, uniform": partial(one_level, SCHOOLS, "uniform"),
    "8 schools, half-Cauchy": partial(one_level, SCHOOLS, "half-Cauchy"),
    "two levels, uniform": partial(two_levels, "uniform"),
    "two levels, half-Cauchy, mean first": partial(two_levels, "half-Cauchy", scale_first=False),
}


def log_z_of(prior, y, n_scales, covariance):
    """Quadrature over the logarithms of the scales, eight points a unit or more."""
    most = np.log(MOST) if prior == "uniform" else 20.0
    logs = np.linspace(-10.0, most, 1001 if n_scales == 1 else 241)
    sds = np.exp(logs)
    weights = PRIORS[prior][1](sds * (1.0 - 1e-12)) * sds
    at = np.meshgrid(*[sds] * n_scales, indexing="ij")
    values = np.array([multivariate_normal.pdf(y, cov=covariance(*of), allow_singular=True)
                       for of in zip(*(one.ravel() for one in at), strict=True)])  # fmt: skip
    values = values.reshape(at[0].shape)
    for _ in range(n_scales):
        values = trapezoid(values * weights, logs)
    return float(np.log(values))


def study(names, n_seeds):
    """Print the table."""
    rows = []
    for name in names:
        model, *known = CASES[name]()
        exact = log_z_of(*known)
        found, _ = Hierarchy.of(compile_density(model))
        runs = [
            pm_temper.estimate_logz(model, random_seed=seed, **QUIET) for seed in range(n_seeds)
        ]
        spent = np.array([sum(run.gradients.values()) for run in runs]) / 1e3
        rows.append([
            name, "" if found is None else len(found.structure.globals),
            "" if found is None else f"{found.variance:.2g}",
            ", ".join(f"{run.log_z - exact:+.3f}" for run in runs),
            ", ".join(f"{(run.log_z - exact) / run.se:+.1f}" for run in runs),
            f"{max(run.se for run in runs):.4f}", f"{np.median(spent):.0f}",
            sum(bool(run.warnings) for run in runs),
        ])  # fmt: skip
    table(
        f"Few groups under wide priors ({n_seeds} seeds)",
        ["model", "globals", "V", "errors", "in se", "largest se", "10^3 gradients", "warned"],
        rows,
    )


if __name__ == "__main__":
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", help="models, separated by semicolons; default: all")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    study(args.names.split(";") if args.names else list(CASES), args.seeds)
