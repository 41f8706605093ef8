"""Parting draws into modes: cut where a projection has a valley, until nothing has one.

Coordinates, and directions in which neighbours are close, are projected on. A direction that was
fitted is judged on draws that it was not fitted to, so that the best of many directions in many
dimensions does not show a valley by chance. A valley has to be one along the density too: a ring or
a horseshoe, seen from the side, is emptiest in its middle, but draws lead from one side to the
other. Cuts are hyperplanes, so that any number of draws is parted by a tree found from some.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats

from pymc_tempering.diagnostics.clustering.valley import (
    MAX_RATIO,
    Valley,
    deepest_valley,
    discriminant,
    evidence_of_counts,
    is_valley,
    local_directions,
    principal_directions,
    robust_scale,
)
from pymc_tempering.types import FloatArray, IntArray

_MAX_MODES = 50  # more are no table that anybody reads
_MIN_DRAWS = 60  # an empty window against 29 draws on each side is evidence of a valley


class Cut(NamedTuple):
    """The hyperplane ``draws @ direction = at``."""

    direction: FloatArray
    at: float


class _Draws(NamedTuple):
    """Thinned draws in a common scale, with what their order in time says."""

    x: FloatArray
    fold: np.ndarray
    shape: tuple[int, int]


def find_modes(draws: FloatArray) -> IntArray:
    """Part draws into modes.

    Parameters
    ----------
    draws : ndarray of shape (n_chains, n_draws, D)
        Finite, D at least 1.

    Returns
    -------
    ndarray of int of shape (n_chains, n_draws)
        0 for the mode with most draws, then 1, and so on.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.normal(size=(4, 250, 3))
    >>> draws[:, :75, 2] += 8.0
    >>> np.bincount(find_modes(draws).ravel()).tolist()
    [700, 300]
    """
    n_chains, n_draws, dim = draws.shape
    flat = draws.reshape(-1, dim)
    varies = np.ptp(flat, axis=0) > 0.0
    if not varies.any():
        return np.zeros((n_chains, n_draws), dtype=np.int64)
    flat = flat[:, varies]
    flat = (flat - np.median(flat, axis=0)) / robust_scale(flat)
    # to 4000 draws at most: distances are between all pairs in a valley
    step = -(-n_draws * n_chains // 4000)
    cube = flat.reshape(n_chains, n_draws, -1)[:, ::step]
    # eight blocks of time, of which every second one judges what the others fitted
    second = np.arange(cube.shape[1]) * 8 // cube.shape[1] % 2 == 1
    thinned = _Draws(cube.reshape(-1, cube.shape[2]), np.tile(second, n_chains), cube.shape[:2])
    leaves: list[list[tuple[Cut, bool]]] = []
    _grow(thinned, np.ones(len(thinned.x), dtype=bool), [], leaves)
    found = _merged(thinned, [_inside(thinned.x, path) for path in leaves])
    labels = np.empty(len(flat), dtype=np.int64)
    for path, mode in zip(leaves, found, strict=True):
        labels[_inside(flat, path)] = mode
    order = np.argsort(-np.bincount(labels), kind="stable")
    return np.argsort(order)[labels].reshape(n_chains, n_draws)


def _inside(x: FloatArray, path: list[tuple[Cut, bool]]) -> np.ndarray:
    inside = np.ones(len(x), dtype=bool)
    for cut, upper in path:
        inside &= (x @ cut.direction > cut.at) == upper
    return inside


def _grow(
    draws: _Draws,
    node: np.ndarray,
    path: list[tuple[Cut, bool]],
    leaves: list[list[tuple[Cut, bool]]],
) -> None:
    cut = _find_cut(draws, node) if len(leaves) < _MAX_MODES else None
    if cut is None:
        leaves.append(path)
        return
    for upper in (False, True):
        side = [*path, (cut, upper)]
        _grow(draws, node & _inside(draws.x, side[-1:]), side, leaves)


def _merged(draws: _Draws, leaves: list[np.ndarray]) -> list[int]:
    """Join pairs of leaves between which there is no valley: a cut may have gone through a mode."""
    modes = list(range(len(leaves)))
    for one, two in combinations(range(len(leaves)), 2):
        if len(leaves) > 2 and modes[one] != modes[two]:
            both = leaves[one] | leaves[two]
            if _parted(draws, both, leaves[two]) or _find_cut(draws, both, leaves[two]):
                continue
            modes = [modes[one] if m == modes[two] else m for m in modes]
    return np.unique(modes, return_inverse=True)[1].tolist()


def _parted(draws: _Draws, node: np.ndarray, part: np.ndarray) -> bool:
    """Whether two leaves are apart at first sight, as most are."""
    fold = draws.fold
    fit, judge = node & ~fold, node & fold
    n_beyond = (fit & part).sum()
    if not 0 < n_beyond < fit.sum() or judge.sum() < _MIN_DRAWS:
        return False
    direction = discriminant(draws.x[fit], part[fit])
    valley = deepest_valley(draws.x[judge] @ direction)
    if not is_valley(valley):
        return False
    return _settle(draws, node, draws.x[node], Cut(direction, valley.cut)) is not None


def _find_cut(draws: _Draws, node: np.ndarray, part: np.ndarray | None = None) -> Cut | None:
    """Find the clearest valley of the draws in a node (bool by draw).

    `part` are draws that may lie across a valley, to be looked at from there.
    """
    if node.sum() < _MIN_DRAWS:
        return None
    x, fold = draws.x[node], draws.fold[node]
    axes = np.eye(x.shape[1])
    tried = [(deepest_valley(column), axis) for column, axis in zip(x.T, axes, strict=True)]
    if x.shape[1] > 1:
        for held_out in (False, True):
            use, judge = x[fold != held_out], x[fold == held_out]
            # a node that was visited in a few stretches may lie in one fold
            if min(len(use), len(judge)) < _MIN_DRAWS // 2:
                continue
            fitted = [*principal_directions(use), *local_directions(use)]
            if part is not None:
                upper = part[node][fold != held_out]
                if 0 < upper.sum() < upper.size:
                    fitted.append(discriminant(use, upper))
            tried += [(deepest_valley(judge @ d), d) for d in _sharpened(use, fitted)]
    tried = [pair for pair in tried if is_valley(pair[0])]
    tried.sort(key=lambda pair: -pair[0].evidence)
    # the clearest alone: autocorrelation is looked at in each
    for valley, direction in tried[:8]:
        cut = _settle(draws, node, x, Cut(direction, valley.cut))
        if cut is not None:
            return cut
    return None


def _sharpened(x: FloatArray, directions: list[FloatArray]) -> list[FloatArray]:
    """Add to each direction that of Fisher between the sides of its valley."""
    sharper = []
    for direction in directions:
        upper = x @ direction > deepest_valley(x @ direction).cut
        if 0 < upper.sum() < upper.size:
            sharper.append(discriminant(x, upper))
    return [*directions, *sharper]


def _settle(draws: _Draws, node: np.ndarray, x: FloatArray, cut: Cut) -> Cut | None:
    """Turn a cut to where all draws of the node say it is best; None if it parts no modes."""
    best, best_valley = None, None
    options = [cut.direction]
    upper = x @ cut.direction > cut.at
    if x.shape[1] > 1 and 0 < upper.sum() < upper.size:
        options.append(discriminant(x, upper))
    for direction in options:
        at = x @ direction
        valley = deepest_valley(at, inflation=_inflation(draws, node, at, cut, x))
        if not is_valley(valley) or _has_path_across(x, direction, valley):
            continue
        if best_valley is None or valley.ratio < best_valley.ratio:
            best, best_valley = Cut(direction, valley.cut), valley
    return best


def _inflation(draws: _Draws, node: np.ndarray, at: FloatArray, cut: Cut, x: FloatArray) -> float:
    """Draws worth one independent draw within the sides of a cut, from each chain alone.

    Chains that stay in different modes, and jumps between the sides, are what is looked for and
    must not count as autocorrelation.
    """
    upper = x @ cut.direction > cut.at
    residual = np.empty_like(at)
    for side in (upper, ~upper):
        if side.any():
            low, high = np.quantile(at[side], [0.05, 0.95])
            residual[side] = np.clip(at[side], low, high) - np.median(at[side])
    series = np.zeros(node.size)
    series[node] = residual
    # ArviZ makes no effective sample size of fewer than 8
    chains = [c for c in series.reshape(draws.shape) if c.size >= 8 and np.ptp(c) > 0]
    if not chains:
        return 1.0
    ess = [float(array_stats.ess(c[None], method="mean")) for c in chains]
    ess = [min(e, c.size) for e, c in zip(ess, chains, strict=True) if np.isfinite(e)]
    return max(1.0, draws.shape[1] * len(ess) / sum(ess)) if ess else 1.0


def _has_path_across(x: FloatArray, direction: FloatArray, valley: Valley) -> bool:
    """Whether draws in a valley line up into a path across, with no more draws on its sides."""
    # share and least number of the draws in a valley that stand for the path across it
    share, few = 0.35, 15
    unit = direction / np.linalg.norm(direction)
    at = x @ direction
    within = (at >= valley.low) & (at <= valley.high)
    if within.sum() < few:
        return False
    aside = x - (x @ unit)[:, None] * unit
    slab = aside[within]
    k = max(min(few, len(slab) - 1), int(share * len(slab)))
    distance = np.sort(np.linalg.norm(slab[:, None] - slab[None], axis=-1), axis=1)[:, k]
    centre = int(np.argmin(distance))
    near = np.linalg.norm(aside - slab[centre], axis=1) <= distance[centre]
    here = int((near & within).sum())
    width = valley.high - valley.low
    for side in (np.sort(-at[near & (at < valley.low)]), np.sort(at[near & (at > valley.high)])):
        counts = np.searchsorted(side, side + width, side="right") - np.arange(side.size)
        most = counts.max(initial=0)
        # an evidence of 10 is some three standard errors
        if here < MAX_RATIO * most and evidence_of_counts(here, most) > 10.0:
            return False
    return True
