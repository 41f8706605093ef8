r"""Table 1 of Sohl-Dickstein & Culpepper (2012), with other photographs and with errors.

How probable are patches of photographs under six models? The report has 16 x 16 patches of the
van Hateren images, which are not free to ship; here they are of the two photographs that come with
scikit-learn. Numbers therefore cannot agree with the table; order and gaps may.

Data: uniform noise of one grey level, since patches of a clear sky would be equal, and their
density unbounded; sRGB undone, the three channels averaged, logarithm; 10,000 patches of the left
two thirds of both photographs to train, 100 of the right quarters to test; the mean of each patch
subtracted; 36 principal components of the training patches, each scaled to unit variance. Log
likelihoods are of these 36 numbers, in nats a patch.

Models are those of the report (equations 30 to 40), trained more simply than there:

- linear generative, Gaussian prior: its maximum likelihood is known; so is the log likelihood.
- POE of 36 experts (Laplace, Student's t): exact maximum likelihood, since log Z is known.
- linear generative, Laplace prior: bases that are the inverse of the filters of that POE, which is
  the maximum likelihood where the noise is small.
- POE of 144 experts: four copies of each of the 36 filters, with a fourth of the energy each, moved
  a little apart; then persistent contrastive divergence.
- mcRBM: random filters, persistent contrastive divergence. Its sigma is at
  least 1: free to shrink, it made islands between which nothing moves.
- bilinear: begins as the linear model, whose Laplace coefficients are multiplied by positive
  factors; Monte Carlo expectation maximisation, with a Hamiltonian chain for each patch.

Contrastive divergence and EM make steps of Adam on gradients that are differences of means over
patches and over Hamiltonian chains of 10 leapfrog steps a step. HAIS evaluates all but the first:
log Z of the POE and the mcRBM from N(0, I); log p(x) of the generative models one patch at a time,
all patches in one program of JAX, from a Gaussian around what a linear encoder says of the patch.
Transitions are those of `anneal`. Log Z is from runs in both directions; those in reverse begin at
exact draws of 36 experts, and else at the chains of the training. An island that neither meet is
missed, and bounds agree all the same.

Each row has two errors: that of Monte Carlo, which the report lacks; and that of a mean over 100
patches, which is what stands behind its plus-minus sign. Gaps between models are over the same
patches, with both errors together.

Needs scikit-learn and JAX: ``pip install scikit-learn 'pymc-tempering[jax]'``.
"""

import argparse
import time
from functools import partial
from typing import NamedTuple

import numpy as np
from figures import console, finding, table
from scipy import special

from pymc_tempering.annealing.jax_particles import annealing_function, jax_particles
from pymc_tempering.engine.ensembles.annealer import Annealer, AnnealingSettings
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.estimators.annealed import annealed_forward
from pymc_tempering.evidence.hais import ensemble_estimate
from pymc_tempering.model.jax_density import JaxDensity
from pymc_tempering.testing import scaled_normal

try:
    import jax
    import jax.numpy as jnp
    from sklearn.datasets import load_sample_images
except ImportError as error:
    raise SystemExit(
        f"This study needs scikit-learn and JAX ({error}): "
        "pip install scikit-learn 'pymc-tempering[jax]'"
    ) from error

SOURCE = "Sohl-Dickstein & Culpepper 2012, table 1"
M, SIDE, NOISE, N_TEST = 36, 16, 0.1, 100
GAUSS, LAPLACE, BILINEAR = "linear, Gaussian", "linear, Laplace", "bilinear"
POE_L, POE_T, MCRBM = "POE, Laplace", "POE, Student's t", "mcRBM"
OF_REPORT = {
    (GAUSS, 36): -49.15, (LAPLACE, 36): -42.85, (POE_L, 144): -41.54, (MCRBM, 432): -36.01,
    (POE_T, 144): -34.01, (BILINEAR, 98): -32.69,
}  # fmt: skip
N_FACTORS = 12  # positive ones of the bilinear model
N_COVARIANCE, N_MEAN, N_FILTERS = 96, 48, 96  # of the mcRBM
SIZES = {
    # steps of Adam for exact likelihoods, contrastive divergence and EM; levels and particles of
    # log Z, and of each patch
    False: {"exact": 1500, "cd": 1000, "em": 600, "z": (2000, 100), "patch": (400, 16)},
    True: {"exact": 4000, "cd": 6000, "em": 4000, "z": (20_000, 200), "patch": (3000, 40)},
}


