"""Planets from radial velocities: the models of the EPRV3 evidence challenge, and its data.

Nelson et al. 2018, "Quantifying the Bayesian evidence for a planet in radial velocity data",
arXiv 1806.04683. Velocities of a star with 0 to 3 planets, correlated noise of known shape and a
jitter; log Z is that of all velocities.

The phase of a planet is its mean longitude at the middle of the data, which these determine by
themselves. ``phase="anomaly"`` takes the mean anomaly at the time 0 in its place, as most would
write: the same evidence, since the priors of both are uniform on the circle whatever the period and
the direction of the orbit.
"""

from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from scipy.special import logsumexp

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "eprv3"
ABSENT = "the data of the challenge are absent: no ../shared/eprv3 beside the checkout"

ALPHA, TAU, LENGTH_PERIODIC, LENGTH = np.sqrt(3.0), 20.0, 0.5, 50.0
SHORTEST, LONGEST = 1.25, 1e4
SPREAD = 0.2
"""Scale of the Rayleigh law of eccentricities."""


class Data:
    """One data set: times (days), velocities (m/s) in coordinates without correlation.

    ``rotate`` (n, n) has the eigenvectors of the covariance without jitter as rows, which jitter
    leaves alone, and ``variances`` (n,) are the eigenvalues.
    """

    def __init__(self, number):
        self.number = number
        self.times, velocity, error = np.loadtxt(FOLDER / f"rvs_{number:04d}.txt").T
        apart = self.times[:, None] - self.times
        covariance = ALPHA**2 * np.exp(
            -0.5 * (np.sin(np.pi * apart / TAU) / LENGTH_PERIODIC) ** 2
            - 0.5 * (apart / LENGTH) ** 2
        )
        self.variances, vectors = np.linalg.eigh(covariance + np.diag(error**2))
        self.rotate = np.ascontiguousarray(vectors.T)
        self.velocity = self.rotate @ velocity
        self.ones = self.rotate.sum(axis=1)

    def log_periods(self, prior, n):
        """Limits of the logarithms of periods, each of shape (n,)."""
        if prior == "a":
            return np.full(n, np.log(SHORTEST)), np.full(n, np.log(LONGEST))
        path = FOLDER / f"prior_bounds_{self.number:04d}.txt"
        rows = [line.split(",") for line in path.read_text().split("\n") if line.startswith("P")]
        bounds = {int(row[1]): [float(x) for x in row[2:]] for row in rows}
        return tuple(np.log([bounds[k + 1][side] for k in range(n)]) for side in (0, 1))

    def exact(self):
        """Log Z without planets: quadrature over the jitter, the offset in closed form."""
        logs = np.linspace(0.0, np.log(100.0), 20_001)
        variance = self.variances[:, None] + np.expm1(logs) ** 2
        aa, ab, bb = (
            (part[:, None] / variance).sum(axis=0)
            for part in (self.ones**2, self.ones * self.velocity, self.velocity**2)
        )
        # the offset's prior is flat far beyond where the likelihood is
        logp = -0.5 * (np.log(2 * np.pi * variance).sum(axis=0) + bb - ab**2 / aa)
        logp += 0.5 * np.log(2 * np.pi / aa) - np.log(2000.0)
        weights = np.full(logs.size, 1.0)
        weights[[0, -1]] = 0.5
        return float(logsumexp(logp, b=weights / weights.sum()))


def eccentric_anomaly(mean, e):
    """Solve ``E - e sin E = M`` within rounding for every e < 1, with no loop.

    A root of a cubic and one step of fifth order (Markley 1995, "Kepler equation solver", Celestial
    Mechanics 63). The gradient is that of the equation, not of the steps: by a last step of
    Newton's from what counts as given.
    """
    turns = 2 * np.pi * pt.round(mean / (2 * np.pi))
    signed = mean - turns
    m = pt.abs(signed)
    alpha = (3 * np.pi**2 + 1.6 * np.pi * (np.pi - m) / (1 + e)) / (np.pi**2 - 6)
    d = 3 * (1 - e) + alpha * e
    r = 3 * alpha * d * (d - 1 + e) * m + m**3
    q = 2 * alpha * d * (1 - e) - m**2
    w = (r + pt.sqrt(q**3 + r**2)) ** (2 / 3)
    start = (2 * r * w / (w**2 + w * q + q**2) + m) / d
    sine, f1 = e * pt.sin(start), 1 - e * pt.cos(start)
    f0, f3 = start - sine - m, 1 - f1
    step = -f0 / (f1 - 0.5 * f0 * sine / f1)
    step = -f0 / (f1 + step * (sine / 2 + step * f3 / 6))
    step = -f0 / (f1 + step * (sine / 2 + step * (f3 / 6 - step * sine / 24)))
    given = disconnected_grad(pt.sign(signed) * (start + step))
    last = (given - e * pt.sin(given) - signed) / (1 - e * disconnected_grad(pt.cos(given)))
    return given - last + turns


def keplerian(times, log_period, k, x, y, anomaly):
    """Velocity (m/s) at some times of a planet with ``x = e cos w`` and ``y = e sin w``.

    ``anomaly`` is the mean anomaly at time 0.
    """
    e = pt.sqrt(x**2 + y**2)
    eccentric = eccentric_anomaly(anomaly + 2 * np.pi * times * pt.exp(-log_period), e)
    sine, cosine = pt.sin(eccentric), pt.cos(eccentric)
    # K (cos(f + w) + e cos w) with cosine and sine of the true anomaly f
    across = pt.sqrt(1 - e**2) * sine
    return k * ((x * (cosine - e) - y * across) / (e * (1 - e * cosine)) + x)


def planets(data, n, prior="b", phase="longitude"):
    """Model of ``n`` planets with the prior "a" or "b"; ``phase`` "longitude" or "anomaly"."""
    with pm.Model() as model:
        jitter = pm.Deterministic("jitter", pt.expm1(pm.Uniform("log_jitter", 0.0, np.log(100.0))))
        offset = pm.Uniform("offset", -1000.0, 1000.0)
        velocity = offset * data.ones
        if n:
            low, high = data.log_periods(prior, n)
            log_period = pm.Uniform("log_period", low, high, shape=n)
            k = pm.Deterministic("k", pt.expm1(pm.Uniform("log_k", 0.0, np.log(1000.0), shape=n)))
            # at 0 itself the direction of an orbit has no gradient
            x, y = (
                pm.Normal(name, 0.0, SPREAD, shape=n, initval=np.full(n, 0.05))
                for name in ("e_cos_w", "e_sin_w")
            )
            inside = x**2 + y**2 < 1.0
            all_inside = -np.log1p(-np.exp(-0.5 / SPREAD**2))
            pm.Potential("within_circle", pt.switch(inside, all_inside, -np.inf).sum())
            # what is outside has no density, and needs a velocity all the same
            shrink = pt.switch(inside, 1.0, 0.5 / pt.sqrt(x**2 + y**2))
            x, y = shrink * x, shrink * y
            angle, times = pm.VonMises(phase, 0.0, 1e-9, shape=n), data.times
            if phase == "longitude":
                angle, times = angle - pt.arctan2(y, x), times - times.mean()
            each = keplerian(times[:, None], log_period, k, x, y, angle)
            velocity += pt.dot(data.rotate, each.sum(axis=1))
        spread = pt.sqrt(data.variances + jitter**2)
        pm.Normal("velocity", velocity, spread, observed=data.velocity)
    return model
