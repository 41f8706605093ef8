"""How far fits are, for whoever wants to show it. Nothing that fits reads it."""

from typing import Protocol

__all__ = ["Report", "Tally", "unwatched"]


class Report(Protocol):
    """Called with a part of the work, how many of its steps are done, and how many there are to be.

    And with the gradients that it took so far, where the steps are none themselves.
    """

    def __call__(self, part: str, done: int, total: int, gradients: int = 0) -> None:
        """Take note of it."""


def unwatched(part: str, done: int, total: int, gradients: int = 0) -> None:
    """Report to nobody."""


class Tally:
    """Counts the steps of a part of the work, and reports them; more than ``total`` may follow."""

    def __init__(self, report: Report, part: str, total: int) -> None:
        self._report, self._part, self._done = report, part, 0
        self.total = total
        report(part, 0, total)

    def add(self, gradients: int) -> None:
        """Count a step, with the gradients of all so far."""
        self._done += 1
        self._report(self._part, self._done, max(self.total, self._done), gradients)
