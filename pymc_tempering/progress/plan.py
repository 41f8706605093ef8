"""What a run will do and about how long it takes, said before it starts."""

import os
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from pymc_tempering.progress.board import format_count, format_seconds
from pymc_tempering.types import FloatArray

__all__ = [
    "STOPPING",
    "Expected",
    "expected_gradients",
    "plan",
    "plan_of_moves",
    "plan_of_particles",
    "plan_of_sweeps",
    "say",
    "seconds_of_gradient",
]

STOPPING = "Ctrl-C stops; the draws after tuning that there are by then are kept."

FIRST_TIME = ", and more where the samplers are compiled for the first time"

SEARCH_GRADIENTS = {"none": (1e2, 1.5e4), "default": (7.5e3, 5.5e4), "thorough": (2e4, 5.5e5)}
"""Of the search for modes, which all chains share, by how far it goes."""

SCAN_GRADIENTS = {
    "parallel_tempering": (4.0, 15.0),
    "gibbs_ct": (3.0, 10.0),
    "simulated_tempering": (3.0, 10.0),
}
"""Of a scan, from the least to the most on seven of eight small models (``benchmarks/spent.py``,
2026-11-22); where a hard edge rejects many moves it was up to 40."""

_TIMING = 0.05
_MAX_TIMINGS = 50


def say(text: str) -> None:
    """Write a plan where progress bars are written."""
    Console(highlight=False).print(text, soft_wrap=True)


def seconds_of_gradient(density: Any) -> float:
    """Median time of one log density and gradient, at the starting point."""
    times: list[float] = []
    density.value_and_grad(density.start)
    while len(times) < _MAX_TIMINGS and sum(times) < _TIMING:
        started = perf_counter()
        density.value_and_grad(density.start)
        times.append(perf_counter() - started)
    return float(np.median(times))


class Expected(NamedTuple):
    """Gradients that a run is likely to take, at least and at most.

    Attributes
    ----------
    total : ndarray of shape (2,)
        Of the search and all chains.
    in_turn : ndarray of shape (2,)
        Of those that are made one after another.
    """

    total: FloatArray
    in_turn: FloatArray


