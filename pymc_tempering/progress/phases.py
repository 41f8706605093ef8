"""What a run will do, said before it starts, and progress of what ``pm.sample`` does not run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pymc_tempering.progress.board import format_count, format_seconds

__all__ = ["STOPPING", "Phase", "Phases", "compiling", "phases", "plan", "say"]

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


@contextmanager
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


@contextmanager
def compiling(show: bool) -> Iterator[None]:
    """Say that the model is being compiled, for as long as it is, where lines can be taken back."""
    if not show:
        yield
        return
    with Console().status("Compiling the model"):
        yield
