"""Figure 4 of Graham & Storkey (arXiv v1, section 7.4), computed again on 8x8 digits.

The joint log marginal likelihood of images that a decoder has made, from the encoder's Gaussians as
bases: annealed importance sampling, simulated tempering, Gibbs and joint continuous tempering, and
parallel tempering. The importance weighted autoencoder (50 latent dimensions, one hidden layer of
64 units, 10 importance samples) is trained here, by JAX and Adam, on the digits of scikit-learn,
one where a pixel is above 7 of 16. Images are its own, so that annealing in both directions bounds
log Z: 16 particles each way, the reverse ones from the latent values that made the image. The paper
has 1000 images of 28x28, 10 runs and a GPU; here are few, one run and one core. Beside it a linear
decoder with normal noise, whose log Z is known. Joint continuous tempering has the base of its own
pilot run here, not the encoder's.
"""

import argparse
import time

import numpy as np
import pymc as pm
from figures import (
    COLOURS,
    MARKERS,
    cases_or_none,
    console,
    finding,
    plain_log,
    pyplot,
    save,
    table,
)
from scipy import stats
from scipy.special import expit

import pymc_tempering as pm_temper
from pymc_tempering.annealing.particles import anneal
from pymc_tempering.engine.path.gaussian import GaussianBase

SOURCE = "Graham & Storkey arXiv v1, figure 4"
N_LATENT, N_HIDDEN, N_IMPORTANCE, N_BATCH = 50, 64, 10, 100
METHODS = {"AIS": "hais", "ST": "st", "Gibbs CT": "gibbs_ct", "joint CT": "joint_ct", "PT": "pt"}


def train(n_steps, seed):
    """Weights of the encoder and of the decoder, and the bound on the last batches, in nats."""
    import jax
    import jax.numpy as jnp
    from sklearn.datasets import load_digits

    images = (load_digits().data > 7).astype(float)
    rng = np.random.default_rng(seed)

    def layer(n_in, n_out):
        return rng.normal(size=(n_out, n_in)) / np.sqrt(n_in), np.zeros(n_out)

    n_pixels = images.shape[1]
    weights = {
        "first": layer(n_pixels, N_HIDDEN), "mean": layer(N_HIDDEN, N_LATENT),
        "log_sd": layer(N_HIDDEN, N_LATENT), "hidden": layer(N_LATENT, N_HIDDEN),
        "pixels": layer(N_HIDDEN, n_pixels),
    }  # fmt: skip

    def loss(weights, key, y):
        (a, b), (m, n), (s, t) = (weights[name] for name in ("first", "mean", "log_sd"))
        (c, d), (e, f) = weights["hidden"], weights["pixels"]
        hidden = jnp.tanh(y @ a.T + b)
        mean, log_sd = hidden @ m.T + n, hidden @ s.T + t
        u = jax.random.normal(key, (N_IMPORTANCE, *mean.shape))
        z = mean + jnp.exp(log_sd) * u
        logits = jnp.tanh(z @ c.T + d) @ e.T + f
        log_w = -jnp.logaddexp(0.0, (1.0 - 2.0 * y) * logits).sum(axis=-1)
        log_w += (0.5 * u * u - 0.5 * z * z + log_sd).sum(axis=-1)
        return -(jax.nn.logsumexp(log_w, axis=0) - jnp.log(N_IMPORTANCE)).mean()

    def adam(carry, now):
        weights, first, second, i = carry
        key, rows = now
        value, grad = jax.value_and_grad(loss)(weights, key, images_on_device[rows])
        i = i + 1.0
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grad)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grad)
        weights = jax.tree.map(
            lambda w, m, v: (
                w - 1e-3 * m / (1.0 - 0.9**i) / (jnp.sqrt(v / (1.0 - 0.999**i)) + 1e-8)
            ),
            weights, first, second,
        )  # fmt: skip
        return (weights, first, second, i), value

    images_on_device = jnp.asarray(images)
    start = jax.tree.map(jnp.asarray, weights)
    zeros = jax.tree.map(jnp.zeros_like, start)
    keys = jax.random.split(jax.random.key(seed), n_steps)
    rows = jnp.asarray(rng.integers(len(images), size=(n_steps, N_BATCH)))
    (end, *_), values = jax.jit(lambda c, x: jax.lax.scan(adam, c, x))(
        (start, zeros, zeros, jnp.asarray(0.0)), (keys, rows)
    )
    return jax.tree.map(lambda w: np.asarray(w, dtype=float), end), -float(values[-100:].mean())


