"""What PyMC's progress bar shows of a tempered step, and when its draws count as divergent.

PyMC shows statistics of the last draw, and chains in other processes send nothing else; so what is
shown has to be a statistic.
"""

from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import ProgressColumn, TextColumn
from rich.table import Column

from pymc_tempering.progress.board import Board, PhaseColumn, format_count
from pymc_tempering.results.statistics import LABELS

__all__ = ["is_diverging", "progress_columns", "progress_update"]

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
