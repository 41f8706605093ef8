"""``compare``: stored runs ranked by their evidence."""

import argparse
import warnings

from rich.console import Console
from rich.markup import escape

from pymc_tempering.cli.model_file import CommandError
from pymc_tempering.cli.sample import unique_names
from pymc_tempering.cli.tables import comparison_table
from pymc_tempering.errors import DataError, TemperingWarning

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> None:
    """Do what was asked for.

    Raises
    ------
    TemperingError
    """
    paths = arguments.runs
    models = [path for path in paths if path.suffix == ".py"]
    if models:
        raise CommandError(
            f"{models[0]} is a model file, not a stored run: leave `compare` out, and models are "
            "sampled and compared; or store its run with --output first."
        )
    if len(paths) < 2:
        raise CommandError(
            f"Only {paths[0]} is given; compare needs two runs or more. `report` describes one."
        )
    names = unique_names(paths)

    from pymc_tempering.comparison.estimates import resolve_estimates
    from pymc_tempering.comparison.table import compare

    with warnings.catch_warnings():
        # They are printed below, each with the name of its run.
        warnings.simplefilter("ignore", TemperingWarning)
        try:
            estimates = resolve_estimates(names)
        except DataError as error:
            raise CommandError(str(error)) from error
    console = Console(highlight=False)
    console.print(comparison_table(compare(estimates)))
    for name, estimate in estimates.items():
        for warning in estimate.warnings:
            console.print(f"[yellow]{escape(name)}:[/] {escape(str(warning))}", soft_wrap=True)
