"""How much more of each component the draws from a mixture are than its weight says.

Their responsibilities have a mean that is known, the weights, whatever the target is: control
variates that cost no density (Owen & Zhou 2000). With them
:mod:`pymc_tempering.estimators.controls` takes out what estimates owe to the number of draws that
happened to be of the defensive component, or of one mode.
"""

import numpy as np

from pymc_tempering.engine.path.components import (
    NEGLIGIBLE,
    Components,
    log_component,
    log_defensive,
)
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

__all__ = ["component_excess"]


@compiled
def component_excess(components: Components, shares: FloatArray, draws: FloatArray) -> FloatArray:
    """Sum of responsibilities of draws from a mixture, minus what they are on average.

    Parameters
    ----------
    components : Components
    shares : ndarray of shape (K + 1,)
        Weights, the defensive component first.
    draws : ndarray of shape (n, D)
        In the coordinates of the components.

    Returns
    -------
    ndarray of shape (K + 1,)
        They add up to zero.
    """
    n, dim = draws.shape
    excess = -n * shares
    logs, x, pull = np.empty(shares.size), np.empty(dim), np.empty(dim)
    for row in range(n):
        u = draws[row]
        square = 0.0
        for i in range(dim):
            square += u[i] * u[i]
        top = log_defensive(components, square, dim)
        logs[0] = top
        for k in range(shares.size - 1):
            logs[k + 1] = log_component(components, k, u, x, pull, top - NEGLIGIBLE)
            top = max(top, logs[k + 1])
        total = 0.0
        for k in range(shares.size):
            logs[k] = np.exp(logs[k] - top)
            total += logs[k]
        for k in range(shares.size):
            excess[k] += logs[k] / total
    return excess
