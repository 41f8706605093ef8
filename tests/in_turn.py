"""One process compiles a function that is kept on disk, and the others wait for it.

Workers of pytest begin with runs that need the same kernels, and would each compile all of them.
"""

import contextlib
import functools
import hashlib

from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

__all__ = ["compile_in_turn", "turn"]


def compile_in_turn():
    """Have what this process compiles from now on wait for others that compile the same."""
    if fcntl is not None:
        for kind in (Dispatcher, CFunc):
            kind.compile = _in_turn(kind.compile)


def _in_turn(compile_it):
    @functools.wraps(compile_it)
    def in_turn(function, *signature):
        # in this order, or two threads might wait for each other
        with global_compiler_lock, turn(function):
            return compile_it(function, *signature)

    return in_turn


@contextlib.contextmanager
def turn(function):
    """Hold off other processes that want to compile a function; nothing where it is not kept."""
    files = getattr(function._cache, "_cache_file", None)
    if files is None:
        yield
        return
    # a byte for each function; a process may lock one again, and loses all when it is killed
    digest = hashlib.blake2b(files._index_path.encode(), digest_size=4).digest()
    place = 1, int.from_bytes(digest) // 2
    try:
        fcntl.lockf(_file(), fcntl.LOCK_EX, *place)
    except OSError:  # the other waits for this process, or the folder knows no locks or writing
        yield
        return
    try:
        yield
    finally:
        fcntl.lockf(_file(), fcntl.LOCK_UN, *place)


@functools.cache
def _file():
    return open(__file__, "r+")  # never closed, as that would give up all that are held
