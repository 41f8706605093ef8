"""Densities that are infinite, at points that count as if the density were zero."""

from collections.abc import Mapping

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.types import FloatArray

__all__ = ["infinite_diagnostics"]

MAX_SHARE = 1e-3
"""Share of the evaluations, up to which they are no more than draws of a base with heavy tails, so
far out that a density overflows, as that of an LKJ distribution does at one of 8,000. Moves climb
to a pole, and meet it again and again."""


def infinite_diagnostics(statistics: Mapping[str, FloatArray]) -> list[Diagnostic]:
    """Warning about points where the log density is ``+inf``.

    No move can weigh such a point, so it counts as zero density, as one does where the log density
    is no number. That is what many models mean by the latter; none means it by an infinity.

    Parameters
    ----------
    statistics : mapping of ndarray
        ``n_infinite_density`` and ``n_gradients`` (chain, draw), where they were recorded.

    Returns
    -------
    list of Diagnostic
        One at most; none for a thousandth of the evaluations.

    Examples
    --------
    >>> import numpy as np
    >>> counts = {"n_gradients": np.full((2, 3), 100), "n_infinite_density": np.eye(2, 3)}
    >>> [diagnostic] = infinite_diagnostics(counts)
    >>> diagnostic.code, diagnostic.measured["n_infinite_density"]
    ('density_infinite', 2)
    >>> infinite_diagnostics(counts | {"n_gradients": np.full((2, 3), 1000)})
    []
    """
    if not {"n_infinite_density", "n_gradients"} <= set(statistics):
        return []
    n_infinite, n = (int(statistics[name].sum()) for name in ("n_infinite_density", "n_gradients"))
    if n_infinite <= MAX_SHARE * n:
        return []
    diagnostic = Diagnostic(
        "density_infinite",
        f"at {n_infinite} of {n} points the log density is +inf. They count as points of zero "
        "density: draws stay away from them, and log Z leaves out what mass there is around them.",
        "Look for an overflow, as of `pt.exp` in a potential, or for a density with a pole, as of "
        "a scale that may be zero, and write it on the log scale or bound it.",
        {"n_infinite_density": n_infinite, "n_gradients": n},
    )
    return [diagnostic]