class Trained:
    """The decoder as a model, and its encoder."""

    name = "trained decoder"

    def __init__(self, weights):
        self.weights = weights

    def build(self, y):
        """Model of one image."""
        (c, d), (e, f) = self.weights["hidden"], self.weights["pixels"]
        with pm.Model() as model:
            z = pm.Normal("z", 0.0, 1.0, shape=N_LATENT)
            pm.Bernoulli("y", logit_p=e @ pm.math.tanh(c @ z + d) + f, observed=y)
        return model

    def simulate(self, rng, n):
        """Latent values and images."""
        (c, d), (e, f) = self.weights["hidden"], self.weights["pixels"]
        z = rng.normal(size=(n, N_LATENT))
        p = expit(np.tanh(z @ c.T + d) @ e.T + f)
        return z, (rng.random(p.shape) < p).astype(np.int64)

    def encoder(self, data):
        """Mean and standard deviations of the latent values of an image."""
        (a, b), (m, n), (s, t) = (self.weights[k] for k in ("first", "mean", "log_sd"))
        hidden = np.tanh(a @ data["y"] + b)
        return m @ hidden + n, np.exp(s @ hidden + t)


class Linear:
    """Normal pixels around a linear map: log Z is known, and the encoder is the mean field."""

    name = "linear decoder"

    def __init__(self, rng, sd=0.5, n_pixels=64):
        self.map, self.sd = rng.normal(size=(n_pixels, N_LATENT)) / np.sqrt(N_LATENT), sd
        precision = np.eye(N_LATENT) + self.map.T @ self.map / sd**2
        self.gain = np.linalg.solve(precision, self.map.T) / sd**2
        self.scale = 1.0 / np.sqrt(np.diagonal(precision))

    def build(self, y):
        """Model of one image."""
        with pm.Model() as model:
            z = pm.Normal("z", 0.0, 1.0, shape=N_LATENT)
            pm.Normal("y", self.map @ z, self.sd, observed=y)
        return model

    def simulate(self, rng, n):
        """Latent values and images."""
        z = rng.normal(size=(n, N_LATENT))
        return z, z @ self.map.T + self.sd * rng.normal(size=(n, len(self.map)))

    def encoder(self, data):
        """Mean and standard deviations of the latent values of an image."""
        return self.gain @ data["y"], self.scale

    def exact(self, y):
        """Log Z of each image, in nats."""
        covariance = self.map @ self.map.T + self.sd**2 * np.eye(len(self.map))
        return stats.multivariate_normal(np.zeros(len(self.map)), covariance).logpdf(y)


def bounds(decoder, z, y, n_levels, seed):
    """Lower and upper bound of log Z of each image (n, 2), from 16 particles each way."""
    found = []
    for i in range(len(y)):
        base = GaussianBase(*decoder.encoder({"y": y[i]}))
        result = anneal(
            decoder.build(y[i]), n_particles=16, n_levels=n_levels, direction="both",
            draws=z[i : i + 1], base=base, tune=50, random_seed=seed + i, progressbar=False,
        )  # fmt: skip
        found.append((result.estimate.lower, result.estimate.upper))
    return np.array(found)


def run_method(decoder, y, method, draws, seed):
    """Log Z, se, gradients of each image, and CPU seconds of each."""
    began = time.process_time()
    many = pm_temper.estimate_many(
        decoder.build(y[0]), {"y": y}, method=METHODS[method], quick=False,
        reference=decoder.encoder, draws=draws, chains=2, max_chains=2, random_seed=seed,
        progressbar=False,
    )  # fmt: skip
    seconds = (time.process_time() - began) / len(y)
    found = many.dataset
    names = ("log_marginal_likelihood", "se", "gradients")
    return *(found[name].to_numpy() for name in names), seconds


def compare(decoder, y, truth, settings, seed):
    """Errors of every method with more and more draws; printed, and by method."""
    curves, rows = {}, []
    for method in METHODS:
        n = settings["n_joint"] if method == "joint CT" else len(y)
        for draws in settings["draws"]:
            factor = 8 if method == "joint CT" else 1
            log_z, se, gradients, seconds = run_method(decoder, y[:n], method, factor * draws, seed)
            error = log_z - truth[:n]
            rms = float(np.sqrt(np.nanmean(error**2)))
            console.print(f"{decoder.name}, {method}, {factor * draws} draws: {seconds:.0f} CPU s")
            # NUTS does not count those of joint CT
            each = gradients.mean() or np.nan
            claimed = float(np.sqrt(np.nanmean(se**2)))
            curves.setdefault(method, []).append((each, seconds, rms, claimed))
            rows.append([
                method, factor * draws, n, f"{each:.0f}", f"{seconds:.2f}",
                f"{np.nansum(error):+.2f} ± {np.sqrt(np.nansum(se**2)):.2f}", f"{rms:.3f}",
                f"{np.sqrt(np.nanmean((error / se) ** 2)):.2f}", int(np.isnan(error).sum()),
            ])  # fmt: skip
    table(
        f"{decoder.name}: errors of log Z, nats",
        ["method", "draws", "images", "gradients each", "CPU s each", "joint error ± se",
         "RMS of one", "in its se", "refused"],
        rows,
    )  # fmt: skip
    return curves


