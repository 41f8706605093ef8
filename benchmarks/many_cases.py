"""Models of which there are many data sets: how data are drawn, and long runs of other code."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit, gammaln, logsumexp

N_ROWS, N_COEFFICIENTS = 200, 8
N_PIXELS, N_HIDDEN, N_LATENT = 64, 32, 50


@dataclass(frozen=True)
class Case:
    """A model with prior N(0, I) on one vector, and how it is fitted and checked.

    ``arrays`` are of the likelihood, ``reference`` an encoder, or None.
    """

    name: str
    title: str
    arrays: tuple[np.ndarray, ...]
    dim: int
    build: Any
    logits: Any
    reference: Any = None

    def simulate(self, n, rng):
        """Data sets from the model, shape (n, n_obs)."""
        logits = self.logits(np, rng.normal(size=(n, self.dim)), *self.arrays)
        return (rng.random(logits.shape) < expit(logits)).astype(np.int64)

    def log_density(self, y, z):
        """Of z (n, D), with the prior, in nats."""
        logits = self.logits(np, z, *self.arrays)
        signs = 2.0 * y - 1.0
        prior = -0.5 * (z * z).sum(axis=1) - 0.5 * self.dim * np.log(2.0 * np.pi)
        return prior - np.logaddexp(0.0, -signs * logits).sum(axis=1)


def logistic(rng, rows=N_ROWS, dim=N_COEFFICIENTS, sd=1.0):
    """Logistic regression with normal coefficients, as standard normal ones."""
    covariates = sd * rng.normal(size=(rows, dim))

    def build(observed):
        with pm.Model() as model:
            coefficients = pm.Normal("coefficients", 0.0, 1.0, shape=dim)
            pm.Bernoulli("y", logit_p=covariates @ coefficients, observed=observed)
        return model

    title = f"logistic regression, {rows} rows, {dim} coefficients"
    return Case("logistic", title, (covariates,), dim, build, lambda _, z, x: z @ x.T)


def decoder(rng, n_latent=N_LATENT, gain=2.0):
    """Bernoulli pixels from a network with random weights, one hidden layer."""
    first = rng.normal(size=(N_HIDDEN, n_latent)) / np.sqrt(n_latent)
    second = rng.normal(size=(N_PIXELS, N_HIDDEN)) * gain / np.sqrt(N_HIDDEN)
    bias = rng.normal(size=N_PIXELS)

    def build(observed):
        with pm.Model() as model:
            latent = pm.Normal("latent", 0.0, 1.0, shape=n_latent)
            logits = second @ pm.math.tanh(first @ latent) + bias
            pm.Bernoulli("y", logit_p=logits, observed=observed)
        return model

    # a Newton step from zero, where the slope of tanh is one: linear in the data
    jacobian, p = second @ first, expit(bias)
    precision = np.eye(n_latent) + (jacobian.T * (p * (1.0 - p))) @ jacobian
    scale = np.linalg.cholesky(np.linalg.inv(precision))
    gain = np.linalg.solve(precision, jacobian.T)

    def encoder(data):
        return gain @ (data["y"] - p), scale

    title = f"decoder of {N_PIXELS} pixels, {N_HIDDEN} hidden units, {n_latent} latent dimensions"
    return Case(
        "decoder", title, (first, second, bias), n_latent, build,
        lambda xp, z, a, b, c: xp.tanh(z @ a.T) @ b.T + c, encoder,
    )  # fmt: skip


CASES = {"logistic": logistic, "decoder": decoder}


def long_run(case, y, rng, n=20_000, dof=20.0):
    """Log Z and its error from importance sampling with a multivariate t at the mode.

    Newton steps and NumPy: no code of the package. Slopes of the logits are finite differences.
    """
    z, eye, step = np.zeros(case.dim), np.eye(case.dim), 1e-5
    for _ in range(50):
        logits = case.logits(np, np.vstack([z[None], z + step * eye, z - step * eye]), *case.arrays)
        slopes = (logits[1 : case.dim + 1] - logits[case.dim + 1 :]) / (2.0 * step)
        p = expit(logits[0])
        grad = slopes @ (y - p) - z
        precision = eye + (slopes * (p * (1.0 - p))) @ slopes.T
        move = np.linalg.solve(precision, grad)
        here, length = case.log_density(y, z[None])[0], 1.0
        while case.log_density(y, (z + length * move)[None])[0] < here and length > 1e-6:
            length *= 0.5
        z = z + length * move
        if np.abs(move).max() < 1e-8:
            break
    root = np.linalg.cholesky(np.linalg.inv(precision))
    u = rng.normal(size=(n, case.dim)) / np.sqrt(rng.chisquare(dof, size=n) / dof)[:, None]
    half = 0.5 * (dof + case.dim)
    log_q = gammaln(half) - gammaln(0.5 * dof) - 0.5 * case.dim * np.log(dof * np.pi)
    log_q = log_q - half * np.log1p((u * u).sum(axis=1) / dof) - np.log(np.diagonal(root)).sum()
    log_w = np.concatenate([
        case.log_density(y, z + part @ root.T) for part in np.array_split(u, max(1, n // 2000))
    ])  # fmt: skip
    log_w -= log_q
    w = np.exp(log_w - log_w.max())
    return logsumexp(log_w) - np.log(n), w.std() / w.mean() / np.sqrt(n)
