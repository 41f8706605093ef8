"""Output is refused beforehand, or whole under its name, or kept under another one."""

import errno
import os
import stat
import tempfile
from pathlib import Path

import pytest

from pymc_tempering.errors import OptionError, OutputError
from pymc_tempering.results import files
from pymc_tempering.results.files import check_output, write_output

posix = pytest.mark.skipif(os.name != "posix", reason="of POSIX systems")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory, monkeypatch):
    """Folders of their own for what cannot be written beside its target."""
    folder = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(files.Path, "home", lambda: folder)
    return folder


@pytest.fixture
def full_disk(monkeypatch):
    """Return a function that makes a folder one on a disk without room."""
    folders = set()
    write_bytes = Path.write_bytes

    def limited(self, data):
        if folders & set(self.parents):
            write_bytes(self, data[: len(data) // 2])
            raise FULL
        return write_bytes(self, data)

    monkeypatch.setattr(Path, "write_bytes", limited)
    return folders.add


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def new(path):
    return path.write_bytes(b"new" * 100)


def new_store(path):
    (path / "deep").mkdir(parents=True)
    (path / "zarr.json").write_text("new")
    (path / "deep" / "chunk").write_bytes(b"new")


def old_store(path, mark="zarr.json"):
    path.mkdir()
    (path / mark).write_text("old")
    return path


class TestCheck:
    @pytest.mark.parametrize("path", [None, 3, b"run.nc"])
    def test_not_a_path(self, path):
        with pytest.raises(OptionError, match=r"expected a path that ends in \.nc"):
            check_output(path, [".nc"])

    @pytest.mark.parametrize("mark", ["zarr.json", ".zgroup"])
    def test_store_may_be_replaced(self, tmp_path, mark):
        old_store(tmp_path / "run.zarr", mark)
        check_output(tmp_path / "run.zarr", [".zarr"], overwrite=True)
        assert names(tmp_path / "run.zarr") == [mark]

    @posix
    def test_pipe(self, tmp_path):
        os.mkfifo(tmp_path / "run.nc")
        with pytest.raises(OptionError, match="neither a file nor a folder"):
            check_output(tmp_path / "run.nc", [".nc"], overwrite=True)

    @posix
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("notes.txt/run.nc", "cannot be written: .*exists|cannot be written: .*ot a directory"),
            ("notes.txt/deep/run.nc", "cannot be written"),
            ("x" * 300 + ".nc", "name too long"),
            ("x" * 300 + "/run.nc", "name too long"),
            ("loop/run.nc", "cannot be written"),
            ("nul\0.nc", "null"),
        ],
    )
    def test_folder_or_name_that_cannot_be(self, tmp_path, name, message):
        (tmp_path / "notes.txt").write_text("notes")
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(OptionError, match=f"(?i){message}"):
            check_output(f"{tmp_path}/{name}", [".nc"])
        assert names(tmp_path) == ["loop", "notes.txt"]

    def test_full_disk(self, tmp_path, full_disk):
        full_disk(tmp_path)
        with pytest.raises(OptionError, match="No space left"):
            check_output(tmp_path / "run.nc", [".nc"])
        assert names(tmp_path) == []

    def test_disk_that_is_full_when_forced_to_it(self, tmp_path, monkeypatch):
        def fail(descriptor):
            raise FULL

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OptionError, match="No space left"):
            check_output(tmp_path / "run.nc", [".nc"])
        assert names(tmp_path) == []


