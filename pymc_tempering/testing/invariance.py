"""Test that a Markov kernel leaves a density invariant, with a stated rate of false alarms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pymc_tempering.errors import OptionError
from pymc_tempering.types import FloatArray

type Statistic = Callable[[FloatArray], FloatArray]
"""Maps states ``(n, ...)`` to ``(n,)`` finite numbers."""

_COLUMNS = ("statistic", "test", "before", "after", "shift", "se", "p_value")


def default_statistics(draws: FloatArray) -> dict[str, Statistic]:
    """Coordinates, squares, cross products and tail indicators, scaled robustly.

    Coordinates are centred at their median, scaled by their interquartile range over 1.35 and
    clipped at 8 in size, so that means exist whatever the tails.

    Parameters
    ----------
    draws : (n, ...) array
        Exact draws, independent of those to be tested, which fix centre, scale and quantiles.
        States of any shape are flattened, to d numbers.

    Returns
    -------
    dict of str to callable
        ``x[i]``, ``x[i]**2``, ``x[i] low`` and ``x[i] high`` (beyond the 5 % and 95 % quantile),
        and ``x[i] x[j]`` for all pairs if d <= 12, otherwise for neighbours up to distance 3.
    """
    flat = np.asarray(draws, dtype=np.float64).reshape(len(draws), -1)
    low, first, centre, third, high = np.quantile(flat, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    scale = (third - first) / 1.35
    scale = np.where(scale > 0, scale, 1.0)
    dim = flat.shape[1]

    def column(i: int) -> Statistic:
        return lambda x: np.clip((x.reshape(len(x), dim)[:, i] - centre[i]) / scale[i], -8.0, 8.0)

    def product(i: int, j: int) -> Statistic:
        left, right = column(i), column(j)
        return lambda x: left(x) * right(x)

    def tail(i: int, is_beyond: np.ufunc, cut: float) -> Statistic:
        return lambda x: is_beyond(x.reshape(len(x), dim)[:, i], cut).astype(np.float64)

    statistics: dict[str, Statistic] = {}
    for i in range(dim):
        statistics[f"x[{i}]"] = column(i)
        statistics[f"x[{i}]**2"] = product(i, i)
        statistics[f"x[{i}] low"] = tail(i, np.less, low[i])
        statistics[f"x[{i}] high"] = tail(i, np.greater, high[i])
        last = dim if dim <= 12 else min(dim, i + 4)
        for j in range(i + 1, last):
            statistics[f"x[{i}] x[{j}]"] = product(i, j)
    return statistics


@dataclass(frozen=True, eq=False, repr=False)
class InvarianceResult:
    """Outcome of :func:`invariance_test`; prints as a verdict and the most suspicious rows.

    Parameters
    ----------
    rejected : bool
        Whether the kernel was found to change the law, ``p_value < alpha``.
    p_value : float
        Smallest of the p-values after Holm's correction for all the tests made.
    alpha : float
        Probability that a correct kernel is rejected.
    n : int
        Number of exact draws that the kernel was applied to.
    table : pandas.DataFrame
        One row per test, most suspicious first. Columns: ``statistic``; ``test`` (``mean`` or
        ``ks``); ``before`` and ``after``, means over exact and over moved draws; ``shift``, their
        difference in exact standard deviations (the KS distance in rows ``ks``);
        ``detectable``, the shift that this run finds with probability 0.99 (nan in rows ``ks``);
        ``p_value``, and ``p_holm`` after Holm's correction.
    """

    rejected: bool
    p_value: float
    alpha: float
    n: int
    table: pd.DataFrame

    def __repr__(self) -> str:
        verdict = "REJECTED: the kernel changes the law" if self.rejected else "not rejected"
        worst = self.table.head(6).to_string(index=False, float_format="%.4g")
        return (
            f"invariance test, {self.n} draws, {len(self.table)} tests: {verdict} "
            f"(p = {self.p_value:.3g} after correction, false-alarm rate {self.alpha:g})\n{worst}"
        )


def invariance_test(
    kernel: Callable[[Any, np.random.Generator], Any],
    draw_exact: Callable[[np.random.Generator, int], FloatArray],
    statistics: Mapping[str, Statistic] | None = None,
    *,
    n: int,
    rng: np.random.Generator,
    alpha: float = 1e-3,
    n_steps: int = 1,
    vectorized: bool = False,
) -> InvarianceResult:
    r"""Apply a kernel to exact draws and test whether they are still exact draws.

    1. Draw ``n`` states ``x ~ pi`` exactly, move each by the kernel: ``y = K(x)``.
    2. Under invariance ``E[s(y) - s(x)] = 0`` for every statistic s: a z-test on these paired
       differences, which for a kernel that moves little is far sharper than one on two samples.
    3. Draw ``n`` further exact states, independent of the first, and compare their law of s with
       that of ``s(y)`` by the two-sample Kolmogorov-Smirnov test.
    4. Correct all p-values by Holm's method, so that a correct kernel is rejected with
       probability at most `alpha` in total.

    A burn-in-free cousin of Geweke (2004), "Getting it right", and of the invariance test of
    Pigeons.jl. A composed kernel (a whole parallel tempering scan, the pair of a tempered and a
    target replica) is tested as one kernel on its joint state.

    Parameters
    ----------
    kernel : callable
        ``(state, rng) -> state`` for one state, an array of the shape of ``draw_exact(rng, n)[0]``;
        with ``vectorized=True`` for all: ``(n, ...) -> (n, ...)``, for instance a loop in compiled
        code. It receives a copy and may overwrite it. It must not adapt.
    draw_exact : callable
        ``(rng, n) -> (n, ...)`` array, exact independent draws. Pack a state of several parts into
        one array.
    statistics : mapping of str to callable, optional
        Each maps states ``(n, ...)`` to ``(n,)`` real numbers with a finite mean. Default:
        :func:`default_statistics` of 4096 further exact draws: clipped coordinates, squares,
        cross products, both 5 % tails. Add the event that matters, for instance "in the left mode".
    n : int
        Number of draws; the notes say what they find.
    rng : numpy.random.Generator
        The result is a function of the generator's state alone; the kernel gets a spawned child.
    alpha : float
        Total rate of false alarms, default 1e-3: with a fresh seed each day a suite of ten such
        tests alarms falsely once in three months.
    n_steps : int
        Number of times the kernel is applied, default 1. Up to the mixing time a small bias grows
        with it, and so does the power.
    vectorized : bool
        Default False.

    Returns
    -------
    InvarianceResult

    Raises
    ------
    OptionError
        If `n` < 100 (the tests are asymptotic), `alpha` is outside (0, 1), `n_steps` < 1, an exact
        draw is not finite, a statistic or the kernel returns the wrong shape.

    Notes
    -----
    A state that is not finite after the kernel rejects by itself. Power: a statistic with
    correlation rho between before and after, shifted by d of its standard deviations, is found
    with probability 0.99 among m tests if ``n >= 2 (1 - rho) ((z[1 - alpha/(2m)] + z[0.99]) /
    d)**2``. With alpha = 1e-3, m = 20 and rho = 0 that is d = 0.009 for a million draws, 0.09
    for ten thousand. The column ``detectable`` says it for the run at hand. A kernel that does
    nothing passes: invariance is not ergodicity.

    Examples
    --------
    >>> import numpy as np
    >>> def draw(rng, n):
    ...     return rng.normal(size=(n, 1))
    >>> def kernel(x, rng):
    ...     return 0.6 * x + 0.8 * rng.normal(size=x.shape)
    >>> def wrong(x, rng):
    ...     return 0.6 * x + 0.7 * rng.normal(size=x.shape)
    >>> rng = np.random.default_rng(1)
    >>> invariance_test(kernel, draw, n=2000, rng=rng, vectorized=True).rejected
    False
    >>> invariance_test(wrong, draw, n=2000, rng=rng, vectorized=True).rejected
    True
    """
    if n < 100 or not 0.0 < alpha < 1.0 or n_steps < 1:
        raise OptionError(
            f"n = {n}, alpha = {alpha}, n_steps = {n_steps}, expected n >= 100, alpha in (0, 1), "
            "n_steps >= 1. Use more draws."
        )
    reference_rng, before_rng, fresh_rng, kernel_rng = rng.spawn(4)
    if statistics is None:
        # for centres and scales few digits matter
        statistics = default_statistics(draw_exact(reference_rng, 4096))
    before, fresh = draw_exact(before_rng, n), draw_exact(fresh_rng, n)
    for draws in (before, fresh):
        if len(draws) != n or not np.all(np.isfinite(draws)):
            raise OptionError(
                f"draw_exact returned shape {np.shape(draws)} with "
                f"{int(np.sum(~np.isfinite(draws)))} entries that are not finite, expected {n} "
                "finite states. Correct draw_exact."
            )
    after = _apply(kernel, before, kernel_rng, n_steps, vectorized)
    finite = np.isfinite(after).reshape(n, -1).all(axis=1)
    if not finite.all():
        rows = [("all finite", "mean", 1.0, float(finite.mean()), np.inf, 0.0, 0.0)]
    else:
        rows = []
        for name, statistic in statistics.items():
            values = [_evaluate(name, statistic, states) for states in (before, after, fresh)]
            rows += _compare(name, *values)
    table = pd.DataFrame(rows, columns=_COLUMNS).sort_values(
        "p_value", kind="stable", ignore_index=True
    )
    scaled = table["p_value"].to_numpy() * np.arange(len(table), 0, -1)
    table["p_holm"] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    crit = stats.norm.isf(0.5 * alpha / len(table)) + stats.norm.ppf(0.99)
    table.insert(5, "detectable", crit * table.pop("se"))
    p_value = float(table["p_holm"].min())
    return InvarianceResult(p_value < alpha, p_value, alpha, n, table)


def _evaluate(name: str, statistic: Statistic, states: FloatArray) -> FloatArray:
    """Value of a statistic at every state, checked to be ``(n,)`` finite numbers."""
    values = np.asarray(statistic(states), dtype=np.float64)
    if values.shape != (len(states),) or not np.all(np.isfinite(values)):
        raise OptionError(
            f"statistic '{name}' returned shape {values.shape}, or values that are not finite, for "
            f"{len(states)} states; expected ({len(states)},) finite numbers. It must map "
            "(n, ...) states to n numbers."
        )
    return values


def _apply(
    kernel: Callable[[Any, np.random.Generator], Any],
    before: FloatArray,
    rng: np.random.Generator,
    n_steps: int,
    vectorized: bool,
) -> FloatArray:
    states = np.array(before, dtype=np.float64)
    for _ in range(n_steps):
        moved = (
            np.asarray(kernel(states.copy(), rng))
            if vectorized
            else np.array([kernel(state.copy(), rng) for state in states])
        )
        if moved.shape != states.shape:
            raise OptionError(
                f"the kernel turned states of shape {states.shape} into {moved.shape}, expected "
                "the same shape. Return the new state, and pass vectorized=True only for a kernel "
                "that takes all states at once."
            )
        states = moved
    return states


def _compare(
    name: str, before: FloatArray, after: FloatArray, fresh: FloatArray
) -> list[tuple[Any, ...]]:
    means = float(before.mean()), float(after.mean())
    sd = float(np.std(np.concatenate([before, fresh])))
    difference = after - before
    # not centred: under invariance the mean is 0, and the ratio cannot blow up for rare events
    norm = float(np.sqrt(np.sum(difference**2)))
    z = float(difference.sum()) / norm if norm > 0 else 0.0
    unit = sd if sd > 0 else 1.0
    shift, se = float(difference.mean()) / unit, norm / len(difference) / unit
    p_value = float(2.0 * stats.norm.sf(abs(z)))
    rows: list[tuple[Any, ...]] = [(name, "mean", *means, shift, se, p_value)]
    # two values or a few: the mean says it all, and KS would only be conservative
    if len(np.unique(fresh[:1000])) > 10:
        ks = stats.ks_2samp(after, fresh, method="asymp")
        rows.append((name, "ks", *means, float(ks.statistic), np.nan, float(ks.pvalue)))
    return rows
