"""Tasks for the processes of a pool, a cluster or a machine: submitted, gathered, repeated once.

Nothing here starts machines or schedules work: an executor of the standard library's kind does, or
a pool with ``map``. What a task returns must not depend on where it runs, nor on what ran before.
"""

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import get_context
from threading import Lock
from typing import Any, NamedTuple

from pymc_tempering.checkpoint.files import end_with_parent
from pymc_tempering.errors import OptionError, TemperingError, WorkerError
from pymc_tempering.model.own_ops import packed
from pymc_tempering.private.of_pymc import start_method

_log = logging.getLogger("pymc")

type _Call = tuple[bytes, bytes]
"""A function and its arguments, pickled apart."""


class Lost(NamedTuple):
    """In place of a result: the worker of a task ended twice, and how the second time."""

    why: str


class _Raised(NamedTuple):
    """What a task raised, with its traceback as text: a traceback itself cannot be sent."""

    error: Exception
    traceback: str


def check_executor(executor: Any) -> None:
    """Refuse what is neither a number of processes nor takes tasks."""
    whole = isinstance(executor, int) and not isinstance(executor, bool)
    if executor is None or (whole and executor >= 1):
        return
    if whole or not any(callable(getattr(executor, name, None)) for name in ("submit", "map")):
        raise OptionError(
            f"`executor` is {executor!r}; expected a number of processes of at least 1, a "
            "`concurrent.futures.Executor` (as `Client.get_executor()` of dask or "
            "`mpi4py.futures.MPIPoolExecutor`), or a pool with `map` (as `multiprocessing.Pool`)."
        )


def run_tasks(
    executor: Any,
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    done: Callable[[], None] = lambda: None,
    apart: bool = False,
) -> list[Any]:
    """Call a function with the arguments of each task, on the workers of an executor.

    A number of processes is a pool that ends with the call; None is this process, one task after
    the other. The function is sent by cloudpickle, so that it may be of a script or a notebook, and
    loaded once a worker: what all tasks share belongs to it, as to a method its object. ``done`` is
    called here after each task. Processes of a pool are lost together: of a number of them, tasks
    that are lost again are done one after the other, each in a process of its own. ``apart`` is for
    few and long tasks: that is done at once, and what a task raises is returned in its place.

    Returned in the order of the tasks; :class:`Lost` where the worker ended, and ended again when
    the task was repeated. After Ctrl-C, ``None`` for tasks that had not ended; a KeyboardInterrupt
    if none had. Raised is what a task raised first; those that have not begun are given up.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as executor:
    ...     run_tasks(executor, pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    results: list[Any] = [None] * len(tasks)
    try:
        if executor is None:
            for i, arguments in enumerate(tasks):
                results[i] = _here(function, arguments, apart)
                done()
            return results
        sent = packed(function)
        calls = [(sent, packed(arguments)) for arguments in tasks]
        if not isinstance(executor, int) and not callable(getattr(executor, "submit", None)):
            _by_map(executor, calls, results, done, apart)
            return results
        lost: dict[int, Any] = dict.fromkeys(range(len(calls)))
        lost = _submitted(executor, calls, lost, results, done, apart)
        if lost:
            _log.warning("The workers of tasks %s were lost; these are done again.", sorted(lost))
        if lost and not (apart and isinstance(executor, int)):
            lost = _submitted(executor, calls, lost, results, done, apart)
        if isinstance(executor, int):
            alone = [_submitted(1, calls, {i: None}, results, done, apart) for i in lost]
            lost = {i: why for each in alone for i, why in each.items()}
    except KeyboardInterrupt:
        if all(result is None for result in results):
            raise
        return results
    for i, why in lost.items():
        results[i] = Lost(why)
    return results


def _here(function: Callable[..., Any], arguments: tuple[Any, ...], apart: bool) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        if apart:
            return error
        raise


def _submitted(
    executor: Any, calls: list[_Call], which: dict[int, Any], results: list[Any],
    done: Callable[[], None], apart: bool,
) -> dict[int, str]:  # fmt: skip
    """Fill in results of some calls; return those whose worker was lost, and how."""
    lost: dict[int, str] = {}
    with _pool(executor) as pool:
        try:
            futures = {pool.submit(_work, calls[i]): i for i in which}
        except RuntimeError as error:  # a pool that lost a worker takes no more
            return dict.fromkeys(which, str(error))
        # in order, where they are not of the standard library's kind
        ours = all(isinstance(future, Future) for future in futures)
        try:
            for future in as_completed(futures) if ours else futures:
                i, broken = futures[future], future.exception()
                if isinstance(broken, KeyboardInterrupt):
                    # a terminal sends Ctrl-C to the workers too
                    raise broken
                if broken is None:
                    results[i] = _result(future.result(), apart)
                    done()
                else:
                    lost[i] = f"{type(broken).__name__}: {broken}"
        finally:
            for future in futures:
                future.cancel()
    return lost


@contextmanager
def _pool(executor: Any) -> Iterator[Any]:
    """Give the executor, or a pool of so many processes for as long as it is needed."""
    if not isinstance(executor, int):
        yield executor
        return
    context = get_context(start_method(None))
    stopped = context.RawValue("b", 0)
    pool: Executor = ProcessPoolExecutor(
        executor, context, initializer=_begin_worker, initargs=(stopped,)
    )
    try:
        yield pool
    except KeyboardInterrupt:
        stopped.value = 1
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


_stopped: Any = None
"""Of a worker of our own pool: whether Ctrl-C has ended the call, of which it may have a task."""


def _begin_worker(stopped: Any) -> None:
    """Have this process end when its parent does, which may be killed, and is to be run again."""
    global _stopped
    _stopped = stopped
    end_with_parent(if_daemonic=False)


def _by_map(
    pool: Any, calls: list[_Call], results: list[Any], done: Callable[[], None], apart: bool
) -> None:
    # pools that hand on results as they come name it so
    for i, outcome in enumerate(getattr(pool, "imap", pool.map)(_work, calls)):
        results[i] = _result(outcome, apart)
        done()


_one_at_a_time = Lock()
"""Of the threads of a worker, as dask has: PyTensor compiles, and its functions run, in one."""


def _work(call: _Call) -> Any:
    """Make one call, in a worker; what it raises is returned, so that a lost worker is another."""
    if _stopped is not None and _stopped.value:
        raise KeyboardInterrupt
    try:
        with _one_at_a_time:
            return _loaded(call[0])(*pickle.loads(call[1]))
    except Exception as error:  # noqa: BLE001 - raised again where the call came from
        text = traceback.format_exc()
        return _Raised(_sendable(error), text)


@lru_cache(maxsize=1)
def _loaded(sent: bytes) -> Any:
    """What the tasks of one call share: loaded, and what it compiles compiled, once a worker."""
    return pickle.loads(sent)


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever its class does when it is built again
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _result(outcome: Any, apart: bool) -> Any:
    if not isinstance(outcome, _Raised):
        return outcome
    error = outcome.error
    error.__cause__ = None if isinstance(error, TemperingError) else WorkerError(outcome.traceback)
    if apart:
        return error
    raise error