class Row(NamedTuple):
    """Log likelihoods of the test patches, their Monte Carlo errors, and the error of log Z."""

    values: np.ndarray  # (N_TEST,)
    se: np.ndarray  # (N_TEST,), of each by itself
    se_of_all: float = 0.0  # of log Z, which all share
    gap: float = np.nan  # between its upper and its lower bound

    @property
    def monte_carlo(self):  # noqa: D102
        return np.hypot(np.sqrt((self.se**2).sum()) / self.values.size, self.se_of_all)


def patches(rng):
    """Training and test data, (10,000, 36) and (100, 36)."""
    found = []
    for n, (low, high) in ((10_000, (0.0, 2 / 3)), (N_TEST, (0.75, 1.0))):
        rows = []
        for photo in load_sample_images().images:
            # grey levels are whole numbers: patches without any detail would be equal
            exact = (photo + rng.random(photo.shape)) / 256.0
            shade = np.log((exact**2.2).mean(axis=2) + 1e-3)
            width = shade.shape[1]
            top = rng.integers(0, shade.shape[0] - SIDE, n // 2)
            left = rng.integers(int(low * width), int(high * width) - SIDE, n // 2)
            rows += [
                shade[i : i + SIDE, j : j + SIDE].ravel() for i, j in zip(top, left, strict=True)
            ]
        both = np.array(rows)
        found.append(both - both.mean(axis=1, keepdims=True))
    train, test = found
    centre = train.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((train - centre).T))
    whiten = vectors[:, -M:] / np.sqrt(values[-M:])
    return (train - centre) @ whiten, (test - centre) @ whiten


# --- training ------------------------------------------------------------------------------------


def adam(gradient, theta, state, n_steps, rate):
    """Follow ``gradient(theta, state, key)``, which returns a gradient and the next state."""

    def step(carry, i):
        theta, state, m, v, key = carry
        key, now = jax.random.split(key)
        g, state = gradient(theta, state, now)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b**2, v, g)
        scale = rate * jnp.minimum(1.0, 2.0 * (1.0 - i / n_steps))

        def moved(t, a, b):
            a, b = a / (1 - 0.9 ** (i + 1)), b / (1 - 0.999 ** (i + 1))
            return t - scale * a / (jnp.sqrt(b) + 1e-8)

        return (jax.tree.map(moved, theta, m, v), state, m, v, key), None

    zeros = jax.tree.map(jnp.zeros_like, theta)
    start = (theta, state, zeros, zeros, jax.random.key(1))
    run = jax.jit(lambda start: jax.lax.scan(step, start, jnp.arange(n_steps))[0])
    return run(start)[:2]


def hamiltonian_step(energy, z, x, scale, key, n_leapfrog=10):
    """Move chains (n, D) once, each with its row of `x`; the step size follows their acceptance."""
    at, slope = jax.vmap(energy), jax.vmap(jax.grad(energy))
    for_momentum, for_coin = jax.random.split(key)
    p = jax.random.normal(for_momentum, z.shape)

    def leap(_, state):
        y, q = state
        q = q - 0.5 * scale * slope(y, x)
        y = y + scale * q
        return y, q - 0.5 * scale * slope(y, x)

    y, q = jax.lax.fori_loop(0, n_leapfrog, leap, (z, p))
    gain = at(z, x) - at(y, x) + 0.5 * ((p**2).sum(axis=1) - (q**2).sum(axis=1))
    rate = jnp.nan_to_num(jnp.exp(jnp.minimum(gain, 0.0)))
    taken = jax.random.uniform(for_coin, rate.shape) < rate
    return jnp.where(taken[:, None], y, z), scale * jnp.exp(0.05 * (rate.mean() - 0.8))


