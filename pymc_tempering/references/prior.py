"""The model's prior as reference: along the path, beta is the power of the likelihood.

The difference of the two log densities is then the log likelihood, whose normalised prior needs no
fit. Potentials count as likelihood, since what they mean is not known; a prior is what the free
variables say.
"""

import numpy as np
from pymc.pytensorf import compile as pymc_compile

from pymc_tempering.errors import BaseError, ModelError
from pymc_tempering.model.compile import CompiledDensity, compile_prior
from pymc_tempering.private import is_improper, reseed
from pymc_tempering.types import FloatArray

__all__ = ["PriorReference"]

_N_CHECKED = 8


class PriorReference:
    """The prior of a compiled model, in its unconstrained values.

    Parameters
    ----------
    density : CompiledDensity
        Of the model.

    Raises
    ------
    BaseError
        If the prior is improper, or cannot be drawn from.
    """

    def __init__(self, density: CompiledDensity) -> None:
        model = density.model
        flat = [rv.name for rv in model.free_RVs if is_improper(rv)]
        if flat:
            raise BaseError(
                f"The prior of this model cannot serve as `base`: {flat} are flat, so that it is "
                "improper and has no draws. Give them proper priors, or leave `base` away for a "
                "Gaussian that is fitted to the posterior."
            )
        self._points = density.points
        self.dim = density.dim
        try:
            self._density = compile_prior(density)
            outputs = []
            for rv in model.free_RVs:
                transform = model.rvs_to_transforms[rv]
                outputs.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
            self._draw = pymc_compile([], outputs, random_seed=0)
            self._names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
            draws = self.draw(_N_CHECKED, np.random.default_rng(0))
            densities = [self._density.value_and_grad(z)[0] for z in draws]
        except (NotImplementedError, ModelError, TypeError, ValueError) as error:
            raise BaseError(
                f"The prior of this model cannot serve as `base`: {str(error).strip()} "
                "Leave `base` away for a Gaussian that is fitted to the posterior."
            ) from error
        if not np.isfinite(densities).all():
            raise BaseError(
                "The prior of this model cannot serve as `base`: its density is not finite at its "
                "own draws. Leave `base` away for a Gaussian that is fitted to the posterior."
            )

    @property
    def address(self) -> int:
        """Address of the log prior density of ``z`` with its gradient."""
        return self._density.address

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws ``z`` from the prior, shape (n, D)."""
        reseed(self._draw, int(rng.integers(2**63)))
        draws = np.empty((n, self.dim))
        for row in range(n):
            draws[row] = self._points.ravel(dict(zip(self._names, self._draw(), strict=True)))
        return draws
