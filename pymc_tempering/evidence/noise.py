"""Draws from places where the density is nothing but rounding noise."""

from collections.abc import Sequence

import numpy as np

from pymc_tempering.engine.path.noise import first_noise, jitter, noisiest
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.types import FloatArray

__all__ = ["noise_diagnostics"]

_N_FARTHEST, _N_SPREAD = 8, 8


def noise_diagnostics(density: Density, z: FloatArray, names: Sequence[str]) -> list[Diagnostic]:
    """Diagnostic that leaves a run without an estimate: draws lie where the density is noise.

    Such places have next to no mass in truth; one draw there says that noise was climbed. Looked at
    are the draws with the largest coordinates, since huge numbers come from these, and a few more.

    Parameters
    ----------
    density : Density
    z : ndarray of shape (n, D)
        Draws.
    names : sequence of str
        Of the D coordinates.

    Returns
    -------
    list of Diagnostic
        One at most.
    """
    farthest = np.argsort(-np.abs(z).max(axis=1))[:_N_FARTHEST]
    spread = np.linspace(0, len(z) - 1, _N_SPREAD).astype(int)
    for draw in z[np.concatenate([farthest, spread])]:
        place = first_noise(density, draw)
        if place is None:
            continue
        i, off = noisiest(density, place), jitter(density, place)
        return [
            Diagnostic(
                "rounding_noise",
                f"where {_in_words(names[i], place[i])} the log density jumps by {off:.2g} nats "
                "when its variables move by their last digits, and draws came to lie there or "
                "beyond: it is the difference of numbers too large to be subtracted, and says "
                "nothing of the posterior. So there is no estimate.",
                "Keep the variable from such values, by a bound or a prior with lighter tails, or "
                "write the density so that large terms cancel, as a normal in place of a Student t "
                "of a million degrees of freedom.",
                {str(names[i]): float(place[i]), "jitter": off},
            )
        ]
    return []


def _in_words(name: str, value: float) -> str:
    """Coordinate and value, on the scale of the variable where that is a logarithm.

    Examples
    --------
    >>> _in_words("nu_log__", 38.0), _in_words("x[2]", -3e16)
    ('nu is 3.2e+16', 'x[2] is -3e+16')
    """
    variable, log, rest = name.partition("_log__")
    return f"{variable}{rest} is {np.exp(value) if log else value:.2g}"