def draw(curves, gap, full):
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for method, points in curves.items():
        gradients, seconds, rms, _ = np.array(points).T
        for axis, x in zip(axes, (gradients, seconds), strict=True):
            look = {"color": COLOURS[method], "marker": MARKERS[method], "label": method}
            axis.plot(x, rms, **look)
    for axis, label in zip(axes, ("gradients of an image", "CPU seconds of an image"), strict=True):
        plain_log(axis)
        axis.axhline(gap, color=COLOURS["bound"], ls="--", lw=1.0)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("RMS error of log Z (nats)")
    axes[0].legend(fontsize=8)
    save(figure, "papers_decoder", full)


def show_findings(curves):
    """Costs at equal error: squared reported error times gradients or seconds, of the longest runs.

    Few images have few errors; whether the reported ones are right is in the table.
    """
    merit = {m: np.array(p[-1][:2]) * p[-1][3] ** 2 for m, p in curves.items()}
    for claim, (one, other), test in (
        ("AIS and Gibbs CT are alike", ("AIS", "Gibbs CT"), lambda r: 0.5 < r < 2.0),
        ("joint CT is slower than Gibbs CT", ("joint CT", "Gibbs CT"), lambda r: r > 1.0),
        ("ST is far slower than Gibbs CT", ("ST", "Gibbs CT"), lambda r: r > 2.0),
    ):
        ratios = merit[one] / merit[other]
        both = {test(ratio) for ratio in ratios if np.isfinite(ratio)}
        of_pt = merit["PT"] / merit["Gibbs CT"]
        finding(
            SOURCE, claim, both.pop() if len(both) == 1 else None,
            f"cost of {one} over that of {other} for the same error: {ratios[0]:.2g} in gradients, "
            f"{ratios[1]:.2g} in seconds; PT over Gibbs CT {of_pt[0]:.2g} and {of_pt[1]:.2g}",
        )  # fmt: skip


def run(full=False, seed=1, **sizes):
    cases_or_none()
    settings = {
        "n": 200 if full else 10, "n_joint": 10 if full else 2,
        "draws": (20, 80, 320) if full else (20, 80), "levels": 2000 if full else 500,
        "steps": 20_000 if full else 4000,
    }  # fmt: skip
    settings |= {name: value for name, value in sizes.items() if value is not None}
    console.print(f"sizes: {settings}")
    try:
        weights, bound = train(settings["steps"], seed)
    except ImportError as error:
        console.print(f"Training needs JAX and scikit-learn: {error}")
        return
    console.print(f"bound of the trained autoencoder: {bound:.2f} nats an image of its data")
    rng = np.random.default_rng(seed)
    decoder = Trained(weights)
    z, y = decoder.simulate(rng, settings["n"])
    began = time.process_time()
    pm_temper.estimate_many(
        decoder.build(y[0]), {"y": y[:2]}, reference=decoder.encoder, progressbar=False
    )
    sandwich = bounds(decoder, z, y, settings["levels"], seed)
    lower, upper = sandwich.sum(axis=0)
    console.print(
        f"{len(y)} images: joint log Z between {lower:.2f} and {upper:.2f} nats "
        f"({time.process_time() - began:.0f} CPU s)"
    )
    many = pm_temper.estimate_many(
        decoder.build(y[0]), {"y": y}, reference=decoder.encoder, target_se=0.01, random_seed=seed,
        progressbar=False,
    )  # fmt: skip
    console.print(f"estimate_many: {many}")
    truth = many.dataset["log_marginal_likelihood"].to_numpy()
    inside = (lower - 0.5 < many.total.log_z) and (many.total.log_z < upper + 0.5)
    finding(SOURCE, "BDMC bounds hold log Z", bool(inside), f"gap {upper - lower:.2f} nats")
    curves = compare(decoder, y, truth, settings, seed)
    draw(curves, float((upper - lower) / len(y)), full)
    show_findings(curves)
    linear = Linear(rng)
    _, y = linear.simulate(rng, settings["n"])
    few = settings | {"draws": settings["draws"][-1:]}
    compare(linear, y, linear.exact(y), few, seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, help="images; default 10, with --full 200")
    parser.add_argument("--n-joint", type=int, help="of these, for joint CT; default 2, 10")
    parser.add_argument("--draws", type=int, nargs="+", help="of chains; default 20 80, up to 320")
    parser.add_argument("--levels", type=int, help="of the bounds; default 500, 2000")
    parser.add_argument("--steps", type=int, help="of the training; default 4000, 20000")
    run(**vars(parser.parse_args()))
    console.print()
