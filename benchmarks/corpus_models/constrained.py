"""Variables elsewhere than on the line: simplices, matrices, orders, angles, intervals."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import gammaln, i0e, multigammaln

from corpus_models.entries import BRIDGE, QUADRATURE, entry, grid

KIND = "constrained"
ANGLES = np.array([0.4, 0.9, -0.2, 0.7, 1.6, 0.1])
VECTORS = np.random.default_rng(30).multivariate_normal(
    np.zeros(3), [[1.0, 0.5, 0.2], [0.5, 2.0, -0.4], [0.2, -0.4, 0.7]], size=12
)


def log_multinomial(counts):
    return gammaln(counts.sum() + 1.0) - gammaln(counts + 1.0).sum()


@entry(KIND)
def dirichlet_multinomial():
    counts, alpha = np.array([7, 0, 12, 3]), np.array([0.5, 1.0, 2.0, 1.0])
    pm.Multinomial("y", n=22, p=pm.Dirichlet("p", alpha), observed=counts)
    total = alpha.sum()
    return (
        log_multinomial(counts) + gammaln(total) - gammaln(total + 22)
        + (gammaln(alpha + counts) - gammaln(alpha)).sum()
    )  # fmt: skip


@entry(KIND)
def sparse_simplex():
    """All mass near the corners; the posterior is the prior."""
    pm.Dirichlet("p", np.full(5, 0.3))
    return 0.0


@entry(KIND)
def compositions():
    shares = np.random.default_rng(31).dirichlet([4.0, 2.0, 1.0], size=10)
    mean, size = pm.Dirichlet("mean", np.ones(3)), pm.Gamma("size", 2.0, 0.1)
    pm.Dirichlet("y", mean * size, observed=shares)
    return QUADRATURE


@entry(KIND)
def lkj_prior():
    """Correlations alone; the posterior is the prior."""
    pm.LKJCholeskyCov("chol", n=4, eta=1.5, sd_dist=pm.HalfNormal.dist(1.0))
    return 0.0


@entry(KIND)
def covariance():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=1.0, sd_dist=pm.HalfNormal.dist(2.0))
    pm.MvNormal("y", np.zeros(3), chol=chol, observed=VECTORS)
    return BRIDGE


@entry(KIND)
def wishart_precision():
    """A matrix that is the precision of vectors; conjugate."""
    scale, dof, n = np.diag([0.5, 0.2, 0.4]), 5, len(VECTORS)
    tau = pm.Wishart("tau", nu=dof, V=scale)
    pm.MvNormal("y", np.zeros(3), tau=tau, observed=VECTORS)
    posterior = np.linalg.inv(np.linalg.inv(scale) + VECTORS.T @ VECTORS)
    return (
        -0.5 * n * 3 * np.log(np.pi)
        + multigammaln((dof + n) / 2, 3) - multigammaln(dof / 2, 3)
        + 0.5 * (dof + n) * np.linalg.slogdet(posterior)[1]
        - 0.5 * dof * np.linalg.slogdet(scale)[1]
    )  # fmt: skip


@entry(KIND)
def ordered_prior():
    """Three draws in order: a sixth of the mass of three draws."""
    pm.Normal("x", 0.0, 2.0, shape=3, transform=pm.distributions.transforms.ordered,
              initval=[-1.0, 0.0, 1.0])  # fmt: skip
    return -np.log(6.0)


@entry(KIND)
def ordered_means():
    mu = pm.Normal("mu", [0.0, 0.0], 3.0, transform=pm.distributions.transforms.ordered,
                   initval=[-1.0, 1.0])  # fmt: skip
    pm.Normal("low", mu[0], 1.0, observed=0.7)
    pm.Normal("high", mu[1], 1.0, observed=-0.4)
    # normals of mean 0.9 (0.7, -0.4) and variance 0.9, cut where the first exceeds the second
    inside = stats.norm.logcdf(0.9 * (-0.4 - 0.7) / np.sqrt(2 * 0.9))
    return stats.norm(0.0, np.sqrt(10.0)).logpdf([0.7, -0.4]).sum() + inside


@entry(KIND)
def interval_edges():
    """The maximum of uniform draws: a density with a jump at the edge of what is possible."""
    y = np.array([3.1, 0.4, 2.2, 4.6, 1.9])
    top = pm.Uniform("top", 0.0, 20.0)
    pm.Uniform("y", 0.0, top, observed=y)
    return np.log((4.6**-4 - 20.0**-4) / 4.0 / 20.0)


@entry(KIND)
def truncated_prior():
    mu = pm.TruncatedNormal("mu", 0.0, 1.0, lower=0.5, upper=2.5)
    pm.Normal("y", mu, 1.0, observed=[2.9, 3.4])
    density = stats.truncnorm(0.5, 2.5)
    return grid(
        lambda m: density.logpdf(m) + stats.norm.logpdf(2.9, m) + stats.norm.logpdf(3.4, m),
        (0.5, 2.5, 20001),
    )


@entry("angles")
def mean_direction():
    direction = pm.VonMises("direction", mu=0.0, kappa=0.5)
    pm.VonMises("y", mu=direction, kappa=3.0, observed=ANGLES)
    return circle(ANGLES, 0.5, 3.0)


def circle(y, prior, kappa):
    """Von Mises prior around 0 and data: products of such densities are one again."""
    towards = prior + kappa * np.exp(1j * y).sum()
    size = abs(towards)

    def log_i0(k):
        return np.log(i0e(k)) + k

    n = y.size
    return (
        log_i0(size) - log_i0(prior) - n * log_i0(kappa) - n * np.log(2.0 * np.pi)
    )  # fmt: skip


@entry("angles")
def opposite_directions():
    """What is seen is twice the angle, so that two opposite directions explain it."""
    direction = pm.VonMises("direction", mu=1.0, kappa=1e-3)
    pm.Normal("cos", pt.cos(2 * direction), 0.3, observed=[0.2, 0.5])
    pm.Normal("sin", pt.sin(2 * direction), 0.3, observed=[0.9, 0.7])
    prior, normal = stats.vonmises(1e-3, loc=1.0), stats.norm

    def log_density(a):
        cosine = sum(normal.logpdf(y, np.cos(2 * a), 0.3) for y in (0.2, 0.5))
        sine = sum(normal.logpdf(y, np.sin(2 * a), 0.3) for y in (0.9, 0.7))
        return prior.logpdf(a) + cosine + sine

    return grid(log_density, (-np.pi, np.pi, 20001))


@entry("angles")
def many_phases():
    """Five phases with two readings each."""
    y = np.array([[0.1, 0.4], [3.0, -3.1], [-1.2, -1.5], [2.0, 1.1], [-2.9, -0.4]])
    phase = pm.VonMises("phase", mu=0.0, kappa=0.1, shape=(5, 1))
    pm.VonMises("y", mu=phase, kappa=2.0, observed=y)
    return sum(circle(row, 0.1, 2.0) for row in y)


@entry(KIND)
def half_open():
    """Positive variables of wildly different scales."""
    tiny, huge = pm.Exponential("tiny", 1e6), pm.Exponential("huge", 1e-6)
    pm.Exponential("a", tiny, observed=2e5)
    pm.Exponential("b", 1.0 / huge, observed=3e6)
    first = np.log(1e6 / (1e6 + 2e5) ** 2)

    def log_density(log_h):
        h = np.exp(log_h)
        return np.log(1e-6) - 1e-6 * h - log_h - 3e6 / h + log_h

    return first + grid(log_density, (5.0, 18.5, 40001))


@entry(KIND)
def stick_breaking():
    """Weights by StickBreakingWeights, with counts."""
    weights = pm.StickBreakingWeights("weights", alpha=1.5, K=5)
    counts = np.array([6, 9, 1, 0, 2, 1])
    pm.Multinomial("y", n=19, p=weights, observed=counts)
    later = counts[::-1].cumsum()[::-1]
    pairs = zip(counts[:-1], later[1:], strict=True)
    sticks = [
        np.log(1.5) + gammaln(1 + k) + gammaln(1.5 + m) - gammaln(2.5 + k + m) for k, m in pairs
    ]
    return log_multinomial(counts) + sum(sticks)
