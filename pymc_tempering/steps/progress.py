"""What tempered steps show while they sample: totals since tuning ended, and their columns.

PyMC shows statistics of the last draw, and chains in other processes send nothing else; so what is
shown has to be a statistic.
"""

from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.progress import ProgressColumn, TextColumn
from rich.table import Column

from pymc_tempering.engine.state import Stateful
from pymc_tempering.estimators.running import RunningLogZ
from pymc_tempering.progress.board import Board, PhaseColumn, format_count
from pymc_tempering.types import FloatArray

__all__ = ["Totals", "format_log_z", "is_diverging", "progress_columns", "progress_update"]

DIVERGING_SHARE = 0.1
"""Share of the trajectories at beta = 1 beyond which their divergences count for a draw. One of
them is a rejected proposal among dozens of a draw, and the next swap brings another replica; a
replica that cannot move at all has them one after the other."""

_PADDING = 3
_PYMC_WIDTH = 7 * (len("0:00:00") + _PADDING)
"""Of PyMC's own columns, which share it as 2:1:2:1:1: times are seen whole."""

_PHASE_WIDTH, _LONG_PHASE = len("sampling"), 38
_LOG_Z_WIDTH, _BARRIER_WIDTH = len("-1234.57 ± 0.04"), len("12.3")


class Totals(Stateful):
    """Counts since tuning ended, and log Z so far.

    Nothing that samples reads them.
    """

    divergences = 0
    round_trips = 0
    restarts = 0
    log_z: RunningLogZ | None = None
    _latest = (np.nan, np.nan)
    _changing = ("divergences", "round_trips", "restarts", "log_z")

    def count(self, *, diverging: bool, round_trips: int = 0, restarts: int = 0) -> None:
        """Add the counts of a draw."""
        self.divergences += int(diverging)
        self.round_trips += int(round_trips)
        self.restarts += int(restarts)

    def add_log_weights(
        self, log_weights: FloatArray, signs: tuple[float, ...], constant: float = 0.0
    ) -> None:
        """Add a draw's scans to log Z so far; see :class:`RunningLogZ`.

        Equal numbers of columns have each of the `signs`.
        """
        if self.log_z is None:
            self.log_z = RunningLogZ(np.repeat(signs, log_weights.shape[1] // len(signs)))
        self._latest = self.log_z.add(log_weights, constant)

    def statistics(self) -> dict[str, Any]:
        """Statistics of a draw, by name."""
        return {
            "divergences": self.divergences,
            "round_trips_so_far": self.round_trips,
            "restarts_so_far": self.restarts,
            "log_z_so_far": self._latest[0],
            "log_z_se_so_far": self._latest[1],
        }

    def set_state(self, state: dict[str, Any]) -> Self:
        """Continue from :meth:`state`, and return the object."""
        super().set_state(state)
        if state["log_z"] is not None:
            self.log_z = RunningLogZ.restored(state["log_z"])
        return self


def format_log_z(log_z: float, se: float) -> str:
    """Write log Z in nats to the digits that its error leaves.

    Examples
    --------
    >>> format_log_z(-1234.5678, 0.0432), format_log_z(-3.2, np.nan), format_log_z(np.nan, np.nan)
    ('-1234.57 ± 0.04', '-3.2', '-')
    """
    if not np.isfinite(log_z):
        return "-"
    if not np.isfinite(se):
        return f"{log_z:.1f}"
    digits = 1 if se >= 0.1 else 2 if se >= 0.01 else 3
    return f"{log_z:.{digits}f} ± {se:.{digits}f}"


def progress_columns(
    n_chains: int, trips: str, board: Board
) -> tuple[list[ProgressColumn], dict[str, list[Any]]]:
    """Columns of PyMC's progress bar, and what they show before the first draw.

    Parameters
    ----------
    n_chains : int
    trips : {"round_trips", "restarts"}
        What the sampler counts.
    board : Board
        What chains do before their first draw.
    """
    # PyMC's own columns share what is left: what would make their headings unreadable is left out.
    # "Round trips" has two lines
    left = Console().width - _PYMC_WIDTH - (_PHASE_WIDTH + _PADDING)
    header = trips.replace("_", " ").capitalize()
    entries = {
        "log_z": ("log Z", _LOG_Z_WIDTH),
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
    start = {"log_z": "-", "barrier": "-", trips: 0, "divergences": 0, "gradients": ""}
    return columns, {name: [value] * n_chains for name, value in start.items()}


def progress_update(statistics: dict[str, Any], trips: str) -> dict[str, Any]:
    """What the columns show after a draw with these statistics."""
    barrier = statistics["global_barrier"]
    return {
        "log_z": format_log_z(statistics["log_z_so_far"], statistics["log_z_se_so_far"]),
        "barrier": f"{barrier:.1f}" if np.isfinite(barrier) else "-",
        trips: int(statistics[f"{trips}_so_far"]),
        "divergences": int(statistics["divergences"]),
        "gradients": format_count(int(statistics["gradients_so_far"])),
        "failing": bool(statistics["divergences"] > 0),
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
