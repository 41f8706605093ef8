"""What can be asked for on the command line."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["parse"]

_PROGRAM = "python -m pymc_tempering"
# A typing error of a few digits would otherwise end in a MemoryError.
_MAX_NUMBER = 10**9


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the arguments; ``task`` of the result says which of the programs they are for.

    Raises
    ------
    SystemExit
        By argparse, after help, the version, or a message.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["compare"]:
        return _compare_parser().parse_intermixed_args(argv[1:])
    if argv[:1] == ["report"]:
        return _report_parser().parse_intermixed_args(argv[1:])
    parser = _sample_parser()
    arguments = parser.parse_intermixed_args(argv)
    if not arguments.model_files:
        parser.error("no MODEL_FILE was given")
    return arguments


def _whole_number(low: int, high: int | None = _MAX_NUMBER) -> Callable[[str], int]:
    expected = f"from {low} up" if high is None else f"from {low} to {high}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {expected}")
        return value

    return read


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--full-errors", action="store_true", help="with an error, print where it came from"
    )


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace output that exists")


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
    parser.add_argument(
        "model_files",
        nargs="*",
        type=Path,
        metavar="MODEL_FILE",
        help="a Python file that defines a PyMC model `model`, or `build_model()` returning one",
    )
    count = _whole_number(1)
    parser.add_argument("--method", help="how to sample (default: pt, parallel tempering)")
    parser.add_argument("--draws", type=count, metavar="N", help="draws per chain")
    parser.add_argument("--tune", type=_whole_number(0), metavar="N", help="tuning draws per chain")
    parser.add_argument("--chains", type=count, metavar="N", help="independent chains")
    parser.add_argument(
        "--max-gradients",
        type=count,
        metavar="N",
        help="the most gradients that all chains may take, search and tuning included",
    )
    parser.add_argument("--cores", type=count, metavar="N", help="processes to use")
    parser.add_argument(
        "--seed", type=_whole_number(0, None), metavar="N", help="for the same draws again"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PATH",
        help="one MODEL_FILE: the file for draws and statistics, netCDF (.nc) or zarr (.zarr), "
        "default: keep nothing; several: the folder for one such file each",
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="PATH",
        help="a folder in which the run is kept while it is sampled; the same command continues "
        "one that was killed, and makes one longer with more --draws. Several MODEL_FILEs: each "
        "has a folder of its name in it",
    )
    _add_force(parser)
    parser.add_argument("--version", action="version", version=f"pymc_tempering {__version__}")
    _add_common(parser)
    parser.set_defaults(task="sample")
    return parser


def _compare_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{_PROGRAM} compare",
        description="Rank models by the evidence of stored runs of the same data. Nothing is "
        "sampled and nothing is written.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="at least two: what --output or DataTree.to_netcdf stored (.nc or .zarr)",
    )
    _add_common(parser)
    parser.set_defaults(task="compare")
    return parser


def _report_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{_PROGRAM} report",
        description="Write one HTML file about a stored run: what is doubtful and what to do, the "
        "estimates, the pictures.",
    )
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="what --output or DataTree.to_netcdf stored (.nc or .zarr)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="default: RUN with the ending .html"
    )
    parser.add_argument("--title", help="heading of the page (default: the name of the file)")
    _add_force(parser)
    _add_common(parser)
    parser.set_defaults(task="report")
    return parser
