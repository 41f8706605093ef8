"""A step for models that other packages make, and sample themselves."""

from functools import partial
from typing import Any

import numpy as np
import pymc as pm
from pymc.step_methods.compound import CompoundStep

from pymc_tempering.steps.common import TemperedStep


class Deferred(CompoundStep):
    """A tempered step that is built when ``pm.sample`` begins, for the model in context.

    For packages that make models of their own and pass options on to ``pm.sample``: simuk
    conditions a copy of the model on each data set that it simulates, which no step that was built
    before fits. Draws are those of the step itself.

    Parameters
    ----------
    step : class
        :class:`pymc_tempering.ParallelTempering`, or another of the steps.
    **options
        Its arguments.

    Examples
    --------
    >>> from pymc_tempering import ParallelTempering, estimate_logz
    >>> step = Deferred(ParallelTempering, scans_per_draw=8)
    >>> with pm.Model():
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    ...     idata = pm.sample(100, tune=50, chains=2, cores=1, step=step, random_seed=1,
    ...                       progressbar=False, quiet=True)
    >>> round(estimate_logz(idata).log_z, 1)
    -1.4
    """

    def __init__(self, step: type[TemperedStep], **options: Any) -> None:
        super().__init__([])
        self._make, self._model = partial(step, **options), None

    @property
    def vars(self) -> list[Any]:
        """Of the model in context; what PyMC asks for first."""
        model = pm.Model.get_context(error_if_none=False)
        # the processes of chains have no context, but the step that was sent to them
        if model is not None and model is not self._model:
            super().__init__([self._make(model=model)])
            self._model = model
        return [variable for step in self.methods for variable in step.vars]

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Pass the generator on as it is, which PyMC would not."""
        for step in self.methods:
            step.setup_chain(rng, tune, draws)
