"""Runs that are killed, each in a process of its own that is forked from the caller.

Forked, they find everything compiled; all that is left of them is what they wrote. Their chains
may be in processes that are spawned: then one of these kills the run at a moment of its own.

python -m tests.checkpoint.killed    # ten random moments for each method, as a table
python -m tests.checkpoint.killed --start spawn    # the same, every chain in a spawned process
"""

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pymc as pm

import pymc_tempering as pm_temper
from pymc_tempering.checkpoint import journal, store
from pymc_tempering.results import files
from pymc_tempering.steps import executors
from pymc_tempering.steps.common import TemperedStep
from pymc_tempering.testing import asymmetric_bimodal

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
SHORT = {"draws": 12, "tune": 24, "chains": 2, "cores": 1, "random_seed": 4, "search": "none"}
BLOCKS = {"scans_per_draw": 4}
DISCRETE = {name: value for name, value in SHORT.items() if name != "search"}
METHODS: dict[str, dict[str, Any]] = {
    "pt": SHORT | BLOCKS,
    "pt, two processes": SHORT | BLOCKS | {"cores": 2, "mp_ctx": "fork"},
    "pt, spawned": SHORT | BLOCKS | {"cores": 2, "mp_ctx": "spawn"},
    "pt, from a server": SHORT | BLOCKS | {"cores": 2, "mp_ctx": "forkserver"},
    "pt, executor": SHORT | BLOCKS | {"executor": 2},
    "pt, target_se": SHORT | BLOCKS | {"target_se": 1e-3, "max_chains": 5},
    "pt, max_gradients": SHORT | {"max_gradients": 20_000},
    "gibbs_ct": SHORT | BLOCKS | {"method": "gibbs_ct"},
    "st": SHORT | BLOCKS | {"method": "st"},
    "hais": SHORT | {"method": "hais"},
    "discrete": DISCRETE | BLOCKS,
    "compound": DISCRETE | {"scans_per_draw": 2, "explorer": "pymc"},
}
TIMES = ("perf_counter_diff", "process_time_diff", "sampling_time")


def discrete_model():
    with pm.Model() as model:
        up = pm.Bernoulli("up", [0.3, 0.6, 0.8])
        level = pm.Normal("level", 0.0, 2.0)
        pm.Normal("y", level + up.sum(), 0.7, observed=[1.9, 2.4])
    return model


def model_of(name):
    return discrete_model() if name in ("discrete", "compound") else asymmetric_bimodal().model()


def sample(model, **options):
    """Draws, statistics and log Z of a run."""
    call = pm_temper.estimate_logz if "target_se" in options else pm_temper.sample
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = call(model, **(QUIET | options))
    return getattr(result, "idata", result)


def different(one, other):
    """Names of what a seed decides and is not the same in two runs, in any bit."""

    def contents(idata):
        return {
            f"{group}/{name}": (values.dtype, values.shape, values.values.tobytes())
            if values.dtype.kind in "biuf"
            else values.values.tolist()
            for group in ("posterior", "sample_stats", "tempering")
            for name, values in idata[group].data_vars.items()
            if name not in TIMES
        }

    ours, theirs = contents(one), contents(other)
    return [name for name in sorted(ours | theirs) if ours.get(name) != theirs.get(name)]


def events(happened):
    """Call `happened` before and after every step and every part of writing a file.

    Each array of a file is such a part, so that runs are killed with half of it written.
    """

    def told(function):
        def wrapper(*args, **kwargs):
            happened()
            result = function(*args, **kwargs)
            happened()
            return result

        return wrapper

    stack = mock.patch.multiple(journal, EVERY=0.0, write_tree=told(journal.write_tree))
    parts = [
        (np.lib.format, "write_array"),
        (store, "write_tree"), (files, "_flush"), (files, "_publish"),
        (TemperedStep, "setup_chain"), (TemperedStep, "step"), (journal.Journal, "_restore"),
    ]  # fmt: skip
    others = [mock.patch.object(on, name, told(getattr(on, name))) for on, name in parts]
    return [stack, *others]


