"""Models that have no gradient where the moves ask for it."""

from collections.abc import Mapping

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.types import FloatArray

__all__ = ["gradient_diagnostics"]

MAX_BAD_GRADIENTS = 0.01
"""Share of the gradients that may not be finite without a word: single points on an edge."""


def gradient_diagnostics(statistics: Mapping[str, FloatArray]) -> list[Diagnostic]:
    """Warning about points of finite density whose gradient is not finite.

    Moves take such entries of the gradient as zero. A kick may be any function of position, so the
    moves stay exact, and log Z right; they only are as blind there as a random walk.

    Parameters
    ----------
    statistics : mapping of ndarray
        ``n_bad_gradients`` and ``n_gradients`` (chain, draw), where they were recorded.

    Returns
    -------
    list of Diagnostic
        One at most.

    Examples
    --------
    >>> import numpy as np
    >>> counts = {"n_gradients": np.full((2, 3), 100), "n_bad_gradients": np.full((2, 3), 20)}
    >>> [diagnostic] = gradient_diagnostics(counts)
    >>> diagnostic.code, diagnostic.measured["n_bad_gradients / n_gradients"]
    ('gradient_not_finite', 0.2)
    """
    if not {"n_bad_gradients", "n_gradients"} <= set(statistics):
        return []
    n_bad, n = (int(statistics[name].sum()) for name in ("n_bad_gradients", "n_gradients"))
    if n_bad <= MAX_BAD_GRADIENTS * n:
        return []
    diagnostic = Diagnostic(
        "gradient_not_finite",
        f"{100 * n_bad / n:.2g} % of the points where moves asked for the gradient have a finite "
        "density and a gradient that is not finite. The density counts as it is and the missing "
        "slope as zero, so moves stay exact and log Z right, but there they go without direction, "
        "and mix slowly in many dimensions.",
        "Take the branch last, as `pt.switch(x > 0, pt.sqrt(x), 0)` in place of "
        "`pt.sqrt(pt.maximum(x, 0))`, whose slope is 0 / 0 at negative x; or pass "
        "explorer='slice', which needs no gradient.",
        {"n_bad_gradients / n_gradients": n_bad / n, "n_bad_gradients": n_bad, "n_gradients": n},
    )
    return [diagnostic]
