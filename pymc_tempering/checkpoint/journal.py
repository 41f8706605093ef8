"""What a run keeps while it is sampled: the draws and states of chains, and the search before them.

A chain that is sampled again is first given the draws that it already has, one for each call of its
step, and goes on from the state that was kept with the last of them. PyMC's loop does not see a
difference, and what comes after is what would have come. A search is decided by its seed and by
what the density answers: one that is begun again is given the answers that are kept, and goes on.
"""

import ctypes
import re
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import numpy as np

from pymc_tempering.checkpoint.files import (
    DamagedFileError,
    acquire,
    is_whole,
    read_tree,
    write_tree,
)
from pymc_tempering.engine.guard import has_failed, keep_failure
from pymc_tempering.errors import OutputError
from pymc_tempering.results.files import write_whole

EVERY = 10.0
"""Seconds of sampling that are lost at most, beside the draw under way."""

_MOST_DRAWS, _MOST_BYTES = 1000, 1 << 25
"""In a block: files of more draws, or of more bytes, take long to write and to read."""

_DRAWS = re.compile(r"draws-(\d+)-(\d+)\.npz")
_STATE = re.compile(r"state-(\d+)\.npz")

type Record = tuple[dict[str, np.ndarray], list[dict[str, Any]]]
"""What a step returns of a draw: values by variable, and statistics."""


class ChainStep(Protocol):
    """What a journal asks of a step: everything that changes during a chain."""

    rng: np.random.Generator
    tune: bool
    chain: dict[str, Any] | None
    stats_dtypes_shapes: dict[str, Any]


