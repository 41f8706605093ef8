import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pymc_tempering.transform.tempered import finite_gradient


@pytest.mark.parametrize("mode", ["FAST_COMPILE", "NUMBA"])
def test_gradient_is_zero_where_it_would_be_nan(mode):
    x = pt.dvector("x")

    def density(v):
        return pt.switch(v[0] > 0.5, pt.exp(-1000 * v[0]) + v[1] ** 2, -np.inf)

    # unrewritten: PyTensor's rewrites happen to remove the nan of a graph as small as this
    plain = pytensor.function([x], pytensor.grad(density(x), x), mode=Mode("py", None))
    safe = pytensor.function([x], pytensor.grad(density(finite_gradient(x)), x), mode=mode)
    assert np.isnan(plain([-1.0, 1.0])[0])  # or the test would not test anything
    assert np.isfinite(safe([-1.0, 1.0])).all()
    np.testing.assert_allclose(safe([2.5, 2.0]), [0.0, 4.0])


def test_value_is_unchanged():
    x = pt.dvector("x")
    out = finite_gradient(x).eval({x: [np.nan, np.inf, 1.0]})
    np.testing.assert_array_equal(out, [np.nan, np.inf, 1.0])
