"""The command-line program: the galaxies by default, or a model from a file.

Exit codes: 0 when the run finished (warnings are printed, they do not change it), 2 when what was
asked for cannot be done (a message on stderr, no traceback), 130 after Ctrl-C.
"""

import argparse
import runpy
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pymc_tempering.errors import TemperingError, TemperingWarning

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["CommandError", "load_model", "main"]

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
DEFAULT_FOLDER = "out"
MAX_SUMMARY_ROWS = 30
# Six columns fit a terminal of 80 characters.
SUMMARY_COLUMNS = ("mean", "sd", "eti89_lb", "eti89_ub", "ess_bulk", "r_hat")


class CommandError(TemperingError):
    """What was asked for on the command line cannot be done."""


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _non_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


# argparse names the type in its message.
_positive.__name__ = "positive whole number"
_non_negative.__name__ = "whole number"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pymc_tempering",
        description="Log marginal likelihood, with its error, and draws from every mode. Without "
        "MODEL_FILE: how many clusters do the 82 galaxy velocities of Roeder (1990) form?",
        epilog="Options that are left out take the defaults of pymc_tempering.estimate_logz; the "
        "galaxies take 4 chains of 160 tuning draws and 160 draws.",
    )
    parser.add_argument(
        "model_file",
        nargs="?",
        type=Path,
        metavar="MODEL_FILE",
        help="a Python file that defines a PyMC model `model`, or `build_model()` returning one",
    )
    parser.add_argument("--method", help="how to sample (default: pt, parallel tempering)")
    parser.add_argument("--draws", type=_positive, metavar="N", help="draws per chain")
    parser.add_argument("--tune", type=_non_negative, metavar="N", help="tuning draws per chain")
    parser.add_argument("--chains", type=_positive, metavar="N", help="independent chains")
    parser.add_argument("--cores", type=_positive, metavar="N", help="processes to use")
    parser.add_argument("--seed", type=_non_negative, metavar="N", help="for the same draws again")
    parser.add_argument(
        "--components",
        type=_positive,
        metavar="K",
        help="galaxies only: the largest number of components (default: 4)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PATH",
        help="with MODEL_FILE: the netCDF file for draws and statistics (default: keep nothing); "
        f"galaxies: the folder for picture and table (default: {DEFAULT_FOLDER})",
    )
    return parser


def load_model(path: Path) -> "pm.Model":
    r"""Run a Python file and return the PyMC model that it defines.

    Parameters
    ----------
    path : Path
        The file. Its ``model`` is taken if there is one, otherwise ``build_model()`` is called.
        Modules next to it can be imported, as when Python runs it.

    Returns
    -------
    pymc.Model

    Raises
    ------
    CommandError
        If the file is missing, is not Python, fails, or defines no model.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pymc_tempering.cli import load_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "my_model.py")
    ...     _ = path.write_text("import pymc as pm\nwith pm.Model() as model: pm.Normal('x')")
    ...     load_model(path).free_RVs
    [x]
    """
    import pymc as pm

    if not path.is_file():
        raise CommandError(f"There is no file {path}. Give the path of a Python file.")
    if path.suffix != ".py":
        raise CommandError(f"{path} is not a Python file (.py): its model cannot be read.")
    sys.path.insert(0, str(path.resolve().parent))
    try:
        # Not under its own name: functions it defines then travel to worker processes by value.
        namespace = runpy.run_path(str(path), run_name="pymc_tempering_model_file")
        found = namespace.get("model")
        source = "model"
        if found is None and callable(namespace.get("build_model")):
            found, source = namespace["build_model"](), "build_model()"
    except Exception as error:
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        raise CommandError(f"Running {path} failed{_where(error, path)}: {what}") from error
    finally:
        sys.path.pop(0)
    if found is None and source == "model":
        raise CommandError(
            f"{path} defines neither `model` nor `build_model()`. Name the PyMC model `model`, "
            "or define a function build_model() that returns it."
        )
    if not isinstance(found, pm.Model):
        raise CommandError(
            f"`{source}` of {path} is of type {type(found).__name__}, not a PyMC model."
        )
    return found


