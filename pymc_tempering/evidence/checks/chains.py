"""Whether the chains of a run agree on log Z and on the posterior.

Estimates of log Z can agree where chains have found different modes: two modes of one height give
one log Z each, and no chain gives their sum.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from scipy.stats import chi2
from scipy.stats import f as f_distribution

from pymc_tempering.estimators.uncertainty import chain_standard_errors, log_z_standard_error
from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings
from pymc_tempering.evidence.run import MethodEstimate
from pymc_tempering.results.datatree import named_entries
from pymc_tempering.types import FloatArray, IntArray

DISAGREEMENT_RATE = 1e-5
"""False alarms about chains, or halves of them, whose log Z differ by chance."""

APART = 1.0
"""Nats between chains that disagree, beyond which a mean of all of them is none."""

MAX_RHAT = 1.1
"""R-hat beyond which chains are said to differ; 44 default runs of 13 easy models had 1.034 at most
(2026-11-21), and runs whose chains held other shares of two modes 1.09 to 1.74."""

MIN_SPLIT = 0.85
"""Share of the variance that two groups explain, beyond which they are modes: of a normal they
explain 0.64, of a uniform 0.75."""


class ModeSplit(NamedTuple):
    """Threshold between two groups of values, and the share of the variance they explain."""

    threshold: float
    explained: float


def chains_that_agree(parts: MethodEstimate) -> IntArray:
    """Chains whose mean log Z is: all, or those without a few low ones, or none.

    A chain that is stuck misses mass, so that of chains which disagree the low ones are wrong. One
    that is higher than the others has more likely found what they lack than made it up, and then
    neither they nor their mean are right; unless it never went from the base to the target and
    back, so that its levels do not know of one another. Where none did, their errors explain
    nothing: of shares of 20 sites log Z was 14 nats too high, and printed as a lower bound. A mean
    over chains less than a nat apart stays: its error says as much, and chains would have been left
    out by chance.
    """
    every = np.arange(len(parts.log_z))
    if not np.isfinite(parts.log_z).all() or np.ptp(parts.log_z) <= APART:
        return every
    apart = parts.arrays.get("n_round_trips", np.ones(every.size)) == 0
    if apart.all():
        return every[:0]
    if _disagreement(parts, every) is None:
        return every
    for worst_first in (np.argsort(parts.log_z, kind="stable"), np.lexsort((parts.log_z, ~apart))):
        # one of four at most may be left out
        for n_left_out in range(1, every.size // 4 + 1):
            rest = np.sort(worst_first[n_left_out:])
            if _disagreement(parts, rest) is None:
                return rest
    return every[:0]


def _disagreement(parts: MethodEstimate, chains: IntArray) -> float | None:
    """Chi-squared of estimates about their mean, where their own errors do not explain it."""
    if chains.size < 2:
        return None
    log_z, influences = parts.log_z[chains], [parts.influences[i] for i in chains]
    own = np.maximum(chain_standard_errors(influences), 1e-12)
    if not np.isfinite(own).all():
        return None
    weights = 1.0 / own**2
    centre = float(np.sum(weights * log_z) / weights.sum())
    statistic = float(np.sum(((log_z - centre) / own) ** 2))
    # an error from few effective scans is uncertain by itself: be lenient by that much
    ess = log_z_standard_error(log_z, influences).ess
    lenient = statistic / (1.0 + 20.0 / max(ess / chains.size, 1.0))
    return statistic if chi2.sf(lenient, chains.size - 1) < DISAGREEMENT_RATE else None


def log_z_findings(parts: MethodEstimate, kept: IntArray) -> Findings:
    """Estimates of the chains that differ by more than their errors explain."""
    if not np.isfinite(parts.log_z).all():
        return
    statistic = _disagreement(parts, np.arange(len(parts.log_z)))
    if statistic is None and kept.size:
        return
    said = f"log Z of the chains, {np.round(parts.log_z, 2).tolist()}, differs by more than"
    explained = f"{said} their own errors explain"
    left_out = sorted({*range(len(parts.log_z))} - set(kept.tolist()))
    measured: dict[str, object] = {"log_z_chain": parts.log_z.tolist(), "chain": left_out}
    measured |= {} if statistic is None else {"chi2": statistic}
    if statistic is None:
        told = f"{said} {APART:g} nat, and none had a round trip. So there is no estimate."
    elif not kept.size:
        told = (
            f"{explained}, and by more than {APART:g} nat: the highest may have found what the "
            "others lack. So there is no estimate."
        )
    elif left_out:
        told = (
            f"{explained}. Chains {left_out} are lower than all others, or had no round trip. The "
            "others agree, and log Z is theirs alone; the draws are those of all."
        )
    else:
        told = f"{explained}, so some have not found every mode."
    remedy = "Raise `tune` and `draws`; look at the swap rates of each chain."
    yield Finding(told, measured, "log_z", remedy)


def posterior_findings(
    draws: Mapping[str, FloatArray], barriers: FloatArray | None = None
) -> list[Finding]:
    """Chains that differ in their draws, in the shares of two modes, or in their barriers.

    `draws` by variable are (chain, draw, ...), `barriers` are global barriers (chain,): chains that
    know the same modes have much the same.

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=(4, 100))
    >>> posterior_findings({"x": x})
    []
    >>> x[3] += 5.0
    >>> [finding] = posterior_findings({"x": x})
    >>> round(finding.measured["R-hat of x"], 2)
    1.53
    """
    found, measured = _different_draws(draws)
    known = np.empty(0) if barriers is None else barriers[np.isfinite(barriers)]
    low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
    # more than a level apart, and one twice another: barriers of a run differ by chance too
    if barriers is not None and high - low > 1.0 and high > 2.0 * low:
        listed = ", ".join(f"{barrier:.1f}" for barrier in barriers)
        found.append(f"the global barriers of the chains are {listed}")
        measured["global_barrier"] = barriers.tolist()
    if not found:
        return []
    text = (
        f"{'; '.join(found)}. So some have not found every mode, or have hardly moved between them."
    )
    return [Finding(text, measured, "posterior")]


def rhat_limit(n_chains: int, n_draws: int, n_quantities: int) -> float:
    """R-hat that the worst of so many quantities exceeds once in a thousand runs, at least 1.1.

    Examples
    --------
    >>> round(rhat_limit(4, 1000, 5), 2), round(rhat_limit(4, 20, 5), 1)
    (1.1, 1.7)
    """
    m, n = 2 * n_chains, n_draws // 2
    ratio = float(f_distribution.isf(1e-3 / (2 * n_quantities), m - 1, m * (n - 1)))
    # draws of short runs are correlated: an effective one for four
    return max(MAX_RHAT, float(np.sqrt(1.0 + 4.0 * ratio / n)))


def split_in_two(values: FloatArray) -> ModeSplit:
    """Cut numbers in the two groups that differ most in their means (Otsu 1979).

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


