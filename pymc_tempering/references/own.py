"""A base that a user gave: a Gaussian, or any normalised density that can be drawn from."""

import ctypes
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
from scipy.special import logsumexp

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import BaseError, OptionError
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.python_density import python_density
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.options import did_you_mean
from pymc_tempering.types import FloatArray

_METHODS = ("draw", "log_density", "gradient")


@runtime_checkable
class GivenReference(Protocol):
    """What ``base=`` takes of your own: a density on the unconstrained values of the model.

    It has to be normalised, since log Z is relative to its integral, and positive wherever the
    posterior is: what it leaves out is missing from log Z. It is called from Python, some
    microseconds an evaluation.
    """

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Independent draws ``z``, shape (n, D), by this generator alone."""

    def log_density(self, z: FloatArray) -> float:
        """Log density in nats at ``z`` of shape (D,); ``-inf`` where there is none."""

    def gradient(self, z: FloatArray) -> FloatArray:
        """Gradient of the log density, shape (D,)."""


def is_reference(base: Any) -> bool:
    """Whether an object was meant as a reference: it has a part of what one needs."""
    return any(callable(getattr(base, name, None)) for name in _METHODS)


class OwnReference:
    """A :class:`GivenReference`, checked, and as compiled code calls it.

    Raises BaseError if a method is missing, or what they return does not go together: shapes,
    finite values at its own draws, slopes of the log density and its gradient, and an integral of
    one where that can be seen.
    """

    def __init__(self, given: Any, density: CompiledDensity) -> None:
        self._given, self._target = given, density
        self.dim = density.dim
        missing = [name for name in _METHODS if not callable(getattr(given, name, None))]
        if missing:
            self._refuse(
                f"has no method {' and no '.join(missing)}; expected `draw(rng, n)`, "
                "`log_density(z)` and `gradient(z)`."
            )
        self._check(self.draw(2000, np.random.default_rng(0)))
        self._function = python_density(self._value_and_grad, density.points)

    def _refuse(self, reason: str) -> NoReturn:
        raise BaseError(
            f"`base` is {self._given!r:.80}, which {reason} See `pymc_tempering.references.own."
            "GivenReference` for what a base of your own has to be; leave `base` away for "
            "Gaussians that are fitted to the posterior."
        )

    # a C function cannot be pickled
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._given, self._target)

    @property
    def address(self) -> int:
        """Address of the log density of ``z`` with its gradient."""
        return int(ctypes.cast(self._function, ctypes.c_void_p).value or 0)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws ``z``, shape (n, D)."""
        draws = np.asarray(self._given.draw(rng, n), dtype=np.float64)
        if draws.shape != (n, self.dim):
            self._refuse(
                f"returned draws of shape {draws.shape} for draw(rng, {n}); expected "
                f"({n}, {self.dim}), one column for each unconstrained value of "
                f"{dict(zip(self._target.points.names, self._target.points.shapes, strict=True))}."
            )
        return draws

    def _value_and_grad(self, z: FloatArray) -> tuple[float, FloatArray]:
        value = float(self._given.log_density(z))
        # compiled code takes nothing else for zero density
        return (value if value < np.inf else -np.inf), self._given.gradient(z)

    def _log_density(self, z: FloatArray) -> float:
        value = np.asarray(self._given.log_density(z.copy()), dtype=np.float64)
        if value.size != 1:
            self._refuse(
                f"returned an array of shape {value.shape} for log_density of one point of shape "
                f"{z.shape}; expected a number."
            )
        return float(value.item())

    def _check(self, draws: FloatArray) -> None:
        if not np.isfinite(draws).all():
            self._refuse("has draws that are not finite.")
        heights = np.array([self._log_density(z) for z in draws])
        if not np.isfinite(heights).all():
            place = draws[~np.isfinite(heights)][0]
            self._refuse(
                f"has log_density {heights[~np.isfinite(heights)][0]} at its own draw "
                f"{place.round(4).tolist()}; expected finite numbers there."
            )
        scale = np.maximum(draws.std(axis=0), 1e-300)
        rng = np.random.default_rng(1)
        for z in draws[:5]:
            gradient = np.asarray(self._given.gradient(z.copy()), dtype=np.float64)
            if gradient.shape != (self.dim,):
                self._refuse(
                    f"returned a gradient of shape {gradient.shape}; expected ({self.dim},)."
                )
            direction = scale * rng.standard_normal(self.dim)
            step = 1e-5 * direction
            slope = (self._log_density(z + step) - self._log_density(z - step)) / 2e-5
            stated = float(gradient @ direction)
            # far above rounding of the differences, far below another density's slope
            if not abs(slope - stated) <= 1e-3 * (1.0 + np.abs(gradient * direction).sum()):
                self._refuse(
                    f"has a gradient that is not that of its log_density: along a direction at "
                    f"{z.round(4).tolist()} the log density rises by {slope:.4g}, and by the "
                    f"gradient by {stated:.4g}."
                )
        log_mass, error = _log_mass(draws, heights)
        # six errors, and what a density may be off by without harm
        if abs(log_mass) > 6.0 * error + 0.1:
            self._refuse(
                f"has a log_density that its draws do not follow, or that is not normalised: by "
                f"these its integral is exp({log_mass:.2f}), and log Z would be wrong by as much. "
                "Subtract the log of the integral, or mend the draws."
            )


