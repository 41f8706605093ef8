"""How far fits are, for whoever wants to show it. Nothing that fits reads it."""

from collections.abc import Callable

__all__ = ["Report", "Tally", "unwatched"]

type Report = Callable[[str, int, int], None]
"""Called with a part of the work, how many of its steps are done, and how many there are to be."""


def unwatched(part: str, done: int, total: int) -> None:
    """Report to nobody."""


class Tally:
    """Counts the steps of a part of the work, and reports them.

    Parameters
    ----------
    report : callable
    part : str
    total : int
        May be changed later, where what is found decides how many steps follow.

    Examples
    --------
    >>> tally = Tally(lambda *state: print(*state), "local fits", 2)
    local fits 0 2
    >>> tally.add()
    local fits 1 2
    """

    def __init__(self, report: Report, part: str, total: int) -> None:
        self._report, self._part, self._done = report, part, 0
        self.total = total
        report(part, 0, total)

    def add(self) -> None:
        """Count a step."""
        self._done += 1
        self._report(self._part, self._done, max(self.total, self._done))
