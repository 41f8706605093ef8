"""What the command line does: sample models of files, compare stored runs, report on one."""

import argparse
import runpy
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from pymc_tempering.errors import (
    DataError,
    OptionError,
    OutputError,
    TemperingError,
    TemperingWarning,
)
from pymc_tempering.progress import say
from pymc_tempering.results.files import RUN_SUFFIXES, check_output, check_run_output, write_run

if TYPE_CHECKING:
    import pymc as pm

    from pymc_tempering.estimators.result import LogZEstimate


_OPTIONS = ("method", "draws", "tune", "chains", "max_gradients", "cores")


class ExitCode(IntEnum):
    """What the program ends with where it does not end with 0."""

    FAILED = 1
    """Sampling failed."""
    USAGE = 2
    """What was asked for cannot be done; as argparse says it."""
    NOT_WRITTEN = 3
    """The result is kept elsewhere than asked."""
    INTERRUPTED = 130
    """By Ctrl-C; as shells say it."""


class CommandError(TemperingError):
    """What was asked for on the command line cannot be done, or failed in the middle of it."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def load_model(path: Path) -> "pm.Model":
    r"""Run a Python file and return the PyMC model that it defines.

    Its ``model`` is taken if there is one, otherwise ``build_model()`` is called. Modules next to
    the file can be imported, as when Python runs it. A file that is missing, is not Python, fails,
    or defines no model is a CommandError.
    """
    import pymc as pm

    check_model_file(path)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        # Not under its own name: functions it defines then travel to worker processes by value.
        namespace = runpy.run_path(str(path), run_name="pymc_tempering_model_file")
        found = namespace.get("model")
        source = "model"
        if found is None and callable(namespace.get("build_model")):
            found, source = namespace["build_model"](), "build_model()"
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        raise CommandError(f"Running {path} failed{_where(error, path)}: {what}") from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
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


def load_models(files: Mapping[str, Path]) -> dict[str, "pm.Model"]:
    """Models of several files, by the names given to them; see :func:`load_model`.

    Files in different folders may import modules of equal names, each its own.
    """
    folders = {path.resolve().parent for path in files.values()}
    models = {}
    for name, path in files.items():
        before = set(sys.modules)
        models[name] = load_model(path)
        if len(folders) > 1:
            for module in set(sys.modules) - before:
                origin = getattr(sys.modules[module], "__file__", None)
                if origin and Path(origin).is_relative_to(path.resolve().parent):
                    del sys.modules[module]
    return models


def check_model_file(path: Path) -> None:
    """Refuse what cannot be a model file, without running it."""
    if not path.is_file():
        raise CommandError(f"There is no file {path}. Give the path of a Python file.")
    if path.suffix in RUN_SUFFIXES:
        raise CommandError(
            f"{path} is a stored run, not a model file. `compare {path} ...` compares it with "
            f"others, `report {path}` describes it."
        )
    if path.suffix != ".py":
        raise CommandError(f"{path} is not a Python file (.py): its model cannot be read.")


def _where(error: BaseException, path: Path) -> str:
    """Return ' in line N' for the deepest frame of ``error`` that lies in the user's file."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f" in line {error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f" in line {lines[-1]}" if lines else ""


def sample(arguments: argparse.Namespace) -> None:
    """Sample one model, or several that are compared."""
    for path in arguments.model_files:
        check_model_file(path)
    files = _unique_names(arguments.model_files)
    targets, folders = _targets(arguments, list(files)), _resume_folders(arguments, list(files))
    models = load_models(files)
    seeds = [arguments.seed]
    if len(models) > 1:
        from pymc_tempering.comparison.estimates import check_same_data

        check_same_data(models)
        # as `compare` does, so that both give the same numbers
        drawn = np.random.SeedSequence(arguments.seed).generate_state(len(models))
        seeds = [int(seed) for seed in drawn]
    estimates: dict[str, LogZEstimate] = {}
    failures: list[str] = []
    for (name, model), seed in zip(models.items(), seeds, strict=True):
        say(f"[bold]{escape(files[name].name)}[/]")
        started = time.perf_counter()
        # whose defaults are in the signature of the library alone
        options = {option: getattr(arguments, option) for option in _OPTIONS}
        options |= {"random_seed": seed, "resume": folders.get(name)}
        given = {option: value for option, value in options.items() if value is not None}
        estimate = estimates[name] = _estimate(model, files[name], given)
        seconds = time.perf_counter() - started
        # before anything is printed: a terminal that has gone must not take the draws with it
        if name in targets:
            failures += _store(estimate, targets[name], arguments.force)
        _show(estimate, seconds)
        if _is_interrupted(estimate):
            break
    if len(estimates) > 1:
        from pymc_tempering.comparison.table import compare as compare_models

        say(escape(repr(compare_models(estimates))))
    if failures:
        raise OutputError("\n".join(failures))
    written = [str(targets[name]) for name in estimates if name in targets]
    where = f"Draws and statistics: {' '.join(written)}"
    say(escape(where if written else "Nothing was written; add --output to keep the draws."))
    if any(map(_is_interrupted, estimates.values())):
        raise KeyboardInterrupt


def compare(arguments: argparse.Namespace) -> None:
    """Rank stored runs by their evidence."""
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
    names = _unique_names(paths)

    from pymc_tempering.comparison.estimates import resolve_estimates
    from pymc_tempering.comparison.table import compare as compare_models

    # they are printed below, each with the name of its run
    with warnings.catch_warnings(action="ignore", category=TemperingWarning):
        try:
            estimates = resolve_estimates(names)
        except DataError as error:
            raise CommandError(str(error)) from error
    say(escape(repr(compare_models(estimates))))
    for name, estimate in estimates.items():
        for warning in estimate.warnings:
            say(f"[yellow]{escape(name)}:[/] {escape(str(warning))}")


