"""The command-line program: models from files, and stored runs.

Exit codes: 0 when the run finished (warnings are printed, they do not change it), 1 when sampling
failed, 2 when what was asked for cannot be done (before any sampling), 3 when what was computed
could not be written where it should be (the message says where it is kept), 130 after Ctrl-C.
Messages go to stderr, without a traceback unless ``--full-errors`` asks for it.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from pymc_tempering.cli import commands
from pymc_tempering.cli.commands import CommandError, ExitCode, load_model
from pymc_tempering.errors import OutputError, TemperingError

__all__ = ["CommandError", "ExitCode", "load_model", "main"]

_PROGRAM = "python -m pymc_tempering"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command-line program, with the arguments of the process by default.

    It returns 0 or a code of :class:`ExitCode`. For ``--help``, ``--version`` and options that it
    does not know argparse raises SystemExit.

    Examples
    --------
    >>> from pymc_tempering.cli import main
    >>> main(["no_such_file.py"])
    2
    """
    arguments = _parse(sys.argv[1:] if argv is None else list(argv))
    errors = Console(stderr=True, highlight=False)
    try:
        getattr(commands, arguments.task)(arguments)
    except TemperingError as error:
        if arguments.full_errors:
            errors.print_exception()
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True)
        if isinstance(error, CommandError):
            return int(error.exit_code)
        known = ExitCode.NOT_WRITTEN if isinstance(error, OutputError) else ExitCode.USAGE
        return int(known)
    except KeyboardInterrupt:
        errors.print("Interrupted; nothing more was written.")
        return int(ExitCode.INTERRUPTED)
    return 0


def _parse(argv: list[str]) -> argparse.Namespace:
    parsers = {"compare": _compare_parser, "report": _report_parser}
    task = argv[0] if argv[:1] and argv[0] in parsers else "sample"
    parser = parsers.get(task, _sample_parser)()
    parser.add_argument(
        "--full-errors", action="store_true", help="with an error, print where it came from"
    )
    parser.set_defaults(task=task)
    arguments = parser.parse_intermixed_args(argv if task == "sample" else argv[1:])
    if task == "sample" and not arguments.model_files:
        parser.error("no MODEL_FILE was given")
    return arguments


def _whole_number(low: int, high: float = 10**9) -> Callable[[str], int]:
    # a typing error of a few digits would otherwise end in a MemoryError
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            up_to = f"from {low} to {high}" if high < float("inf") else f"from {low} up"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {up_to}")
        return value

    return read


def _sample_parser() -> argparse.ArgumentParser:
    from pymc_tempering import __version__

    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        usage=f"{_PROGRAM} [options] MODEL_FILE ...\n"
        f"       {_PROGRAM} compare [options] RUN RUN ...\n"
        f"       {_PROGRAM} report [options] RUN",
        description="Log marginal likelihood, with its error, and draws from every mode; several "
        "models are compared. `compare` and `report` read stored runs and sample nothing; "
        "`compare --help` and `report --help` say more.",
        epilog="A model file is a program: it is run, and can do whatever you can. Run only files "
        "that you trust. Options that are left out take the defaults of "
        "pymc_tempering.estimate_logz.",
    )
    add, count = parser.add_argument, _whole_number(1)
    add(
        "model_files",
        nargs="*",
        type=Path,
        metavar="MODEL_FILE",
        help="a Python file that defines a PyMC model `model`, or `build_model()` returning one",
    )
    add("--method", help="how to sample (default: pt, parallel tempering)")
    add("--draws", type=count, metavar="N", help="draws per chain")
    add("--tune", type=_whole_number(0), metavar="N", help="tuning draws per chain")
    add("--chains", type=count, metavar="N", help="independent chains")
    add(
        "--max-gradients",
        type=count,
        metavar="N",
        help="the most gradients that all chains may take, search and tuning included",
    )
    add("--cores", type=count, metavar="N", help="processes to use")
    add("--seed", type=_whole_number(0, float("inf")), metavar="N", help="for the same draws again")
    add(
        "--output",
        type=Path,
        metavar="PATH",
        help="one MODEL_FILE: the file for draws and statistics, netCDF (.nc) or zarr (.zarr), "
        "default: keep nothing; several: the folder for one such file each",
    )
    add(
        "--resume",
        type=Path,
        metavar="PATH",
        help="a folder in which the run is kept while it is sampled; the same command continues "
        "one that was killed, and makes one longer with more --draws. Several MODEL_FILEs: each "
        "has a folder of its name in it",
    )
    add("--force", action="store_true", help="replace output that exists")
    add("--version", action="version", version=f"pymc_tempering {__version__}")
    return parser  # fmt: skip


def _compare_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{_PROGRAM} compare",
        description="Rank models by the evidence of stored runs of the same data. Nothing is "
        "sampled and nothing is written.",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN",
        help="at least two: what --output or DataTree.to_netcdf stored (.nc or .zarr)",
    )  # fmt: skip
    return parser


def _report_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{_PROGRAM} report",
        description="Write one HTML file about a stored run: what is doubtful and what to do, the "
        "estimates, the pictures.",
    )
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="what --output or DataTree.to_netcdf stored")
    add("--output", type=Path, metavar="PATH", help="default: RUN with the ending .html")
    add("--title", help="heading of the page (default: the name of the file)")
    add("--force", action="store_true", help="replace output that exists")
    return parser
