"""A folder of blocks: whole ones are read, others are not, and another call is refused."""

from contextlib import closing

import numpy as np
import pytest

from pymc_tempering.checkpoint.blocks import BlockFolder, write_block
from pymc_tempering.errors import DataError, OptionError

RUN = {"settings": {"random_seed": 5}, "options": {"data": "abc"}}


@pytest.fixture
def folder(tmp_path):
    with closing(BlockFolder(tmp_path / "run")) as store:
        assert store.seed is None
        store.attach(RUN)
        write_block(store.folder, 3, {"log_z": np.array([1.0, np.nan]), "how": ["a", ""]})
    return tmp_path / "run"


def test_what_was_written_is_read(folder):
    with closing(BlockFolder(folder)) as store:
        store.attach(RUN)
        assert store.seed == 5
        assert store.read(2) is None
        kept = store.read(3)
    np.testing.assert_array_equal(kept["log_z"], [1.0, np.nan])
    assert kept["how"] == ["a", ""]


def test_a_damaged_block_is_done_again(folder):
    file = folder / "block-000003.npz"
    file.write_bytes(file.read_bytes()[:-40])
    with closing(BlockFolder(folder)) as store:
        assert store.read(3) is None


def test_another_call_is_refused(folder):
    with closing(BlockFolder(folder)) as store, pytest.raises(DataError, match="data is 'xyz'"):
        store.attach(RUN | {"options": {"data": "xyz"}})


def test_a_folder_of_anything_else_is_refused(folder, tmp_path):
    (folder / "run.json").write_text('{"kind": "other", "format": 1, "run": {"settings": {}}}')
    with pytest.raises(DataError, match=r"run\.json"):
        BlockFolder(folder)
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(OptionError, match="other things in it"):
        BlockFolder(tmp_path)
