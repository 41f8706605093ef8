"""Multilevel regressions and time series that are normal given their scales."""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from real_models.entries import effects, groups, normal_effects, real

KIND = "linear"


def radon(marginal, n_groups, n_rows, slopes, centred):
    """Houses in counties: a predictor of each house, and one of each county."""
    rng = np.random.default_rng(n_groups + slopes)
    county, uranium = groups(rng, n_groups, n_rows), rng.normal(size=n_groups)
    floor = rng.integers(0, 2, n_rows).astype(float)
    intercept = 1.5 + 0.7 * uranium + 0.3 * rng.normal(size=n_groups)
    slope = -0.6 + 0.2 * rng.normal(size=n_groups)
    y = intercept[county] + slope[county] * floor + 0.75 * rng.normal(size=n_rows)

    tau, noise = pm.HalfNormal("tau", 1.0), pm.HalfNormal("noise", 2.0)
    tau_slope = pm.HalfNormal("tau_slope", 1.0) if slopes else 1.0
    if marginal:
        fixed = np.column_stack([np.ones(n_rows), uranium[county], floor])
        varying = np.column_stack([np.ones(n_rows), slopes * floor])
        sds = (tau, pt.as_tensor(tau_slope))
        pm.Potential("y", normal_effects(y, county, fixed, np.full(3, 5.0), varying, sds, noise))
        return
    mean, by_uranium = pm.Normal("mean", 0.0, 5.0), pm.Normal("by_uranium", 0.0, 5.0)
    mean_slope = pm.Normal("mean_slope", 0.0, 5.0)
    at, b = mean + by_uranium * uranium, mean_slope
    if centred:
        a = pm.Normal("a", at, tau, shape=n_groups)
        if slopes:
            b = pm.Normal("b", mean_slope, tau_slope, shape=n_groups)[county]
    else:
        a = at + tau * pm.Normal("a", shape=n_groups)
        if slopes:
            b = (mean_slope + tau_slope * pm.Normal("b", shape=n_groups))[county]
    pm.Normal("y", a[county] + b * floor, noise, observed=y)


for called, n_groups, n_rows, slopes, centred in (
    ("intercepts_85", 85, 919, False, True),
    ("intercepts_386_non_centred", 386, 5000, False, False),
    ("slopes_85", 85, 919, True, True),
    ("slopes_386_non_centred", 386, 5000, True, False),
    ("slopes_1500", 1500, 12_000, True, True),
):
    size = {"n_groups": n_groups, "n_rows": n_rows, "slopes": slopes, "centred": centred}
    real(KIND, called)(partial(radon, **size))


@real(KIND)
def pupils_in_schools(marginal):
    """Two levels: 150 schools in 20 districts."""
    rng = np.random.default_rng(30)
    school, district = groups(rng, 150, 1500), rng.integers(0, 20, 150)
    x = rng.normal(size=1500)
    of_school = 0.6 * rng.normal(size=20)[district] + 0.4 * rng.normal(size=150)
    y = 0.3 + 0.5 * x + of_school[school] + rng.normal(size=1500)
    tau, noise = pm.HalfNormal("tau", 1.0, shape=2), pm.HalfNormal("noise", 2.0)
    if marginal:
        member = (district[school][:, None] == np.arange(20)).astype(float)
        fixed = np.column_stack([np.ones(1500), x, member])
        sd = pt.concatenate([np.array([5.0, 5.0]), pt.repeat(tau[:1], 20)])
        varying = np.column_stack([np.ones(1500), np.zeros(1500)])
        sds = (tau[1], pt.as_tensor(1.0))
        pm.Potential("y", normal_effects(y, school, fixed, sd, varying, sds, noise))
        return
    mean, slope = pm.Normal("mean", 0.0, 5.0), pm.Normal("slope", 0.0, 5.0)
    of_district = pm.Normal("of_district", mean, tau[0], shape=20)
    effect = pm.Normal("of_school", of_district[district], tau[1], shape=150)
    pm.Normal("y", effect[school] + slope * x, noise, observed=y)


@real(KIND)
def meta_analysis(marginal):
    """120 studies with known errors."""
    rng = np.random.default_rng(31)
    error = rng.uniform(0.1, 0.8, 120)
    y = 0.4 + 0.2 * rng.normal(size=120) + error * rng.normal(size=120)
    mean, tau = pm.Normal("mean", 0.0, 1.0), pm.HalfNormal("tau", 0.5)
    if marginal:
        pm.Normal("y", mean, pt.sqrt(tau**2 + error**2), observed=y)
    else:
        pm.Normal("y", pm.Normal("study", mean, tau, shape=120), error, observed=y)


