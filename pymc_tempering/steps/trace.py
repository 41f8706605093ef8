"""PyMC's record of draws, in less memory, and with a function that is kept for the next run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.backends import NDArray

from pymc_tempering.model.identity import Kept, digest_deterministics, recipe
from pymc_tempering.results.statistics import statistics_of
from pymc_tempering.steps.trimmed import Room, Trimmed

__all__ = ["reused_trace"]

_TRIMMED = {"scan", "level", "pair"}
"""Dimensions of which chains may use less than their step declares."""


class _Chain(NDArray):
    """Record of one chain, with scans and levels that a chain of the run uses, and no others."""

    method = ""
    room: Room

    def setup(self, draws: int, chain: int, sampler_vars: Any = None) -> None:
        super().setup(draws, chain, sampler_vars)
        for statistics in self._stats or ():
            for name, entry in statistics_of(self.method).items():
                dims = entry.methods[self.method]
                if dims and _TRIMMED.issuperset(dims):
                    statistics[name] = Trimmed(dims, entry.dtype, entry.fill, self.room, draws)

    def record(self, point: Any, sampler_stats: Any = None, *, in_warmup: bool) -> None:
        if in_warmup and sampler_stats is not None:
            # draws of tuning are left away, and have all the scans and levels that there may be
            sampler_stats = [
                {name: v for name, v in given.items() if not isinstance(kept[name], Trimmed)}
                for given, kept in zip(sampler_stats, self._stats, strict=True)
            ]
        super().record(point, sampler_stats, in_warmup=in_warmup)

    def _get_sampler_stats(
        self, varname: str, sampler_idx: int, burn: int, thin: int
    ) -> np.ndarray:
        return np.asarray(super()._get_sampler_stats(varname, sampler_idx, burn, thin))


class _Copied(NDArray):
    """What ``pm.sample`` copies for every chain of a run."""

    method: str | None = None

    def __copy__(self) -> NDArray:
        shared = {
            "model": self.model,
            "vars": self.vars,
            "fn": self.fn,
            "var_shapes": self.var_shapes,
            "var_dtypes": self.var_dtypes,
        }
        if self.method is None:
            return NDArray(**shared)
        chain = _Chain(**shared)
        chain.method, chain.room = self.method, self.room
        return chain


_functions = Kept[Any]()


def reused_trace(
    model: pm.Model, point: Mapping[str, np.ndarray], method: str | None = None
) -> NDArray:
    """Record of all variables of a model, to be given to ``pm.sample`` as ``trace``.

    By itself PyMC compiles, for every chain of every run, the function from a point to what is
    stored of it.

    Parameters
    ----------
    model : pymc.Model
    point : mapping of str to ndarray
        Values of the value variables, whose shapes those of the draws follow from.
    method : str, optional
        A key of :data:`pymc_tempering.methods.METHODS`, whose statistics are then stored without
        what no chain of the run uses, and not at all while it is tuned. For one run.
    """
    typed = {v.name: np.asarray(point[v.name], dtype=v.dtype) for v in model.value_vars}
    flags = pytensor.config
    content = [
        *recipe(model),
        (*digest_deterministics(model), flags.mode, flags.linker),
    ]
    function = _functions.get(model, content, lambda: NDArray(model=model, test_point=typed).fn)
    trace = _Copied(model=model, vars=model.unobserved_value_vars, fn=function, test_point=typed)
    trace.method, trace.room = method, {}
    return trace
