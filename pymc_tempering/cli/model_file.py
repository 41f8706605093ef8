"""Models from Python files."""

import runpy
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pymc_tempering.errors import TemperingError
from pymc_tempering.results.files import RUN_SUFFIXES

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["CommandError", "check_model_file", "load_model", "load_models"]


class CommandError(TemperingError):
    """What was asked for on the command line cannot be done, or failed in the middle of it."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
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
