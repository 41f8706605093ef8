"""The data sets of one model, in blocks: shared among threads, processes or machines.

A block is one task, in whichever of them. What is done is never lost.
"""

import hashlib
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from pymc_tempering.checkpoint.blocks import BlockFolder, write_block
from pymc_tempering.engine.guard import Watch
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.many_data import ManyData
from pymc_tempering.evidence.many_worker import NEIGHBOUR, Many, Outcome, Quick, Worker
from pymc_tempering.numerics import one_blas_thread
from pymc_tempering.progress import Phase
from pymc_tempering.steps.executors import Lost, run_tasks

_BLOCKS, _MOST_ROWS = 32, 50
"""Data sets are cut into so many blocks, of so many at most: enough to share among workers and to
lose little of a run that is killed, and few enough files."""

_NEIGHBOURS = 25
"""Data sets of a block whose searches begin at that of their neighbour; one number for any number
of data sets, as results depend on it. The first of a block, 4 % of all, searches by itself."""

STOPPED = "The call was stopped before it was done."
"""Why a data set has no result, after Ctrl-C."""

_latest: dict[str, Worker] = {}
"""Of this process, by the digest of all that it was made from; no more than one is kept."""

_making = Lock()


class Found(NamedTuple):
    """Outcomes of the first rows of a block, of all unless it was stopped, and their draws.

    Draws are (row, draw, ...) by variable; none where a folder has them, or all rows have failed.
    """

    outcomes: Sequence[Outcome] = ()
    draws: Mapping[str, np.ndarray] = {}

    @classmethod
    def of(cls, kept: Mapping[str, Any] | None) -> "Found":
        """What a folder has of a block: its outcomes by columns."""
        if kept is None:
            return cls()
        rows = zip(*(kept[name] for name in Outcome._fields), strict=True)
        return cls([Outcome(*row) for row in rows], kept["draws"])

    def columns(self) -> dict[str, Any]:
        """The same for a folder: numbers as arrays."""
        columns = dict(zip(Outcome._fields, zip(*self.outcomes, strict=True), strict=True))
        numbers = {n: np.array(c) for n, c in columns.items() if not isinstance(c[0], str)}
        return columns | numbers | {"draws": self.draws}


class Block(NamedTuple):
    """Rows of data, the numbers of the first and of the block, and the folder of results.

    ``before`` is what a call that was stopped has left of its results.
    """

    data: Mapping[str, Any]
    first: int
    number: int
    folder: Path | None
    before: Found = Found()

    @property
    def rows(self) -> list[dict[str, np.ndarray]]:
        """The data sets."""
        n = len(next(iter(self.data.values())))
        return [{name: values[row] for name, values in self.data.items()} for row in range(n)]

    @property
    def n_before(self) -> int:
        """Of them, how many have a result."""
        return len(self.before.outcomes)


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
) -> list[Found]:
    """Outcomes of all blocks, in order; those that a folder has are read, but not their draws.

    After Ctrl-C the data sets that have none are named as failed; without any, it is raised.
    """
    found: dict[int, Found] = {}
    left = []
    for block in blocks:
        if store is not None:
            block = block._replace(before=Found.of(store.read(block.number)))
        phase.advance(block.n_before)
        found[block.number] = Found(block.before.outcomes)
        if block.n_before < len(block.rows):
            left.append(block)
    results: list[Any] = [None] * len(left)
    with suppress(KeyboardInterrupt):
        if executor is None:
            _here(threads, many, left, results, phase.advance)
        else:
            done = partial(phase.advance, len(blocks[0].rows))
            tasks = [(block,) for block in left]
            results = run_tasks(executor, partial(_estimate_block, many), tasks, done=done)
    failures = {block.number: STOPPED for block in left}
    for block, result in zip(left, results, strict=True):
        if isinstance(result, Lost):
            failures[block.number] = f"The worker of its block was lost, twice: {result.why}"
        elif result is not None:
            found[block.number] = result
    if STOPPED in failures.values() and not any(done.outcomes for done in found.values()):
        raise KeyboardInterrupt("The call was stopped before any data set was done.")
    for block in left:
        outcomes, draws = found[block.number]
        failed = [Outcome(failure=failures[block.number])] * (len(block.rows) - len(outcomes))
        found[block.number] = Found([*outcomes, *failed], draws)
    return [found[block.number] for block in blocks]


def _here(
    threads: int, many: Many, blocks: Sequence[Block], results: list[Any], done: Callable[[], None]
) -> None:
    """Fill in results in this process, until Ctrl-C; of threads, the quick way alone is in them."""
    if threads == 1:
        for i, block in enumerate(blocks):
            results[i] = _estimate_block(many, block, done)
            if len(results[i].outcomes) < len(block.rows):
                break
        return
    # BLAS belongs to the process, and so do filters of warnings, which threads that set them at a
    # time do not put back; and the guard stops kernels of threads that are waited for
    with one_blas_thread(), warnings.catch_warnings(), Watch():
        pool = ThreadPoolExecutor(threads)
        try:
            found = pool.map(partial(_quick_block, many), blocks)
            for i, (block, quick) in enumerate(zip(blocks, found, strict=True)):
                results[i] = _finish_block(many, block, quick, done)
                if len(results[i].outcomes) < len(block.rows):
                    break
        finally:
            pool.shutdown(cancel_futures=True)


def _worker(many: Many) -> Worker:
    key = hashlib.sha256(cloudpickle.dumps(many)).hexdigest()
    with _making:
        if key not in _latest:
            made = Worker(many)
            _latest.clear()
            _latest[key] = made
        return _latest[key]


@contextmanager
def _quick(many: Many, block: Block) -> Iterator[Iterator[Quick]]:
    """The quick way for each row that is left, when it is asked for."""
    # where the search of a neighbour ended is not kept, and the next begins there
    done = 0 if many.reference == NEIGHBOUR else block.n_before
    with closing(_worker(many).quick(block.first + done, block.rows[done:])) as quick:
        yield islice(quick, block.n_before - done, None)


def _quick_block(many: Many, block: Block) -> list[Quick]:
    """The quick way for all rows that are left; several threads may do so at a time."""
    with _quick(many, block) as quick:
        return list(quick)


def _finish_block(
    many: Many, block: Block, quick: Iterable[Quick], done: Callable[[], None]
) -> Found:
    """Run what needs it, and map draws: of fewer than all rows after Ctrl-C.

    They are kept in the folder, where there is one, and draws are not returned then.
    """
    outcomes, before = list(block.before.outcomes), block.before.draws
    draws = [{name: v[row] for name, v in before.items()} for row in range(block.n_before)]
    with suppress(KeyboardInterrupt):
        worker, left = _worker(many), block.rows[block.n_before :]
        for i, (data, of_row) in enumerate(
            zip(left, quick, strict=True), block.first + block.n_before
        ):
            outcome, own = worker.outcome(i, data, of_row)
            outcomes.append(outcome)
            draws.append(own)
            done()
    found = Found(outcomes, _stacked(draws))
    if block.folder is None:
        return found
    if outcomes:
        write_block(block.folder, block.number, found.columns())
    return Found(outcomes)


def _estimate_block(many: Many, block: Block, done: Callable[[], None] = lambda: None) -> Found:
    """Both, one data set after another: see `_finish_block`."""
    with one_blas_thread(), _quick(many, block) as quick:
        return _finish_block(many, block, quick, done)


def _stacked(draws: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Draws of all rows by variable, nan where a row has none."""
    known = next((own for own in draws if own), {})
    return {
        name: np.array([own.get(name, np.full(like.shape, np.nan)) for own in draws])
        for name, like in known.items()
    }


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
