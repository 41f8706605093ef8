"""A data frame whose plain print fits the width of a terminal."""

import pandas as pd

__all__ = ["PrintedTable"]

_WIDTH = 80
_LEAST = 8


class PrintedTable(pd.DataFrame):
    """Prints short columns, made from those that it has; in all else a plain data frame.

    What is selected or computed from it is a plain data frame again.
    """

    @staticmethod
    def short(table: pd.DataFrame) -> pd.DataFrame:
        """Make the columns to print."""
        return pd.DataFrame(table)

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        table = type(self).short(self)
        names = [str(name) for name in table.index]
        longest = max(map(len, names), default=0)
        width = len(table.to_string().split("\n", 1)[0])
        table.index = pd.Index(
            [_shortened(n, max(_LEAST, longest + _WIDTH - width)) for n in names]
        )
        return table.to_string()


def _shortened(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
