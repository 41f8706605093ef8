"""PyMC's record of draws, with a function that is kept for the next run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.backends import NDArray

from pymc_tempering.model.identity import Kept, digest_deterministics, recipe

__all__ = ["reused_trace"]


class _Copied(NDArray):
    """What ``pm.sample`` copies for every chain of a run."""

    def __copy__(self) -> NDArray:
        return NDArray(
            model=self.model,
            vars=self.vars,
            fn=self.fn,
            var_shapes=self.var_shapes,
            var_dtypes=self.var_dtypes,
        )


_functions = Kept[Any]()


def reused_trace(model: pm.Model, point: Mapping[str, np.ndarray]) -> NDArray:
    """Record of all variables of a model, to be given to ``pm.sample`` as ``trace``.

    By itself PyMC compiles, for every chain of every run, the function from a point to what is
    stored of it. The shapes of draws follow from ``point``, values of the value variables.
    """
    typed = {v.name: np.asarray(point[v.name], dtype=v.dtype) for v in model.value_vars}
    flags = pytensor.config
    content = [
        *recipe(model),
        (*digest_deterministics(model), flags.mode, flags.linker),
    ]
    function = _functions.get(model, content, lambda: NDArray(model=model, test_point=typed).fn)
    return _Copied(model=model, vars=model.unobserved_value_vars, fn=function, test_point=typed)
