"""What PyMC's progress bar shows of a tempered run, and when its draws count as divergent.

PyMC shows statistics of the last draw, and its workers send nothing else; a chain has no draws for
as long as it fits. So there is a row for each chain in a small file that every process maps.
Nothing that samples reads it.
"""

import contextlib
import os
import re
import tempfile
import time
import weakref
from multiprocessing import current_process
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from pymc_tempering.results.statistics import LABELS

__all__ = [
    "Board", "format_count", "format_seconds", "is_diverging", "progress_columns",
    "progress_update",
]  # fmt: skip

N_ROWS = 256
"""Chains beyond these are shown without what they do before their first draw."""

_ROW = np.dtype([("part", "S32"), ("done", "<i4"), ("total", "<i4"), ("since", "<f8"),
                 ("gradients", "<i8")])  # fmt: skip


class Board:
    """A row for each chain of a step: what it does, and how much of that is done.

    A pickled copy writes to the same rows, on the same machine. Where no file can be made, rows are
    seen by this process alone.
    """

    def __init__(self) -> None:
        self.path: str | None = None
        with contextlib.suppress(OSError):
            handle, self.path = tempfile.mkstemp(prefix="pymc_tempering_")
            os.close(handle)
            weakref.finalize(self, _remove, self.path, os.getpid())
        self._open(create=True)

    def _open(self, *, create: bool) -> None:
        self._row: int | None = None
        self._next = 0
        self._rows: np.ndarray = np.zeros(N_ROWS, dtype=_ROW)
        if self.path is not None:
            with contextlib.suppress(OSError, ValueError):
                mode: Any = "w+" if create else "r+"
                self._rows = np.memmap(self.path, dtype=_ROW, mode=mode, shape=(N_ROWS,))

    def __getstate__(self) -> dict[str, Any]:
        """Nothing but where the rows are."""
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Map the same rows."""
        self.path = state["path"]
        self._open(create=False)

    def rewind(self) -> None:
        """Say that the next chain of this process is the first of a run."""
        self._next = 0

    def start_chain(self) -> None:
        """Choose the row of a chain that begins in this process."""
        # PyMC tells a step nothing of its chain, but names its workers after theirs
        worker = re.fullmatch(r"worker_chain_(\d+)", current_process().name)
        chain = int(worker[1]) if worker else self._next
        self._next = chain + 1
        self._row = chain if chain < N_ROWS else None
        self.report("", 0, 0)

    def report(self, part: str, done: int, total: int, gradients: int = 0) -> None:
        """Write what the chain of this process does; 0 of 0 steps where they are not known.

        ``gradients`` are those that the steps took, where they are none themselves.
        """
        if self._row is None:
            return
        row = self._rows[self._row]
        if row["part"] != part.encode() or done == 0:
            row["since"] = time.time()
        row["part"], row["done"], row["total"] = part.encode(), done, total
        row["gradients"] = gradients

    def describe(self, chain: int, *, briefly: bool = False) -> str:
        """Say what a chain does, with the time left where it is known and there is room for it."""
        if not 0 <= chain < N_ROWS:
            return ""
        part, done, total, since, gradients = self._rows[chain].tolist()
        if not part:
            return "waiting"
        text = part.decode(errors="replace")
        if not total:
            return text
        if briefly:
            return f"{text.split()[0]} {100 * done // total} %"
        text += f" {done}/{total}"
        if gradients:
            text += f", {format_count(gradients)} gradients"
        if not done or done >= total:
            return text
        return f"{text}, {format_seconds((time.time() - since) / done * (total - done))} left"


def _remove(path: str, owner: int) -> None:
    # a forked worker has a copy of the board, and leaves the file to the process that made it
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            os.remove(path)


def format_seconds(seconds: float) -> str:
    """Write a time as minutes and seconds.

    Examples
    --------
    >>> format_seconds(7.2), format_seconds(75.0), format_seconds(3700.0)
    ('0:07', '1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_count(n: float) -> str:
    """Write a number of gradients in three digits or so.

    Examples
    --------
    >>> format_count(999), format_count(12_345), format_count(999_999), format_count(2.6e6)
    ('999', '12k', '1.0M', '2.6M')
    """
    if n < 999.5:
        return f"{n:.0f}"
    return f"{n / 1e3:.0f}k" if n < 999.5e3 else f"{n / 1e6:.1f}M"


class PhaseColumn(ProgressColumn):
    """Column of PyMC's bar: fits, with the time they have left, then tuning, then sampling.

    Beside the latter two are the gradients that the chain has taken. With a `width` texts are
    folded to it, and brief.
    """

    def __init__(self, board: Board, width: int | None = None) -> None:
        self._board, self._briefly = board, width is not None
        super().__init__(table_column=Column("Phase", no_wrap=width is None, width=width))

    def render(self, task: Task) -> Text:
        """Show the phase of a chain."""
        if not task.completed:
            chain = task.fields.get("task_idx", 0)
            return Text(self._board.describe(chain, briefly=self._briefly))
        tuning = task.completed < (task.fields.get("marker_pos") or 0)
        phase = "done" if task.finished else "tuning" if tuning else "sampling"
        return Text(f"{phase} {task.fields.get('gradients', '')}".rstrip())


DIVERGING_SHARE = 0.1
"""Share of the trajectories at beta = 1 beyond which their divergences count for a draw. One of
them is a rejected proposal among dozens of a draw, and the next swap brings another replica; a
replica that cannot move at all has them one after the other."""

_PADDING = 3
_PYMC_WIDTH = 7 * (len("0:00:00") + _PADDING)
"""Of PyMC's own columns, which share it as 2:1:2:1:1: times are seen whole."""

_PHASE_WIDTH, _LONG_PHASE = len("sampling"), 38
_BARRIER_WIDTH = len("12.3")


def progress_columns(
    n_chains: int, trips: str, board: Board
) -> tuple[list[ProgressColumn], dict[str, list[Any]]]:
    """Columns of PyMC's progress bar, and what they show before the first draw.

    ``trips`` is what the sampler counts, "round_trips" or "restarts"; the board says what chains do
    before their first draw.
    """
    # PyMC's own columns share what is left: what would make their headings unreadable is left out.
    # "Round trips" has two lines
    left = Console().width - _PYMC_WIDTH - (_PHASE_WIDTH + _PADDING)
    header = trips.replace("_", " ").capitalize()
    entries = {
        "barrier": ("Λ", _BARRIER_WIDTH),
        trips: (header, max(map(len, header.split()))),
        "divergences": ("Divergences", len("Divergences")),
    }
    shown: list[ProgressColumn] = []
    for name, (heading, width) in entries.items():
        left -= width + _PADDING
        if left < 0:
            break
        folded = {"width": width} if " " in heading and name == trips else {"no_wrap": True}
        column = Column(heading, **folded)
        shown.append(TextColumn(f"{{task.fields[{name}]}}", table_column=column))
    columns = [PhaseColumn(board, None if left >= _LONG_PHASE else _PHASE_WIDTH), *shown]
    start = {"barrier": "-", trips: 0, "divergences": 0, "gradients": ""}
    return columns, {name: [value] * n_chains for name, value in start.items()}


def progress_update(statistics: dict[str, Any], trips: str) -> dict[str, Any]:
    """What the columns show after a draw with these statistics."""
    barrier = statistics["global_barrier"]
    totals = dict(zip(LABELS["so_far_entry"], statistics["so_far"].tolist(), strict=True))
    return {
        "barrier": f"{barrier:.1f}" if np.isfinite(barrier) else "-",
        trips: totals[f"{trips}_so_far"],
        "divergences": totals["divergences_so_far"],
        "gradients": format_count(totals["gradients_so_far"]),
        "failing": totals["divergences_so_far"] > 0,
    }


def is_diverging(n_target_divergences: int, n_scans: int) -> bool:
    """Whether more than a tenth of a draw's trajectories at beta = 1 diverged.

    PyMC counts the draws for which it is true, and advises on their number as it does for NUTS,
    which has one trajectory in a draw.

    Examples
    --------
    >>> is_diverging(5, 50), is_diverging(6, 50), is_diverging(1, 1)
    (False, True, True)
    """
    return n_target_divergences > DIVERGING_SHARE * n_scans
