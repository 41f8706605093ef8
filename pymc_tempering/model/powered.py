"""A model whose likelihood is raised to a power, for samplers that are not compiled here.

The path is the one that starts at the prior, ``log prior + beta * log likelihood``, so that a model
with discrete variables, whose values no Gaussian describes, is tempered as it stands.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.model.transform.optimization import freeze_dims_and_data

from pymc_tempering.errors import ModelError
from pymc_tempering.model.freeze import copies_of_gps, freeze, points_of
from pymc_tempering.model.own_ops import made_elsewhere
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.python_density import made_for_jax
from pymc_tempering.types import FloatArray


def check_likelihood(model: pm.Model) -> None:
    """Refuse a model whose posterior is its prior, so that the path has no length."""
    if not (model.observed_RVs or model.potentials):
        raise ModelError(
            "The model has neither observed variables nor potentials, so that its posterior is "
            "its prior and there is nothing to temper: `pm.sample_prior_predictive` draws it."
        )


@dataclass(frozen=True)
class PoweredModel:
    """Prior and likelihood of a model with discrete or continuous variables.

    `model` is a copy with data and dims fixed. Discrete values are whole numbers in the flat vector
    of `points`.
    """

    n_each = 1  # as of `CompiledDensity`

    model: pm.Model
    points: PointMap

    @classmethod
    def of(cls, model: pm.Model) -> "PoweredModel":
        """Check a model, as `freeze` with discrete variables does, and copy it.

        ModelError also where there is nothing to sample, or no likelihood.
        """
        frozen = freeze(model, discrete=True)
        points = points_of(frozen)
        check_likelihood(frozen)
        return cls(frozen, points)

    # compiled functions are made again where they are needed
    def __reduce__(self) -> tuple[Any, ...]:
        return made_elsewhere(self.model, PoweredModel, (self.model, self.points))

    @property
    def dim(self) -> int:
        """Number D of values."""
        return self.points.dim

    @property
    def uses_jax(self) -> bool:
        """Whether JAX is called, by Ops that are written for it."""
        return bool(made_for_jax(self.model.logp()))

    @cached_property
    def start(self) -> FloatArray:
        """The model's initial point, shape (D,)."""
        return self.points.ravel(self.points.initial)

    @cached_property
    def _terms(self) -> Any:
        model = self.model
        prior = model.logp(vars=model.free_RVs)
        likelihood = model.logp(vars=[*model.observed_RVs, *model.potentials])
        # values are the same to the last bit in every process
        with pytensor.config.change_flags(numba__fastmath=False):
            return model.compile_fn(
                [prior, likelihood], inputs=model.value_vars, on_unused_input="ignore"
            )

    def log_densities(self, z: FloatArray) -> tuple[float, float]:
        """Log prior with Jacobians and log likelihood with potentials, in nats, at z of shape (D,).

        ``-inf`` for what is not a finite number; ModelError if an index is out of range.
        """
        point = self.points.unravel(z)
        try:
            values = [float(value) for value in self._terms(point)]
        except IndexError as error:
            raise ModelError(
                f"An index in the model is out of range at the unconstrained values {point}. Give "
                "the array that is indexed an entry for every value that the prior allows, counted "
                "from 0, or truncate the prior."
            ) from error
        log_prior, log_likelihood = (v if np.isfinite(v) else -np.inf for v in values)
        return log_prior, log_likelihood

    def tempered(self) -> tuple[pm.Model, Any]:
        """Copy of the model with the likelihood raised to a power, and this shared variable.

        The copy has no observed variables; the tempered likelihood is its only potential.
        """
        with copies_of_gps():
            copy = freeze_dims_and_data(self.model)
        beta = pytensor.shared(np.float64(1.0), name="beta")
        likelihood = copy.logp(vars=[*copy.observed_RVs, *copy.potentials])
        copy.observed_RVs.clear()
        copy.potentials.clear()
        name = "tempered_likelihood"
        while name in copy.named_vars:
            name += "_"
        with copy:
            pm.Potential(name, beta * likelihood)
        return copy, beta
