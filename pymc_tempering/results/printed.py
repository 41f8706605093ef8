"""A data frame whose plain print fits the width of a terminal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pymc_tempering.estimators.result import decimals_of_error

__all__ = ["PrintedTable", "with_error"]

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


def with_error(values: Sequence[Any] | pd.Series, errors: Sequence[Any] | pd.Series) -> list[str]:
    """Write numbers with their errors, with as many decimals as these determine.

    Examples
    --------
    >>> with_error([-1.23456, 0.0], [0.021, 0.0])
    ['-1.23 ± 0.02', '0']
    """
    texts = []
    for value, error in zip(values, errors, strict=True):
        digits = decimals_of_error(error)
        if np.isnan(value):
            texts.append("")
        elif error == 0.0:
            texts.append(f"{value:g}")
        else:
            unknown = "?" if np.isnan(error) else f"{error:.{digits}f}"
            texts.append(f"{value:z.{digits}f} ± {unknown}")
    return texts


def _shortened(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