def scalar_series(draws: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Finite, varying series (chain, draw) of each entry, a thousand evenly picked of more.

    R-hat of a thousand takes a second.
    """
    shapes = {
        name: values.shape[2:]
        for name, values in draws.items()
        if values.dtype.kind in "fiu" and values.ndim >= 2
    }
    entries = list(named_entries(shapes))
    picked = np.unique(np.linspace(0, len(entries) - 1, min(len(entries), 1000)).astype(int))
    series = {}
    for label, name, index in (entries[i] for i in picked):
        x = np.asarray(draws[name][(slice(None), slice(None), *index)], dtype=np.float64)
        if np.isfinite(x).all() and np.ptp(x) > 1e-12 * np.abs(x).max():
            series[label] = x
    return series


def _different_draws(draws: Mapping[str, FloatArray]) -> tuple[list[str], dict[str, object]]:
    """What the draws themselves say, in words and in figures."""
    found: list[str] = []
    measured: dict[str, object] = {}
    series = scalar_series(draws)
    if not series:
        return found, measured
    n_chains, n_draws = next(iter(series.values())).shape
    if n_chains < 2 or n_draws < 8:
        return found, measured
    limit = rhat_limit(n_chains, n_draws, len(series))
    rhats = {name: _rhat(x, "rank") for name, x in series.items()}
    worst = max(rhats, key=lambda name: rhats[name])
    if rhats[worst] > limit:
        value = f"{rhats[worst]:.2f}" if rhats[worst] < 10.0 else "above 10"
        found.append(f"R-hat of {worst} is {value}, and should be below {limit:.2g}")
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


def _rhat(x: FloatArray, method: str) -> float:
    with np.errstate(all="ignore"):
        value = float(array_stats.rhat(x, method=method))
    # 0 / 0: the ranks of each half are constant, and nothing could differ more
    return np.inf if np.isnan(value) else value


def _comparable_barriers(arrays: Mapping[str, FloatArray]) -> FloatArray | None:
    """Barriers of the chains, nan in those that start from another kind of base than most do."""
    barriers, components = arrays.get("global_barrier"), arrays.get("n_components")
    if barriers is None or components is None:
        return barriers
    from_mixture = components > 0
    most = from_mixture.mean() > 0.5
    return np.where(from_mixture == most, barriers, np.nan)


def _look(run: AtHand) -> Findings:
    yield from log_z_findings(run.parts, run.kept)
    yield from posterior_findings(run.draws or {}, _comparable_barriers(run.arrays))


CHECKS = (
    Check(
        "chains_disagree",
        "Chains, or the halves of them, contradict each other: in log Z, by more than their errors "
        "explain (`log_z`, `halves`); in their draws, by R-hat, by the shares of two groups, or by "
        "barriers of which one is twice another (`posterior`, `draws`); or some have no draw in a "
        "mode (`modes`). Some have not found every mode. Take this one seriously: the chain with "
        "the higher log Z usually has seen more, but none need have seen all. Chains more than a "
        "nat apart have no mean: where all but a few low ones agree, one in four at most, log Z is "
        "that of the others, and the text names those; else, and where none of them had a round "
        "trip, there is no estimate (`nan`).",
        "Raise `tune`, or pass a wider `base=`; where every chain moves between all modes, raise "
        "`draws`; where a scale shrinks in a funnel, as in a centred hierarchy, pass "
        "explorer='gist', or write it non-centred.",
        _look,
        ("parts", "kept"),
    ),
)
