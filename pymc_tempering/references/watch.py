"""How far fits are, for whoever wants to show it. Nothing that fits reads it."""

from typing import Protocol

__all__ = ["Report", "unwatched"]


class Report(Protocol):
    """Called with a part of the work, how many of its steps are done, and how many there are to be.

    And with the gradients that it took so far, where the steps are none themselves.
    """

    def __call__(self, part: str, done: int, total: int, gradients: int = 0) -> None:
        """Take note of it."""


def unwatched(part: str, done: int, total: int, gradients: int = 0) -> None:
    """Report to nobody."""