class Counter:
    """Counts events, and kills a process, with no warning to anyone, at one of them."""

    def __init__(self, at=None, victim=None):
        self.n, self.at, self.victim = 0, at, victim

    def __call__(self):
        self.n += 1
        if self.n == self.at:
            os.kill(self.victim or os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class KeptAfresh(store.Kept):
    """Takes the events of a run along into processes that are not forked, where each has its own.

    Attributes
    ----------
    at, victim : int
        Of the :class:`Counter` there.
    """

    at: int | None
    victim: int | None

    def journal(self, rng, total):
        for patch in events(Counter(self.at, self.victim)):
            patch.start()
        return super().journal(rng, total)


def with_events(counter, model, options):
    # an executor asks for the default, which is not to fork everywhere
    patches = [*events(counter), mock.patch.object(executors, "start_method", return_value="fork")]
    if options.get("mp_ctx", "fork") != "fork":
        kept = partial(KeptAfresh, at=counter.at, victim=counter.victim)
        patches.append(mock.patch.object(store, "Kept", kept))
    for patch in patches:
        patch.start()
    try:
        return sample(model, **options)
    finally:
        for patch in patches:
            patch.stop()


def run_and_die(model, options, at):
    """Whether a run in another process was killed, by itself, at an event."""
    with warnings.catch_warnings():
        # that there are threads, none of which holds a lock here
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        # the server is the parent's, and gives this process nothing
        forkserver._forkserver.__init__()
        with suppress(BaseException):
            with_events(Counter(at, os.getpid()), model, options)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def study(
    name: str, n_kills: int, seed: int, start: str | None = None
) -> Iterator[tuple[int, int, bool, list[str]]]:
    """Kill runs at random events, and compare each, continued, with one that was not killed.

    Gives the number of the event, how many draws were kept, whether it was killed, and what
    differs. `start` is how processes of chains are started, by default as the method says.
    """
    model, options, rng = model_of(name), METHODS[name], np.random.default_rng(seed)
    if start is not None:
        options = options | {"cores": 2, "mp_ctx": start}
    with tempfile.TemporaryDirectory() as folder:
        counter = Counter()
        # events of the processes of chains are not seen from here
        elsewhere = ("mp_ctx", "executor")
        in_one = {key: value for key, value in options.items() if key not in elsewhere}
        in_one["cores"] = 1
        kept = with_events(counter, model, in_one | {"resume": Path(folder, "whole")})
        whole = sample(model, **options)
        # of a run in several processes, each counts the events of its own chain
        chains = options.get("max_chains", options["chains"])
        apart = options["cores"] > 1 or "executor" in options
        most = counter.n // (chains if apart else 1)
        yield 0, 0, False, different(whole, kept)
        for i in range(n_kills):
            path, at = Path(folder, str(i)), int(rng.integers(1, most))
            died = run_and_die(model, options | {"resume": path}, at)
            n_draws = sum(journal.n_kept(chain) for chain in path.glob("chain-*"))
            yield at, n_draws, died, different(whole, sample(model, resume=path, **options))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--start", choices=multiprocessing.get_all_start_methods())
    requested = parser.parse_args()
    write = sys.stdout.write
    write(f"{'method':18s} {'killed':>7s}  {'draws kept at the kills':40s} runs that differ\n")
    for name in requested.methods:
        (_, _, _, first), *kills = study(name, requested.kills, requested.seed, requested.start)
        differ = [found for *_, found in kills if found]
        died = f"{sum(died for _, _, died, _ in kills)}/{len(kills)}"
        counts = " ".join(str(n) for _, n, _, _ in kills)
        write(f"{name:18s} {died:>7s}  {counts:40s} {len(differ) + bool(first)}\n")
        write("".join(f"    {', '.join(found)}\n" for found in (first, *differ) if found))
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
