"""Chains of one run as tasks of an executor, each with the random numbers that it has locally."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.util import get_random_generator

from pymc_tempering.errors import OptionError, WorkerError
from pymc_tempering.progress import phases
from pymc_tempering.results.concat import side_by_side
from pymc_tempering.steps.executors import Lost, run_tasks

_log = logging.getLogger("pymc")


def spread_chains(
    executor: Any,
    sample: Callable[..., xr.DataTree],
    step: Any,
    model: pm.Model,
    *,
    chains: int,
    random_seed: Any,
    progressbar: bool,
    **options: Any,
) -> xr.DataTree:
    """Sample each chain as a task, with ``sample(step, model, ...)`` as of ``pm.sample``.

    Draws are those of the same call without an executor, whatever its workers. Chains whose
    worker was lost twice are left out; a WorkerError says that all were. One trace of the user's
    for all chains is an OptionError.
    """
    check_trace(options)
    parent, starts = get_random_generator(random_seed), options.pop("initvals", None)
    of_each = isinstance(starts, Sequence)
    quiet = options | {"progressbar": False, "quiet": True, "chains": 1, "cores": 1}

    def chain(seed: np.random.Generator, start: Any) -> xr.DataTree:
        return sample(step, model, random_seed=seed, initvals=start, **quiet)

    tasks = [(parent_of_chain(parent, k), starts[k] if of_each else starts) for k in range(chains)]
    with phases(progressbar) as work:
        results = run_tasks(executor, chain, tasks, done=work.add("Chains", chains).advance)
    runs = [result for result in results if isinstance(result, xr.DataTree)]
    if not runs:
        why = "; ".join(f"chain {k}: {result.why}" for k, result in enumerate(results))
        raise WorkerError(f"The workers of all chains were lost, and lost again: {why}")
    for k, result in enumerate(results):
        if isinstance(result, Lost):
            _log.warning("Chain %d was lost twice: %s", k, result.why)
    return _side_by_side(runs)


def check_trace(options: Mapping[str, Any]) -> None:
    """Refuse one place for draws that come from several workers."""
    if options.get("trace") is not None:
        raise OptionError(
            "`trace` is one place for the draws of all chains, and with `executor` these are "
            "sampled apart. Leave it away, or sample without `executor`."
        )


def parent_of_chain(parent: np.random.Generator, chain: int) -> np.random.Generator:
    """Generator whose first child is the child of ``parent`` with this number.

    ``pm.sample`` gives chains the children of one generator, in order.

    Examples
    --------
    >>> third = np.random.default_rng(5).spawn(3)[2]
    >>> parent_of_chain(np.random.default_rng(5), 2).spawn(1)[0].random() == third.random()
    True
    """
    sequence = parent.bit_generator.seed_seq
    if not isinstance(sequence, np.random.SeedSequence):
        raise OptionError(
            "`random_seed` is a generator without a seed sequence, from which chains cannot have "
            "their own; expected a whole number, or a generator of `numpy.random.default_rng`."
        )
    shifted = np.random.SeedSequence(
        sequence.entropy,
        spawn_key=sequence.spawn_key,
        pool_size=sequence.pool_size,
        n_children_spawned=sequence.n_children_spawned + chain,
    )
    return np.random.Generator(type(parent.bit_generator)(shifted))


def _side_by_side(runs: list[xr.DataTree]) -> xr.DataTree:
    """Chains of several runs, numbered in order, as long as the shortest."""
    groups = {}
    for name, node in runs[0].children.items():
        parts = [run[name].to_dataset() for run in runs]
        if "chain" not in node.dataset.dims:
            groups[name] = parts[0]
            continue
        if "draw" in node.dataset.dims:
            shortest = slice(min(part.sizes["draw"] for part in parts))
            parts = [part.isel(draw=shortest) for part in parts]
        groups[name] = side_by_side(parts)
    together = xr.DataTree.from_dict(groups)
    together.attrs = runs[0].attrs
    return together