def _where(error: Exception, path: Path) -> str:
    """Return ' in line N' for the deepest frame of ``error`` that lies in the user's file."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f" in line {error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f" in line {lines[-1]}" if lines else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command-line program.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process when left out.

    Returns
    -------
    int
        The exit code: 0, 2 (the request cannot be met) or 130 (interrupted).

    Raises
    ------
    SystemExit
        By argparse, for ``--help`` (code 0) and for options it does not know (code 2).

    Examples
    --------
    >>> from pymc_tempering.cli import main
    >>> main(["no_such_file.py"])
    2
    """
    arguments = _parser().parse_args(argv)
    errors = Console(stderr=True, highlight=False)
    try:
        if arguments.model_file is None:
            _run_galaxies(arguments)
        else:
            _run_model_file(arguments)
    except TemperingError as error:
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True)
        return EXIT_USAGE
    except KeyboardInterrupt:
        errors.print("Interrupted; nothing was written.")
        return EXIT_INTERRUPTED
    return 0


def _sampling_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what was given, so that defaults live in one place: the library's signature."""
    options = {
        "method": arguments.method,
        "draws": arguments.draws,
        "tune": arguments.tune,
        "chains": arguments.chains,
        "cores": arguments.cores,
        "random_seed": arguments.seed,
    }
    return {name: value for name, value in options.items() if value is not None}


def _run_galaxies(arguments: argparse.Namespace) -> None:
    from pymc_tempering.demo import run_demo

    folder = arguments.output or Path(DEFAULT_FOLDER)
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"--output {folder} is a file; the galaxies need a folder.")
    run_demo(folder, max_components=arguments.components or 4, **_sampling_options(arguments))


def _run_model_file(arguments: argparse.Namespace) -> None:
    if arguments.components is not None:
        raise CommandError(
            "--components belongs to the galaxies, not to a model file: leave it out."
        )
    output = arguments.output
    if output is not None and (output.is_dir() or not output.resolve().parent.is_dir()):
        raise CommandError(f"--output {output} must be a file in a folder that exists.")
    model = load_model(arguments.model_file)

    import pymc_tempering as pm_temper

    start = time.perf_counter()
    with warnings.catch_warnings():
        # They are printed below, once and readable.
        warnings.simplefilter("ignore", TemperingWarning)
        estimate = pm_temper.estimate_logz(model, **_sampling_options(arguments))
    seconds = time.perf_counter() - start

    console = Console(highlight=False)
    console.print(_estimate_table(estimate, arguments.model_file.name, seconds))
    console.print(_posterior_table(estimate.idata))
    for warning in estimate.warnings:
        console.print(f"[yellow]Warning:[/] {escape(str(warning))}", soft_wrap=True)
    if output is None:
        console.print("Nothing was written; add --output run.nc to keep the draws.")
    else:
        estimate.idata.to_netcdf(output, engine="h5netcdf")
        console.print(f"Draws and statistics: {output.resolve()}", soft_wrap=True)


def _estimate_table(estimate: Any, name: str, seconds: float) -> Table:
    low, high = estimate.interval(0.95)
    table = Table(title=f"Evidence of {name}", title_justify="left", show_header=False)
    table.add_row("log marginal likelihood", f"{estimate.log_z:.3f} nats")
    table.add_row("standard error", f"{estimate.se:.3f}")
    table.add_row("95 % interval", f"{low:.3f} to {high:.3f}")
    table.add_row("each chain", ", ".join(f"{value:.3f}" for value in estimate.per_chain))
    table.add_row("method", str(estimate.method))
    table.add_row("seconds", f"{seconds:.1f}, compilation included")
    return table


def _posterior_table(idata: Any) -> Table:
    import arviz as az

    summary = az.summary(idata, group="posterior", round_to="none")
    summary = summary.drop(columns=[name for name in summary if name not in SUMMARY_COLUMNS])
    table = Table(title="Posterior", title_justify="left")
    table.add_column("")
    for column in summary.columns:
        table.add_column(str(column), justify="right")
    for name, row in summary.head(MAX_SUMMARY_ROWS).iterrows():
        table.add_row(str(name), *(f"{value:.4g}" for value in row))
    if len(summary) > MAX_SUMMARY_ROWS:
        table.caption = f"The first {MAX_SUMMARY_ROWS} of {len(summary)} rows."
    return table