def contrastive_divergence(energy, theta, train, n_steps, n=200):
    """Persistent: chains go on from where the last step left them."""

    def gradient(theta, state, key):
        chains, scale = state
        for_rows, for_move = jax.random.split(key)
        rows = train[jax.random.randint(for_rows, (n,), 0, len(train))]
        chains, scale = hamiltonian_step(
            lambda z, _: energy(theta, z), chains, rows, scale, for_move
        )

        def contrast(theta):
            at = jax.vmap(lambda x: energy(theta, x))
            return at(rows).mean() - at(chains).mean()

        return jax.grad(contrast)(theta), (chains, scale)

    theta, state = adam(gradient, theta, (train[:n], jnp.asarray(0.1)), n_steps, 2e-3)
    return theta, stationary(lambda z, _: energy(theta, z), *state)


def stationary(energy, chains, scale, n_steps=500):
    """Let chains go on while nothing changes any more."""

    def step(state, key):
        return hamiltonian_step(energy, state[0], state[0], state[1], key), None

    keys = jax.random.split(jax.random.key(3), n_steps)
    return jax.jit(lambda s: jax.lax.scan(step, s, keys)[0])((chains, scale))[0]


# --- models --------------------------------------------------------------------------------------


def laplace_energy(filters, x):
    return jnp.abs(filters @ x).sum()


def student_energy(theta, x):
    filters, log_shape = theta
    # a shape of more than a half, or log Z is infinite
    return ((0.5 + jnp.exp(log_shape)) * jnp.log1p((filters @ x) ** 2)).sum()


def mcrbm_energy(theta, x):
    pooling, c, b_c, w, b_m, b_v, log_sd = theta
    # as there pooling makes pairs of filters and units less probable
    squared = (c @ x) ** 2 / (x @ x + 0.5)
    covariance = jax.nn.softplus(-0.5 * jnp.exp(pooling).T @ squared + b_c).sum()
    return (
        -covariance
        - jax.nn.softplus(w @ x + b_m).sum()
        + 0.5 * x @ x / jnp.exp(2 * log_sd)
        - x @ b_v
    )


def exact_log_z(filters, log_shape=None):
    log_det = np.linalg.slogdet(np.asarray(filters))[1]
    if log_shape is None:
        return M * np.log(2.0) - log_det
    shape = 0.5 + np.exp(np.asarray(log_shape))
    ones = 0.5 * np.log(np.pi) + special.gammaln(shape - 0.5) - special.gammaln(shape)
    return ones.sum() - log_det


def train_exactly(train, n_steps):
    """Both POE of 36 experts."""

    def laplace(w, rows):
        energy = jax.vmap(lambda x: laplace_energy(w, x))(rows).mean()
        return energy - jnp.linalg.slogdet(w)[1]

    def student(theta, rows):
        shape = 0.5 + jnp.exp(theta[1])
        one = jax.scipy.special.gammaln(shape - 0.5) - jax.scipy.special.gammaln(shape)
        energy = jax.vmap(lambda x: student_energy(theta, x))(rows).mean()
        return energy + one.sum() - jnp.linalg.slogdet(theta[0])[1]

    def by(loss):
        def gradient(theta, state, key):
            rows = train[jax.random.randint(key, (500,), 0, len(train))]
            return jax.grad(loss)(theta, rows), state

        return gradient

    start = jnp.asarray(np.random.default_rng(2).normal(size=(M, M)) / 6 + np.eye(M))
    filters, _ = adam(by(laplace), start, 0, n_steps, 1e-2)
    theta, _ = adam(by(student), (filters, jnp.zeros(M)), 0, n_steps, 1e-2)
    return filters, theta


def student_energy_of_many(theta, x):
    """With as many experts as these, each may be as flat as it likes."""
    filters, log_shape = theta
    return (jnp.exp(log_shape) * jnp.log1p((filters @ x) ** 2)).sum()


def mcrbm_start(rng):
    """Small random filters; each pools a few others."""
    c = rng.standard_normal((N_FILTERS, M)) / 2
    pooling = rng.normal(-3.0, 0.5, (N_FILTERS, N_COVARIANCE)) + 3.0 * np.eye(
        N_FILTERS, N_COVARIANCE
    )
    w = 0.1 * rng.standard_normal((N_MEAN, M))
    parts = (pooling, c, np.ones(N_COVARIANCE), w, np.zeros(N_MEAN), np.zeros(M), -np.ones(()))
    return tuple(map(jnp.asarray, parts))


