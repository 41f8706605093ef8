"""Sampling: one model, or several that are compared."""

import argparse
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from pymc_tempering.cli.model_file import (
    CommandError,
    SamplingError,
    check_model_file,
    load_models,
)
from pymc_tempering.cli.tables import comparison_table, estimate_table, posterior_table
from pymc_tempering.errors import OptionError, OutputError, TemperingError, TemperingWarning
from pymc_tempering.results.files import RUN_SUFFIXES, check_run_output, write_run

if TYPE_CHECKING:
    import pymc as pm

    from pymc_tempering.estimators.result import LogZEstimate

__all__ = ["run", "unique_names"]


def run(arguments: argparse.Namespace) -> None:
    """Do what was asked for.

    Raises
    ------
    TemperingError
    """
    for path in arguments.model_files:
        check_model_file(path)
    files = unique_names(arguments.model_files)
    targets = _check_targets(arguments, list(files))
    models = load_models(files)
    options = _sampling_options(arguments)
    seeds = _seeds(models, options.pop("random_seed", None))
    console = Console(highlight=False)
    estimates, failures = _sample_each(console, models, seeds, files, targets, arguments, options)
    if len(estimates) > 1:
        from pymc_tempering.comparison.table import compare

        console.print(comparison_table(compare(estimates)))
    if failures:
        raise OutputError("\n".join(failures))
    where = "Nothing was written; add --output to keep the draws."
    written = [str(targets[name]) for name in estimates if name in targets]
    if written:
        where = f"Draws and statistics: {' '.join(written)}"
    console.print(escape(where), soft_wrap=True)
    if any(map(_is_interrupted, estimates.values())):
        raise KeyboardInterrupt


def unique_names(paths: list[Path]) -> dict[str, Path]:
    """Name files by their stems, or by their paths where stems are equal.

    Raises
    ------
    CommandError
        If a file is given twice.

    Examples
    --------
    >>> list(unique_names([Path("a/line.py"), Path("b/cubic.py")]))
    ['line', 'cubic']
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise CommandError(f"A file is given twice: {' '.join(map(str, paths))}")
    stems = [path.stem for path in paths]
    named = stems if len(set(stems)) == len(stems) else map(str, paths)
    return dict(zip(named, paths, strict=True))


def _sample_each(
    console: Console,
    models: Mapping[str, Any],
    seeds: list[int | None],
    files: Mapping[str, Path],
    targets: Mapping[str, Path],
    arguments: argparse.Namespace,
    options: dict[str, Any],
) -> tuple[dict[str, "LogZEstimate"], list[str]]:
    """Sample, store and show one model after another; Ctrl-C ends it with what there is."""
    folders = _resume_folders(arguments, list(models))
    estimates: dict[str, LogZEstimate] = {}
    failures: list[str] = []
    for (name, model), seed in zip(models.items(), seeds, strict=True):
        if seed is not None:
            options["random_seed"] = seed
        if len(models) > 1:
            console.print(f"[bold]{escape(files[name].name)}[/]")
        start = time.perf_counter()
        kept = {"resume": folders[name]} if name in folders else {}
        estimates[name] = _estimate(model, files[name], options | kept)
        seconds = time.perf_counter() - start
        # before anything is printed: a terminal that has gone must not take the draws with it
        if name in targets:
            failures += _store(estimates[name], targets[name], arguments.force)
        _show(console, estimates[name], files[name].name, seconds)
        if _is_interrupted(estimates[name]):
            break
    return estimates, failures


def _is_interrupted(estimate: "LogZEstimate") -> bool:
    return any(diagnostic.code == "interrupted" for diagnostic in estimate.warnings)


def _seeds(models: Mapping[str, Any], seed: int | None) -> list[int | None]:
    """One seed for each model; several models have to be of the same data."""
    if len(models) == 1:
        return [seed]
    from pymc_tempering.comparison.estimates import check_same_data

    check_same_data(models)
    # as `compare` does, so that both give the same numbers
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(len(models))]


def _store(estimate: "LogZEstimate", target: Path, overwrite: bool) -> list[str]:
    """Store a run; return what failed, so that the models that remain are sampled."""
    try:
        write_run(estimate.idata, target, overwrite=overwrite)
    except OutputError as error:
        # at once, since nobody knows how the next model ends
        Console(stderr=True, highlight=False).print(escape(str(error)), soft_wrap=True)
        return [str(error)]
    return []


def _show(console: Console, estimate: "LogZEstimate", name: str, seconds: float) -> None:
    console.print(estimate_table(estimate, name, seconds))
    console.print(posterior_table(estimate.idata))
    for warning in estimate.warnings:
        console.print(f"[yellow]Warning:[/] {escape(str(warning))}", soft_wrap=True)


def _resume_folders(arguments: argparse.Namespace, names: list[str]) -> dict[str, Path]:
    """Where each run is kept while it is sampled; nothing without ``--resume``."""
    if arguments.resume is None:
        return {}
    if len(names) == 1:
        return {names[0]: arguments.resume}
    if arguments.seed is None:
        raise CommandError(
            "--resume with several models needs --seed, from which each model has a seed of its "
            "own: add one, the same at every call."
        )
    stems = {name: Path(name).stem for name in names}
    if len(set(stems.values())) < len(stems):
        raise CommandError(
            f"--resume: {' and '.join(names)} would be kept under one name; sample them one by one."
        )
    return {name: arguments.resume / stem for name, stem in stems.items()}


def _check_targets(arguments: argparse.Namespace, names: list[str]) -> dict[str, Path]:
    """Where each run goes, if that can be written; nothing without ``--output``."""
    output = arguments.output
    if output is None:
        return {}
    if len(names) == 1:
        wanted = {names[0]: output}
    else:
        if output.suffix.lower() in (*RUN_SUFFIXES, ".py"):
            raise CommandError(
                f"--output {output} looks like a file; with several models it is the folder that "
                "gets one file for each."
            )
        stems = {name: Path(name).stem for name in names}
        if len(set(stems.values())) < len(stems):
            raise CommandError(
                f"--output: {' and '.join(names)} would be stored under one name; store them one "
                "by one, and `compare` the files."
            )
        wanted = {name: output / f"{stem}.nc" for name, stem in stems.items()}
    try:
        return {
            name: check_run_output(
                path,
                overwrite=arguments.force,
                remedy="--force",
                inputs=tuple(arguments.model_files),
            )
            for name, path in wanted.items()
        }
    except OptionError as error:
        raise CommandError(f"--output: {error}") from error


def _estimate(model: "pm.Model", path: Path, options: dict[str, Any]) -> "LogZEstimate":
    import pymc_tempering as pm_temper

    try:
        with warnings.catch_warnings():
            # They are printed once and readable.
            warnings.simplefilter("ignore", TemperingWarning)
            return pm_temper.estimate_logz(model, **options)
    except OutputError:
        # of --resume: draws were made, and the error says where they are
        raise
    except TemperingError as error:
        raise CommandError(f"{path}: {error}") from error
    except Exception as error:
        what = (str(error).strip().splitlines() or [""])[0]
        raise SamplingError(
            f"Sampling {path} failed: {type(error).__name__}: {what}".rstrip(": ")
            + "\n--full-errors prints where that came from."
        ) from error


def _sampling_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what was given, so that defaults live in one place: the library's signature."""
    options = {
        "method": arguments.method,
        "draws": arguments.draws,
        "tune": arguments.tune,
        "chains": arguments.chains,
        "max_gradients": arguments.max_gradients,
        "cores": arguments.cores,
        "random_seed": arguments.seed,
    }
    return {name: value for name, value in options.items() if value is not None}