class Journal:
    """Draws and states of one chain, in a folder of its own.

    ``total`` are the steps of the whole chain; there may be more in the folder, which stay there.
    A folder that cannot be read or written, or that another process writes, is an OutputError; a
    file with pickled objects in it is a DataError.
    """

    def __init__(self, folder: Path, total: int) -> None:
        self._folder, self._total = folder, total
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # of a process that was killed, chains end with the draw under way
            self._lock = acquire(folder / "lock", patience=600.0)
            if self._lock is None:
                raise OutputError(
                    f"Another process writes {folder}. End it, or wait until it has ended."
                )
            self._blocks, self._state = _whole_part(folder)
        except OSError as error:
            raise _unwritable(folder, error) from error
        self._done = 0
        self._kept = self._blocks[-1][1] if self._blocks else 0
        self._block: dict[str, Any] = {}
        self._buffers: tuple[dict[str, np.ndarray], dict[str, np.ndarray]] | None = None
        self._capacity = _MOST_DRAWS
        self._since = monotonic()

    def replay(self, step: ChainStep, point: dict[str, np.ndarray]) -> Record | None:
        """Give the next draw that is kept, None where there is none; with the last, the state."""
        if self._done >= self._kept:
            return None
        start, end, path = self._blocks[0]
        if self._done == start:
            try:
                self._block = read_tree(path)
            except (OSError, DamagedFileError) as error:
                # since it was found whole
                raise _unwritable(self._folder, error) from error
        row = self._done - start
        draw = {name: np.asarray(self._block["draws"][name][row]) for name in point}
        statistics = {name: values[row] for name, values in self._block["statistics"].items()}
        self._done += 1
        if self._done == end:
            del self._blocks[0]
        if self._done == self._kept:
            self._restore(step)
        if self._done >= self._total:
            self._close()
        return draw, [statistics]

    def record(self, step: ChainStep, record: Record) -> None:
        """Take note of a new draw, and write down what there is where it is time."""
        point, (statistics,) = record
        draws, kept = self._buffers or self._allocate(step, point)
        row = self._done - self._kept
        for buffer, values in ((draws, point), (kept, statistics)):
            for name, value in values.items():
                buffer[name][row] = value
        self._done += 1
        full = row + 1 == self._capacity or self._done >= self._total
        if full or monotonic() - self._since >= EVERY:
            self._flush(step)

    def _allocate(
        self, step: ChainStep, point: dict[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        types: dict[str, Any] = {
            name: np.dtype((np.asarray(value).dtype, np.shape(value)))
            for name, value in point.items()
        }
        statistics = {name: dtype for name, (dtype, _) in step.stats_dtypes_shapes.items()}
        size = sum(np.dtype(d).itemsize for d in (*types.values(), *statistics.values()))
        self._capacity = int(np.clip(_MOST_BYTES // size, 1, _MOST_DRAWS))
        draws, kept = (
            {name: np.zeros(self._capacity, dtype) for name, dtype in named.items()}
            for named in (types, statistics)
        )
        self._buffers = draws, kept
        return self._buffers

    def _flush(self, step: ChainStep) -> None:
        assert self._buffers is not None
        draws, statistics = (
            {name: values[: self._done - self._kept] for name, values in buffer.items()}
            for buffer in self._buffers
        )
        block = self._folder / f"draws-{self._kept:09d}-{self._done:09d}.npz"
        state = {"tune": step.tune, "chain": step.chain, "rng": step.rng.bit_generator.state}
        try:
            _write(block, {"draws": draws, "statistics": statistics})
            _write(self._folder / f"state-{self._done:09d}.npz", state)
            for old in sorted(self._folder.glob("state-*.npz"))[:-2]:
                old.unlink()
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        self._kept = self._done
        self._since = monotonic()
        if self._done >= self._total:
            self._close()

    def _restore(self, step: ChainStep) -> None:
        state = self._state
        assert state is not None
        step.tune, step.chain = state["tune"], state["chain"]
        step.rng.bit_generator.state = state["rng"]
        self._state, self._block = None, {}

    def _close(self) -> None:
        self._buffers = None
        if self._lock is not None:
            self._lock.close()


def n_kept(folder: Path) -> int:
    """Draws of a chain that its journal has, by the names of its files."""
    return max((int(m[1]) for p in folder.glob("*") if (m := _STATE.fullmatch(p.name))), default=0)


def stored_draws(folder: Path) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Draws and statistics in the journal of a chain, block by block; damaged ones left out."""
    for path in sorted(p for p in folder.glob("*") if _DRAWS.fullmatch(p.name)):
        try:
            block = read_tree(path)
        except (OSError, DamagedFileError):
            continue
        yield block["draws"], block["statistics"]


def _write(path: Path, tree: Any) -> None:
    write_whole(path, lambda temporary: write_tree(temporary, tree), overwrite=True)


def _unwritable(folder: Path, error: Exception) -> OutputError:
    return OutputError(
        f"The chain in {folder} could not be read or written ({error}). What is there is left as "
        "it is: make room or give access, and call again with the same `resume` to go on from it.",
        kept=folder,
    )


def _whole_part(folder: Path) -> tuple[list[tuple[int, int, Path]], dict[str, Any] | None]:
    """Blocks of draws from the first on, and the state after the last of them; removes the rest.

    The newest state counts that is whole, with all draws before it.
    """
    files = [path for path in folder.iterdir() if path.name != "lock"]
    blocks = [(int(m[1]), int(m[2]), path) for path in files if (m := _DRAWS.fullmatch(path.name))]
    states = {int(m[1]): path for path in files if (m := _STATE.fullmatch(path.name))}
    ending = {end: (start, end, path) for start, end, path in blocks if start < end}
    is_sound = cache(is_whole)
    for end in sorted(states, reverse=True):
        way: list[tuple[int, int, Path]] = []
        while (at := way[0][0] if way else end) and at in ending:
            way.insert(0, ending[at])
        if at or not all(is_sound(path) for _, _, path in way):
            continue
        try:
            state = read_tree(states[end])
        except DamagedFileError:
            continue
        used = {path for _, _, path in way} | {p for at, p in states.items() if at <= end}
        _remove(set(files) - used)
        return way, state
    _remove(set(files))
    return [], None


def _remove(paths: set[Path]) -> None:
    """Delete what a killed process left unfinished, or what is damaged."""
    for path in paths:
        if _DRAWS.fullmatch(path.name) or _STATE.fullmatch(path.name) or ".partial" in path.name:
            path.unlink(missing_ok=True)


_C_DENSITY = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)
_ANSWERS = re.compile(r"search-(\d+)-(\d+)\.npz")
_MOST_ROWS = 1 << 16
"""Evaluations in a block."""


class Evaluations:
    """Evaluations of a density ``double f(const double *z, double *grad)``, kept in a folder.

    ``function`` is the same density as a ctypes function: what is kept it gives without evaluating
    it, as long as it is asked for the same places in the same order.
    """

    every = EVERY

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
        if full or monotonic() - self._since >= self.every:
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
            _write(path, block)
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
    found = [(m, path) for path in folder.glob("search-*") if (m := _ANSWERS.fullmatch(path.name))]
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
