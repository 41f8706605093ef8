"""What a run will do, and how far it is: PyMC's bar for chains, and lines for other work.

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
from collections.abc import Iterator
from multiprocessing import current_process
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from pymc_tempering.results.statistics import LABELS

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


_PADDING = 3
_PYMC_WIDTH = 7 * (len("0:00:00") + _PADDING)
"""Of PyMC's own columns, which share it as 2:1:2:1:1: times are seen whole."""

_PHASE_WIDTH, _LONG_PHASE = len("sampling"), 38


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
        "barrier": ("Λ", len("12.3")),
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
    which has one trajectory in a draw. One is a rejected proposal among dozens of a draw, and the
    next swap brings another replica; one that cannot move at all has them one after the other.

    Examples
    --------
    >>> is_diverging(5, 50), is_diverging(6, 50), is_diverging(1, 1)
    (False, True, True)
    """
    return n_target_divergences > 0.1 * n_scans


STOPPING = "Ctrl-C stops; the draws after tuning that there are by then are kept."


def say(text: str) -> None:
    """Write a line or more where progress bars are written."""
    Console(highlight=False).print(text, soft_wrap=True)


def plan(
    step: Any, *, draws: int, tune: int | None, chains: int, compiled: float, most: float
) -> str:
    """Say what a run with a tempered step will do, and how to stop it.

    ``compiled`` are the seconds that the step took to build, ``most`` the gradients that the run
    may take.
    """
    parts = []
    if step.searches:
        blind = bool(step.density.no_gradient)
        parts += ["fit a Gaussian to draws" if blind else "search for modes and fit them"]
    parts += [f"tune ({step.default_tune_steps if tune is None else tune} draws)"]
    up_to = "up to " if getattr(step, "adapts_scans", False) else ""
    parts += [f"sample ({draws} draws of {up_to}{step.scans_per_draw} scans)"]
    moved = f", moved from the prior on by {step.moves}" if step.moves else ""
    many = "1 chain" if chains == 1 else f"each of {chains} chains"
    limit = ""
    if most < float("inf"):
        limit = f" No more than {int(most):,} evaluations (`max_gradients`)."
    return (
        f"Compiled in {format_seconds(compiled)}: {step.dim} unconstrained "
        f"value{'s' * (step.dim != 1)}{moved}. In {many}: {', '.join(parts)}.{limit}\n{STOPPING}"
    )


class Phase:
    """One line: a part of the work with a known number of steps."""

    def __init__(self, progress: Progress | None, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """Say that steps were done; the note stands at the end of the line until the next one."""
        if self._progress is not None:
            fields: dict[str, Any] = {} if note is None else {"note": note}
            self._progress.update(self._task, advance=steps, **fields)


class Phases:
    """Lines of a progress bar, or nothing if it is not to be shown."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self._part, self._task = "", TaskID(0)

    def add(self, name: str, steps: int) -> Phase:
        """Start another part of the work; one without any steps is not shown."""
        if self._progress is None or steps == 0:
            return Phase(None, TaskID(0))
        return Phase(self._progress, self._progress.add_task(name, total=steps, note=""))

    def report(self, part: str, done: int, total: int, gradients: int = 0) -> None:
        """Show how far a part of the work is; see :data:`.references.prepared.Report`."""
        if self._progress is None:
            return
        begins = self._part != part
        if begins:
            if self._part:  # a search that has found enough ends before its last step
                done_before = self._progress.tasks[self._task].completed
                self._progress.update(self._task, total=done_before)
            self._part = part if total else ""
        if total == 0:
            return
        if begins or done == 0:
            name = part[:1].upper() + part[1:]
            self._task = self._progress.add_task(name, total=total, note="")
        note = f"{format_count(gradients)} gradients" if gradients else ""
        self._progress.update(self._task, completed=done, total=total, note=note)


@contextlib.contextmanager
def phases(show: bool) -> Iterator[Phases]:
    """Show the parts of some work with their time left, as PyMC's bars do.

    In a terminal and in a notebook the lines move; in a file they are written once, at the end.
    Without `show` nothing is written.

    Examples
    --------
    >>> with phases(show=False) as work:
    ...     pilot = work.add("Pilot run", 10)
    ...     for _ in range(10):
    ...         pilot.advance(note="log Z -3.2")
    """
    if not show:
        yield Phases()
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(complete_style="rgb(31,119,180)", finished_style="rgb(31,119,180)"),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("/"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(),
    ) as progress:
        yield Phases(progress)


def compiling(show: bool) -> contextlib.AbstractContextManager[Any]:
    """Say that the model is being compiled, for as long as it is, where lines can be taken back."""
    return Console().status("Compiling the model") if show else contextlib.nullcontext()