def expected_gradients(
    step: Any,
    *,
    search: str,
    draws: int,
    tune: int,
    chains: int,
    cores: int | None,
    most: float = np.inf,
) -> Expected | None:
    """Foresee what a run takes; None for steps of which that is not known.

    It is not known where a run settles by itself how many scans it makes: of default runs the
    least is forty times less than the most.

    Parameters
    ----------
    step : TemperedStep
    search : {"none", "default", "thorough"}
    draws, tune, chains : int
    cores : int, optional
        By default as many as PyMC takes: up to four, of half of those that there are.
    most : float
        Gradients that the run may take.
    """
    if step.name not in SCAN_GRADIENTS or getattr(step, "adapts_scans", False):
        return None
    at_once = min(chains, cores or min(4, max(1, (os.cpu_count() or 2) // 2)))
    scans = (tune + draws) * step.scans_per_draw
    searched = np.minimum(SEARCH_GRADIENTS[search], step.search_most)
    chain = np.minimum(scans * np.array(SCAN_GRADIENTS[step.name]), (most - searched) / chains)
    return Expected(searched + chains * chain, searched + np.ceil(chains / at_once) * chain)


def plan(
    step: Any,
    *,
    search: str,
    draws: int,
    tune: int | None,
    chains: int,
    cores: int | None,
    compiled: float,
    most: float = np.inf,
) -> str:
    """Say what a run with a tempered step will do, about how long it takes, and how to stop it.

    Parameters
    ----------
    step : TemperedStep
    search : {"none", "default", "thorough"}
    draws, tune, chains, cores
        As in ``pm.sample``.
    compiled : float
        Seconds that the step took to build.
    most : float
        Gradients that the run may take.
    """
    tune = step.default_tune_steps if tune is None else tune
    seconds = seconds_of_gradient(step.density)
    expected = expected_gradients(
        step, search=search, draws=draws, tune=tune, chains=chains, cores=cores, most=most
    )
    takes, blind = "", bool(getattr(step.density, "no_gradient", ""))
    evaluated, fit = "a gradient", "search for modes and fit them"
    if blind:
        evaluated, fit = "the density", "fit a Gaussian to draws"
    if expected is not None and not blind:
        low, high = (format_seconds(s) for s in np.maximum(seconds * expected.in_turn, 1.0))
        least, greatest = map(format_count, expected.total)
        takes = f" This takes about {least} to {greatest} gradients, {low} to {high}{FIRST_TIME}."
    # of slices, the number of evaluations follows the dimension and the shape
    if np.isfinite(most):
        takes += _limit(most, "evaluations" if blind else "gradients")
    many = "1 chain" if chains == 1 else f"each of {chains} chains"
    up_to = "up to " if getattr(step, "adapts_scans", False) else ""
    return (
        f"Compiled in {format_seconds(compiled)}: {_values(step.dim)}, {_short(seconds)} for "
        f"{evaluated}. In {many}: {fit}, tune ({tune} draws), sample ({draws} draws of {up_to}"
        f"{step.scans_per_draw} scans).{takes}\n{STOPPING}"
    )


def plan_of_moves(assignment: str, *, draws: int, tune: int, chains: int, n_scans: int) -> str:
    """Say what a run will do whose replicas are moved by PyMC's step methods.

    Parameters
    ----------
    assignment : str
        Which step method moves which variables.
    draws, tune, chains : int
    n_scans : int
        Of each draw.
    """
    many = "1 chain" if chains == 1 else f"each of {chains} chains"
    return (
        f"PyMC's step methods move the replicas, from the prior on: {assignment}. In {many}: tune "
        f"({tune} draws), sample ({draws} draws of {n_scans} scans).\n{STOPPING}"
    )


def plan_of_sweeps(
    step: Any,
    *,
    draws: int,
    tune: int | None,
    chains: int,
    cores: int | None,  # noqa: ARG001  chains at once
    compiled: float,
    most: float = np.inf,
) -> str:
    """Say what a run will do whose replicas are moved by compiled Gibbs sweeps.

    Parameters
    ----------
    step : DiscreteTempering
    draws, tune, chains, cores, compiled, most
        As for :func:`plan`.
    """
    tune = step.default_tune_steps if tune is None else tune
    many = "1 chain" if chains == 1 else f"each of {chains} chains"
    up_to = "up to " if step.adapts_scans else ""
    limit = _limit(most, "evaluations") if np.isfinite(most) else ""
    return (
        f"Compiled in {format_seconds(compiled)}: {_values(step.dim)}, "
        f"{_short(seconds_of_gradient(step.density))} for the density. Compiled moves, from the "
        f"prior on: {step.moves}. In {many}: tune ({tune} draws), sample ({draws} draws of {up_to}"
        f"{step.scans_per_draw} scans).{limit}\n{STOPPING}"
    )


def plan_of_particles(
    density: Any, *, n_gradients: int, n_particles: int, direction: str, pilot_scans: int
) -> str:
    """Say what annealing will do, about how long it takes in one thread, and how to stop it.

    Parameters
    ----------
    density : CompiledDensity
    n_gradients : int
        Of one particle.
    n_particles : int
        In each direction.
    direction : {"forward", "reverse", "both"}
    pilot_scans : int
        0 for no pilot run.
    """
    seconds = seconds_of_gradient(density)
    of_scan = np.array(SCAN_GRADIENTS["parallel_tempering"])
    pilot = np.array(SEARCH_GRADIENTS["default"]) + pilot_scans * of_scan
    particles = (2 if direction == "both" else 1) * n_particles * n_gradients
    expected = seconds * (particles * np.array([1.0, 1.5]) + (pilot if pilot_scans else 0.0))
    low, high = (format_seconds(value) for value in np.maximum(expected, 1.0))
    paths = "forward and reverse" if direction == "both" else direction
    first = "Search for modes and fit them, pilot run, then" if pilot_scans else "Run"
    return (
        f"{_values(density.dim)}, {_short(seconds)} for a gradient. {first} {n_particles} {paths} "
        f"particles. This takes about {low} to {high}{FIRST_TIME}.\nCtrl-C stops."
    )


def _limit(most: float, what: str) -> str:
    return f" No more than {int(most):,} {what} (`max_gradients`)."


def _values(dim: int) -> str:
    return f"{dim} unconstrained value{'s' * (dim != 1)}"


def _short(seconds: float) -> str:
    """Write a short time in the unit that leaves it above 1."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} \N{MICRO SIGN}s"
