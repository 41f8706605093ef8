"""A folder for many small results, in blocks: a file for each that is finished.

Blocks are written by the processes that made them; each belongs to one alone, and is there whole or
not at all.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pymc_tempering.checkpoint.description import differences
from pymc_tempering.checkpoint.files import DamagedFileError, read_tree, write_tree
from pymc_tempering.checkpoint.store import Folder
from pymc_tempering.errors import DataError, OutputError
from pymc_tempering.results.files import write_whole


def _file(folder: Path, number: int) -> Path:
    return folder / f"block-{number:06d}.npz"


def write_block(folder: Path, number: int, tree: Any) -> None:
    """Write what a block came to, without pickling anything; OutputError where that fails."""
    try:
        write_whole(_file(folder, number), lambda path: write_tree(path, tree), overwrite=True)
    except OSError as error:
        raise OutputError(
            f"A block of results could not be written to {folder}: {error}. Those before it are "
            "there, and the same call goes on from them."
        ) from error


class BlockFolder(Folder):
    """A folder of one call, with the blocks that are finished."""

    kind, format = "pymc_tempering blocks", 2

    def attach(self, run: Mapping[str, Any]) -> None:
        """Make the folder that of a call, as :func:`.description.describe` says it.

        Where it is of another call, a DataError says what differs.
        """
        if not self._about:
            self._describe(run)
        elif found := differences(self._about["run"], run):
            raise DataError(
                f"The results in {self.folder} are of another call: {'; '.join(found)}. Call as "
                "when it was started, or give another path."
            )

    def read(self, number: int) -> Any:
        """What a block came to; None where it has not been finished, or its file is damaged."""
        file = _file(self.folder, number)
        try:
            return read_tree(file) if file.exists() else None
        except DamagedFileError:
            return None

    def empty(self, number: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Make an array that is a file of the folder, and is read and written as it is used."""
        path = self.folder / f"draws-{number:03d}.npy"
        return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
