"""Runs in files: netCDF (one file) or zarr (a folder)."""

import os
import pickle
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import xarray as xr

from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.results.files import STORE_SUFFIX, check_output, write_output

__all__ = ["RUN_SUFFIXES", "as_run", "check_run_output", "read_run", "write_run"]

RUN_SUFFIXES = (".nc", STORE_SUFFIX)


def check_run_output(
    path: str | os.PathLike[str], *, overwrite: bool, remedy: str, inputs: tuple[Path, ...] = ()
) -> Path:
    """Make sure that a run can be stored; see :func:`pymc_tempering.results.files.check_output`.

    Raises
    ------
    OptionError
        Also if the package that writes this kind of file is not installed.
    """
    target = check_output(path, RUN_SUFFIXES, overwrite=overwrite, remedy=remedy, inputs=inputs)
    if target.suffix.lower() == STORE_SUFFIX and find_spec("zarr") is None:
        raise OptionError(
            f"The output {target} needs zarr, which is not installed: `pip install zarr`, or give "
            "a name that ends in .nc."
        )
    return target


def write_run(idata: xr.DataTree, target: Path, *, overwrite: bool = False) -> Path:
    """Store a run, by the ending of the name as netCDF or zarr.

    Parameters
    ----------
    idata : xarray.DataTree
    target : Path
        As :func:`check_run_output` returns it.
    overwrite : bool, default False

    Returns
    -------
    Path
        `target`.

    Raises
    ------
    OutputError
        If it could not be written; it says where the run is kept instead. What neither netCDF nor
        zarr can express is pickled.

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
        last_resort=(".pkl", partial(_write_pickle, idata)),
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
    with warnings.catch_warnings():
        # about parts of zarr's own specification that are not settled
        warnings.simplefilter("ignore")
        idata.to_zarr(MemoryStore(content))
    for key, buffer in content.items():
        file = path / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(buffer.to_bytes())


def _write_pickle(idata: xr.DataTree, path: Path) -> None:
    with path.open("wb") as file:
        pickle.dump(idata, file)


def read_run(path: str | os.PathLike[str]) -> xr.DataTree:
    """Read a stored run whole, so that its file is not kept open.

    Parameters
    ----------
    path : path-like
        A netCDF file or a zarr store.

    Raises
    ------
    DataError
        If there is none.

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
        with warnings.catch_warnings():
            # as on writing
            warnings.simplefilter("ignore")
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
    """Return the run in a file where a path is given, and anything else as it is.

    Raises
    ------
    DataError
        If there is no run at that path.
    """
    return read_run(value) if isinstance(value, str | os.PathLike) else value
