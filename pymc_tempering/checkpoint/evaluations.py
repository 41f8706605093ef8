"""What a search for modes asked of the density, in its order, so that it need not be asked again.

A search is decided by its seed and by what the density answers. One that is begun again is given
the answers that are kept, comes to where it was in the time that its own arithmetic takes, and goes
on: whatever it remembers, none of it has to be stored.
"""

import ctypes
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import numpy as np

from pymc_tempering.checkpoint.journal import EVERY
from pymc_tempering.checkpoint.trees import DamagedFileError, read_tree, write_tree
from pymc_tempering.engine.guard import has_failed, keep_failure
from pymc_tempering.results.files import write_whole

__all__ = ["Evaluations", "n_evaluated", "remove_evaluations"]

_C_DENSITY = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)
_BLOCK = re.compile(r"search-(\d+)-(\d+)\.npz")
_MOST_BYTES, _MOST_ROWS = 1 << 25, 1 << 16


class Evaluations:
    """Evaluations of a density, kept in a folder every ten seconds.

    Parameters
    ----------
    folder : Path
    address : int
        Of ``double f(const double *z, double *grad)``.
    dim : int

    Attributes
    ----------
    function : ctypes function
        The same density; what is kept it gives without evaluating it, as long as it is asked for
        the same places in the same order.
    """

    def __init__(self, folder: Path, address: int, dim: int) -> None:
        self._folder, self._inner = folder, _C_DENSITY(address)
        self._vector = ctypes.c_double * dim
        self._kept = _answers(folder)
        self._replays, self._keeps = True, True
        self._n = self._n_new = 0
        n_rows = int(np.clip(_MOST_BYTES // (8 * dim + 16), 1, _MOST_ROWS))
        self._marks, self._values = np.empty(n_rows, np.uint32), np.empty(n_rows)
        self._gradients = np.empty((n_rows, dim))
        self._since = monotonic()
        self.function = _C_DENSITY(self._evaluate)

    def _evaluate(self, z_address: int, grad_address: int) -> float:
        try:
            if has_failed():
                return -np.inf
            mark = zlib.crc32(self._vector.from_address(z_address))
            gradient = np.frombuffer(self._vector.from_address(grad_address))
            if self._replays:
                known = next(self._kept, None)
                if known is not None and known[0] == mark:
                    self._n += 1
                    gradient[:] = known[2]
                    return float(known[1])
                # on another processor, whose last bits differ, places do: others were asked for
                self._replays = False
                remove_evaluations(self._folder, self._n)
            value = float(self._inner(z_address, grad_address))
            if self._keeps and not has_failed():
                self._note(mark, value, gradient)
            return value
        except BaseException as error:  # noqa: BLE001  no exception can cross compiled code
            keep_failure(error, {})
            return -np.inf

    def _note(self, mark: int, value: float, gradient: np.ndarray) -> None:
        row = self._n_new
        self._marks[row], self._values[row], self._gradients[row] = mark, value, gradient
        self._n_new += 1
        full = self._n_new == len(self._marks)
        if full or monotonic() - self._since >= EVERY:
            self.flush()

    def flush(self) -> None:
        """Write what is new; where that fails the search goes on, and no more of it is kept."""
        if not self._n_new or not self._keeps:
            return
        end, new = self._n + self._n_new, slice(self._n_new)
        block = {
            "marks": self._marks[new],
            "values": self._values[new],
            "gradients": self._gradients[new],
        }
        path = self._folder / f"search-{self._n:09d}-{end:09d}.npz"
        try:
            write_whole(path, lambda temporary: write_tree(temporary, block), overwrite=True)
        except OSError:
            self._keeps = False
        self._n, self._n_new, self._since = end, 0, monotonic()


def n_evaluated(folder: Path) -> int:
    """How many evaluations a folder has, by the names of its files."""
    return max((end for _, end, _ in _blocks(folder)), default=0)


def remove_evaluations(folder: Path, start: int = 0) -> None:
    """Delete blocks that begin at this one of the evaluations, or later."""
    for first, _, path in _blocks(folder):
        if first >= start:
            path.unlink(missing_ok=True)


def _blocks(folder: Path) -> list[tuple[int, int, Path]]:
    found = [(m, path) for path in folder.glob("search-*") if (m := _BLOCK.fullmatch(path.name))]
    return sorted((int(m[1]), int(m[2]), path) for m, path in found)


def _answers(folder: Path) -> Iterator[tuple[int, float, np.ndarray]]:
    """Give what is kept from the first evaluation on: mark of the place, value and gradient."""
    blocks = _blocks(folder)
    following = [*(start for start, _, _ in blocks[1:]), np.inf]
    for (start, end, path), after in zip(blocks, following, strict=False):
        try:
            block = read_tree(path)
        except (OSError, DamagedFileError):
            return
        # one that begins inside of this was written when the rest had been of other places
        n = int(min(end, after)) - start
        rows = block["marks"][:n], block["values"][:n], block["gradients"][:n]
        yield from zip(*rows, strict=True)
        if after > end:
            return
