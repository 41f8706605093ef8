"""Files of runs, and output that destroys nothing: checked beforehand, whole, kept if it fails.

A long run must not end with a name that was mistyped, a disk that is full, or the loss of an
earlier result.
"""

import os
import pickle
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import xarray as xr

from pymc_tempering.errors import DataError, OptionError, OutputError

type Writer = Callable[[Path], object]
"""Writes a new file, or a new folder of files, under the name that it is given."""

STORE_SUFFIX = ".zarr"
"""Ending of the one kind of output that is a folder."""

RUN_SUFFIXES = (".nc", STORE_SUFFIX)

PARTIAL = f".{'[0-9a-f]' * 12}.partial*"
"""Names, as for ``glob``, of files that were not finished: six random bytes in front."""

_STORE_MARKS = ("zarr.json", ".zgroup", ".zmetadata")
_MAX_STEM = 100
"""Letters of a name that are kept in a longer one: file systems take 255 bytes."""


def check_output(
    path: str | os.PathLike[str],
    suffixes: Sequence[str],
    *,
    overwrite: bool = False,
    remedy: str = "`overwrite=True`",
    inputs: Sequence[Path] = (),
) -> Path:
    """Make sure, before anything is computed, that a result can be written.

    The folder is made where it is missing, and a file of 1 MiB is written to it, forced to disk
    and removed. With `overwrite` a file or zarr store of that name may be replaced, but no folder
    of anything else, device or pipe, and none of `inputs`, which the result is made from: this, or
    that it could not be written, is an OptionError. `remedy` is how the caller's user asks to
    overwrite. The path returned is absolute, so that it stays right if the working folder changes;
    a link is not followed: it is the link that is replaced.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     check_output(Path(folder, "new", "run.nc"), [".nc"]).name
    'run.nc'
    """
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"The output is {path!r}; expected a path that ends in {suffixes[0]}.")
    given = Path(path)
    try:
        if any(given.exists() and other.exists() and given.samefile(other) for other in inputs):
            raise OptionError(f"The output {given} is the file that is read; give another name.")
        if given.suffix.lower() not in suffixes:
            raise OptionError(
                f"The output {str(path)!r} does not end in {' or '.join(suffixes)}, as the name "
                "of what is written there must."
            )
        target = given.parent.resolve() / given.name
        if os.path.lexists(target):
            _check_replaceable(target, overwrite, remedy)
        else:
            # raises where the name is one that the file system does not take
            with suppress(FileNotFoundError):
                target.lstat()
            target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, probe, publish=False)
    except OptionError:
        raise
    except (OSError, RuntimeError) as error:
        raise OptionError(f"The output {given} cannot be written: {error}") from error
    except ValueError as error:
        raise OptionError(f"The output {str(path)!r} is no path: {error}") from error
    return target


def write_output(
    target: Path,
    write: Writer,
    *,
    overwrite: bool = False,
    last_resort: tuple[str, Writer] | None = None,
) -> Path:
    """Write a result so that the name has the old content or the whole new one, never a part.

    `target` is as :func:`check_output` returns it. `write` is given a temporary name with the
    ending of `target`. Without `overwrite`, also a file that has appeared since the check is kept.
    `last_resort` is another ending and writer, for what `write` cannot store anywhere.

    A result that could not be written is kept beside `target` under another name, or in the
    system's folder for temporary files, or in the home folder; an OutputError says where.
    """
    try:
        write_whole(target, write, overwrite=overwrite)
    except Exception as error:
        raise _keep_elsewhere(target, write, last_resort, error) from error
    return target


def _check_replaceable(target: Path, overwrite: bool, remedy: str) -> None:
    if not overwrite:
        raise OptionError(
            f"{target} exists and would be lost; give another name, or {remedy} to replace it."
        )
    if target.is_symlink() or target.is_file():
        return
    if not target.is_dir():
        raise OptionError(f"{target} is neither a file nor a folder; give another name.")
    is_store = any((target / mark).exists() for mark in _STORE_MARKS)
    if target.suffix.lower() != STORE_SUFFIX or not is_store:
        raise OptionError(
            f"{target} is a folder, but not a zarr store: it is not replaced. Give another name."
        )


def probe(path: Path) -> None:
    """Write 1 MiB: a disk without room for it has none for a run either."""
    # random, as a file system that compresses finds room for zeros
    path.write_bytes(os.urandom(1 << 20))


def write_whole(
    target: Path, write: Writer, *, overwrite: bool = False, publish: bool = True
) -> None:
    """Write beside a name, force to disk, and rename; :func:`write_output` without a last resort.

    Without `publish` nothing is left, which shows whether it could be written.
    """
    temporary = target.with_name(f".{secrets.token_hex(6)}.partial{target.suffix}")
    try:
        write(temporary)
        _flush(temporary)
        if publish:
            _publish(temporary, target, overwrite)
    finally:
        _remove(temporary)


def _flush(path: Path) -> None:
    """Force to disk, where a full one shows at the latest."""
    if path.is_file():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        return
    for folder, _, files in os.walk(path):
        for name in files:
            _flush(Path(folder, name))
        _flush_names(Path(folder))