def gaussian_joint(noise, x):
    """Of the linear model with a Gaussian prior at its maximum likelihood."""
    scale = jnp.sqrt(1.0 - NOISE**2)
    return log_normal(noise) + log_normal((x + NOISE * noise) / scale) - M * jnp.log(scale)


def copies(filters, rng, n=4, spread=0.1):
    """So many copies of each filter, moved apart by a share of their lengths."""
    many = np.tile(np.asarray(filters), (n, 1))
    lengths = np.linalg.norm(many, axis=1, keepdims=True)
    return jnp.asarray(many + spread * lengths * rng.standard_normal(many.shape) / np.sqrt(M))


def log_normal(z):
    return -0.5 * z @ z - 0.5 * z.size * jnp.log(2.0 * jnp.pi)


def laplace_joint(filters, noise, x):
    """Log density of the noise and the patch together: with one filter a basis they are enough.

    In units of its standard deviation, the noise says what the coefficients are.
    """
    a = filters @ (x + NOISE * noise)
    return log_normal(noise) - jnp.abs(a).sum() - exact_log_z_of(filters)


def bilinear_joint(theta, z, x):
    """The same with the logarithms of the positive factors after the noise."""
    filters, mix, log_psi = theta
    noise, log_d = z[:M], z[M:]
    s = jnp.exp(log_psi) @ jnp.exp(log_d)
    c = jnp.linalg.solve(mix, filters @ (x + NOISE * noise) / s)
    log_det = jnp.linalg.slogdet(mix)[1] + jnp.log(s).sum()
    prior = -jnp.abs(c).sum() - exact_log_z_of(filters) - log_det
    return log_normal(noise) + prior + (log_d - jnp.exp(log_d)).sum()


def exact_log_z_of(filters):
    return M * jnp.log(2.0) - jnp.linalg.slogdet(filters)[1]


def train_bilinear(filters, train, n_steps, n=200):
    """Monte Carlo EM on so many patches, each with a chain of its own."""
    rng = np.random.default_rng(4)
    rows = train[jnp.asarray(rng.choice(len(train), n, replace=False))]
    psi = np.log(rng.dirichlet(np.full(N_FACTORS, 3.0), M) + 0.01)
    theta = (filters, jnp.eye(M), jnp.asarray(psi))

    def gradient(theta, state, key):
        z, scale = state
        z, scale = hamiltonian_step(
            lambda z, x: -bilinear_joint(theta, z, x), z, rows, scale, key, 5
        )
        at = jax.vmap(bilinear_joint, in_axes=(None, 0, 0))
        return jax.grad(lambda theta: -at(theta, z, rows).mean())(theta), (z, scale)

    start = (jnp.zeros((n, M + N_FACTORS)), jnp.asarray(0.2))
    return adam(gradient, theta, start, n_steps, 3e-3)[0]


# --- log likelihoods by HAIS ---------------------------------------------------------------------


def annealer_of(dim, n_levels, step=0.2, short_steps=False):
    """As in the report: linear schedule, one leapfrog step of size 0.2."""
    settings = AnnealingSettings(
        kind=0, n_leapfrog=1, short_steps=short_steps, target_accept=0.8, target=Hamiltonian()
    )
    # JAX evaluates another density, which is given beside it
    path = TemperedPath.from_base(scaled_normal(dim), GaussianBase(np.zeros(dim), np.ones(dim)))
    return Annealer(path, np.linspace(0.0, 1.0, n_levels), np.full(n_levels, step), settings)


def by_energy(energy, test, budget, seed, draws):
    """Row of an analysis model, whose log Z all patches share; and the estimate of log Z.

    It is Bennett's ratio of runs in both directions; those in reverse begin at `draws`.
    """
    levels, n = budget
    density = JaxDensity(lambda x: -energy(x), {})
    annealer, found = annealer_of(M, levels, short_steps=True), []
    for rng, starts in zip(
        np.random.default_rng(seed).spawn(2), (None, np.asarray(draws)[:n]), strict=True
    ):
        found.append(jax_particles(annealer, density, n, starts, rng, lambda _: None).log_weights)
    estimate = ensemble_estimate(*found)
    values = -np.asarray(jax.vmap(energy)(test)) - estimate.log_z
    gap = estimate.upper - estimate.lower
    return Row(values, np.zeros(len(test)), estimate.se, gap), estimate


