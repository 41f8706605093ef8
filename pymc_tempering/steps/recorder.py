"""From the values that a step has after a draw to the statistics that were declared."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.results.statistics import (
    LABELS,
    N_COMPONENTS,
    N_WELL_FITTED,
    Statistic,
    statistics_of,
)


class Recorder:
    """The statistics of one step: what PyMC is told of them, and what it is given.

    ``sizes`` has the lengths of the dimensions that the statistics of the method have.
    ``dtypes_shapes`` is what PyMC asks of a step: for each statistic its type and shape.

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
        named = {dim: len(labels) for dim, labels in LABELS.items()}
        sizes = {"well_fitted_mode": N_WELL_FITTED, "component": N_COMPONENTS, **named, **sizes}
        declared = statistics_of(method)
        # a vector is given by its entries: where they are in it, and their names
        self._vectors: dict[str, tuple[list[int], list[str]]] = {}
        self._given: dict[str, Statistic] = {}
        for name, entry in declared.items():
            held = {n: e for n, e in entry.entries.items() if method in e.methods}
            self._given |= held if entry.entries else {name: entry}
            if entry.entries:
                places = [i for i, name in enumerate(entry.entries) if name in held]
                self._vectors[name] = places, list(held)
        self._shapes = {
            name: tuple(sizes[dim] for dim in entry.methods[method])
            for name, entry in (declared | self._given).items()
        }
        direct = [name for name in declared if name in self._given and name != METHOD_CODE]
        # of a number there is no shape to look at, and most statistics are numbers
        self._numbers = [name for name in direct if not self._shapes[name]]
        self._arrays = [name for name in direct if self._shapes[name]]
        self.dtypes_shapes: dict[str, tuple[Any, list[int]]] = {}
        for name, entry in declared.items():
            shape = self._shapes[name]
            dtype = np.dtype((entry.dtype, shape)) if shape else entry.dtype
            self.dtypes_shapes[name] = (dtype, list(shape))
        # arrays that a draw may put others in place of, and may not write into
        self._blank = {name: self._unknown(name, entry) for name, entry in self._given.items()}
        self._blank_vectors = {name: self._unknown(name, declared[name]) for name in self._vectors}

    def _unknown(self, name: str, entry: Statistic) -> Any:
        value: np.ndarray = np.full(self._shapes[name], entry.fill, entry.dtype)
        value.setflags(write=False)
        return value[()]

    def blank(self) -> dict[str, Any]:
        """Everything that a draw gives, none of it known."""
        return dict(self._blank)

    def counted(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Those of the counters of :mod:`pymc_tempering.engine.tally` that the method records."""
        return {name: count for name, count in counts.items() if name in self._given}

    def record(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Statistics of a draw as PyMC takes them, from all of :meth:`blank` and nothing else.

        An array shorter than declared, as of a ladder with few levels, is filled up. Anything that
        was not declared, or not given, is a mistake in the step: a RuntimeError.
        """
        different = (values.keys() | {METHOD_CODE}) ^ self._given.keys()
        if different:
            raise RuntimeError(f"Declared or given, not both: {sorted(different)}.")
        recorded = {name: values[name] for name in self._numbers}
        for name in self._arrays:
            recorded[name] = self._filled(name, values[name])
        for name, (places, entries) in self._vectors.items():
            # entries of a vector of vectors may be shorter than declared
            is_flat = len(self._shapes[name]) == 1
            packed = self._blank_vectors[name].copy()
            packed[places] = [values[e] if is_flat else self._filled(e, values[e]) for e in entries]
            recorded[name] = packed
        recorded[METHOD_CODE] = self._code
        return recorded

    def _filled(self, name: str, value: Any) -> Any:
        shape, given = self._shapes[name], np.shape(value)
        if given == shape:
            return value
        if len(given) != len(shape):
            raise RuntimeError(f"{name} has shape {given}; declared is {shape}.")
        filled = self._blank[name].copy()
        filled[tuple(map(slice, given))] = value
        return filled
