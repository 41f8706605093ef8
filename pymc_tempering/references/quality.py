r"""How well a density fits a target, on one scale: the variance V of its log weights.

A density q that can be drawn from and evaluated has log weights ``log_target - log q`` at its own
draws. Their variance V, in squared nats, says everything else where log weights are normal:

- The ELBO misses :math:`V / 2` nats of the log mass.
- Swaps between q and the target, without a level in between, are rejected at the rate
  :math:`\operatorname{erf}(\sqrt V / 2)`.
- The communication barrier from q to the target is :math:`\sqrt{V / \pi}`.

Every fit, candidate and trial is judged by V, and every threshold is one of the five below.
"""

import numpy as np
from scipy.special import erfinv

__all__ = [
    "COARSE",
    "EXACT",
    "FAIR",
    "GAIN",
    "GOOD",
    "LADDER",
    "barrier_of",
    "variance_of_barrier",
    "variance_of_rejection",
]

EXACT = 0.005
"""Nothing is left to explain: log Z from 2560 weights is off by 0.0014 nats."""

GOOD = 0.25
"""A fit stands for its mode, and its mass is known: the ELBO misses an eighth of a nat."""

FAIR = 1.0
"""A path needs no levels: half of the swaps without any succeed. The variance of the weights
themselves, ``exp(V) - 1``, is about one."""

COARSE = 2.0
"""A path needs a few levels (barrier 0.8). Fits with more are pieces of a mode, not a mode."""

LADDER = 8.0
"""A path needs many levels (barrier 1.6), and a better shape is worth looking for."""

GAIN = 0.5
"""Share of a fit's V that a better shape has to be below: less is not worth another shape."""


def variance_of_rejection(rejection: float) -> float:
    """V of a density whose swaps with the target are rejected at this rate; inf at one."""
    return float((2.0 * erfinv(min(rejection, 1.0))) ** 2)


def barrier_of(variance: float) -> float:
    """Communication barrier from a density of this V to the target."""
    return float(np.sqrt(variance / np.pi))


def variance_of_barrier(barrier: float) -> float:
    """V of a density with this barrier to the target."""
    return float(np.pi * barrier**2)
