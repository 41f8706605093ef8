"""Runs go to files and back, and a run that cannot be stored is not lost."""

import pickle

import numpy as np
import pytest
import xarray as xr

from pymc_tempering.errors import DataError, OptionError, OutputError
from pymc_tempering.results import files
from pymc_tempering.results.files import as_run, check_run_output, read_run, write_run
from tests.fresh import fresh_process


@pytest.fixture
def tree():
    x = np.arange(60.0).reshape(2, 30)
    posterior = xr.Dataset({"x": (("chain", "draw"), x)}, coords={"chain": [0, 3]})
    tempering = xr.Dataset({"log_z_chain": ("chain", [1.0, np.nan])}, attrs={"method": "a\nb"})
    return xr.DataTree.from_dict({"posterior": posterior, "tempering": tempering})


@pytest.mark.parametrize("name", ["run.nc", "run.zarr", "RUN.NC"])
def test_round_trip(tree, tmp_path, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    target = check_run_output(tmp_path / name, overwrite=False, remedy="--force")
    write_run(tree, target)
    stored = read_run(target)
    assert stored.identical(tree)
    # the file is not held open, so it can be replaced while its content is in use
    write_run(tree.isel(draw=slice(3)), target, overwrite=True)
    assert stored["posterior"].sizes["draw"] == 30
    assert read_run(target)["posterior"].sizes["draw"] == 3
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_run_that_netcdf_cannot_express_is_pickled(tmp_path):
    labels = np.array([("a", 1), "b"], dtype=object)
    tree = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"x": ("item", [1.0, 2.0])}, coords={"item": labels})}
    )
    with pytest.raises(OutputError, match=r"could not be written \(ValueError") as caught:
        write_run(tree, tmp_path / "run.nc")
    with caught.value.kept.open("rb") as file:
        assert pickle.load(file).identical(tree)


def test_zarr_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="pip install zarr"):
        check_run_output(tmp_path / "run.zarr", overwrite=False, remedy="--force")
    check_run_output(tmp_path / "run.nc", overwrite=False, remedy="--force")


def test_the_system_s_own_limit(tmp_path):
    """The operating system refuses to write on; HDF5 then used to end the process."""
    pytest.importorskip("resource")
    code = """
import resource, sys
import numpy as np, xarray as xr
from pathlib import Path
from pymc_tempering.errors import OutputError
from pymc_tempering.results.files import read_run, write_run

x = np.random.default_rng(1).normal(size=100_000)

def tree(n):
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": ("draw", x[:n])})})

target = Path(sys.argv[1])
write_run(tree(3), target)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
try:
    write_run(tree(100_000), target, overwrite=True)
except OutputError as error:
    assert error.kept is None
    print(error)
assert read_run(target).identical(tree(3))
"""
    for name in ("run.nc", "run.zarr"):
        if name.endswith("zarr"):
            pytest.importorskip("zarr")
        assert "File too large" in fresh_process(code, tmp_path / name)
    assert all(path.name in ("run.nc", "run.zarr") for path in tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_file_of_something_else(tmp_path, content):
    (tmp_path / "run.nc").write_bytes(content)
    with pytest.raises(DataError, match=r"run\.nc cannot be read as a stored run"):
        read_run(tmp_path / "run.nc")


@pytest.mark.parametrize("name", ["folder", "absent.nc", "x" * 300, "nul\0.nc"])
def test_no_run(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"There is no file|cannot be read"):
        read_run(f"{tmp_path}/{name}")


def test_as_run_leaves_other_things_alone(tree):
    assert as_run(tree) is tree
    assert as_run(3) == 3
