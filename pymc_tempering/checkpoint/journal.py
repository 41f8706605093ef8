"""The journal of one chain: its draws as they are made, and from time to time its whole state.

A chain that is sampled again is first given the draws that it already has, one for each call of its
step, and goes on from the state that was kept with the last of them. PyMC's loop does not see a
difference, and what comes after is what would have come.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import numpy as np

from pymc_tempering.checkpoint.lock import acquire
from pymc_tempering.checkpoint.trees import DamagedFileError, is_whole, read_tree, write_tree
from pymc_tempering.errors import OutputError
from pymc_tempering.results.files import write_whole

__all__ = ["EVERY", "ChainStep", "Journal", "n_kept", "stored_draws"]

EVERY = 10.0
"""Seconds of sampling that are lost at most, beside the draw under way."""

_MOST_DRAWS = 1000
_MOST_BYTES = 1 << 25
_STATES_KEPT = 2
# of a process that was killed, chains end with the draw under way
_PATIENCE = 600.0

_DRAWS = re.compile(r"draws-(\d+)-(\d+)\.npz")
_STATE = re.compile(r"state-(\d+)\.npz")

type Record = tuple[dict[str, np.ndarray], list[dict[str, Any]]]
"""What a step returns of a draw: values by variable, and statistics."""


class ChainStep(Protocol):
    """What a journal asks of a step: everything that changes during a chain."""

    rng: np.random.Generator
    tune: bool
    searched: dict[str, Any]
    visits: dict[str, Any]
    chain: dict[str, Any] | None
    stats_dtypes_shapes: dict[str, Any]


class Journal:
    """Draws and states of one chain, in a folder of its own.

    Parameters
    ----------
    folder : Path
        Made if it is missing.
    total : int
        Steps of the whole chain; there may be more in the folder, which stay there.

    Raises
    ------
    OutputError
        If the folder cannot be read or written, or another process writes it.
    DataError
        If a file there has pickled objects in it.
    """

    def __init__(self, folder: Path, total: int) -> None:
        self._folder, self._total = folder, total
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = acquire(folder / "lock", _PATIENCE)
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
        """Give the next draw that is kept, None where there is none; with the last, the state.

        Parameters
        ----------
        step : ChainStep
        point : dict
            Whose order of variables PyMC relies on.

        Raises
        ------
        OutputError
            If they can no longer be read.
        """
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
        """Take note of a new draw, and write down what there is where it is time.

        Raises
        ------
        OutputError
            If it could not be written; what was written before is whole.
        """
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
        made = tuple(
            {name: np.zeros(self._capacity, dtype) for name, dtype in named.items()}
            for named in (types, statistics)
        )
        self._buffers = made[0], made[1]
        return self._buffers

    def _flush(self, step: ChainStep) -> None:
        assert self._buffers is not None
        draws, statistics = (
            {name: values[: self._done - self._kept] for name, values in buffer.items()}
            for buffer in self._buffers
        )
        block = self._folder / f"draws-{self._kept:09d}-{self._done:09d}.npz"
        state = {
            "tune": step.tune,
            "searched": step.searched,
            "visits": step.visits,
            "chain": step.chain,
            "rng": step.rng.bit_generator.state,
        }
        try:
            _write(block, {"draws": draws, "statistics": statistics})
            _write(self._folder / f"state-{self._done:09d}.npz", state)
            for old in sorted(self._folder.glob("state-*.npz"))[:-_STATES_KEPT]:
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
        step.searched, step.visits = state["searched"], state["visits"]
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
    """Draws and statistics that the journal of a chain has, block by block; damaged ones left out.

    Parameters
    ----------
    folder : Path
    """
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
    checked: dict[Path, bool] = {}
    for end in sorted(states, reverse=True):
        way: list[tuple[int, int, Path]] = []
        while (at := way[0][0] if way else end) and at in ending:
            way.insert(0, ending[at])
        if at:
            continue
        for _, _, path in way:
            if path not in checked:
                checked[path] = is_whole(path)
        if not all(checked[path] for _, _, path in way):
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
