"""Draws from places where the density is nothing but rounding noise."""

from collections.abc import Sequence

import numpy as np

from pymc_tempering.engine.path.noise import first_noise, jitter, noisiest
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.evidence.checks.check import Check, Finding
from pymc_tempering.evidence.run import Run
from pymc_tempering.types import FloatArray

__all__ = ["CHECKS", "noise"]


def noise(density: Density, z: FloatArray, names: Sequence[str]) -> list[Finding]:
    """Draws `z` (n, D) that lie where the density is noise; `names` are those of the D coordinates.

    Such places have next to no mass in truth; one draw there says that noise was climbed. Looked at
    are the draws with the largest coordinates, since huge numbers come from these, and a few more.
    """
    farthest = np.argsort(-np.abs(z).max(axis=1))[:8]
    spread = np.linspace(0, len(z) - 1, 8).astype(int)
    for draw in z[np.concatenate([farthest, spread])]:
        place = first_noise(density, draw)
        if place is None:
            continue
        i, off = noisiest(density, place), jitter(density, place)
        return [
            Finding(
                f"where {_in_words(names[i], place[i])} the log density jumps by {off:.2g} nats "
                "when its variables move by their last digits, and draws came to lie there or "
                "further out: it is the difference of numbers too large to be subtracted, and says "
                "nothing of the posterior. So there is no estimate.",
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


def _look(run: Run) -> list[Finding]:
    assert run.unconstrained is not None
    return noise(*run.unconstrained)


CHECKS = (
    Check(
        "rounding_noise",
        "rounding noise",
        "Draws lie where the log density is the difference of numbers above 10^15, as of two "
        "`gammaln` of a Student t with huge degrees of freedom. It jumps there when a variable "
        "moves by its last digits, and moves climb the jumps. There is no estimate (`nan`).",
        "Keep the variable from such values, by a bound or a prior with lighter tails, or write "
        "the density so that large terms cancel, as a normal in place of a Student t of a million "
        "degrees of freedom.",
        _look,
        ("model", "unconstrained"),
        lasting=True,
        is_cause=True,
        refuses=True,
    ),
)
