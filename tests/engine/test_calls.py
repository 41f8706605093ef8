"""Moves are called by address, with the types that they were compiled for, in their own process."""

import pickle

import numba
import numpy as np
import pytest

from pymc_tempering.engine.explorers.slice import Slice, slice_move
from pymc_tempering.engine.move import Move, call_move, move_address


def test_an_address_does_not_travel():
    settings = Slice(n_updates=3)
    assert settings.packed.address == move_address(slice_move) != 0
    travelled = pickle.loads(pickle.dumps(settings))
    assert travelled == settings
    assert "packed" in vars(settings)
    assert "packed" not in vars(travelled)


def test_other_arguments_are_refused():
    @numba.njit
    def wrong(address, options):
        return call_move(address, Move(0.0, 0.0, 0, 0, 0), (options, 1.0))

    with pytest.raises(numba.TypingError, match="a move takes"):
        wrong(move_address(slice_move), np.zeros(2))