def by_patch(joint, dim, test, budget, seed):
    """Row of a generative model: particles times patches in one program."""
    levels, n = budget
    density = JaxDensity(joint, {"x": np.zeros(M)})
    one = annealing_function(annealer_of(dim, levels), density, reverse=False)
    of_patch = jax.vmap(one, in_axes=(0, None, None))
    keys = jax.random.split(jax.random.key(seed), (len(test), n))
    run = jax.jit(lambda keys, x: jax.lax.map(
        lambda each: of_patch(each[0], jnp.zeros(0), each[1])[0], (keys, x), batch_size=10
    ))  # fmt: skip
    log_weights = np.asarray(run(keys, test))
    ups = [annealed_forward(w) for w in log_weights]
    se = [up.influence.std(ddof=1) / np.sqrt(n) for up in ups]
    return Row(np.array([up.log_z for up in ups]), np.array(se))


def run(full=False, seed=1):
    with jax.enable_x64(True):
        study(SIZES[full], seed)


def study(size, seed):
    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    train, test = map(jnp.asarray, patches(rng))
    rows = {}

    def add(name, n, row):
        rows[name, n] = row
        spent = time.perf_counter() - started
        console.print(f"{name}, {n}: {row.values.mean():.2f} ({spent:.0f} s)", highlight=False)

    # the best covariance is that of the training data, which are white
    x = np.asarray(test)
    white = -0.5 * (x**2).sum(axis=1) - 0.5 * M * np.log(2.0 * np.pi)
    add(GAUSS, M, Row(white, np.zeros(N_TEST)))
    filters, student = train_exactly(train, size["exact"])
    checks = {}
    signs = rng.choice([-1.0, 1.0], (size["z"][1], M))
    draws_l = np.linalg.solve(filters, (signs * rng.exponential(size=signs.shape)).T).T
    degrees = 2.0 * np.exp(np.asarray(student[1]))
    draws_t = rng.standard_t(degrees, signs.shape) / np.sqrt(degrees)
    draws_t = np.linalg.solve(student[0], draws_t.T).T
    for name, energy, log_z, draws in (
        (POE_L, lambda x: laplace_energy(filters, x), exact_log_z(filters), draws_l),
        (POE_T, lambda x: student_energy(student, x), exact_log_z(*student), draws_t),
    ):
        values = -np.asarray(jax.vmap(energy)(test)) - log_z
        add(name, M, Row(values, np.zeros(N_TEST)))
        checks[name] = by_energy(energy, test, size["z"], seed, draws)[1], log_z
    gauss = by_patch(gaussian_joint, M, test, size["patch"], seed)
    add(LAPLACE, M, by_patch(
        lambda z, x: laplace_joint(filters, z, x), M, test, size["patch"], seed
    ))  # fmt: skip
    bilinear = train_bilinear(filters, train, size["em"])
    add(BILINEAR, M + N_FACTORS, by_patch(
        lambda z, x: bilinear_joint(bilinear, z, x), M + N_FACTORS, test, size["patch"], seed
    ))  # fmt: skip
    log_shape = jnp.log((0.5 + jnp.exp(jnp.tile(student[1], 4))) / 4)
    for name, n, energy, start in (
        (POE_L, 4 * M, laplace_energy, copies(filters, rng) / 4),
        (POE_T, 4 * M, student_energy_of_many, (copies(student[0], rng), log_shape)),
        (MCRBM, N_COVARIANCE + N_MEAN, mcrbm_energy, mcrbm_start(rng)),
    ):
        theta, chains = contrastive_divergence(energy, start, train, size["cd"])
        of_theta = partial(energy, theta)
        add(name, n, by_energy(of_theta, test, size["z"], seed, chains)[0])
    show(rows, checks, gauss)


def gap(rows, one, other):
    """Mean difference over the same patches, with both errors, and Monte Carlo's alone."""
    a, b = rows[one], rows[other]
    of_patches = (a.values - b.values).std(ddof=1) / np.sqrt(N_TEST)
    monte_carlo = float(np.hypot(a.monte_carlo, b.monte_carlo))
    return (a.values - b.values).mean(), float(np.hypot(of_patches, monte_carlo)), monte_carlo


