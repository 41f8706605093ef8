"""Constant matrices by rows, which a transposed one is not; looked at before anything compiles."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Constant

from pymc_tempering.model import machine_code

X = np.array([[0.3, -1.2], [1.5, 0.4], [-0.7, 2.1]])


def compiled(mode):
    """A product and its gradient, which needs the transpose; compiled at the first call only."""
    b = pt.dvector("b")
    value = (pt.dot(X, b) ** 2).sum()
    return pm.pytensorf.compile([b], [value, pytensor.grad(value, b)], mode=mode)


def matrices(function):
    """Values of the graph's constant matrices, in the order of their shapes."""
    found = [v.data for v in function.maker.fgraph.variables if isinstance(v, Constant)]
    return sorted((data for data in found if np.ndim(data) == 2), key=np.shape)


def test_products_with_a_matrix_and_with_its_transpose_take_the_same_type():
    transposed, plain = matrices(compiled(machine_code.numba_mode()))
    np.testing.assert_array_equal(transposed, X.T)
    np.testing.assert_array_equal(plain, X)
    assert transposed.flags.c_contiguous
    assert plain.flags.c_contiguous


@pytest.mark.parametrize("limit", [None, X.nbytes - 1])
def test_elsewhere_and_of_large_ones_nothing_is_copied(limit, monkeypatch):
    if limit is not None:
        monkeypatch.setattr(machine_code, "MAX_BYTES", limit)
    transposed, _ = matrices(compiled("NUMBA" if limit is None else machine_code.numba_mode()))
    assert not transposed.flags.c_contiguous