class TestWrite:
    def test_new_file(self, tmp_path):
        assert write_output(tmp_path / "run.nc", new) == tmp_path / "run.nc"
        assert (tmp_path / "run.nc").read_bytes() == b"new" * 100
        assert names(tmp_path) == ["run.nc"]

    def test_temporary_name_has_the_ending_and_is_beside(self, tmp_path):
        given = []
        write_output(tmp_path / "run.nc", lambda path: (given.append(path), new(path)))
        assert [(path.parent, path.suffix) for path in given] == [(tmp_path, ".nc")]
        assert given[0].name.startswith(".")

    @posix
    def test_is_on_disk_before_it_gets_its_name(self, tmp_path, monkeypatch):
        forced, fsync = [], os.fsync

        def record(descriptor):
            forced.append((os.fstat(descriptor).st_ino, names(tmp_path)))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", record)
        write_output(tmp_path / "run.nc", new)
        inode, present = forced[0]
        assert inode == (tmp_path / "run.nc").stat().st_ino
        assert "run.nc" not in present
        assert forced[-1][0] == tmp_path.stat().st_ino

    @posix
    def test_permissions_stay(self, tmp_path):
        target = tmp_path / "run.nc"
        target.write_text("old")
        target.chmod(0o640)
        write_output(target, new, overwrite=True)
        assert stat.S_IMODE(target.stat().st_mode) == 0o640

    @pytest.mark.parametrize("links", [True, False])
    def test_file_that_appeared_in_the_meantime(self, tmp_path, monkeypatch, links):
        target = tmp_path / "run.nc"

        def write_and_race(path):
            new(path)
            if not target.exists():
                target.write_text("another process's")

        def no_links(*_):
            raise OSError(errno.EPERM, "not on this file system")

        if not links:
            monkeypatch.setattr(os, "link", no_links)
        with pytest.raises(OutputError, match="appeared in the meantime") as caught:
            write_output(target, write_and_race)
        assert target.read_text() == "another process's"
        assert caught.value.kept.read_bytes() == b"new" * 100
        assert names(tmp_path) == sorted(["run.nc", caught.value.kept.name])

    def test_race_between_check_and_rename(self, tmp_path, monkeypatch):
        """Another process's file appears after the last look, and is kept."""
        target, exists = tmp_path / "run.nc", os.path.lexists

        def look_then_lose_the_race(path):
            found = exists(path)
            if Path(path) == target and not found:
                target.write_text("another process's")
            return found

        monkeypatch.setattr(os.path, "lexists", look_then_lose_the_race)
        with pytest.raises(OutputError) as caught:
            write_output(target, new)
        assert target.read_text() == "another process's"
        assert caught.value.kept.read_bytes() == b"new" * 100

    def test_full_disk_keeps_the_old_and_the_new(self, tmp_path, full_disk, elsewhere):
        target = tmp_path / "run.nc"
        target.write_text("old")
        full_disk(tmp_path)
        with pytest.raises(OutputError, match=r"No space left.*kept in") as caught:
            write_output(target, new, overwrite=True)
        assert target.read_text() == "old"
        assert names(tmp_path) == ["run.nc"]
        assert caught.value.kept.parent == elsewhere
        assert str(caught.value.kept) in str(caught.value)
        assert caught.value.kept.suffix == ".nc"
        assert caught.value.kept.read_bytes() == b"new" * 100

    def test_all_disks_full(self, tmp_path, full_disk, elsewhere):
        for folder in (tmp_path, elsewhere):
            full_disk(folder)
        with pytest.raises(OutputError, match="could not be kept anywhere") as caught:
            write_output(tmp_path / "run.nc", new)
        assert caught.value.kept is None
        assert names(tmp_path) == names(elsewhere) == []

    def test_name_that_cannot_be_replaced(self, tmp_path, monkeypatch):
        """As under Windows, while another program has the file open."""
        target = tmp_path / "run.nc"
        target.write_text("old")

        def fail(*_):
            raise PermissionError(errno.EACCES, "in use")

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(OutputError, match="in use") as caught:
            write_output(target, new, overwrite=True)
        assert target.read_text() == "old"
        assert caught.value.kept.parent == tmp_path
        assert caught.value.kept.read_bytes() == b"new" * 100

    def test_what_cannot_be_expressed_is_kept_in_another_form(self, tmp_path):
        def fail(path):
            path.write_text("half")
            raise ValueError("object arrays")

        last = (".pkl", lambda path: path.write_text("whole"))
        with pytest.raises(OutputError, match="ValueError: object arrays") as caught:
            write_output(tmp_path / "run.nc", fail, last_resort=last)
        assert caught.value.kept.suffix == ".pkl"
        assert caught.value.kept.read_text() == "whole"
        assert names(tmp_path) == [caught.value.kept.name]

    def test_interrupt(self, tmp_path):
        target = tmp_path / "run.nc"
        target.write_text("old")

        def interrupted(path):
            path.write_text("half")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_output(target, interrupted, overwrite=True)
        assert target.read_text() == "old"
        assert names(tmp_path) == ["run.nc"]


class TestStore:
    def test_new_and_again(self, tmp_path):
        target = tmp_path / "run.zarr"
        write_output(target, new_store)
        assert names(target) == ["deep", "zarr.json"]
        (target / "stale").write_text("of the first")
        write_output(target, new_store, overwrite=True)
        assert names(target) == ["deep", "zarr.json"]
        assert names(tmp_path) == ["run.zarr"]

    def test_old_comes_back_where_the_new_cannot_take_its_name(self, tmp_path, monkeypatch):
        target, rename = old_store(tmp_path / "run.zarr"), os.rename

        def fail(source, destination):
            if Path(destination) == target and "partial" in Path(source).name:
                raise PermissionError(errno.EACCES, "in use")
            rename(source, destination)

        monkeypatch.setattr(os, "rename", fail)
        with pytest.raises(OutputError, match="in use") as caught:
            write_output(target, new_store, overwrite=True)
        assert (target / "zarr.json").read_text() == "old"
        assert (caught.value.kept / "zarr.json").read_text() == "new"
        assert names(tmp_path) == sorted(["run.zarr", caught.value.kept.name])

    def test_half_a_store_does_not_replace_a_whole_one(self, tmp_path):
        target = old_store(tmp_path / "run.zarr")

        def half(path):
            new_store(path)
            raise FULL

        with pytest.raises(OutputError, match="No space left"):
            write_output(target, half, overwrite=True)
        assert names(target) == ["zarr.json"]
        assert names(tmp_path) == ["run.zarr"]

    def test_store_replaces_a_file_only_if_asked(self, tmp_path):
        target = tmp_path / "run.zarr"
        target.write_text("old")
        with pytest.raises(OutputError):
            write_output(target, new_store)
        assert target.read_text() == "old"
        write_output(target, new_store, overwrite=True)
        assert names(target) == ["deep", "zarr.json"]
