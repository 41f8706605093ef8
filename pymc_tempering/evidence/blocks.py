"""Data sets in blocks: shared among threads, processes or machines, and kept as they come."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from pymc_tempering.checkpoint.blocks import BlockFolder, write_block
from pymc_tempering.engine.guard import Watch
from pymc_tempering.errors import OptionError
from pymc_tempering.evidence.many_data import ManyData
from pymc_tempering.evidence.many_worker import NEIGHBOUR, Many, Outcome, Quick, Worker
from pymc_tempering.numerics import one_blas_thread
from pymc_tempering.progress import Phase
from pymc_tempering.steps.executors import Lost, run_tasks

__all__ = ["Block", "blocks_of", "estimate_block", "estimate_blocks"]

_BLOCKS, _MOST_ROWS = 32, 50
"""Data sets are cut into so many blocks, of so many at most: enough to share among workers and to
lose little of a run that is killed, and few enough files."""

_NEIGHBOURS = 25
"""Data sets of a block whose searches begin at that of their neighbour; one number for any number
of data sets, as results depend on it. The first of a block, 4 % of all, searches by itself."""

_latest: dict[str, Worker] = {}
"""Of this process, by the digest of all that it was made from; no more than one is kept."""

_making = Lock()


def _worker(many: Many) -> Worker:
    key = hashlib.sha256(cloudpickle.dumps(many)).hexdigest()
    with _making:
        if key not in _latest:
            made = Worker(many)
            _latest.clear()
            _latest[key] = made
        return _latest[key]


class Block(NamedTuple):
    """Rows of data, the numbers of the first and of the block, and the folder of results."""

    many: Many
    data: Mapping[str, Any]
    first: int
    number: int
    folder: Path | None

    @property
    def rows(self) -> list[dict[str, np.ndarray]]:
        """The data sets."""
        n = len(next(iter(self.data.values())))
        return [{name: values[row] for name, values in self.data.items()} for row in range(n)]


def blocks_of(many: Many, data: ManyData, folder: Path | None) -> list[Block]:
    """Cut data sets into blocks, of one size for any number of them where there are neighbours."""
    size = min(_MOST_ROWS, math.ceil(data.n / _BLOCKS))
    if many.reference == NEIGHBOUR:
        size = _NEIGHBOURS
    return [
        Block(many, data.rows(first, size), first, number, folder)
        for number, first in enumerate(range(0, data.n, size))
    ]


def _quick_block(block: Block) -> list[Quick]:
    """The quick way for all rows; several threads may do so at a time."""
    return list(_worker(block.many).quick(block.first, block.rows))


def _finish_block(
    block: Block, quick: Any, done: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Run what needs it, and map draws.

    Returns :class:`Outcome` as columns, by name, and ``draws`` of the posterior by variable. They
    are kept in the folder, where there is one, and draws are not returned then.
    """
    worker, outcomes, draws = _worker(block.many), [], []
    for i, (data, of_row) in enumerate(zip(block.rows, quick, strict=True), block.first):
        outcome, own = worker.outcome(i, data, of_row)
        outcomes.append(outcome)
        draws.append(own)
        done()
    columns = dict(zip(Outcome._fields, zip(*outcomes, strict=True), strict=True))
    kept: dict[str, Any] = {
        name: list(values) if isinstance(values[0], str) else np.array(values)
        for name, values in columns.items()
    }
    stacked = _stacked(draws)
    if block.folder is None:
        return kept | {"draws": stacked}
    write_block(block.folder, block.number, kept | {"draws": stacked})
    return kept


def estimate_block(block: Block, done: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Both, one data set after another: see `_finish_block`."""
    with one_blas_thread():
        return _finish_block(block, _worker(block.many).quick(block.first, block.rows), done)


def _stacked(draws: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Draws of all rows by variable, nan where a row has none."""
    known = next((own for own in draws if own), {})
    stacked = {}
    for name, like in known.items():
        rows = [own.get(name, np.full(like.shape, np.nan)) for own in draws]
        shapes = {row.shape[1:] for row in rows}
        if len(shapes) > 1:
            raise OptionError(
                f"Draws of {name!r} have different shapes, {sorted(shapes)}, in different data "
                "sets; leave it out of `var_names`."
            )
        stacked[name] = np.array(rows)
    return stacked


def estimate_blocks(
    blocks: Sequence[Block], threads: int, executor: Any, store: BlockFolder | None, phase: Phase
) -> list[dict[str, Any]]:
    """Outcomes of all blocks, in order; those that a folder has are read."""
    results: list[Any] = [None] * len(blocks)
    for block in blocks:
        kept = None if store is None else store.read(block.number)
        if kept is not None:
            results[block.number] = {name: kept[name] for name in Outcome._fields}
            phase.advance(len(block.rows))
    left = [block for block in blocks if results[block.number] is None]
    if executor is not None:
        size = len(blocks[0].rows)
        tasks = [(block,) for block in left]
        found = run_tasks(executor, estimate_block, tasks, done=lambda: phase.advance(size))
        for block, result in zip(left, found, strict=True):
            if result is None:
                # after Ctrl-C
                raise KeyboardInterrupt
            lost = isinstance(result, Lost)
            results[block.number] = _lost(result, len(block.rows)) if lost else result
    elif threads == 1:
        for block in left:
            results[block.number] = estimate_block(block, phase.advance)
    else:
        _in_threads(threads, left, results, phase.advance)
    return results


def _in_threads(
    threads: int, blocks: Sequence[Block], results: list[Any], done: Callable[[], None]
) -> None:
    """The quick way in threads; runs and files here, as blocks come."""
    # BLAS belongs to the process; and the guard stops kernels of threads that are waited for
    with one_blas_thread(), Watch():
        pool = ThreadPoolExecutor(threads)
        try:
            for block, quick in zip(blocks, pool.map(_quick_block, blocks), strict=True):
                results[block.number] = _finish_block(block, quick, done)
        finally:
            pool.shutdown(cancel_futures=True)


def _lost(lost: Lost, n_rows: int) -> dict[str, Any]:
    outcome = Outcome(failure=f"The worker of its block ended, twice: {lost.why}")
    return {name: [value] * n_rows for name, value in outcome._asdict().items()}