@real(KIND)
def season(marginal):
    """Twelve years of months: a level that walks, and months that differ."""
    rng = np.random.default_rng(32)
    n, month = 144, np.arange(144) % 12
    level = 2.0 + np.cumsum(0.2 * rng.normal(size=n))
    y = level + np.sin(month / 12 * 2.0 * np.pi) + 0.4 * rng.normal(size=n)
    walks, differs = pm.HalfNormal("walks", 0.5), pm.HalfNormal("differs", 1.0)
    noise = pm.HalfNormal("noise", 1.0)
    if marginal:
        steps = np.arange(n)
        cov = (
            25.0 + walks**2 * np.minimum(steps[:, None], steps)
            + differs**2 * (month[:, None] == month) + noise**2 * np.eye(n)
        )  # fmt: skip
        pm.MvNormal("y", np.zeros(n), cov=cov, observed=y)
        return
    first, step = pm.Normal("first", 0.0, 5.0), pm.Normal("step", shape=n - 1)
    by_month = pm.Normal("by_month", 0.0, differs, shape=12)
    walk = pt.concatenate([pt.zeros(1), pt.cumsum(step)])
    pm.Normal("y", first + walks * walk + by_month[month], noise, observed=y)


def hats(x, knots):
    """Linear splines, shape (n, number of knots)."""
    width = knots[1] - knots[0]
    return np.maximum(0.0, 1.0 - np.abs(x[:, None] - knots) / width)


@real(KIND)
def spline(marginal):
    """Sixty coefficients with a random walk for a prior."""
    rng = np.random.default_rng(33)
    x = np.sort(rng.uniform(0.0, 1.0, 300))
    y = np.sin(8.0 * x**2) + 0.3 * rng.normal(size=300)
    basis = hats(x, np.linspace(0.0, 1.0, 60))
    smooth, noise = pm.HalfNormal("smooth", 0.5), pm.HalfNormal("noise", 1.0)
    if marginal:
        steps = np.arange(60)
        walk = basis @ np.minimum(steps[:, None], steps) @ basis.T
        # the hats sum to one, so that the first coefficient moves all
        cov = 4.0 + smooth**2 * walk + noise**2 * np.eye(300)
        pm.MvNormal("y", np.zeros(300), cov=cov, observed=y)
        return
    walk = pm.GaussianRandomWalk("walk", sigma=smooth, init_dist=pm.Normal.dist(0.0, 2.0), steps=59)
    pm.Normal("y", pt.dot(basis, walk), noise, observed=y)


@real(KIND)
def t_errors(marginal):
    """Groups of six with heavy-tailed errors, their degrees of freedom unknown."""
    rng = np.random.default_rng(34)
    y = 1.0 + 0.8 * rng.normal(size=(80, 1)) + 0.5 * rng.standard_t(3.0, size=(80, 6))
    mean, tau = pm.Normal("mean", 0.0, 3.0), pm.HalfNormal("tau", 2.0)
    noise, nu = pm.HalfNormal("noise", 2.0), pm.Gamma("nu", 2.0, 0.1)
    effects(
        marginal, 80, mean, tau,
        lambda at: (pm.StudentT, {"nu": nu, "mu": at, "sigma": noise}, y), centred=True,
    )  # fmt: skip


@real(KIND)
def few_covarying():
    """Four effects in nine groups, some of which hardly vary, centred.

    Without the groups' effects, too, PyMC's coordinates have no mode with mass for a reference.
    """
    rng = np.random.default_rng(33)
    n_groups, n_each = 9, 12
    x = rng.normal(size=(n_groups, n_each, 4))
    x[:, :, 0] = 1.0
    own = np.array([1.0, 0.5, 0.0, 0.0]) + rng.normal(size=(n_groups, 4)) * [0.5, 0.2, 0.1, 0.05]
    y = np.einsum("ijk,ik->ij", x, own) + 0.8 * rng.normal(size=(n_groups, n_each))
    root, _, _ = pm.LKJCholeskyCov("root", n=4, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
    mean, noise = pm.Normal("mean", 0.0, 2.0, shape=4), pm.HalfNormal("noise", 1.0)
    effect = pm.MvNormal("effect", mean, chol=root, shape=(n_groups, 4))
    pm.Normal("y", (x * effect[:, None]).sum(axis=-1), noise, observed=y)