def report(arguments: argparse.Namespace) -> None:
    """Write one HTML file about a stored run."""
    path = arguments.run
    if path.suffix == ".py":
        raise CommandError(
            f"{path} is a model file, not a stored run: sample it with --output first, and report "
            "on what that wrote."
        )
    if not path.exists():
        raise CommandError(f"There is no file {path}. Give the path of a stored run.")

    from pymc_tempering.plots.report import REPORT_SUFFIXES
    from pymc_tempering.plots.report import report as write_report

    target = check_output(
        arguments.output or path.with_suffix(".html"), REPORT_SUFFIXES, overwrite=arguments.force,
        remedy="--force", inputs=[path],
    )  # fmt: skip
    # they are on the page
    with warnings.catch_warnings(action="ignore", category=TemperingWarning):
        write_report(path, target, title=arguments.title or path.stem, overwrite=arguments.force)
    say(f"Report: {escape(str(target))}")


def _unique_names(paths: list[Path]) -> dict[str, Path]:
    """Name files by their stems, or by their paths where stems are equal."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise CommandError(f"A file is given twice: {' '.join(map(str, paths))}")
    stems = [path.stem for path in paths]
    named = stems if len(set(stems)) == len(stems) else map(str, paths)
    return dict(zip(named, paths, strict=True))


def _is_interrupted(estimate: "LogZEstimate") -> bool:
    return any(diagnostic.code == "interrupted" for diagnostic in estimate.warnings)


def _store(estimate: "LogZEstimate", target: Path, overwrite: bool) -> list[str]:
    """Store a run; return what failed, so that the models that remain are sampled."""
    try:
        write_run(estimate.idata, target, overwrite=overwrite)
    except OutputError as error:
        # at once, since nobody knows how the next model ends
        Console(stderr=True, highlight=False).print(escape(str(error)), soft_wrap=True)
        return [str(error)]
    return []


def _show(estimate: "LogZEstimate", seconds: float) -> None:
    import arviz as az

    say(escape(f"{estimate!r}\n  seconds: {seconds:.1f}, compilation included"))
    summary = az.summary(estimate.idata, group="posterior", round_to="none")
    shown = ("mean", "sd", "eti89_lb", "eti89_ub", "ess_bulk", "r_hat")
    summary = summary[[name for name in summary if name in shown]]
    most = 30  # a screen
    say(escape(summary.head(most).to_string(float_format="{:.4g}".format)))
    if len(summary) > most:
        say(f"The first {most} of {len(summary)} rows.")


def _by_stem(names: list[str], option: str, remedy: str) -> dict[str, str]:
    """Stems of several names, under which files of theirs are kept in one folder."""
    stems = {name: Path(name).stem for name in names}
    if len(set(stems.values())) < len(stems):
        raise CommandError(f"{option}: {' and '.join(names)} would have one name there; {remedy}.")
    return stems


def _resume_folders(arguments: argparse.Namespace, names: list[str]) -> dict[str, Path]:
    """Where each run is kept while it is sampled; nothing without ``--resume``."""
    folder = arguments.resume
    if folder is None or len(names) == 1:
        return {} if folder is None else {names[0]: folder}
    if arguments.seed is None:
        raise CommandError(
            "--resume with several models needs --seed, from which each model has a seed of its "
            "own: add one, the same at every call."
        )
    stems = _by_stem(names, "--resume", "sample them one by one")
    return {name: folder / stem for name, stem in stems.items()}


def _targets(arguments: argparse.Namespace, names: list[str]) -> dict[str, Path]:
    """Where each run goes, if that can be written; nothing without ``--output``."""
    output = arguments.output
    if output is None:
        return {}
    wanted = {names[0]: output}
    if len(names) > 1:
        if output.suffix.lower() in (*RUN_SUFFIXES, ".py"):
            raise CommandError(
                f"--output {output} looks like a file; with several models it is the folder that "
                "gets one file for each."
            )
        stems = _by_stem(names, "--output", "store them one by one, and `compare` the files")
        wanted = {name: output / f"{stem}.nc" for name, stem in stems.items()}
    options: Any = {
        "overwrite": arguments.force, "remedy": "--force", "inputs": tuple(arguments.model_files),
    }  # fmt: skip
    try:
        return {name: check_run_output(path, **options) for name, path in wanted.items()}
    except OptionError as error:
        raise CommandError(f"--output: {error}") from error


def _estimate(model: "pm.Model", path: Path, options: dict[str, Any]) -> "LogZEstimate":
    import pymc_tempering as pm_temper

    try:
        # they are printed once and readable
        with warnings.catch_warnings(action="ignore", category=TemperingWarning):
            return pm_temper.estimate_logz(model, **options)
    except OutputError:
        # of --resume: draws were made, and the error says where they are
        raise
    except TemperingError as error:
        raise CommandError(f"{path}: {error}") from error
    except Exception as error:
        what = (str(error).strip().splitlines() or [""])[0]
        raise CommandError(
            f"Sampling {path} failed: {type(error).__name__}: {what}".rstrip(": ")
            + "\n--full-errors prints where that came from.",
            exit_code=ExitCode.FAILED,
        ) from error
