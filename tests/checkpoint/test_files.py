"""Plain values in files: what comes back, what is noticed, and what is refused."""

import zipfile

import numpy as np
import pytest

from pymc_tempering.checkpoint.files import (
    DamagedFileError,
    is_whole,
    read_tree,
    refuse_objects,
    write_tree,
)
from pymc_tempering.errors import DataError

TREE = {
    "n": 2**127, "x": 0.1 + 0.2, "none": None, "flag": True, "text": "\u03b2 \"<", "nan": np.nan,
    "array": np.array([[1.5, -np.inf], [np.nan, 0.0]]), "empty": np.zeros((0, 3), dtype=np.int8),
    "column": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "number": np.float32(0.3),
    "nested": [{"items": [np.bool_(False), {"array": 0}]}, []], "../name": np.array("a"),
}  # fmt: skip


def equal(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        return all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, np.ndarray | np.generic):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.flags.f_contiguous == other.flags.f_contiguous
        return one.tobytes() == other.tobytes()
    return one == other or (one != one and other != other)


@pytest.fixture
def path(tmp_path):
    write_tree(tmp_path / "tree.npz", TREE)
    return tmp_path / "tree.npz"


def test_everything_comes_back(path):
    assert equal(read_tree(path), TREE)
    assert is_whole(path)


@pytest.mark.parametrize("value", [object(), {"a": {1, 2}}, np.array([None]), [1j]])
def test_what_would_have_to_be_pickled_is_refused(tmp_path, value):
    with pytest.raises(TypeError, match="without pickling"):
        write_tree(tmp_path / "a.npz", value)


def test_every_cut_is_noticed(path):
    content = path.read_bytes()
    for n in range(0, len(content), 7):
        path.write_bytes(content[:n])
        assert not is_whole(path)
        with pytest.raises(DamagedFileError):
            read_tree(path)


def test_no_changed_bit_changes_a_value(path):
    """Some bits of an archive mean nothing, such as dates of its members."""
    content, noticed = path.read_bytes(), 0
    for i in range(0, len(content), 5):
        changed = bytearray(content)
        changed[i] ^= 1 << i % 8
        path.write_bytes(changed)
        try:
            assert equal(read_tree(path), TREE)
        except DamagedFileError:
            noticed += 1
    assert noticed > 0.3 * len(content) / 5


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_of_objects_are_refused_by_name(tmp_path, version):
    path = tmp_path / "bad.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array(file, np.array([{}], dtype=object), version=version)
    with pytest.raises(DataError, match=r"bad\.npz has pickled Python objects"):
        refuse_objects(path)


def test_every_changed_bit_of_an_array_is_noticed(tmp_path, rng):
    """Noise is kept as it is, so that a changed bit of it is no error of decompression."""
    path = tmp_path / "noise.npz"
    write_tree(path, {"noise": rng.integers(0, 256, 100_000, dtype=np.uint8)})
    content = path.read_bytes()
    for at in rng.integers(1000, 99_000, size=20):
        changed = bytearray(content)
        changed[at] ^= 4
        path.write_bytes(changed)
        with pytest.raises(DamagedFileError):
            read_tree(path)
