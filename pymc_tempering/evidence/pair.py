"""What the evidence of the methods with a tempered and a target replica has in common."""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.errors import DataError
from pymc_tempering.types import FloatArray

__all__ = ["one_setting", "pair_arrays"]


def one_setting(values: FloatArray, name: str) -> FloatArray:
    """Value of an adapted statistic in each chain, shape (chain, ...).

    Raises
    ------
    DataError
        If it changed during a chain, as it does in tuning.
    """
    for chain, own in enumerate(values):
        if not np.array_equal(own.min(axis=0), own.max(axis=0), equal_nan=True):
            raise DataError(
                f"`{name}` changes during chain {chain}, so it mixes tuning with sampling. Pass "
                "the draws after tuning only."
            )
    return values[:, 0]


def pair_arrays(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """What both methods say of each chain, for the group ``tempering``; shape (chain,) each."""
    draws = statistics["n_base_draws"].sum(axis=1)
    return {
        "support_mass": statistics["n_base_support"].sum(axis=1) / np.maximum(draws, 1),
        "exchange_rate": statistics["exchange_rate"].mean(axis=1),
        "n_round_trips": statistics["n_round_trips"].sum(axis=1).astype(float),
        "n_tempered_restarts": statistics["n_tempered_restarts"].sum(axis=1).astype(float),
    }
