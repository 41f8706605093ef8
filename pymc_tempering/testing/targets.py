"""Targets with exact answers, each asymmetric on purpose.

Symmetry hides errors: with equal weights or variances a sampler that confuses modes, coordinates
or signs still gives the right moments. ``TARGETS`` lists all functions by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from pymc_tempering.errors import OptionError
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.testing import compiled
from pymc_tempering.testing.exact import ExactTarget, TargetParts
from pymc_tempering.testing.gaussian_targets import (
    correlated_gaussian,
    flat_model,
    hard_edge_gaussian,
    nested,
    scaled_normal,
)
from pymc_tempering.testing.mixture_targets import asymmetric_bimodal, trimodal_1d
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm

__all__ = [
    "TARGETS",
    "banana",
    "heavy_tail",
    "skewed_gamma",
]


def heavy_tail(
    dof: Sequence[float] = (1.5, 5.0),
    loc: Sequence[float] = (1.0, -0.5),
    scale: Sequence[float] = (0.7, 2.0),
    log_z: float = 0.8,
) -> ExactTarget:
    """Product of Student t densities, by default one without a variance.

    Parameters
    ----------
    dof, loc, scale : (D,) sequences
        Degrees of freedom, above 1 so that there is a mean; defaults (1.5, 5.0), (1.0, -0.5),
        (0.7, 2.0).
    log_z : float
        Log normaliser, nats. Default 0.8.

    Returns
    -------
    ExactTarget
        ``cov`` has ``inf`` where ``dof <= 2``.

    Raises
    ------
    OptionError
        If some ``dof <= 1``.

    Examples
    --------
    >>> heavy_tail().cov[0, 0]
    np.float64(inf)
    """
    nu, mu, sd = (np.asarray(v, dtype=np.float64) for v in (dof, loc, scale))
    if np.any(nu <= 1):
        raise OptionError(f"dof = {nu.tolist()}, expected above 1: below it there is no mean.")
    law = stats.t(nu, mu, sd)
    log_const = log_z + float(stats.t.logpdf(0.0, nu, 0.0, sd).sum())

    def build() -> pm.Model:
        import pytensor.tensor as pt

        return flat_model(
            lambda x: log_const - (0.5 * (nu + 1) * pt.log1p(((x - mu) / sd) ** 2 / nu)).sum(), mu
        )

    variance = np.where(nu > 2, sd**2 * nu / np.where(nu > 2, nu - 2, 1.0), np.inf)
    cov = np.zeros((len(nu), len(nu)))
    np.fill_diagonal(cov, variance)
    return ExactTarget(
        name="heavy_tail",
        dim=len(nu),
        log_z=float(log_z),
        mean=mu,
        cov=cov,
        start=mu.copy(),
        parts=TargetParts(
            log_density=lambda z: law.logpdf(z).sum(-1) + log_z,
            draw=lambda rng, n: mu + sd * rng.standard_t(nu, size=(n, len(nu))),
            survival=lambda i, x: stats.t.sf(x, nu[i], mu[i], sd[i]),
            compile=lambda: compiled.student(nested(nu), nested(mu), nested(sd), log_const),
            build=build,
            recipe=(heavy_tail, (tuple(dof), tuple(loc), tuple(scale), log_z)),
        ),
    )


def skewed_gamma(
    shape: Sequence[float] = (0.8, 3.0), rate: Sequence[float] = (0.5, 2.0), log_z: float = 1.1
) -> ExactTarget:
    """Gamma variables, sampled as their logarithms: the target with a real transform.

    The model has ``pm.Gamma`` with PyMC's log transform, so ``z = log(x)``, the Jacobian is
    PyMC's, and a sampler that forgets it gets the moments of another Gamma law.

    Parameters
    ----------
    shape, rate : (D,) sequences
        Of the Gamma laws. Defaults (0.8, 3.0), the first with its mode at zero, and (0.5, 2.0).
    log_z : float
        Log normaliser, nats: a constant Potential in the model. Default 1.1.

    Returns
    -------
    ExactTarget
        ``mean`` and ``cov`` are those of ``z``: digamma minus log rate, trigamma. ``constrain(z)``
        gives ``x``, whose mean is ``shape / rate``.

    Examples
    --------
    >>> import numpy as np
    >>> z = skewed_gamma().draw(np.random.default_rng(1), 5)
    >>> bool(np.all(skewed_gamma().constrain(z) > 0))
    True
    """
    a, b = np.asarray(shape, dtype=np.float64), np.asarray(rate, dtype=np.float64)
    log_const = float(log_z + (a * np.log(b) - special.gammaln(a)).sum())

    def log_density(z: FloatArray) -> FloatArray:
        return (a * z - b * np.exp(z)).sum(-1) + log_const

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        return np.log(rng.gamma(a, size=(n, len(a)))) - np.log(b)

    def build() -> pm.Model:
        import pymc as pm
        import pytensor.tensor as pt

        with pm.Model() as model:
            pm.Gamma("x", alpha=a, beta=b, shape=len(a))
            pm.Potential("shift", pt.constant(float(log_z)))
        return model

    return ExactTarget(
        name="skewed_gamma",
        dim=len(a),
        log_z=float(log_z),
        mean=special.digamma(a) - np.log(b),
        cov=np.diag(special.polygamma(1, a)),
        start=np.log(a / b),
        parts=TargetParts(
            log_density=log_density,
            draw=draw,
            survival=lambda i, x: special.gammaincc(a[i], b[i] * np.exp(x)),
            compile=lambda: compiled.log_gamma(nested(a), nested(b), log_const),
            build=build,
            recipe=(skewed_gamma, (tuple(shape), tuple(rate), log_z)),
            constrain=np.exp,
        ),
    )


def banana(bend: float = 0.6, slope: float = 0.3, log_z: float = -0.9) -> ExactTarget:
    """Curved ridge: ``z1`` is normal around a parabola in ``z0``.

    Parameters
    ----------
    bend, slope : float
        Of the parabola at ``mean[0]``. Defaults 0.6 and 0.3.
    log_z : float
        Log normaliser, nats. Default -0.9.

    Returns
    -------
    ExactTarget

    Examples
    --------
    >>> banana().cov.round(3)
    array([[1.44 , 0.432],
           [0.432, 1.873]])
    """
    (m0, m1), (s0, s1) = (0.5, -1.0), (1.2, 0.5)
    log_const = log_z - LOG_2PI - float(np.log(s0 * s1))

    def log_density(z: FloatArray) -> FloatArray:
        r = z[..., 0] - m0
        e1 = (z[..., 1] - m1 - slope * r - bend * r**2) / s1
        return log_const - 0.5 * ((r / s0) ** 2 + e1**2)

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        e = rng.standard_normal((n, 2))
        r = s0 * e[:, 0]
        return np.stack([m0 + r, m1 + slope * r + bend * r**2 + s1 * e[:, 1]], axis=1)

    def survival(i: int, x: FloatArray) -> FloatArray:
        if i == 0:
            return stats.norm.sf(x, m0, s0)
        nodes, weights = np.polynomial.hermite_e.hermegauss(150)
        r = s0 * nodes
        ridge = m1 + slope * r + bend * r**2
        return stats.norm.sf(x[..., None], ridge, s1) @ (weights / weights.sum())

    def build() -> pm.Model:
        def graph(x: Any) -> Any:
            r = x[0] - m0
            return log_const - 0.5 * (
                (r / s0) ** 2 + ((x[1] - m1 - slope * r - bend * r**2) / s1) ** 2
            )

        return flat_model(graph, np.array([m0, m1]))

    cross = slope * s0**2
    return ExactTarget(
        name="banana",
        dim=2,
        log_z=float(log_z),
        mean=np.array([m0, m1 + bend * s0**2]),
        cov=np.array([[s0**2, cross], [cross, 2 * bend**2 * s0**4 + slope * cross + s1**2]]),
        start=np.array([m0, m1]),
        parts=TargetParts(
            log_density=log_density,
            draw=draw,
            survival=survival,
            compile=lambda: compiled.banana((m0, m1), (s0, s1), slope, bend, log_const),
            build=build,
            recipe=(banana, (bend, slope, log_z)),
        ),
    )


TARGETS: dict[str, Callable[[], ExactTarget]] = {
    factory.__name__: factory
    for factory in (
        asymmetric_bimodal,
        banana,
        correlated_gaussian,
        hard_edge_gaussian,
        heavy_tail,
        scaled_normal,
        skewed_gamma,
        trimodal_1d,
    )
}
