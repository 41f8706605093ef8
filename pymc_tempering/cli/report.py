"""``report``: a stored run as one HTML file."""

import argparse
import warnings

from rich.console import Console
from rich.markup import escape

from pymc_tempering.cli.model_file import CommandError
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.results.files import check_output

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> None:
    """Do what was asked for.

    Raises
    ------
    TemperingError
    """
    path = arguments.run
    if path.suffix == ".py":
        raise CommandError(
            f"{path} is a model file, not a stored run: sample it with --output first, and report "
            "on what that wrote."
        )
    if not path.exists():
        raise CommandError(f"There is no file {path}. Give the path of a stored run.")

    from pymc_tempering.plots.report import REPORT_SUFFIXES, report

    target = check_output(
        arguments.output or path.with_suffix(".html"),
        REPORT_SUFFIXES,
        overwrite=arguments.force,
        remedy="--force",
        inputs=[path],
    )
    with warnings.catch_warnings():
        # They are on the page.
        warnings.simplefilter("ignore", TemperingWarning)
        report(path, target, title=arguments.title or path.stem, overwrite=arguments.force)
    Console(highlight=False).print(f"Report: {escape(str(target))}", soft_wrap=True)
