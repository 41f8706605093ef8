"""What the studies share: where figures go, how findings and tables are printed."""

import logging
import time
import warnings
from pathlib import Path

import numpy as np
from bench import load_cases
from rich.console import Console
from rich.table import Table

from pymc_tempering.plots.common import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILLION

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "figures"
# what short runs draw is no result, and git ignores it
SHORT_FOLDER = ROOT / "out"

COLOURS = {
    "PT": BLUE, "Gibbs CT": VERMILLION, "ST": GREEN, "joint CT": PURPLE, "AIS": ORANGE,
    "HAIS": SKY, "exact": INK, "bound": GREY,
}  # fmt: skip
MARKERS = {"PT": "o", "Gibbs CT": "s", "ST": "^", "joint CT": "D", "AIS": "v", "HAIS": "P"}
QUIET = {
    "cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False,
}  # fmt: skip

console = Console(width=190, highlight=False)


def cases_or_none():
    """The reference problems, with PyMC silenced; None, said aloud, where they are missing."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    cases = load_cases()
    if cases is None:
        console.print("The reference problems (shared/cases) are not here: nothing to measure.")
    return cases


def pyplot():
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure, name, full):
    """Into the documentation after a full run, out of its way after a short one."""
    path = (FOLDER if full else SHORT_FOLDER) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot().close(figure)
    console.print(f"figure: {path.relative_to(ROOT)}")


def plain_log(axis, names="xy", subs=(1.0, 2.0, 5.0)):
    """Logarithmic axes with ticks at 1, 2, 5 times powers of ten, written out."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter, NullLocator

    for name in names:
        getattr(axis, f"set_{name}scale")("log")
        ticks = getattr(axis, f"{name}axis")
        ticks.set_major_locator(LogLocator(subs=subs))
        ticks.set_major_formatter(FormatStrFormatter("%g"))
        ticks.set_minor_locator(NullLocator())
        ticks.set_minor_formatter(NullFormatter())


def finding(source, claim, came_out, measured):
    """Print on one line which finding of a paper was tried and what became of it."""
    verdict = {True: "came out", False: "DID NOT come out", None: "came out in part"}[came_out]
    console.print(f"{source}: {claim}: {verdict} ({measured})", soft_wrap=True)


def table(title, columns, rows):
    """Print a table; the first column is a name, the others are numbers."""
    result = Table(title=title)
    for i, column in enumerate(columns):
        result.add_column(column, justify="right" if i else "left")
    for row in rows:
        result.add_row(*(str(cell) for cell in row))
    console.print(result)


def rmse(errors, axis=None):
    return np.sqrt(np.mean(np.square(errors), axis=axis))


class Clock:
    """CPU seconds at every draw of ``pm.sample(cores=1)``, chain by chain, as its callback."""

    def __init__(self):
        self.last = time.process_time()
        self.seconds = {}

    def __call__(self, trace, draw):  # noqa: D102
        now = time.process_time()
        self.seconds.setdefault(draw.chain, []).append(now - self.last)
        self.last = now

    def elapsed(self, n_tune):
        """CPU seconds of all chains together up to each draw after tuning, shape (n_draws,).

        What `pm.sample` does before the first draw, compilation above all, is not in it: the first
        draw of the first chain is given the time of those of the others.
        """
        chains = np.array(list(self.seconds.values()))
        chains[0, 0] = np.median(chains[1:, 0])
        return np.cumsum(chains, axis=1)[:, n_tune:].sum(axis=0)
