"""Maps of hierarchies far in the neck of a funnel, and log Z with them, against exact values.

    make necks
    python benchmarks/necks.py --seeds 8
    python benchmarks/necks.py --slopes

Groups of normal data around a mean, centred, with a scale that may be zero: given mean and scale
all is normal, so that means and scales of the groups are exact by formula, and log Z by quadrature
over two globals. For each data set: the tail of the log scale in its map (0 normal, 1 exponential),
how far group means and log scales are off at 400 places 2 to 4 standard deviations down that tail,
with the mean drawn, and default runs of several seeds: root mean square and mean of their errors in
stated ones, and gradients.

With ``--slopes`` it is of answers to few items, whose slopes are lognormal with a scale of their
own, against runs of the model with all abilities summed by quadrature and slopes non-centred.
"""

import argparse
import logging

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import QUIET, table
from scipy.integrate import trapezoid
from scipy.special import expit, logsumexp
from scipy.stats import halfnorm, norm

import pymc_tempering as pm_temper
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.hierarchy import Hierarchy

CASES = {
    "8 groups, as wide as the noise": (8, 1.0, 2.0),
    "8 groups, wider": (8, 1.5, 2.0),
    "8 groups, wider, flat prior": (8, 1.5, 20.0),
    "30 groups, wider": (30, 1.3, 2.0),
    "80 groups, as wide": (80, 1.05, 2.0),
    "80 groups, wider": (80, 1.15, 2.0),
    "200 groups, wider": (200, 1.1, 2.0),
}
"""Number of groups, standard deviation of their data, and of the prior of the scale; the noise has
1."""

_MU = 1.0, 3.0


def groups(n, spread, prior):
    """The model, its data, and log Z by quadrature."""
    y = 0.5 + spread * norm.ppf((np.arange(n) + 0.5) / n)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", *_MU), pm.HalfNormal("tau", prior)
        pm.Normal("y", pm.Normal("group", mu, tau, shape=n), 1.0, observed=y)
    mu, log_tau = np.linspace(-20.0, 22.0, 2001), np.linspace(-16.0, 6.0, 1101)
    tau = np.exp(log_tau)[:, None]
    logs = halfnorm.logpdf(tau, scale=prior) + np.log(tau) + norm.logpdf(mu, *_MU)
    logs += sum(norm.logpdf(one, mu, np.hypot(tau, 1.0)) for one in y)
    most = logsumexp(logs)
    inside = trapezoid(trapezoid(np.exp(logs - most), mu), log_tau)
    return model, y, float(most + np.log(inside))


def in_the_neck(density, made, y):
    """Tail of tau in a map; largest errors of means, in standard deviations, and of log scales."""
    k, names = made.n_globals, density.points.names
    at_tau, at_mu, first = (names.index(name) for name in ("tau_log__", "mu", "group"))
    order = made.arrays.order
    of_group = order >= first
    u = np.zeros((400, density.dim))
    u[:, :k] = np.random.default_rng(4).standard_normal((len(u), k))
    of_tau = order[:k].tolist().index(at_tau)
    u[:, of_tau] = np.linspace(-4.0, -2.0, len(u))
    below, above = u.copy(), u.copy()
    below[:, of_group], above[:, of_group] = -1e-3, 1e-3
    z = made.from_base(u)
    group = order[of_group]
    width = (made.from_base(above) - made.from_base(below))[:, group] / 2e-3
    of_prior = np.exp(-2.0 * z[:, [at_tau]])
    mean = (of_prior * z[:, [at_mu]] + y[group - first]) / (of_prior + 1.0)
    units = np.sqrt(of_prior + 1.0)
    return (
        float(made.laws.tail[of_tau, 0]),
        float(np.abs((z[:, group] - mean) * units).max()),
        float(np.abs(np.log(width * units)).max()),
    )


ITEMS = {
    "7 items, 60 people": (7, 60, 0.3),
    "10 items, 60 people": (10, 60, 0.3),
    "10 items, 60 people, less alike": (10, 60, 0.6),
    "10 items, 200 people": (10, 200, 0.3),
    "10 items, 200 people, less alike": (10, 200, 0.6),
}
"""Numbers of items and people, and standard deviation of the logarithms of slopes."""


