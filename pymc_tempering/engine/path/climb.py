"""Uphill on the log target from one point, to see whether it lies far below its own mode."""

import numpy as np
from scipy.optimize import minimize

from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import evaluate, new_replicas
from pymc_tempering.types import FloatArray

MAX_EVALUATIONS = 200
"""Gradients, several times what an ascent takes that ends at a mode."""


def climb(path: Path, u: FloatArray, fixed: int | None = None) -> tuple[FloatArray, float, int]:
    """Ascend the log target by L-BFGS from `u` (D,), of finite density, in the path's coordinates.

    Returns the highest point that was met, its log target in nats, and the number of gradients. The
    coordinate `fixed`, if any, stays where it is.
    """
    point = new_replicas(path, u[None])
    # scipy may end on another point than the best where a line search fails
    best, highest, n_gradients = u.copy(), float(point.log_target[0]), 1

    def descent(at: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, highest, n_gradients
        n_gradients += 1
        point.u[0] = at
        evaluate(path, point, 0)
        value = float(point.log_target[0])
        if value > highest:
            best, highest = at.copy(), value
        slope = -point.grad[0]
        if fixed is not None:
            slope[fixed] = 0.0
        # finite, so that a line search that left the support goes back
        return (-value, slope) if np.isfinite(value) else (1e300, np.zeros(at.size))

    with np.errstate(all="ignore"):
        minimize(descent, u, jac=True, method="L-BFGS-B", options={"maxfun": MAX_EVALUATIONS})
    return best, highest, n_gradients
