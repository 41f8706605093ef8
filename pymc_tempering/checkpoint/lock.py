"""One process at a time: locks that the system takes back from a process that was killed."""

import os
from functools import cache
from multiprocessing import current_process, parent_process
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import IO

try:
    import fcntl
except ImportError:  # pragma: no cover - systems other than POSIX have none
    fcntl = None  # type: ignore[assignment]

__all__ = ["acquire", "end_with_parent"]

_POLL = 0.05


def end_with_parent() -> None:
    """Let a daemonic process end when the one that started it is killed.

    A forked process of PyMC's holds the other end of its own pipe, and would wait for ever.
    """
    # forked, it takes along what its parent remembers
    _end_with_parent(os.getpid())


@cache
def _end_with_parent(pid: int) -> None:  # noqa: ARG001  once in each process
    parent = parent_process()
    if parent is None or not current_process().daemon:
        return

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True, name="end with parent").start()


def acquire(path: Path, patience: float = 0.0) -> IO[bytes] | None:
    """Take a lock; closing what is returned gives it back.

    It belongs to the process alone: neither forked nor spawned children have a part in it.

    Parameters
    ----------
    path : Path
        Of a file, made if it is missing.
    patience : float
        Seconds to wait for another process.

    Returns
    -------
    file or None
        None where another process holds the lock.
    """
    file = path.open("ab")
    if fcntl is None:  # pragma: no cover
        return file
    until = monotonic() + patience
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            if monotonic() >= until:
                file.close()
                return None
            sleep(_POLL)
        except OSError:
            # some network file systems have no locks
            return file
        else:
            return file
