"""How a model gets into `real_size.py`: written twice, with its locals and without.

Every function is called with ``marginal``: false for the model as people write it; true for the
same one with all locals integrated out by other means, a model of its globals alone, whose log Z is
the same. One without such means takes no argument.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["REAL", "Real", "effects", "groups", "normal_effects", "pairs", "real"]


@dataclass(frozen=True)
class Real:
    """One model: ``write`` writes it into the context."""

    name: str
    kind: str
    write: Callable

    @property
    def has_marginal(self):
        """Whether it can be written without its locals."""
        return "marginal" in inspect.signature(self.write).parameters

    @cache  # noqa: B019  so that nothing is compiled twice in a process
    def build(self, marginal=False):
        """Give the model, the same one each time."""
        with pm.Model() as model:
            self.write(**({"marginal": marginal} if self.has_marginal else {}))
        return model


REAL: dict[str, Real] = {}


def real(kind, name=None):
    """Take a function in by its name."""

    def take(write):
        called = name or write.__name__
        if called in REAL:
            raise ValueError(f"two models are called {called!r}")
        REAL[called] = Real(called, kind, write)
        return write

    return take


def groups(rng, n_groups, n_rows):
    """Group of each row, of unequal sizes and at least one row each."""
    sizes = rng.multinomial(n_rows - n_groups, rng.dirichlet(np.full(n_groups, 0.7))) + 1
    return np.repeat(np.arange(n_groups), sizes)


_NODES = np.arange(-7.5, 7.51, 0.25)
"""Prior standard deviations; the trapezoidal rule is exact for what is wider than a step."""


def effects(marginal, n, mean, sd, observe, centred=False):
    """Normal effects (n, 1), of which each row of the data has one, or the integral over them.

    ``observe`` gives family, parameters and data of shape (n, m) for effects of shape (..., n, 1).
    """
    if marginal:
        family, parameters, y = observe(mean + sd * (_NODES[:, None, None] + np.zeros((n, 1))))
        data = np.broadcast_to(y, (_NODES.size, *y.shape))
        logs = pm.logp(family.dist(**parameters), data).sum(axis=-1)
        logs += np.log(0.25) - 0.5 * _NODES[:, None] ** 2 - 0.5 * np.log(2.0 * np.pi)
        pm.Potential("marginal", pt.logsumexp(logs, axis=0).sum())
        return
    if centred:
        effect = pm.Normal("effect", mean, sd, shape=(n, 1))
    else:
        effect = mean + sd * pm.Normal("effect", shape=(n, 1))
    family, parameters, y = observe(effect)
    family("y", **parameters, observed=y)


_COARSE = np.arange(-6.0, 6.1, 0.4)


def pairs(marginal, n, means, sds, log_likelihood, centred=False):
    """Two normal effects of each of n units, or the integral over both.

    ``log_likelihood`` is of a unit, for effects of shape (..., n).
    """
    if marginal:
        first, second = (at.reshape(-1, 1) for at in np.meshgrid(_COARSE, _COARSE))
        logs = log_likelihood(means[0] + sds[0] * first, means[1] + sds[1] * second)
        logs += 2.0 * np.log(0.4) - 0.5 * (first**2 + second**2) - np.log(2.0 * np.pi)
        pm.Potential("marginal", pt.logsumexp(logs, axis=0).sum())
        return
    if centred:
        both = [pm.Normal(f"effect_{i}", means[i], sds[i], shape=n) for i in range(2)]
    else:
        both = [means[i] + sds[i] * pm.Normal(f"effect_{i}", shape=n) for i in range(2)]
    pm.Potential("y", log_likelihood(*both).sum())


def normal_effects(y, group, fixed, fixed_sd, varying, sds, noise):
    """Log density of normal data, given scales alone, by elimination of the groups' effects.

    Parameters
    ----------
    y, group : ndarray of shape (N,)
    fixed : ndarray of shape (N, p)
        Design of coefficients that are normal around 0 with standard deviations ``fixed_sd``.
    varying : ndarray of shape (N, 2)
        Design of effects of the groups, around 0, with standard deviations ``sds``; a column of
        zeros where there is only one.
    noise : scalar
    """
    n_groups, n = group.max() + 1, y.size
    sums = lambda rows: np.array(  # noqa: E731
        [rows[group == j].sum(axis=0) for j in range(n_groups)]
    )
    precision = noise**-2
    a = precision * sums(varying[:, 0] ** 2) + sds[0] ** -2
    b = precision * sums(varying[:, 0] * varying[:, 1])
    c = precision * sums(varying[:, 1] ** 2) + sds[1] ** -2
    det = a * c - b**2
    with_y = np.column_stack([fixed, y])
    first = precision * sums(varying[:, :1] * with_y)
    second = precision * sums(varying[:, 1:] * with_y)
    inner = (
        pt.dot((first * (c / det)[:, None]).T, first)
        + pt.dot((second * (a / det)[:, None]).T, second)
        - pt.dot((first * (b / det)[:, None]).T, second)
        - pt.dot((second * (b / det)[:, None]).T, first)
    )
    left = precision * (with_y.T @ with_y) - inner
    of_fixed = left[:-1, :-1] + pt.diag(pt.as_tensor(fixed_sd) ** -2.0)
    root = pt.linalg.cholesky(of_fixed)
    h = pt.linalg.solve_triangular(root, left[:-1, -1], lower=True)
    return -0.5 * (
        n * (np.log(2.0 * np.pi) + 2.0 * pt.log(noise))
        + left[-1, -1] - (h**2).sum()
        + pt.log(det).sum() + 2.0 * n_groups * (pt.log(sds[0]) + pt.log(sds[1]))
    ) - pt.log(pt.diag(root)).sum() - pt.log(fixed_sd).sum()  # fmt: skip
