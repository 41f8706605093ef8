"""Whether a density in other coordinates is the one that it should be."""

import numpy as np
import pytest

STEP = 1e-6


def check_in_coordinates(density, made, inner, u):
    """Inverse, log Jacobian, density, gradient and names at ``u`` (D,), by differences."""
    z, log_det = made.forward(u[None])
    np.testing.assert_allclose(made.to_base(z)[0], u, rtol=1e-9)
    value, grad = inner.value_and_grad(u)
    assert value == pytest.approx(density.value_and_grad(z[0])[0] + log_det[0], rel=1e-10)
    moves = STEP * np.eye(density.dim)
    ends = [[inner.value_and_grad(u + way * e)[0] for e in moves] for way in (1.0, -1.0)]
    slopes = (np.array(ends[0]) - ends[1]) / (2.0 * STEP)
    np.testing.assert_allclose(grad, slopes, rtol=1e-5, atol=1e-5)
    jacobian = (made.from_base(u + moves) - made.from_base(u - moves)) / (2.0 * STEP)
    assert log_det[0] == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-6)
    point = inner.points.unravel(u)
    np.testing.assert_allclose(inner.points.ravel(point), u, rtol=1e-9)
    for name, values in density.points.unravel(z[0]).items():
        np.testing.assert_allclose(point[name], values, rtol=1e-12)
