"""The data sets of one model, in blocks: shared among threads, processes or machines.

What is done is never lost.
"""

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from pymc_tempering.checkpoint.blocks import BlockFolder
from pymc_tempering.engine.guard import Watch
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.blocks import Block, estimate_block, finish_block, quick_block
from pymc_tempering.evidence.many_data import ManyData
from pymc_tempering.evidence.many_worker import NEIGHBOUR, Many, Outcome
from pymc_tempering.numerics import one_blas_thread
from pymc_tempering.progress import Phase
from pymc_tempering.steps.executors import Lost, run_tasks

__all__ = ["STOPPED", "blocks_of", "estimate_blocks", "stopped"]

_BLOCKS, _MOST_ROWS = 32, 50
"""Data sets are cut into so many blocks, of so many at most: enough to share among workers and to
lose little of a run that is killed, and few enough files."""

_NEIGHBOURS = 25
"""Data sets of a block whose searches begin at that of their neighbour; one number for any number
of data sets, as results depend on it. The first of a block, 4 % of all, searches by itself."""

STOPPED = "The call was stopped before it was done."
"""Why a data set has no result, after Ctrl-C."""


def blocks_of(many: Many, data: ManyData, store: BlockFolder | None) -> list[Block]:
    """Cut data sets into blocks, of one size for any number of them where there are neighbours."""
    size = min(_MOST_ROWS, math.ceil(data.n / _BLOCKS))
    if many.reference == NEIGHBOUR:
        size = _NEIGHBOURS
    folder = None if store is None else store.folder
    return [
        Block(data.rows(first, size), first, number, folder)
        for number, first in enumerate(range(0, data.n, size))
    ]


def estimate_blocks(
    many: Many,
    blocks: Sequence[Block],
    threads: int,
    executor: Any,
    store: BlockFolder | None,
    phase: Phase,
) -> list[dict[str, Any]]:
    """Outcomes of all blocks, in order; those that a folder has are read, but not their draws.

    After Ctrl-C the data sets that have none are named as failed; without any, it is raised.
    """
    found: list[Any] = [None] * len(blocks)
    left = []
    for block in blocks:
        kept = None if store is None else store.read(block.number)
        block = block._replace(before=kept)
        phase.advance(block.n_before)
        if kept is not None:
            found[block.number] = {name: kept[name] for name in Outcome._fields}
        if block.n_before < len(block.rows):
            left.append(block)
    results: list[Any] = [None] * len(left)
    with suppress(KeyboardInterrupt):
        if executor is None:
            _here(threads, many, left, results, phase.advance)
        else:
            done = partial(phase.advance, len(blocks[0].rows))
            tasks = [(block,) for block in left]
            results = run_tasks(executor, partial(estimate_block, many), tasks, done=done)
    failures = {block.number: STOPPED for block in left}
    for block, result in zip(left, results, strict=True):
        if isinstance(result, Lost):
            failures[block.number] = f"The worker of its block ended, twice: {result.why}"
        elif result is not None:
            found[block.number] = result
    if STOPPED in failures.values() and not any(b and len(b["log_z"]) for b in found):
        raise KeyboardInterrupt("The call was stopped before any data set was done.")
    return [
        _filled(result, len(block.rows), failures.get(block.number, ""))
        for block, result in zip(blocks, found, strict=True)
    ]


def _here(
    threads: int, many: Many, blocks: Sequence[Block], results: list[Any], done: Callable[[], None]
) -> None:
    """Fill in results in this process, until Ctrl-C; of threads, the quick way alone is in them."""
    if threads == 1:
        for i, block in enumerate(blocks):
            results[i] = estimate_block(many, block, done)
            if len(results[i]["log_z"]) < len(block.rows):
                break
        return
    # BLAS belongs to the process, and so do filters of warnings, which threads that set them at a
    # time do not put back; and the guard stops kernels of threads that are waited for
    with one_blas_thread(), warnings.catch_warnings(), Watch():
        pool = ThreadPoolExecutor(threads)
        try:
            found = pool.map(partial(quick_block, many), blocks)
            for i, (block, quick) in enumerate(zip(blocks, found, strict=True)):
                results[i] = finish_block(many, block, quick, done)
                if len(results[i]["log_z"]) < len(block.rows):
                    break
        finally:
            pool.shutdown(cancel_futures=True)


def _filled(block: Mapping[str, Any] | None, n_rows: int, failure: str) -> dict[str, Any]:
    """Outcomes of a block, with failures where there are none."""
    rest = Outcome(failure=failure)._asdict()
    if block is None:
        return {name: [value] * n_rows for name, value in rest.items()}
    n_left = n_rows - len(block["log_z"])
    filled: dict[str, Any] = {n: [*block[n], *[value] * n_left] for n, value in rest.items()}
    return filled | {"draws": block.get("draws", {})}


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
