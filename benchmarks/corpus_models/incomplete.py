"""Data that are not all there: censored, truncated, rounded, missing; survival times."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

from corpus_models.entries import BRIDGE, QUADRATURE, entry

KIND = "incomplete"
TIMES = np.array([2.1, 5.0, 0.8, 8.0, 3.3, 8.0, 1.2, 6.4, 8.0, 4.7, 2.9, 8.0])
DIED = TIMES < 8.0
TREATED = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1])


@entry(KIND)
def censored_readings():
    y = np.array([1.0, 2.3, 4.0, 1.7, 4.0, 1.0, 3.1, 2.2, 4.0])
    mu, sigma = pm.Normal("mu", 2.0, 3.0), pm.HalfNormal("sigma", 3.0)
    pm.Censored("y", pm.Normal.dist(mu, sigma), lower=1.0, upper=4.0, observed=y)
    return QUADRATURE


@entry(KIND)
def truncated_readings():
    y = np.array([1.4, 2.3, 3.9, 1.7, 1.1, 3.1, 2.2, 1.2])
    mu, sigma = pm.Normal("mu", 2.0, 1.0), pm.HalfNormal("sigma", 1.0)
    pm.Truncated("y", pm.Normal.dist(mu, sigma), lower=1.0, observed=y)
    return QUADRATURE


@entry(KIND)
def rounded_readings():
    y = np.array([1.0, 2.0, 2.0, 3.0, 2.0, 4.0, 1.0])
    mu, sigma = pm.Normal("mu", 2.0, 2.0), pm.HalfNormal("sigma", 2.0)
    noise = pm.Normal.dist(mu, sigma)
    cdf = [pt.exp(pm.logcdf(noise, y + side)) for side in (0.5, -0.5)]
    pm.Potential("y", pt.log(cdf[0] - cdf[1]).sum())
    return QUADRATURE


@entry(KIND)
def weibull_survival():
    shape, b = pm.Gamma("shape", 2.0, 1.0), pm.Normal("b", 0.0, 1.0)
    scale = pt.exp(pm.Normal("a", 1.5, 1.0) + b * TREATED)
    upper = np.where(DIED, np.inf, TIMES)
    pm.Censored("y", pm.Weibull.dist(shape, scale), lower=None, upper=upper, observed=TIMES)
    return QUADRATURE


@entry(KIND)
def piecewise_hazard():
    """Exposure and deaths by interval of time: Poisson with a walk of log hazards."""
    edges = np.linspace(0.0, 8.0, 5)
    exposure = np.clip(TIMES[:, None] - edges[:-1], 0.0, 2.0)
    deaths = (DIED[:, None] & (exposure > 0) & (TIMES[:, None] <= edges[1:])).astype(int)
    first = pm.Normal.dist(-2.0, 1.0)
    walk, b = pm.GaussianRandomWalk("walk", 0.0, 0.5, init_dist=first, shape=4), pm.Normal("b")
    hazard = pt.exp(walk + b * TREATED[:, None])
    pm.Poisson("y", hazard * exposure + 1e-12, observed=deaths)
    return BRIDGE


@entry(KIND)
def missing_outcomes():
    """Imputed values integrate to one, so that log Z is that of what was seen."""
    y = np.ma.masked_invalid([1.2, np.nan, 0.4, 2.2, np.nan, 1.9, np.nan])
    mu = pm.Normal("mu", 0.0, 2.0)
    pm.Normal("y", mu, 1.0, observed=y)
    seen = y.compressed()
    return stats.multivariate_normal(np.zeros(4), np.eye(4) + 4.0).logpdf(seen)


@entry(KIND)
def missing_predictors():
    """All is normal, so that the predictors can be integrated out for given slope and mean."""
    x = np.ma.masked_invalid([0.3, -1.1, np.nan, 1.9, 0.8, np.nan, -0.6, 1.0])
    y = np.array([0.9, -1.5, 2.2, 3.1, 1.6, -0.3, -0.4, 1.2])
    mean, slope = pm.Normal("mean"), pm.Normal("slope", 0.0, 2.0)
    filled = pm.Normal("x", mean, 1.0, observed=x)
    pm.Normal("y", slope * filled, 0.5, observed=y)
    return BRIDGE


@entry(KIND)
def detection_limit():
    """Lognormal concentrations, four of them below what the instrument sees."""
    y = np.array([0.5, 0.5, 1.9, 0.5, 3.7, 0.9, 0.5, 1.4])
    mu, sigma = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("sigma", 1.0)
    pm.Censored("y", pm.LogNormal.dist(mu, sigma), lower=0.5, upper=None, observed=y)
    return QUADRATURE


@entry(KIND)
def tobit():
    rng = np.random.default_rng(32)
    x = rng.normal(size=(40, 2))
    y = np.maximum(0.3 + x @ [1.0, -0.8] + rng.normal(size=40), 0.0)
    a, b, noise = pm.Normal("a"), pm.Normal("b", 0.0, 1.0, shape=2), pm.HalfNormal("noise")
    pm.Censored("y", pm.Normal.dist(a + x @ b, noise), lower=0.0, upper=None, observed=y)
    return BRIDGE
