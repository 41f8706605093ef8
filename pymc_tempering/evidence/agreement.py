"""Do the chains of a run agree on the posterior? Draws, shares of modes, and barriers.

Estimates of log Z can agree where chains have found different modes: two modes of one height give
one log Z each, and the sum of both to nobody.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from scipy.stats import f as f_distribution

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.types import FloatArray

__all__ = ["ModeSplit", "agreement_diagnostics", "rhat_limit", "scalar_series", "split_in_two"]

MAX_RHAT = 1.1
"""R-hat beyond which chains are said to differ; 44 default runs of 13 easy models had 1.034 at most
(2026-11-21), and runs whose chains held other shares of two modes 1.09 to 1.74."""

MIN_SPLIT = 0.85
"""Share of the variance that two groups explain, beyond which they are modes: of a normal they
explain 0.64, of a uniform 0.75."""

MIN_BARRIER_GAP = 1.0
MIN_BARRIER_RATIO = 2.0

MIN_DRAWS = 8
MAX_QUANTITIES = 1000
_RATE = 1e-3
_MOST_SHOWN = 10.0
# draws of short runs are correlated: an effective one for so many
_PER_EFFECTIVE_DRAW = 4.0


class ModeSplit(NamedTuple):
    """Two groups of values.

    Attributes
    ----------
    threshold : float
        Between the groups.
    explained : float
        Share of the variance that lies between them, from 0 to 1.
    """

    threshold: float
    explained: float


def agreement_diagnostics(
    draws: Mapping[str, FloatArray], barriers: FloatArray | None = None
) -> list[Diagnostic]:
    """Warning about chains that differ in what they say of the posterior.

    Parameters
    ----------
    draws : mapping of str to ndarray of shape (n_chains, n_draws, ...)
        Posterior draws by variable.
    barriers : ndarray of shape (n_chains,), optional
        Global barrier of each chain; chains that know the same modes have much the same.

    Returns
    -------
    list of Diagnostic
        One at most.

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=(4, 100))
    >>> agreement_diagnostics({"x": x})
    []
    >>> x[3] += 5.0
    >>> [diagnostic] = agreement_diagnostics({"x": x})
    >>> diagnostic.code, round(diagnostic.measured["R-hat of x"], 2)
    ('chains_differ', 1.53)
    """
    found, measured = _different_draws(draws)
    if barriers is not None and _far_apart(barriers):
        listed = ", ".join(f"{barrier:.1f}" for barrier in barriers)
        found.append(f"the global barriers of the chains are {listed}")
        measured["global_barrier"] = barriers.tolist()
    if not found:
        return []
    diagnostic = Diagnostic(
        "chains_differ",
        f"{'; '.join(found)}. So some have not found every mode, or have hardly moved between "
        "them, and neither the draws nor log Z can be trusted.",
        "Raise `tune`, or pass a wider `base=`; where every chain moves between all modes, raise "
        "`draws`; where a scale shrinks to a neck, as in a centred hierarchy, pass "
        "explorer='gist', or write it non-centred.",
        measured,
    )
    return [diagnostic]


def rhat_limit(n_chains: int, n_draws: int, n_quantities: int) -> float:
    """R-hat that chains which agree exceed once in a thousand runs, at least 1.1.

    Parameters
    ----------
    n_chains, n_draws : int
    n_quantities : int
        The largest R-hat of so many is looked at.

    Examples
    --------
    >>> round(rhat_limit(4, 1000, 5), 2), round(rhat_limit(4, 20, 5), 1)
    (1.1, 1.7)
    """
    m, n = 2 * n_chains, n_draws // 2
    ratio = float(f_distribution.isf(_RATE / (2 * n_quantities), m - 1, m * (n - 1)))
    return max(MAX_RHAT, float(np.sqrt(1.0 + _PER_EFFECTIVE_DRAW * ratio / n)))


def split_in_two(values: FloatArray) -> ModeSplit:
    """Cut numbers in the two groups that differ most in their means (Otsu 1979).

    Parameters
    ----------
    values : ndarray of shape (n,)
        Finite, n at least 2.

    Examples
    --------
    >>> threshold, explained = split_in_two(np.array([0.0, 0.2, 0.1, 5.0]))
    >>> round(threshold, 3), round(explained, 3)
    (2.6, 0.999)
    """
    x = np.sort(values)
    n = x.size
    below = np.arange(1, n)
    # a power of two changes no digit; squares of 1e200 would overflow, those of 1e-200 vanish
    scaled = np.ldexp(x, -np.frexp(np.abs(x).max())[1])
    # about the mean, so that large values cancel nothing
    sums = np.cumsum(scaled - scaled.mean())[:-1]
    between = sums**2 / below / (n - below)
    total = float(np.mean((scaled - scaled.mean()) ** 2))
    if total == 0.0:
        return ModeSplit(float(x[0]), 0.0)
    cut = int(between.argmax())
    return ModeSplit(float(0.5 * (x[cut] + x[cut + 1])), float(between[cut] / total))


def _different_draws(draws: Mapping[str, FloatArray]) -> tuple[list[str], dict[str, object]]:
    """What the draws themselves say, in words and in figures."""
    found: list[str] = []
    measured: dict[str, object] = {}
    series = scalar_series(draws)
    if not series:
        return found, measured
    n_chains, n_draws = next(iter(series.values())).shape
    if n_chains < 2 or n_draws < MIN_DRAWS:
        return found, measured
    limit = rhat_limit(n_chains, n_draws, len(series))
    rhats = {name: _rhat(x, "rank") for name, x in series.items()}
    worst = max(rhats, key=lambda name: rhats[name])
    if rhats[worst] > limit:
        value = f"{rhats[worst]:.2f}" if rhats[worst] < _MOST_SHOWN else f"beyond {_MOST_SHOWN:.0f}"
        found.append(f"R-hat of {worst} is {value}, above {limit:.2g}")
        measured[f"R-hat of {worst}"] = rhats[worst]
    shares = {}
    for name, x in series.items():
        split = split_in_two(x.ravel())
        if split.explained > MIN_SPLIT:
            below = (x < split.threshold).astype(np.float64)
            shares[name] = (_rhat(below, "split"), split.threshold, below.mean(axis=1))
    if shares:
        name = max(shares, key=lambda name: shares[name][0])
        rhat, threshold, by_chain = shares[name]
        if rhat > limit:
            listed = ", ".join(f"{share:.2f}" for share in by_chain)
            found.append(f"shares of the draws with {name} < {threshold:.3g} are {listed} by chain")
            measured[f"share of {name} < {threshold:.3g}"] = by_chain.tolist()
    return found, measured


def scalar_series(draws: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Finite, varying series by the name of each entry, evenly picked where there are many.

    Parameters
    ----------
    draws : mapping of str to ndarray of shape (n_chains, n_draws, ...)

    Returns
    -------
    dict of ndarray of shape (n_chains, n_draws)
    """
    entries = [
        (name, index)
        for name, values in draws.items()
        if values.dtype.kind in "fiu" and values.ndim >= 2
        for index in np.ndindex(values.shape[2:])
    ]
    picked = np.unique(np.linspace(0, len(entries) - 1, MAX_QUANTITIES).astype(int))
    chosen = entries if len(entries) <= MAX_QUANTITIES else [entries[i] for i in picked]
    series = {}
    for name, index in chosen:
        x = np.asarray(draws[name][(slice(None), slice(None), *index)], dtype=np.float64)
        if np.isfinite(x).all() and np.ptp(x) > 1e-12 * np.abs(x).max():
            label = f"{name}[{', '.join(map(str, index))}]" if index else name
            series[label] = x
    return series


def _rhat(x: FloatArray, method: str) -> float:
    with np.errstate(all="ignore"):
        value = float(array_stats.rhat(x, method=method))
    # 0 / 0: the ranks of each half are constant, and nothing could differ more
    return np.inf if np.isnan(value) else value


def _far_apart(barriers: FloatArray) -> bool:
    known = barriers[np.isfinite(barriers)]
    if known.size < 2:
        return False
    low, high = float(known.min()), float(known.max())
    return high - low > MIN_BARRIER_GAP and high > MIN_BARRIER_RATIO * low
