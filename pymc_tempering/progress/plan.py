"""What a run will do and about how long it takes, said before it starts."""

import os
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

from pymc_tempering.progress.board import format_seconds
from pymc_tempering.types import FloatArray

__all__ = [
    "STOPPING",
    "expected_seconds",
    "plan",
    "plan_of_moves",
    "plan_of_particles",
    "plan_of_sweeps",
    "say",
    "seconds_of_gradient",
]

STOPPING = "Ctrl-C stops; the draws after tuning that there are by then are kept."

FIRST_TIME = ", and more where the samplers are compiled for the first time"

FIT_GRADIENTS = (5e4, 1.2e5)
"""Of the search for modes, which all chains share: with one mode, and with many."""

SCAN_GRADIENTS = {
    "parallel_tempering": (5.0, 40.0),
    "gibbs_ct": (5.0, 20.0),
    "simulated_tempering": (5.0, 20.0),
}
"""Of a scan: from three levels with short trajectories to a long ladder with longer ones."""

_LEAST_SHARE = 0.1
"""Of the scans that a run has room for, where tuning and draws take as many as they need."""

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


def expected_seconds(
    seconds: float,
    step: str,
    *,
    scans: int | FloatArray,
    chains: int,
    cores: int | None,
) -> FloatArray | None:
    """Least and most time that a run is likely to take; None for steps that cannot be foreseen.

    Parameters
    ----------
    seconds : float
        Of one gradient.
    step : str
        Name of the step method.
    scans : int or ndarray of shape (2,)
        Of each chain, tuning included: at least and at most.
    chains : int
    cores : int, optional
        By default as many as PyMC takes: up to four, of half of those that there are.

    Returns
    -------
    ndarray of shape (2,), or None

    Examples
    --------
    >>> expected_seconds(1e-5, "parallel_tempering", scans=10_000, chains=4, cores=2).round(1)
    array([1.5, 9.2])
    """
    if step not in SCAN_GRADIENTS:
        return None
    at_once = min(chains, cores or min(4, max(1, (os.cpu_count() or 2) // 2)))
    sampling = scans * np.array(SCAN_GRADIENTS[step]) * np.ceil(chains / at_once)
    return seconds * (np.array(FIT_GRADIENTS) + sampling)


def plan(
    step: Any, *, draws: int, tune: int | None, chains: int, cores: int | None, compiled: float
) -> str:
    """Say what a run with a tempered step will do, about how long it takes, and how to stop it.

    Parameters
    ----------
    step : TemperedStep
    draws, tune, chains, cores
        As in ``pm.sample``.
    compiled : float
        Seconds that the step took to build.
    """
    tune = step.default_tune_steps if tune is None else tune
    seconds = seconds_of_gradient(step.density)
    most = (tune + draws) * step.scans_per_draw
    adaptive = getattr(step, "adapts_scans", False)
    scans = np.array([_LEAST_SHARE * most if adaptive else most, most])
    expected = expected_seconds(seconds, step.name, scans=scans, chains=chains, cores=cores)
    time, blind = "", bool(getattr(step.density, "no_gradient", ""))
    # of slices, the number of evaluations follows the dimension and the shape
    if expected is not None and not blind:
        low, high = (format_seconds(value) for value in np.maximum(expected, 1.0))
        time = f" This takes about {low} to {high}{FIRST_TIME}."
    many = "1 chain" if chains == 1 else f"each of {chains} chains"
    evaluated, fit = "a gradient", "search for modes and fit them"
    if blind:
        evaluated, fit = "the density", "fit a Gaussian to draws"
    return (
        f"Compiled in {format_seconds(compiled)}: {_values(step.dim)}, {_short(seconds)} for "
        f"{evaluated}. In {many}: {fit}, tune ({tune} draws), sample ({draws} "
        f"draws of {'up to ' if adaptive else ''}{step.scans_per_draw} scans).{time}\n{STOPPING}"
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
) -> str:
    """Say what a run will do whose replicas are moved by compiled Gibbs sweeps.

    Parameters
    ----------
    step : DiscreteTempering
    draws, tune, chains, cores, compiled
        As for :func:`plan`.
    """
    tune = step.default_tune_steps if tune is None else tune
    many = "1 chain" if chains == 1 else f"each of {chains} chains"
    most = "up to " if step.adapts_scans else ""
    return (
        f"Compiled in {format_seconds(compiled)}: {_values(step.dim)}, "
        f"{_short(seconds_of_gradient(step.density))} for the density. Compiled moves, from the "
        f"prior on: {step.moves}. In {many}: tune ({tune} draws), sample ({draws} draws of {most}"
        f"{step.scans_per_draw} scans).\n{STOPPING}"
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
    pilot = np.array(FIT_GRADIENTS) + pilot_scans * np.array(SCAN_GRADIENTS["parallel_tempering"])
    particles = (2 if direction == "both" else 1) * n_particles * n_gradients
    expected = seconds * (particles * np.array([1.0, 1.5]) + (pilot if pilot_scans else 0.0))
    low, high = (format_seconds(value) for value in np.maximum(expected, 1.0))
    ways = "forward and reverse" if direction == "both" else direction
    first = "Search for modes and fit them, pilot run, then" if pilot_scans else "Run"
    return (
        f"{_values(density.dim)}, {_short(seconds)} for a gradient. {first} {n_particles} {ways} "
        f"particles. This takes about {low} to {high}{FIRST_TIME}.\nCtrl-C stops."
    )


def _values(dim: int) -> str:
    return f"{dim} unconstrained value{'s' * (dim != 1)}"


def _short(seconds: float) -> str:
    """Write a short time in the unit that leaves it above 1."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} \N{MICRO SIGN}s"
