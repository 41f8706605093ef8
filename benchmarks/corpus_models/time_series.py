"""Series: autoregressions, walks, hidden states, differential equations."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from scipy import stats
from scipy.special import logsumexp

from corpus_models.entries import BRIDGE, QUADRATURE, entry

KIND = "series"
RETURNS = 0.3 * np.random.default_rng(40).standard_t(5.0, 40)
DECAY = np.array([7.8, 5.9, 4.9, 3.6, 2.7, 2.3])


def last_of(step, sequences, outputs, given=()):
    """Sums over time by ``pytensor.scan``: the outputs after the last step."""
    found = pytensor.scan(
        step, sequences=sequences, outputs_info=outputs, non_sequences=list(given),
        return_updates=False,
    )  # fmt: skip
    return [each[-1] for each in found] if isinstance(found, list) else found[-1]


@entry(KIND)
def autoregression():
    rng, y = np.random.default_rng(41), [0.0, 0.0]
    for _ in range(48):
        y.append(0.6 * y[-1] - 0.3 * y[-2] + 0.5 * rng.normal())
    rho, noise = pm.Normal("rho", 0.0, 0.5, shape=2), pm.HalfNormal("noise", 1.0)
    pm.AR("y", rho, sigma=noise, init_dist=pm.Normal.dist(0.0, 1.0), observed=y)
    return QUADRATURE


@entry(KIND)
def local_level():
    """A random walk of known steps, seen with known noise: all is normal."""
    y = 0.3 * np.random.default_rng(42).normal(size=30).cumsum()
    level = pm.GaussianRandomWalk("level", 0.0, 0.3, init_dist=pm.Normal.dist(0.0, 1.0), shape=30)
    pm.Normal("y", level, 0.5, observed=y)
    t = np.arange(30)
    cov = 1.0 + 0.09 * np.minimum(t[:, None], t) + 0.25 * np.eye(30)
    return stats.multivariate_normal(np.zeros(30), cov).logpdf(y)


@entry(KIND)
def stochastic_volatility():
    step, dof = pm.Exponential("step", 10.0), pm.Exponential("dof", 0.1)
    walk = pm.GaussianRandomWalk(
        "walk", 0.0, step, init_dist=pm.Normal.dist(-1.0, 1.0), shape=RETURNS.size
    )
    pm.StudentT("y", nu=dof + 1.0, sigma=pt.exp(walk), observed=RETURNS)
    return BRIDGE


@entry(KIND)
def garch():
    omega, alpha = pm.HalfNormal("omega", 0.1), pm.Beta("alpha", 1.0, 2.0)
    beta = pm.Beta("beta", 2.0, 1.0)
    pm.GARCH11("y", omega=omega, alpha_1=alpha, beta_1=(1 - alpha) * beta, initial_vol=0.3,
               observed=RETURNS)  # fmt: skip
    return QUADRATURE


@entry(KIND)
def seasonal():
    t = np.arange(36)
    y = 0.05 * t + np.sin(2 * np.pi * t / 12) + 0.4 * np.random.default_rng(43).normal(size=36)
    waves = np.column_stack([f(2 * np.pi * k * t / 12) for k in (1, 2) for f in (np.sin, np.cos)])
    b, trend = pm.Normal("b", 0.0, 1.0, shape=4), pm.Normal("trend", 0.0, 0.2)
    noise = pm.HalfNormal("noise", 1.0)
    pm.Normal("y", trend * t + waves @ b, noise, observed=y)
    return BRIDGE


@entry(KIND)
def kalman_scan():
    """Level and noise of a random walk, the states summed out by a Kalman filter in a scan."""
    y = 0.5 * np.random.default_rng(44).normal(size=(2, 25)).cumsum(axis=1)[0]
    q, r = pm.HalfNormal("q", 1.0), pm.HalfNormal("r", 1.0)

    def step(seen, mean, variance, total, q, r):
        ahead = variance + q**2
        spread = ahead + r**2
        gap = seen - mean
        gain = ahead / spread
        term = -0.5 * (pt.log(2 * np.pi * spread) + gap**2 / spread)
        return mean + gain * gap, (1 - gain) * ahead, total + term

    outputs = [pt.constant(np.float64(start)) for start in (0.0, 1.0, 0.0)]
    pm.Potential("y", last_of(step, [pt.constant(y)], outputs, (q, r))[2])
    return QUADRATURE


@entry(KIND)
def hidden_markov():
    """Two states with known emissions, summed out by the forward recursion in a scan."""
    y = np.array([-1.2, -0.7, -0.9, 1.4, 0.8, 1.1, 1.3, -0.6, -1.5, -0.8, 0.9, 1.6])
    stay = pm.Beta("stay", 3.0, 1.5, shape=2)
    centre = pm.Normal("centre", 1.0, 0.5)
    emit = pt.stack([-0.5 * (y + centre) ** 2, -0.5 * (y - centre) ** 2], axis=1)
    emit = emit - 0.5 * np.log(2 * np.pi)
    moves = pt.log(pt.stack([stay[0], 1 - stay[0], 1 - stay[1], stay[1]]).reshape((2, 2)))

    def step(row, before, moves):
        return row + pt.logsumexp(before[:, None] + moves, axis=0)

    first = emit[0] - np.log(2.0)
    pm.Potential("y", pt.logsumexp(last_of(step, [emit[1:]], [first], [moves])))
    return QUADRATURE


@entry(KIND)
def stochastic_equation():
    """An Ornstein-Uhlenbeck process by Euler and Maruyama, all of its path seen."""
    y = np.array([1.0, 0.7, 0.9, 0.4, 0.3, 0.5, 0.1, -0.2, 0.0, 0.2, -0.1, 0.3])
    pull, spread = pm.HalfNormal("pull", 2.0), pm.HalfNormal("spread", 1.0)
    pm.EulerMaruyama(
        "y", dt=0.2, sde_fn=lambda x, pull, spread: (-pull * x, spread), sde_pars=(pull, spread),
        init_dist=pm.Normal.dist(0.0, 1.0), observed=y,
    )  # fmt: skip
    return QUADRATURE


@entry(KIND)
def vector_walk():
    """A walk in two dimensions with correlated steps, seen with noise."""
    cov = np.array([[0.2, 0.12], [0.12, 0.3]])
    y = np.random.default_rng(45).multivariate_normal(np.zeros(2), cov, size=10).cumsum(axis=0)
    start = pm.MvNormal.dist(np.zeros(2), np.eye(2))
    walk = pm.MvGaussianRandomWalk("walk", np.zeros(2), cov=cov, init_dist=start, shape=(10, 2))
    pm.Normal("y", walk, 0.4, observed=y)
    t = np.arange(10)
    full = np.kron(np.ones((10, 10)), np.eye(2)) + np.kron(np.minimum(t[:, None], t), cov)
    return stats.multivariate_normal(np.zeros(20), full + 0.16 * np.eye(20)).logpdf(y.ravel())


@entry("equation")
def logistic_growth():
    """Euler steps in a scan."""
    y = np.array([1.1, 1.9, 2.6, 4.2, 5.5, 6.9, 7.6, 8.3])
    rate, limit = pm.LogNormal("rate", -0.5, 0.5), pm.LogNormal("limit", 2.2, 0.5)
    noise = pm.HalfNormal("noise", 0.5)
    path = pytensor.scan(
        lambda x, rate, limit: x + 0.25 * rate * x * (1.0 - x / limit),
        outputs_info=[pt.constant(np.float64(1.0))], non_sequences=[rate, limit], n_steps=32,
        return_updates=False,
    )  # fmt: skip
    pm.Normal("y", path[3::4], noise, observed=y)
    return QUADRATURE


@entry("equation")
def predator_and_prey():
    """Runge-Kutta steps in a scan, four rates and two starts."""
    true, h = np.array([0.8, 0.4, 0.9, 0.3]), 0.25

    def slope(x, k):
        return k[0] * x[0] - k[1] * x[0] * x[1], -k[2] * x[1] + k[3] * x[0] * x[1]

    def step(u, v, k0, k1, k2, k3):
        k, x = (k0, k1, k2, k3), (u, v)
        a = slope(x, k)
        b = slope([x[i] + 0.5 * h * a[i] for i in (0, 1)], k)
        return [x[i] + h * b[i] for i in (0, 1)]

    x, path = (2.0, 1.0), []
    for _ in range(48):
        x = step(*x, *true)
        path.append(x)
    y = np.exp(np.log(path)[3::4] + 0.15 * np.random.default_rng(46).normal(size=(12, 2)))
    rate = pm.LogNormal("rate", np.log([0.7, 0.4, 0.7, 0.4]), 0.5, shape=4)
    start = pm.LogNormal("start", [0.5, 0.0], 0.5, shape=2)
    u, v = pytensor.scan(
        step, outputs_info=[start[0], start[1]], non_sequences=list(rate), n_steps=48,
        return_updates=False,
    )  # fmt: skip
    pm.LogNormal("y", pt.log(pt.stack([u[3::4], v[3::4]], axis=1)), 0.15, observed=y)
    return BRIDGE


@entry("equation")
def decay_equation():
    """`pm.ode.DifferentialEquation`, whose solver is Python."""
    solve = pm.ode.DifferentialEquation(
        lambda y, t, p: [-p[0] * y[0]], times=np.arange(1.0, 7.0), n_states=1, n_theta=1, t0=0.0
    )
    rate, start = pm.LogNormal("rate", -1.0, 0.7), pm.Normal("start", 10.0, 2.0)
    path = solve(y0=pt.stack([start]), theta=pt.stack([rate]))
    pm.Normal("y", path[:, 0], 0.3, observed=DECAY)

    # given the rate the start is normal
    t, rates = np.arange(1.0, 7.0), np.exp(np.linspace(-5.0, 2.0, 4001))
    shapes = np.exp(-rates[:, None] * t)
    precision = 0.25 + (shapes**2).sum(axis=1) / 0.09
    centre = (2.5 + shapes @ DECAY / 0.09) / precision
    square = 25.0 + (DECAY**2).sum() / 0.09 - precision * centre**2
    logs = -0.5 * (square + np.log(precision)) - np.log(2.0) - 6 * np.log(0.3)
    logs = logs - 3.0 * np.log(2 * np.pi) + stats.norm(-1.0, 0.7).logpdf(np.log(rates))
    return float(logsumexp(logs) + np.log(7.0 / 4000))
