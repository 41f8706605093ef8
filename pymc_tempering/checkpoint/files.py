"""Files of a run that is kept: nested plain values in one file, and locks of one process at a time.

A file is a zip archive as that of ``numpy.savez``: numbers and text as JSON, arrays as ``.npy``,
nothing pickled, with a checksum for each member, so that one that was cut or changed is noticed.
The system takes locks back from a process that was killed.
"""

import errno
import io
import json
import os
import zipfile
import zlib
from functools import cache
from multiprocessing import current_process, parent_process
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import IO, Any

import numpy as np

from pymc_tempering.errors import DataError

try:
    import fcntl
except ImportError:  # pragma: no cover - systems other than POSIX have none
    fcntl = None  # type: ignore[assignment]

_SKELETON = "skeleton.json"
# what zipfile and NumPy raise for files that were cut, changed, or are none of theirs
_DAMAGE = (
    OSError, EOFError, KeyError, IndexError, TypeError, ValueError, RuntimeError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


# of these, what the system says where a cut file has no such place
_SEEKING = (None, errno.EINVAL)


class DamagedFileError(Exception):
    """A file is not as it was written."""


def write_tree(path: Path, tree: Any) -> None:
    """Write a value, compressed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_tree(Path(folder, "a.npz"), {"n": 2**100, "x": (np.arange(2.0), None)})
    ...     read_tree(Path(folder, "a.npz"))
    {'n': 1267650600228229401496703205376, 'x': [array([0., 1.]), None]}
    """
    arrays: list[np.ndarray] = []
    skeleton = json.dumps(_packed(tree, arrays))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(_SKELETON, skeleton)
        for i, array in enumerate(arrays):
            with archive.open(f"{i}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def read_tree(path: Path) -> Any:
    """Read what :func:`write_tree` wrote; tuples come back as lists."""
    refuse_objects(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _unpacked(json.loads(archive.read(_SKELETON)), archive)
    except _DAMAGE as error:
        _raise_if_unreadable(error)
        raise DamagedFileError(f"{path}: {error}") from error


def is_whole(path: Path) -> bool:
    """Whether all members of a file have the checksums that they were written with."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except _DAMAGE as error:
        _raise_if_unreadable(error)
        return False


def refuse_objects(path: Path) -> None:
    """Refuse a file with arrays of pickled objects, from their headers alone."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.endswith(".npy")]
            holds = any(_holds_objects(archive, name) for name in members)
    except _DAMAGE:
        return
    if holds:
        raise DataError(
            f"{path} has pickled Python objects in it, which are never loaded: pymc_tempering did "
            "not write that file. Do not trust the folder; give another path."
        )


def _raise_if_unreadable(error: Exception) -> None:
    """Raise what is not of the file but of the disk, the network or the rights of the user."""
    if isinstance(error, OSError) and error.errno not in _SEEKING:
        raise error


def _holds_objects(archive: zipfile.ZipFile, name: str) -> bool:
    with archive.open(name) as file:
        form = np.lib.format
        # version 3 differs from 2 in the encoding of names of fields, which are not looked at
        is_first = form.read_magic(file) == (1, 0)
        read = form.read_array_header_1_0 if is_first else form.read_array_header_2_0
        return bool(read(file)[2].hasobject)


def _packed(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError("An array of objects cannot be kept without pickling it.")
        arrays.append(array)
        return {"array" if isinstance(value, np.ndarray) else "number": len(arrays) - 1}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_packed(item, arrays) for item in value]
    if isinstance(value, dict):
        return {"items": {str(name): _packed(item, arrays) for name, item in value.items()}}
    raise TypeError(f"{type(value).__name__} cannot be kept without pickling it.")


def _unpacked(value: Any, archive: zipfile.ZipFile) -> Any:
    if isinstance(value, list):
        return [_unpacked(item, archive) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "items":
        return {name: _unpacked(item, archive) for name, item in content.items()}
    # to its end, where the checksum is looked at
    member = io.BytesIO(archive.read(f"{int(content)}.npy"))
    array = np.lib.format.read_array(member, allow_pickle=False)
    return array if kind == "array" else array[()]


def end_with_parent(*, if_daemonic: bool = True) -> None:
    """Let a process, or a daemonic one alone, end when the one that started it is killed.

    A forked process of PyMC's holds the other end of its own pipe, and would wait for ever.
    """
    # forked, it takes along what its parent remembers
    _end_with_parent(os.getpid(), if_daemonic)


@cache
def _end_with_parent(pid: int, if_daemonic: bool) -> None:  # noqa: ARG001  once in each process
    parent = parent_process()
    if parent is None or (if_daemonic and not current_process().daemon):
        return

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True, name="end with parent").start()


def acquire(path: Path, patience: float = 0.0) -> IO[bytes] | None:
    """Take a lock; closing what is returned gives it back.

    It belongs to the process alone: neither forked nor spawned children have a part in it.
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
            sleep(0.05)
        except OSError:
            # some network file systems have no locks
            return file
        else:
            return file
