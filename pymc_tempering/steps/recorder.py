"""From the values that a step has after a draw to the statistics that were declared."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.results.statistics import (
    LABELS,
    N_COMPONENTS,
    N_WELL_FITTED,
    statistics_of,
)

__all__ = ["Recorder"]


class Recorder:
    """The statistics of one step: what PyMC is told of them, and what it is given.

    Parameters
    ----------
    method : str
        A key of :data:`pymc_tempering.methods.METHODS`.
    sizes : mapping of str to int
        Lengths of the dimensions that the statistics of the method have.

    Attributes
    ----------
    dtypes_shapes : dict
        For each statistic its type and shape, in the form that PyMC asks of a step.

    Examples
    --------
    >>> recorder = Recorder("pt", {"scan": 2, "level": 3, "pair": 2})
    >>> recorder.dtypes_shapes["swap_acceptance_rate"]
    (dtype(('<f8', (2,))), [2])
    >>> recorder.record(recorder.blank() | {"betas": np.array([0.0, 1.0])})["betas"].tolist()
    [0.0, 1.0, nan]
    """

    def __init__(self, method: str, sizes: Mapping[str, int]) -> None:
        self._code = METHODS[method].code
        self._declared = statistics_of(method)
        named = {dim: len(labels) for dim, labels in LABELS.items()}
        sizes = {
            "well_fitted_mode": N_WELL_FITTED, "component": N_COMPONENTS, **named, **sizes,
        }  # fmt: skip
        self._shapes = {
            name: tuple(sizes[dim] for dim in entry.methods[method])
            for name, entry in self._declared.items()
        }
        self.dtypes_shapes: dict[str, tuple[Any, list[int]]] = {
            name: (np.dtype((entry.dtype, shape)) if shape else entry.dtype, list(shape))
            for (name, entry), shape in zip(
                self._declared.items(), self._shapes.values(), strict=True
            )
        }
        # arrays that a draw may put others in place of, and may not write into
        self._blank: dict[str, Any] = {
            name: np.full(shape, self._declared[name].fill, self._declared[name].dtype)[()]
            for name, shape in self._shapes.items()
        }
        for value in self._blank.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def blank(self) -> dict[str, Any]:
        """Every statistic, none known; for draws that have only some of them."""
        return dict(self._blank)

    def counted(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Those of the counters of :mod:`pymc_tempering.engine.tally` that the method records."""
        return {name: count for name, count in counts.items() if name in self._declared}

    def record(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Statistics of a draw as PyMC takes them.

        Parameters
        ----------
        values : mapping
            Of every declared statistic but the code of the method, and of no other. An array
            shorter than declared, as of a ladder with few levels, is filled up.

        Raises
        ------
        RuntimeError
            Where that is not so, which is a mistake in the step.
        """
        different = (values.keys() | {METHOD_CODE}) ^ self._shapes.keys()
        if different:
            raise RuntimeError(f"Declared or given, not both: {sorted(different)}.")
        statistics = {name: self._filled(name, value) for name, value in values.items()}
        return statistics | {METHOD_CODE: self._code}

    def _filled(self, name: str, value: Any) -> Any:
        shape = self._shapes[name]
        # NumPy would make an array of a number to see its shape
        if (() if isinstance(value, int | float) else np.shape(value)) == shape:
            return value
        entry = self._declared[name]
        if len(np.shape(value)) != len(shape):
            raise RuntimeError(f"{name} has shape {np.shape(value)}; declared is {shape}.")
        filled: np.ndarray = np.full(shape, entry.fill, entry.dtype)
        filled[tuple(slice(n) for n in np.shape(value))] = value
        return filled