def _flush_names(folder: Path) -> None:
    """Force to disk which files a folder has; elsewhere than on POSIX systems, they see to it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # some network file systems do not take it
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(temporary: Path, target: Path, overwrite: bool) -> None:
    """Rename, in one step where the system has it."""
    exists = os.path.lexists(target)
    if exists and not overwrite:
        raise FileExistsError(f"{target.name} has appeared in the meantime")
    if not exists:
        _publish_new(temporary, target)
    elif temporary.is_file() and not target.is_dir():
        if not target.is_symlink():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    else:
        # folders are not replaced in one step: the old one is kept until the new one is there
        old = target.with_name(f".{target.name[:_MAX_STEM]}.{secrets.token_hex(3)}.old")
        os.rename(target, old)
        try:
            os.rename(temporary, target)
        except OSError:
            os.rename(old, target)
            raise
        _remove(old)
    _flush_names(target.parent)


def _publish_new(temporary: Path, target: Path) -> None:
    if temporary.is_file():
        # unlike a rename, a link does not replace what another process has just written
        with suppress(OSError):
            os.link(temporary, target)
            return
        if os.path.lexists(target):
            raise FileExistsError(f"{target.name} has appeared in the meantime")
    os.rename(temporary, target)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _keep_elsewhere(
    target: Path, write: Writer, last_resort: tuple[str, Writer] | None, error: Exception
) -> OutputError:
    reason = f"{type(error).__name__}: {error}".rstrip(": ")
    writers = [(target.suffix, write), *([last_resort] if last_resort else [])]
    made = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    for suffix, writer in writers:
        for folder in _folders(target):
            name = f"{target.stem[:_MAX_STEM]}-kept-{made}-{secrets.token_hex(3)}{suffix}"
            with suppress(Exception):
                write_whole(folder / name, writer)
                return OutputError(
                    f"{target} could not be written ({reason}). Nothing is lost: what was "
                    f"computed is kept in {folder / name}",
                    kept=folder / name,
                )
    tried = ", ".join(map(str, _folders(target)))
    return OutputError(
        f"{target} could not be written ({reason}), and what was computed could not be kept "
        f"anywhere else either; tried: {tried}."
    )


def _folders(target: Path) -> list[Path]:
    folders = [target.parent]
    for find in (tempfile.gettempdir, Path.home):
        # neither needs to exist
        with suppress(OSError, RuntimeError):
            folders.append(Path(find()))
    return folders


def check_run_output(
    path: str | os.PathLike[str], *, overwrite: bool, remedy: str, inputs: tuple[Path, ...] = ()
) -> Path:
    """:func:`check_output` for a run; also refuses a zarr store where zarr is not installed."""
    target = check_output(path, RUN_SUFFIXES, overwrite=overwrite, remedy=remedy, inputs=inputs)
    if target.suffix.lower() == STORE_SUFFIX and find_spec("zarr") is None:
        raise OptionError(
            f"The output {target} needs zarr, which is not installed: `pip install zarr`, or give "
            "a name that ends in .nc."
        )
    return target


def write_run(idata: xr.DataTree, target: Path, *, overwrite: bool = False) -> Path:
    """Store a run, by the ending of the name as netCDF or zarr; what neither can hold is pickled.

    See :func:`write_output`, for where it is kept if it cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> run = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": ("draw", [1.0, 2.0])})})
    >>> with TemporaryDirectory() as folder:
    ...     path = write_run(run, Path(folder, "run.nc"))
    ...     read_run(path)["posterior"]["x"].values.tolist()
    [1.0, 2.0]
    """
    is_store = target.suffix.lower() == STORE_SUFFIX
    return write_output(
        target,
        partial(_write_zarr if is_store else _write_netcdf, idata),
        overwrite=overwrite,
        last_resort=(".pkl", lambda path: path.write_bytes(pickle.dumps(idata))),
    )


# Files are made in memory and written by Python: where a disk is full, HDF5 ends the whole process,
# and threads of zarr go on writing into a folder that is being removed.


def _write_netcdf(idata: xr.DataTree, path: Path) -> None:
    # released at once, also where writing fails and the traceback lives on
    with idata.to_netcdf(engine="h5netcdf") as content, path.open("wb") as file:
        file.write(content)


def _write_zarr(idata: xr.DataTree, path: Path) -> None:
    from zarr.storage import MemoryStore

    content: dict[str, Any] = {}
    # about parts of zarr's own specification that are not settled
    with warnings.catch_warnings(action="ignore"):
        idata.to_zarr(MemoryStore(content))
    for key, buffer in content.items():
        file = path / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(buffer.to_bytes())


def read_run(path: str | os.PathLike[str]) -> xr.DataTree:
    """Read a stored run whole, so that its file is not kept open.

    Examples
    --------
    >>> read_run("no_such_run.nc")
    Traceback (most recent call last):
    pymc_tempering.errors.DataError: There is no file no_such_run.nc.
    """
    path = Path(path)
    try:
        if not path.exists():
            raise DataError(f"There is no file {path}.")
        # as on writing
        with warnings.catch_warnings(action="ignore"):
            return xr.load_datatree(path, engine="zarr" if path.is_dir() else "h5netcdf")
    except DataError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise DataError(
            f"{path} cannot be read as a stored run, a netCDF file or a zarr store: "
            f"{type(error).__name__}: {reason}"
        ) from error


def as_run(value: Any) -> Any:
    """Return the run in a file where a path is given, and anything else as it is."""
    return read_run(value) if isinstance(value, str | os.PathLike) else value
