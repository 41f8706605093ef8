"""The model's prior as reference: along the path, beta is the power of the likelihood.

The difference of the two log densities is then the log likelihood, whose normalised prior needs no
fit. Potentials count as likelihood: a prior is what the free variables say. With a potential it
would be a density whose integral nobody knows, and log Z is relative to that integral.

A transform may leave out part of what its variable draws, as an order does. Such draws are not a
number in the unconstrained values, and count as draws without density under the model, like those
beside a hard edge: the prior stays normalised, and log Z what the model says.
"""

from typing import Any

import numpy as np
import pymc as pm
from pymc.pytensorf import compile as pymc_compile

from pymc_tempering.errors import BaseError, ModelError
from pymc_tempering.model.compile import CompiledDensity, compile_prior
from pymc_tempering.model.graph import interpreted
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.python_density import watch_for_python
from pymc_tempering.private.of_pymc import is_improper, reseed
from pymc_tempering.types import FloatArray


class PriorDraws:
    """Draws of a model's free variables, as unconstrained values.

    Raises BaseError if the prior is improper, or cannot be drawn from.
    """

    def __init__(self, model: pm.Model, points: PointMap) -> None:
        _refuse_improper(model)
        self._points = points
        self._names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
        try:
            self._draw = _compile_draws(model)
            self.checked = self.draw(256, np.random.default_rng(0))
        except (NotImplementedError, ModelError, TypeError, ValueError) as error:
            raise _refusal(str(error).strip()) from error
        except Exception as error:  # `random=` of a user's own distribution raises what it likes
            raise _refusal(f"drawing from it raised {type(error).__name__}: {error}.") from error
        self._check(self.checked)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws ``z``, shape (n, D); nan where a transform has none."""
        reseed(self._draw, int(rng.integers(2**63)))
        draws = np.empty((n, self._points.dim))
        for row in range(n):
            draws[row] = self._points.ravel(dict(zip(self._names, self._draw(), strict=True)))
        return draws

    def _check(self, draws: FloatArray) -> None:
        on_edge, beside = np.isinf(draws).any(axis=0), np.isnan(draws).any(axis=1)
        if on_edge.any():
            raise _refusal(
                f"draws of {self._names_of(on_edge)} lie so close to the edge of the support that "
                "they are rounded onto it, and their mass would be missing from log Z."
            )
        if beside.all():
            raise _refusal(
                f"none of {len(draws)} draws lies where the transforms have values; look at "
                f"{self._names_of(np.isnan(draws).any(axis=0))}."
            )

    def _names_of(self, entries: np.ndarray) -> list[str]:
        parts = np.split(entries, np.cumsum(self._points.sizes)[:-1])
        return [name for name, part in zip(self._points.names, parts, strict=True) if part.any()]


class PriorReference(PriorDraws):
    """The prior of a compiled model, in its unconstrained values.

    Raises BaseError if it is improper, or cannot be drawn from.
    """

    def __init__(self, density: CompiledDensity) -> None:
        super().__init__(density.model, density.points)
        self.dim = density.dim
        try:
            self._density = compile_prior(density)
        except (NotImplementedError, ModelError, TypeError, ValueError) as error:
            raise _refusal(str(error).strip()) from error
        inside = self.checked[np.isfinite(self.checked).all(axis=1)]
        if not np.isfinite([self._density.value_and_grad(z)[0] for z in inside]).all():
            raise _refusal("its density is not finite at its own draws.")

    @property
    def address(self) -> int:
        """Address of the log prior density of ``z`` with its gradient."""
        return self._density.address


def _refusal(reason: str) -> BaseError:
    return BaseError(
        f"The prior of this model cannot serve as `base`: {reason} Leave `base` away for a "
        "Gaussian that is fitted to the posterior."
    )


def _refuse_improper(model: pm.Model) -> None:
    flat = [rv.name for rv in model.free_RVs if is_improper(rv)]
    if not flat:
        return
    potentials = [potential.name for potential in model.potentials]
    hint = ""
    if potentials:
        hint = (
            f" If one of the potentials {potentials} is meant as their prior, write it as a "
            "distribution, such as a `pm.CustomDist` with `logp=` and `random=`: a potential has "
            "neither draws nor a known integral."
        )
    raise _refusal(
        f"{flat} are flat, so that it is improper and has no draws.{hint} Give them proper priors."
    )


def _compile_draws(model: pm.Model) -> Any:
    """Compile the function that draws all free variables, as unconstrained values."""
    outputs = []
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        outputs.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
    with watch_for_python() as python_ops:
        function = pymc_compile([], outputs, random_seed=0)
    if python_ops:
        # machine code that calls Python is no faster, and says so in a warning
        function = interpreted([], outputs, random_seed=0)
    return function
