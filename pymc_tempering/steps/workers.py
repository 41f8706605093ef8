"""Processes for chains: whether they can be started from here, and what it says if one fails.

A process that is spawned, or comes from a fork server, runs the program's file again before it
samples, to find what stands in it. A file that samples at its top level would do so again in every
process, which Python ends, without a word to the one that waits for draws.
"""

import ast
import inspect
import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

import pymc as pm

from pymc_tempering.errors import OptionError, TemperingError, WorkerError
from pymc_tempering.options import check_choice
from pymc_tempering.private.of_pymc import default_cores, start_method

_GUARD = 'if __name__ == "__main__":'
_ONE_PROCESS = "pass `cores=1`"
_WAYS_OUT = _ONE_PROCESS + (
    ', or `mp_ctx="fork"`' if "fork" in multiprocessing.get_all_start_methods() else ""
)
_CONDITIONS = (ast.If, ast.While, ast.Match, ast.IfExp, ast.BoolOp)


def check_start_method(mp_ctx: Any) -> str:
    """Name of the way in which ``pm.sample`` would start processes."""
    if isinstance(mp_ctx, str):
        check_choice("mp_ctx", mp_ctx, tuple(multiprocessing.get_all_start_methods()))
    elif mp_ctx is not None and not hasattr(mp_ctx, "get_start_method"):
        raise OptionError(
            f"`mp_ctx` is {mp_ctx!r}; expected one of {multiprocessing.get_all_start_methods()} or "
            "a context of `multiprocessing`."
        )
    return start_method(mp_ctx)


def check_workers(mp_ctx: Any, *, chains: int, cores: int | None, no_fork: str = "") -> Any:
    """Refuse a run whose processes could not start, before anything is computed.

    ``no_fork`` says why processes cannot be forked, where they cannot. Gives what ``pm.sample`` is
    to be given: `mp_ctx`, unless that is None and would fork in vain.
    """
    method, ways_out = check_start_method(mp_ctx), _WAYS_OUT
    if chains == 1 or (default_cores() if cores is None else cores) < 2:
        return mp_ctx
    if no_fork:
        ways_out = _ONE_PROCESS
        if method == "fork" and mp_ctx is not None:
            raise OptionError(f"`mp_ctx` is 'fork'. {no_fork}. Take 'spawn', or {ways_out}.")
        if method == "fork":
            # a server may have run the program's file, and with it JAX, before it is forked
            method = mp_ctx = "spawn"
    path = None if method == "fork" else _file_run_again()
    if path is None:
        return mp_ctx
    again = f"Processes that are started by {method!r} run the program again up to its end"
    if not path.is_file():
        raise OptionError(f"{again}, and {path.name} is no file. Write it to one, or {ways_out}.")
    line = _line_at_top_level(path)
    if line is not None:
        raise OptionError(
            f"{again}, and line {line} of {path.name} samples without a condition, so that each of "
            f"them would. Put what starts the run under `{_GUARD}`, or {ways_out}."
        )
    return mp_ctx


def refuse_before_start() -> None:
    """Refuse to sample in a process that was started to, and did not get there."""
    # as long as the program runs again, it is not yet the one that the process belongs to; where
    # none does, the first name is another one for a program that is called by the second
    program = sys.modules.get("__mp_main__")
    runs_again = program is not None and program.__name__ == "__mp_main__"
    if runs_again and sys.modules["__main__"] is not program:
        raise OptionError(
            "This process was started to sample a chain, and began a run of its own before: it "
            f"runs the program's file again. Put what starts the run under `{_GUARD}`, or "
            f"{_WAYS_OUT}."
        )


@contextmanager
def errors_of_workers() -> Iterator[None]:
    """Raise what a chain raises in a process of its own as it does in this one."""
    try:
        yield
    except pm.sampling.parallel.ParallelSamplingError as error:
        cause = error.__cause__
        if not isinstance(cause, TemperingError):
            raise
        # whose own cause is the traceback in that process
        raise cause from cause.__cause__
    except (EOFError, ConnectionError) as error:
        raise WorkerError(
            "A process that sampled a chain ended without an answer: the system ended it, as where "
            "memory is short, or code of the model did; what it wrote itself stands above. With "
            "`resume=`, the same call goes on from what is kept. `cores=1` samples in this process."
        ) from error


def _file_run_again() -> Path | None:
    """File of the program that a started process runs; None where it runs none."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if file is None or (spec is not None and spec.name.split(".")[-1] == "__main__"):
        return None
    path = Path(file)
    return None if path.stem == "ipython" else path


def _line_at_top_level(path: Path) -> int | None:
    """Line of the program's file that is being run, if nothing keeps it from being run again."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "__main__" and frame.f_code.co_name == "<module>":
            break
        frame = frame.f_back
    if frame is None or Path(frame.f_code.co_filename).resolve() != path.resolve():
        return None
    line, source = frame.f_lineno, path.read_bytes()
    if not _is_source(source, frame.f_code):
        # edited since it was started: what it samples now, its processes will find out
        return None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _CONDITIONS) and node.lineno <= line <= (node.end_lineno or line):
            return None
    return line


def _is_source(source: bytes, code: CodeType) -> bool:
    try:
        return compile(source, code.co_filename, "exec", dont_inherit=True) == code
    except (SyntaxError, ValueError):
        return False
