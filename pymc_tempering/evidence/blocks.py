"""A block of data sets: what one task is, in whichever thread, process or machine."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from pymc_tempering.checkpoint.blocks import write_block
from pymc_tempering.errors import OptionError
from pymc_tempering.evidence.many_worker import NEIGHBOUR, Many, Outcome, Quick, Worker
from pymc_tempering.numerics import one_blas_thread

__all__ = ["Block", "estimate_block", "finish_block", "quick_block"]

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
    """Rows of data, the numbers of the first and of the block, and the folder of results.

    ``before`` is what a call that was stopped has left of its results.
    """

    data: Mapping[str, Any]
    first: int
    number: int
    folder: Path | None
    before: Mapping[str, Any] | None = None

    @property
    def rows(self) -> list[dict[str, np.ndarray]]:
        """The data sets."""
        n = len(next(iter(self.data.values())))
        return [{name: values[row] for name, values in self.data.items()} for row in range(n)]

    @property
    def n_before(self) -> int:
        """Of them, how many have a result."""
        return 0 if self.before is None else len(self.before["log_z"])


@contextmanager
def _quick(many: Many, block: Block) -> Iterator[Iterator[Quick]]:
    """The quick way for each row that is left, when it is asked for."""
    # where the search of a neighbour ended is not kept, and the next begins there
    done = 0 if many.reference == NEIGHBOUR else block.n_before
    with closing(_worker(many).quick(block.first + done, block.rows[done:])) as quick:
        yield islice(quick, block.n_before - done, None)


def quick_block(many: Many, block: Block) -> list[Quick]:
    """The quick way for all rows that are left; several threads may do so at a time."""
    with _quick(many, block) as quick:
        return list(quick)


def finish_block(
    many: Many, block: Block, quick: Iterable[Quick], done: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Run what needs it, and map draws.

    Returns :class:`Outcome` as columns, by name, and ``draws`` of the posterior by variable, of
    fewer than all rows after Ctrl-C. They are kept in the folder, where there is one, and draws are
    not returned then.
    """
    before = {} if block.before is None else block.before
    columns: dict[str, list[Any]] = {name: list(before.get(name, [])) for name in Outcome._fields}
    kept_draws = before.get("draws", {})
    draws = [{name: v[row] for name, v in kept_draws.items()} for row in range(block.n_before)]
    with suppress(KeyboardInterrupt):
        worker, left = _worker(many), block.rows[block.n_before :]
        for i, (data, of_row) in enumerate(
            zip(left, quick, strict=True), block.first + block.n_before
        ):
            outcome, own = worker.outcome(i, data, of_row)
            for name, value in outcome._asdict().items():
                columns[name].append(value)
            draws.append(own)
            done()
    kept: dict[str, Any] = {
        name: values if isinstance(getattr(Outcome(), name), str) else np.array(values)
        for name, values in columns.items()
    }
    stacked = _stacked(draws)
    if block.folder is None:
        return kept | {"draws": stacked}
    if draws:
        write_block(block.folder, block.number, kept | {"draws": stacked})
    return kept


def estimate_block(
    many: Many, block: Block, done: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Both, one data set after another: see `finish_block`."""
    with one_blas_thread(), _quick(many, block) as quick:
        return finish_block(many, block, quick, done)


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