def show(rows, checks, gauss):
    base = (GAUSS, M)
    by_name = {name: value for (name, _), value in OF_REPORT.items()}
    largest = {name: max(size for n, size in rows if n == name) for name, _ in rows}
    lines = []
    for key in sorted(rows, key=lambda key: rows[key].values.mean()):
        row = rows[key]
        difference, error, monte_carlo = gap(rows, key, base)
        is_of_paper = largest[key[0]] == key[1]
        there = by_name[key[0]] if is_of_paper else None
        lines.append([
            key[0], key[1], f"{row.values.mean():.2f}", f"{row.monte_carlo:.3f}",
            "" if np.isnan(row.gap) else f"{row.gap:.2f}",
            f"{row.values.std(ddof=1) / np.sqrt(N_TEST):.2f}",
            f"{difference:+.2f} +- {error:.2f} ({monte_carlo:.2f})",
            f"{there:.2f}" if there else "", f"{there + 49.15:+.2f}" if there else "",
        ])  # fmt: skip
    table(
        "average log likelihood of 100 test patches, nats",
        ["model", "size", "log likelihood", "Monte Carlo se", "bounds apart", "se of patches",
         "above Gaussian (Monte Carlo se)", "report", "report: above Gaussian"],
        lines,
    )  # fmt: skip
    for name, (estimate, exact) in checks.items():
        z = (estimate.log_z - exact) / estimate.se
        finding(
            SOURCE, f"{name}, 36 experts: HAIS finds log Z", bool(abs(z) < 4),
            f"{estimate.log_z:.3f} +- {estimate.se:.3f}, exact {exact:.3f}",
        )  # fmt: skip
    exact = rows[base].values.mean()
    off = gauss.values.mean() - exact
    finding(
        SOURCE, "linear generative, Gaussian: HAIS finds the log likelihood",
        bool(abs(off) < 4 * gauss.monte_carlo),
        f"{gauss.values.mean():.3f} +- {gauss.monte_carlo:.3f}, exact {exact:.3f}",
    )  # fmt: skip

    def claim(text, one, other, least=0.0):
        difference, error, monte_carlo = gap(rows, one, other)
        above = difference - least > 2 * error
        below = difference - least < -2 * error
        # what nobody has looked for may be missing from its log Z
        doubtful = MCRBM in (one[0], other[0])
        verdict = None if doubtful else True if above else False if below else None
        doubt = "; log Z of the mcRBM may miss an island" if doubtful else ""
        shown = f"{difference:+.2f} +- {error:.2f} nats, Monte Carlo {monte_carlo:.2f}{doubt}"
        finding(SOURCE, text, verdict, shown)

    claim("a Laplace prior gains more than 6 nats on a Gaussian one", (LAPLACE, M), base, 6.0)
    claim("Laplace experts gain more than 6 nats", (POE_L, 4 * M), base, 6.0)
    claim("Student's t experts gain more than 7 nats on Laplace experts", (POE_T, 4 * M),
          (POE_L, 4 * M), 7.0)  # fmt: skip
    claim("Student's t experts are better than Laplace experts", (POE_T, 4 * M), (POE_L, 4 * M))
    for name in (POE_L, POE_T):
        claim(f"{name}: 144 experts are better than 36", (name, 4 * M), (name, M))
    rbm, bilinear = (MCRBM, N_COVARIANCE + N_MEAN), (BILINEAR, M + N_FACTORS)
    claim("the bilinear model is better than the mcRBM", bilinear, rbm)
    claim("the mcRBM is better than Laplace experts", rbm, (POE_L, 4 * M))
    claim("the bilinear model is better than Student's t experts", bilinear, (POE_T, 4 * M))
    order = [
        k[0] for k in sorted(rows, key=lambda k: rows[k].values.mean()) if k[1] == largest[k[0]]
    ]
    there = sorted(by_name, key=by_name.get)
    finding(SOURCE, "the order of the six models", order == there, " < ".join(order))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(options.full, options.seed)
    console.print()
