"""Statistics of a chain while it is sampled, without the room that it does not use.

PyMC allots every draw what a step declares: of parallel tempering 50 scans of 24 levels, 9600
bytes, of which 64 may be used; and holds it three times while it puts a result together.
"""

import copy
from typing import Any, Self

import numpy as np

from pymc_tempering.types import FloatArray

__all__ = ["Room", "Trimmed"]

_ROWS = 256

type Room = dict[str, int]
"""Largest used length of each dimension, over all chains of a run."""


class Trimmed:
    """Values of one statistic, set draw by draw; an array where it is asked for.

    Parameters
    ----------
    dims : tuple of str
        Of one value.
    dtype : type
    fill : float or int
        Stands beyond what is used, and for draws before the first that was set.
    room : Room
        Shared by all statistics and chains of a run; grows with what is set. Arrays have this room.
    length : int
        Number of draws.

    Attributes
    ----------
    draws : range
        Those that arrays are of.

    Examples
    --------
    >>> values = Trimmed(("level",), float, np.nan, {}, 3)
    >>> values[1] = np.array([1.0, 2.0, np.nan, np.nan])
    >>> values[2] = np.array([3.0, np.nan, np.nan, np.nan])
    >>> np.asarray(values[1:])
    array([[ 1.,  2.],
           [ 3., nan]])
    """

    def __init__(
        self, dims: tuple[str, ...], dtype: Any, fill: Any, room: Room, length: int
    ) -> None:
        self._dims, self._dtype, self._fill, self._room = dims, dtype, fill, room
        self._blocks: list[FloatArray] = []
        self._rows: list[FloatArray] = []
        self._first: list[int] = []
        self.draws = range(length)

    def __setitem__(self, draw: int, value: FloatArray) -> None:
        """Set the value of a draw; after the first, that of the next one."""
        if not self._first:
            self._first.append(draw)
        filled = ~np.isnan(value) if value.dtype.kind == "f" else value != self._fill
        used = [int(at.max()) + 1 if at.size else 0 for at in filled.nonzero()]
        for dim, length in zip(self._dims, used, strict=True):
            self._room[dim] = max(self._room.get(dim, 0), length)
        self._rows.append(value[tuple(map(slice, used))].copy())
        if len(self._rows) == _ROWS:
            # one array in place of hundreds, each of which takes a hundred bytes by itself
            shape = tuple(np.max([row.shape for row in self._rows], axis=0))
            self._blocks.append(self._filled(_ROWS, shape, self._rows))
            self._rows.clear()

    def __getitem__(self, draws: slice) -> Self:
        """Part of the draws; nothing is copied."""
        part = copy.copy(self)
        part.draws = self.draws[draws]
        return part

    def __len__(self) -> int:
        return len(self.draws)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        shape = tuple(self._room.get(dim, 0) for dim in self._dims)
        before = self._filled(sum(self._first), shape, [])
        parts = [before, *self._blocks, self._filled(len(self._rows), shape, self._rows)]
        values = self._filled(sum(map(len, parts)), shape, [])
        draw = 0
        for part in parts:
            values[(slice(draw, draw + len(part)), *map(slice, part.shape[1:]))] = part
            draw += len(part)
        wanted = self.draws
        return values[wanted.start : wanted.stop : wanted.step].astype(dtype or self._dtype)

    def _filled(self, n: int, shape: tuple[int, ...], rows: list[FloatArray]) -> FloatArray:
        values: FloatArray = np.full((n, *shape), self._fill, self._dtype)
        for value, row in zip(values, rows, strict=False):
            value[tuple(map(slice, row.shape))] = row
        return values