def _log_mass(draws: FloatArray, heights: FloatArray) -> tuple[float, float]:
    """Log of the integral of a density, and its error, in nats; zero where draws do not tell.

    The mean of ``f / density`` over draws of the density is 1 for any normalised f, here a Gaussian
    around the highest draw, with the moments of those near it: a gap between modes is not in it.
    """
    scale = np.maximum(draws.std(axis=0), 1e-300)
    top = draws[np.argmax(heights)]
    near = draws[np.argsort((((draws - top) / scale) ** 2).sum(axis=1))[:500]]
    mean, variance = near.mean(axis=0), np.maximum(near.var(axis=0), 1e-300)
    log_f = -0.5 * ((draws - mean) ** 2 / variance + np.log(variance) + LOG_2PI).sum(axis=1)
    log_weights = log_f - heights
    log_mean = float(logsumexp(log_weights)) - np.log(len(draws))
    weights = np.exp(log_weights - log_mean)
    # few effective draws have no error that could be trusted
    if weights.sum() ** 2 / (weights**2).sum() < 100.0:
        return 0.0, np.inf
    return -float(log_mean), float(weights.std() / np.sqrt(len(draws)))


def check_gaussian(
    base: Any, density: CompiledDensity, names: tuple[str, ...] = ()
) -> GaussianBase:
    """Return `base` if it is a Gaussian with the dimension of the model; else an error says why.

    ``names`` are what may be given as well.
    """
    if not isinstance(base, GaussianBase):
        known = "".join(f"{name!r}, " for name in names)
        close = did_you_mean([base], names) if isinstance(base, str) else ""
        own = ", or an object with `draw`, `log_density` and `gradient`" if names else ""
        raise OptionError(
            f"`base` is {base!r:.80}{close}; expected None, {known}a GaussianBase (from "
            f"`pymc_tempering.fit_base`), a DataTree with posterior draws of this model{own}."
        )
    if base.dim != density.dim:
        raise BaseError(
            f"The base has {base.dim} dimensions, but the model has {density.dim} unconstrained "
            f"values {dict(zip(density.points.names, density.points.shapes, strict=True))}. Fit "
            "the base with `pymc_tempering.fit_base(model)`."
        )
    return base


def not_covered(where: str) -> BaseError:
    """Error of a base without density where the posterior has some."""
    return BaseError(
        f"The base has no density {where}, where the posterior has some. No replica comes there "
        "from the base, so its mass would be missing from log Z. Leave `base` away for a Gaussian, "
        "which covers everything, or take a base that has the support of the posterior."
    )


def check_cover(path: TemperedPath, z: FloatArray) -> None:
    """Refuse a reference that leaves out points z (n, D) where the posterior is known to be."""
    uncovered = path.uncovered(z)
    if uncovered.any():
        raise not_covered(
            f"at {uncovered.sum()} of {len(z)} modes and starting points, such as the "
            f"unconstrained values {z[uncovered][0].round(4).tolist()}"
        )
