"""How a model gets into the corpus, and what its log Z is compared with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import logsumexp

__all__ = ["BRIDGE", "CORPUS", "IMPROPER", "QUADRATURE", "REFUSED", "Entry", "entry", "grid"]

QUADRATURE = "quadrature"
"""Sums over a grid of the density that PyMC compiles, for at most three dimensions."""

BRIDGE = "bridge"
"""Bridge sampling of nutpie's draws."""

IMPROPER = "improper"
"""There is no log Z: a run has to be refused or to say so."""

REFUSED = "refused"
"""Nothing that this package can do: the error has to say so before sampling."""


@dataclass(frozen=True)
class Entry:
    """One model of the corpus.

    Attributes
    ----------
    name, kind : str
    write : callable
        Writes the model into the context, and returns its exact log Z in nats or one of the names
        above.
    flags : dict
        Of PyTensor, with which it is written and run.
    """

    name: str
    kind: str
    write: Callable[[], Any]
    flags: dict[str, str] = field(default_factory=dict)

    def build(self) -> tuple[pm.Model, Any]:
        """Model, and its exact log Z in nats or the name of the method that gives a second one."""
        with pm.Model() as model:
            second = self.write()
        return model, second


CORPUS: dict[str, Entry] = {}


def entry(kind, **flags):
    """Take a function into the corpus by its name."""

    def take(write):
        name = write.__name__
        if name in CORPUS:
            raise ValueError(f"two models are called {name!r}")
        CORPUS[name] = Entry(name, kind, write, flags)
        return write

    return take


def grid(log_density, *axes):
    """Log of the integral of a density over a box by the trapezoidal rule.

    Parameters
    ----------
    log_density : callable
        Of as many arrays as there are axes, which broadcast; in nats.
    *axes : (low, high, number of points)
    """
    points = [np.linspace(*axis) for axis in axes]
    logs = log_density(*np.meshgrid(*points, indexing="ij"))
    for axis in reversed(points):
        weights = np.full(axis.size, axis[1] - axis[0])
        weights[[0, -1]] /= 2.0
        logs = logsumexp(logs, axis=-1, b=weights)
    return float(logs)