def answers(n_items, n_people, spread, *, summed=False):
    """The model as people write it, or with all abilities summed and slopes non-centred."""
    rng = np.random.default_rng(1)
    slope = np.exp(spread * rng.normal(size=n_items))
    ability, hard = rng.normal(size=(n_people, 1)), rng.normal(size=n_items)
    y = (rng.random((n_people, n_items)) < expit(slope * ability - hard)).astype(int)
    with pm.Model() as model:
        sd, hard = pm.HalfNormal("sd", 1.0), pm.Normal("hard", 0.0, 2.0, shape=n_items)
        if summed:
            slope = pt.exp(sd * pm.Normal("z", shape=n_items))
            nodes, weights = np.polynomial.hermite_e.hermegauss(31)
            logit = slope * nodes[:, None] - hard
            logs = -pt.softplus(-logit) @ y.T - pt.softplus(logit) @ (1 - y.T)
            logs += np.log(weights / weights.sum())[:, None]
            pm.Potential("y", pt.logsumexp(logs, axis=0).sum())
        else:
            slope = pm.LogNormal("slope", 0.0, sd, shape=n_items)
            ability = pm.Normal("ability", shape=(n_people, 1))
            pm.Bernoulli("y", logit_p=slope * ability - hard, observed=y)
    return model


def study_of_slopes(n_seeds):
    """Print the table."""
    rows = []
    for label, case in ITEMS.items():
        summed = answers(*case, summed=True)
        reference = pm_temper.estimate_logz(summed, random_seed=100, target_se=0.01, **QUIET)
        model = answers(*case)
        found, _ = Hierarchy.of(compile_density(model))
        runs = [pm_temper.estimate_logz(model, random_seed=seed, **QUIET)
                for seed in range(1, n_seeds + 1)]  # fmt: skip
        errors = np.array([run.log_z - reference.log_z for run in runs])
        spent = [sum(run.gradients.values()) / 1e3 for run in runs]
        innovations = found and found.density.inner.points.innovations
        rows.append([
            label, "-" if found is None else f"{found.variance:.1f}",
            "no" if innovations is None else "yes", f"{reference.log_z:.3f} ± {reference.se:.3f}",
            ", ".join(f"{error:+.3f}" for error in errors),
            ", ".join(f"{run.se:.3f}" for run in runs), f"{np.median(spent):.0f}",
            sum(bool(run.warnings) for run in runs),
        ])  # fmt: skip
    table(
        f"Slopes of few items, and log Z ({n_seeds} seeds)",
        ["answers", "V", "non-centred", "log Z", "errors", "stated", "10^3 gradients", "warned"],
        rows,
    )


def study(n_seeds):
    """Print the table."""
    rows = []
    for label, case in CASES.items():
        model, y, exact = groups(*case)
        density = compile_density(model)
        found, _ = Hierarchy.of(density)
        tail, means, scales = in_the_neck(density, found.map, y)
        runs = [pm_temper.estimate_logz(model, random_seed=seed, **QUIET)
                for seed in range(1, n_seeds + 1)]  # fmt: skip
        errors = np.array([run.log_z - exact for run in runs])
        in_se = errors / [run.se for run in runs]
        spent = [sum(run.gradients.values()) / 1e3 for run in runs]
        rows.append([
            label, f"{tail:.1f}", f"{means:.2f}", f"{scales:.3f}",
            f"{np.sqrt((in_se**2).mean()):.2f}", f"{in_se.mean():+.2f}", f"{errors.mean():+.4f}",
            f"{np.mean([run.se for run in runs]):.4f}", f"{np.median(spent):.0f}",
            f"{max(spent):.0f}",
        ])  # fmt: skip
    table(
        f"Maps in the neck of a funnel, and log Z ({n_seeds} seeds)",
        ["groups", "tail", "means off, sd", "log scales off", "RMS, se", "mean, se", "mean error",
         "se", "10^3 gradients", "most"],
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--slopes", action="store_true", help="lognormal, of few items")
    args = parser.parse_args()
    (study_of_slopes if args.slopes else study)(args.seeds)
