"""The data sets of one model, in blocks: each is a task, and what is done is never lost."""

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from pymc_tempering.checkpoint.blocks import BlockFolder
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.blocks import Many, Outcome, estimate_block
from pymc_tempering.progress import Phase
from pymc_tempering.steps.executors import Lost, run_tasks

__all__ = ["STOPPED", "estimate_blocks", "stopped"]

_BLOCKS, _MOST_ROWS = 32, 50
"""Data sets are cut into so many blocks, of so many at most: enough to share among workers and to
lose little of a run that is killed, and few enough files."""

STOPPED = "The call was stopped before it was done."
"""Why a data set has no result, after Ctrl-C."""


def estimate_blocks(
    many: Many,
    values: Mapping[str, np.ndarray],
    n: int,
    executor: Any,
    store: BlockFolder | None,
    phase: Phase,
) -> list[dict[str, Any]]:
    """Outcomes of all blocks, in order; those that a folder has are read.

    After Ctrl-C the data sets that have none are named as failed; without any, it is raised.
    """
    size = min(_MOST_ROWS, math.ceil(n / _BLOCKS))
    folder = None if store is None else store.folder
    blocks: list[Any] = []
    tasks = {}
    for number, first in enumerate(range(0, n, size)):
        rows = {name: array[first : first + size] for name, array in values.items()}
        kept = None if store is None else store.read(number)
        there = 0 if kept is None else len(kept["log_z"])
        phase.advance(there)
        blocks.append(kept)
        if there < min(size, n - first):
            tasks[number] = (rows, first, number, kept, folder)
    results: list[Any] = [None] * len(tasks)
    with suppress(KeyboardInterrupt):
        if executor is None:
            for i, task in enumerate(tasks.values()):
                results[i] = estimate_block(many, *task, phase.advance)
                if len(results[i]["log_z"]) < len(next(iter(task[0].values()))):
                    break
        else:
            block, done = partial(estimate_block, many), partial(phase.advance, size)
            results = run_tasks(executor, block, list(tasks.values()), done=done)
    failures = dict.fromkeys(tasks, STOPPED)
    for number, result in zip(tasks, results, strict=True):
        if isinstance(result, Lost):
            failures[number] = f"The worker of its block ended, twice: {result.why}"
        elif result is not None:
            blocks[number] = result
    if STOPPED in failures.values() and not any(b and len(b["log_z"]) for b in blocks):
        raise KeyboardInterrupt("The call was stopped before any data set was done.")
    return [
        _filled(block, min(size, n - number * size), failures.get(number, ""))
        for number, block in enumerate(blocks)
    ]


def _filled(block: Mapping[str, Any] | None, n_rows: int, failure: str) -> dict[str, Any]:
    """Outcomes of a block, with failures where there are none."""
    rest = Outcome(failure=failure)._asdict()
    if block is None:
        return {name: [value] * n_rows for name, value in rest.items()}
    n_left = n_rows - len(block["log_z"])
    return {name: [*block[name], *[value] * n_left] for name, value in rest.items()}


def stopped(n_done: int, n: int, resume: Any) -> Diagnostic:
    """What speaks against a result of which Ctrl-C left data sets undone."""
    return Diagnostic(
        "interrupted",
        f"the call was stopped after {n_done} of {n} data sets; the others are in `failed`.",
        f"What is done is kept in {os.fspath(resume)!r}, and the same call goes on from there."
        if resume is not None
        else "With `resume=`, the same call would go on from what is done.",
        {"data_sets": n_done},
    )
