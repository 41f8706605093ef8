"""The default job of the command line: how many clusters the 82 galaxies form.

One process per mixture compiles and samples it, since compilation takes longer than sampling; the
parent shows progress, then writes the table and the picture.
"""

import logging
import multiprocessing
import os
import signal
import time
import warnings
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pymc_tempering.errors import OutputError, TemperingError, TemperingWarning
from pymc_tempering.examples.demo_report import (
    GRID,
    MixtureFit,
    results_table,
    write_csv,
    write_figure,
)
from pymc_tempering.examples.galaxies import galaxy_mixture, mixture_density
from pymc_tempering.results.files import Writer, check_output, write_output

__all__ = ["fit_mixture", "run_demo"]

POLL_SECONDS = 0.2
# Enough for errors of log Z well below the differences between the mixtures, in three minutes on
# two cores with compilation.
DEFAULTS = {"draws": 160, "tune": 160, "chains": 4}


def fit_mixture(n_components: int, options: dict[str, Any]) -> MixtureFit:
    """Build, compile and sample one mixture; runs in a worker process.

    Parameters
    ----------
    n_components : int
        K.
    options : dict
        Keyword arguments of ``estimate_logz``.

    Raises
    ------
    TemperingError
        As ``estimate_logz`` does, for options that it does not accept.

    Examples
    --------
    >>> from pymc_tempering.examples.demo import fit_mixture
    >>> fit = fit_mixture(2, {"draws": 1000})  # doctest: +SKIP
    """
    import pymc_tempering as pm_temper

    start = time.perf_counter()
    with warnings.catch_warnings():
        # The estimate carries them; the parent prints them once.
        warnings.simplefilter("ignore", TemperingWarning)
        estimate = pm_temper.estimate_logz(
            galaxy_mixture(n_components), progressbar=False, **options
        )
    posterior = estimate.idata["posterior"].dataset
    draws = posterior.stack(sample=("chain", "draw")).transpose("sample", ...)
    mean, variance = draws["mean"].to_numpy(), draws["variance"].to_numpy()
    weight = draws["weight"].to_numpy() if n_components > 1 else np.ones_like(mean)
    low, high = estimate.interval(0.95)
    return MixtureFit(
        n_components=n_components,
        log_z=float(estimate.log_z),
        se=float(estimate.se),
        low=float(low),
        high=float(high),
        predictive=mixture_density(GRID, weight, mean, variance),
        seconds=time.perf_counter() - start,
        warnings=estimate.warnings,
    )


def run_demo(
    folder: Path, *, max_components: int = 4, overwrite: bool = False, **options: Any
) -> list[MixtureFit]:
    """Fit the mixtures side by side, print the table, write picture and table.

    Parameters
    ----------
    folder : Path
        Made if it is missing; receives ``galaxies.png`` and ``galaxies.csv``.
    max_components : int, default 4
        Mixtures with 1 to this many components are compared. Four is where the evidence of this
        data has levelled off.
    overwrite : bool, default False
        Whether pictures and tables of an earlier run may be replaced.
    **options
        Keyword arguments of ``estimate_logz``; 4 chains of 160 + 160 draws where they are left
        out. ``cores`` (default: all) is shared out among the mixtures.

    Returns
    -------
    list of MixtureFit
        By number of components.

    Raises
    ------
    OptionError
        If picture or table exist or cannot be written.
    OutputError
        If writing failed after sampling; it says where the results are kept.
    TemperingError
        As ``estimate_logz`` does.

    Examples
    --------
    >>> from pymc_tempering.examples.demo import run_demo
    >>> fits = run_demo("out", max_components=2, draws=200)  # doctest: +SKIP
    """
    folder = Path(folder)
    picture, table = (
        check_output(folder / f"galaxies{suffix}", [suffix], overwrite=overwrite, remedy="--force")
        for suffix in (".png", ".csv")
    )
    console = Console(highlight=False)
    console.print(
        f"[bold]82 galaxy velocities (Roeder 1990):[/] Gaussian mixtures with 1 to "
        f"{max_components} components.\nThe first run compiles each model, 10 to 30 s each.",
    )
    options = DEFAULTS | options
    cores = options.pop("cores", None) or os.cpu_count() or 1
    options["cores"] = max(1, cores // max_components)
    fits = _fit_all(max_components, min(cores, max_components), options, console)

    failures = [
        *_write(picture, partial(write_figure, fits), overwrite),
        *_write(table, partial(write_csv, fits), overwrite),
    ]
    console.print(results_table(fits))
    for fit in fits:
        for warning in fit.warnings:
            console.print(
                f"[yellow]K = {fit.n_components}:[/] {escape(str(warning))}", soft_wrap=True
            )
    if failures:
        raise OutputError("\n".join(failures))
    console.print(f"Picture and table: {picture} and {table}", soft_wrap=True)
    return fits


def _write(target: Path, write: Writer, overwrite: bool) -> list[str]:
    """Write, and return what failed, so that one failure does not take the rest with it."""
    try:
        write_output(target, write, overwrite=overwrite)
    except OutputError as error:
        return [str(error)]
    return []


def _fit_all(
    max_components: int, n_workers: int, options: dict[str, Any], console: Console
) -> list[MixtureFit]:
    """Run every mixture in a fresh process, the largest first, and show how far they are."""
    columns = (
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}"),
    )
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        n_workers, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare_worker
    )
    fits: dict[int, MixtureFit] = {}
    running: dict[Future[MixtureFit], int] = {}
    waiting = list(range(1, max_components + 1))
    try:
        with Progress(*columns, console=console) as progress:
            tasks = {
                k: progress.add_task(f"K = {k}", start=False, total=1, state="waiting")
                for k in waiting
            }
            while waiting or running:
                # The pool would call a queued mixture running, so it never has one to queue.
                while waiting and len(running) < n_workers:
                    k = waiting.pop()
                    running[pool.submit(fit_mixture, k, options)] = k
                    progress.start_task(tasks[k])
                    progress.update(tasks[k], state="compiling and sampling")
                done, _ = wait(running, POLL_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    k = running.pop(future)
                    fits[k] = future.result()
                    state = f"log Z = {fits[k].log_z:.2f} ± {fits[k].se:.2f}"
                    progress.update(tasks[k], completed=1, state=state)
    except BrokenProcessPool as error:
        msg = "A worker process ended before its mixture was done; was there enough memory?"
        raise TemperingError(msg) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if len(fits) < max_components:
            # After an error or Ctrl-C nobody wants the other mixtures any more.
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
    return [fits[k] for k in sorted(fits)]


def _prepare_worker() -> None:
    """Keep a worker from writing into the parent's display."""
    # Ctrl-C reaches the whole process group; a worker then ends without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.getLogger("pymc").setLevel(logging.CRITICAL)
