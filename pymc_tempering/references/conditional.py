r"""The map of a hierarchy: from Laplace at nodes of the globals, and gradients at its own draws.

1. The globals' marginal density by nested Laplace (:mod:`.nested_laplace`), its mode and curvature;
   of many globals a variational fit of all values.
2. Nodes around it, at which the locals' modes and Cholesky factors are known. What they have in
   common are few functions of the globals (principal components), interpolated by a Gaussian
   process with a linear trend.
3. At draws of the map, gradients of log weights regressed on the draws, as in :mod:`.full_rank`
   and :mod:`.third_order`: constants and slopes mend means and scales, products of two coordinates
   bend the globals and skew every residual. All of it vanishes with what there is to explain.
4. Where a run finds mass that the map lacks, nodes at its draws, and the third step again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve
from scipy.optimize import minimize

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_laws import Laws
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density
from pymc_tempering.model.structure import MANY_GLOBALS, MOST_BENT, Structure
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.full_rank import fit_gaussian
from pymc_tempering.references.interpolated import interpolated, pruned
from pymc_tempering.references.nested_laplace import Conditionals, NestedLaplace
from pymc_tempering.references.nodes import (
    N_NODES,
    alone,
    nodes_in_tails,
    nodes_of,
    profiles,
    with_tails,
)
from pymc_tempering.references.prepared import SEARCHES
from pymc_tempering.references.quality import COARSE, LADDER, N_MANY, TRIMMED, trimmed_variance
from pymc_tempering.types import FloatArray

_PASSES = 2
"""Sets of nodes, the second where the map from the first has draws; one of many globals. Those that
tails ask for that have grown by then are added to the last set."""

_ROUNDS = 6
"""Of regressions; the first is of the Gaussian alone."""

_HOPELESS = 1000 * LADDER
"""V of a map from nodes beyond which there are none. Of thirty models of real size none came from
above 49 to below `LADDER`, as maps that are used have to (benchmarks/README.md)."""

_LARGEST = 0.6
"""Steps of one round, of slopes, skews and means in standard deviations."""

_MOST_SKEWED = 0.75
"""From 1 on residuals would have no inverse."""


class ConditionalFit(NamedTuple):
    """A map, V of its log weights, and the gradients that it took; no map where none was found.

    ``solved`` are its nodes.
    """

    map: ConditionalMap | None
    variance: float
    n_gradients: int
    solved: Conditionals | None = None

    @property
    def n_to_mend(self) -> int:
        """Gradients of mending the map once more."""
        return 0 if self.map is None else sum(_draws_to_mend(self.map))


def conditional_fit(
    density: Density, structure: Structure, start: FloatArray, rng: np.random.Generator,
    most: float = np.inf,
) -> ConditionalFit:  # fmt: skip
    """Fit the map of a hierarchy, from a place ``start`` (D,) with a density.

    Finding its globals takes ``most`` gradients at most, and so it does with a second pass. Where V
    is at most `COARSE` this may take no more than a search that knows of one mode: what a good map
    lacks a run tells for less (:func:`continued`).
    """
    nested = NestedLaplace(density, structure, start, most)
    found = _first_gaussian(nested, start, rng)
    if found is None:
        return ConditionalFit(None, np.inf, nested.n_gradients)
    mean, root, k = *found, len(found[0])
    in_pairs, bends = structure.summed.size > 0, k <= MOST_BENT
    laws = Laws.normal(structure.dim, k, in_pairs=in_pairs, bends=bends)
    best, lowest, n_spent, n_before = None, np.inf, 0, nested.n_gradients
    # each time nodes are where the globals have been found to be, tails included
    for _ in range(_PASSES):
        if best is not None:
            n_nodes = nested.n_gradients - n_before
            is_dear = n_nodes > SEARCHES["default"].n_for_one_mode
            if nested.n_gradients + n_nodes > most or (is_dear and lowest <= COARSE):
                break
            laws = with_tails(best.laws, profiles(nested, best))
        places = nodes_of(laws.tail, rng)
        at_places = _solved(nested, root, alone(mean, root, laws).from_base(places))
        if len(at_places.z) < max(len(places) // 2, 2 * k + 2):
            break
        of_nodes = interpolated(structure, mean, root, at_places, best, lowest)
        if of_nodes is None:
            break
        solved, of_nodes = at_places, of_nodes.with_laws(laws)
        mended, n = mend(density, of_nodes, rng)
        n_spent += n + 2 * N_MANY
        # what the first nodes did not reach shows in no draw of theirs
        lowest, kept = least_variance(density, (of_nodes, mended), rng)
        if kept is not None:
            best, laws = kept, kept.laws
        # no second pass made such a map a good one; and among many globals the density along a line
        # says nothing of the mass
        if best is None or lowest > LADDER or k > MANY_GLOBALS:
            break
    if best is None:
        return ConditionalFit(None, lowest, nested.n_gradients + n_spent)
    best, solved = _finished(nested, best, lowest, solved, rng)
    return ConditionalFit(best, lowest, nested.n_gradients + n_spent, solved)


def continued(
    density: Density, structure: Structure, before: ConditionalFit, z: FloatArray,
    rng: np.random.Generator, most: float = np.inf,
) -> ConditionalFit:  # fmt: skip
    """Fit a map once more, with nodes at the globals of draws ``z`` (n, D) of a run too."""
    assert before.map is not None
    assert before.solved is not None
    nested = NestedLaplace(density, structure, before.map.from_base(np.zeros(z.shape[1])), most)
    g = np.unique(z[:, structure.globals], axis=0)
    g = g[np.linspace(0, len(g) - 1, min(len(g), N_NODES // 2)).astype(int)]
    made, solved = _with_nodes(nested, before.map, before.variance, before.solved, g)
    mended, n_spent = mend(density, made, rng)
    lowest, best = least_variance(density, (made, mended), rng)
    n_gradients = nested.n_gradients + n_spent + 2 * N_MANY
    return ConditionalFit(best and pruned(best, lowest), lowest, n_gradients, solved)


def least_variance(
    density: Density, maps: Sequence[ConditionalMap], rng: np.random.Generator
) -> tuple[float, ConditionalMap | None]:
    """The least V of some maps, by their own draws, and which has it; none if all are infinite."""
    lowest, best = np.inf, None
    for made in maps:
        variance = trimmed_variance(Draws.of(density, made, rng, N_MANY).log_weights)
        if variance < lowest:
            lowest, best = variance, made
    return lowest, best


def _solved(nested: NestedLaplace, root: FloatArray, g: FloatArray) -> Conditionals:
    """What is known of the locals at globals ``g`` (N, k)."""
    solved = nested.at(g, np.sqrt((root**2).sum(axis=1)))
    return solved.at(np.isfinite(solved.log_marginal))


def _with_nodes(
    nested: NestedLaplace, made: ConditionalMap, variance: float, solved: Conditionals,
    g: FloatArray,
) -> tuple[ConditionalMap, Conditionals]:  # fmt: skip
    """The map with further nodes at globals ``g`` (N, k), and all of its nodes."""
    mean, root = made.arrays.mean, made.arrays.root
    gaps = np.linalg.solve(root, (g - mean).T)
    g = g[np.argsort((gaps**2).sum(axis=0))]
    # from the middle, which is known already
    middle = alone(mean, root, made.laws).from_base(np.zeros((1, mean.size)))
    more = _solved(nested, root, np.vstack([middle, g]))
    solved = Conditionals(*map(np.concatenate, zip(solved, (of[1:] for of in more), strict=True)))
    found = interpolated(nested.structure, mean, root, solved, made, variance)
    return (found.with_laws(made.laws) if found else made), solved


def _finished(
    nested: NestedLaplace, made: ConditionalMap, variance: float, solved: Conditionals,
    rng: np.random.Generator,
) -> tuple[ConditionalMap, Conditionals]:  # fmt: skip
    """The map with its own tails, which regressions on draws narrow, and nothing that is idle."""
    mean, root, laws = made.arrays.mean, made.arrays.root, made.laws
    if variance <= LADDER and mean.size <= MANY_GLOBALS:
        laws = with_tails(laws, profiles(nested, made))
    places = nodes_in_tails(made.laws.tail, laws.tail, rng)
    if len(places):
        g = alone(mean, root, laws).from_base(places)
        made, solved = _with_nodes(nested, made, variance, solved, g)
    return pruned(made.with_laws(laws), variance), solved


def _first_gaussian(
    nested: NestedLaplace, start: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray] | None:
    """Mean of the globals, and a root of their covariance, from a place (D,) of all values."""
    mine = nested.structure.globals
    if len(mine) <= MANY_GLOBALS:
        return _marginal_gaussian(nested, start[mine])
    unit = GaussianBase(start, np.ones(start.size))
    fit, nested.n_gradients = fit_gaussian(nested.density, unit, rng, nested.most)
    nested.z = np.array(fit.mean)
    return fit.mean[mine], np.linalg.cholesky(fit.covariance[np.ix_(mine, mine)])


def _marginal_gaussian(
    nested: NestedLaplace, start: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Mode of the globals' marginal density, and a root of its covariance."""
    k = start.size
    units, steps = np.ones(k), np.full(k, 1e-3)

    def falling(y: FloatArray) -> tuple[float, FloatArray]:
        value, slope = nested.marginal(start + units * y, steps)
        return (-value, -slope * units) if np.isfinite(value) else (1e300, np.zeros(k))

    # first in the units of the slopes, then in those of the curvature that this finds
    value, slope = nested.marginal(start, steps)
    if not np.isfinite(value):
        return None
    units = 1.0 / np.maximum(1.0, np.sqrt(np.abs(_diagonal(nested, start, slope, steps))))
    steps = 1e-2 * units
    for _ in range(3):
        found = minimize(falling, np.zeros(k), jac=True, method="BFGS",
                         options={"gtol": 0.02, "maxiter": 60})  # fmt: skip
        if not np.isfinite(found.fun) or found.fun >= 1e300:
            return None
        start = start + units * found.x
        sd = units * np.sqrt(np.maximum(np.diagonal(found.hess_inv), 1e-8))
        steps = 1e-2 * sd
        precision = np.empty((k, k))
        for i in range(k):
            ends = [nested.marginal(start + sign * 0.1 * sd[i] * np.eye(k)[i], steps)
                    for sign in (1.0, -1.0)]  # fmt: skip
            if not all(np.isfinite(v) for v, _ in ends):
                return None
            precision[i] = (ends[1][1] - ends[0][1]) / (0.2 * sd[i])
        scaled = 0.5 * (precision + precision.T) * np.outer(sd, sd)
        eigenvalues, vectors = np.linalg.eigh(scaled)
        units = sd
        if eigenvalues[0] > 1e-2:
            break
        # a start that the curvature says is not the mode, or is flat
    else:
        eigenvalues = np.maximum(np.abs(eigenvalues), 0.05)
    root = sd[:, None] * (vectors / np.sqrt(eigenvalues))
    return start, np.linalg.cholesky(root @ root.T)


def _diagonal(
    nested: NestedLaplace, g: FloatArray, slope: FloatArray, steps: FloatArray
) -> FloatArray:
    """Curvatures of the marginal density along each global, roughly; 1 where unknown."""
    curvatures = np.ones(g.size)
    for i in range(g.size):
        moved = g.copy()
        moved[i] += 0.01
        value, other = nested.marginal(moved, steps)
        if np.isfinite(value):
            curvatures[i] = (slope[i] - other[i]) / 0.01
    return curvatures


class Draws(NamedTuple):
    """Draws ``u`` (n, D) of a map, their log weights (n,), and gradients of these by u (n, D)."""

    u: FloatArray
    log_weights: FloatArray
    scores: FloatArray

    @classmethod
    @density_guard()
    def of(
        cls, density: Density, made: ConditionalMap, rng: np.random.Generator, n: int
    ) -> "Draws":
        """Draw in antithetic pairs; without those where there is no density."""
        half = rng.standard_normal((n // 2, made.dim))
        u = np.concatenate([half, -half])
        values, grads = made.pulled_back(density.address, u)
        log_weights = values + 0.5 * (u * u).sum(axis=1) + 0.5 * made.dim * LOG_2PI
        fine = np.isfinite(log_weights) & np.isfinite(grads).all(axis=1)
        return cls(u[fine], log_weights[fine], (grads + u)[fine])


def _draws_to_mend(made: ConditionalMap) -> list[int]:
    """Draws of each round of :func:`mend`, six for each feature that there is to regress on."""
    k = made.n_globals
    products = k * (k + 1) // 2 if made.laws.bend.size else 0
    return [2 * max(128, 3 * (1 + k + n)) for n in (0, *[products] * (_ROUNDS - 1))]


def mend(
    density: Density, made: ConditionalMap, rng: np.random.Generator
) -> tuple[ConditionalMap, int]:
    """Mend the laws of the residuals by gradients at draws of the map, and the gradients of it."""
    bends = made.laws.bend.size > 0
    n_gradients, before = 0, made
    for n_done, n_draws in enumerate(_draws_to_mend(made)):
        draws = Draws.of(density, made, rng, n_draws)
        n_gradients += n_draws
        if len(draws.u) < n_draws // 2:
            return before, n_gradients
        if n_done == 0 and trimmed_variance(draws.log_weights) > _HOPELESS:
            return before, n_gradients
        least = np.quantile(draws.log_weights, TRIMMED)
        kept = draws.log_weights >= least
        # the first two find the place, the others average
        scores = draws.scores[kept] / max(1, n_done)
        laws = _step(made, draws.u[kept], scores, bends=bends and n_done > 0)
        made = made.with_laws(laws)
    return made, n_gradients


def _step(made: ConditionalMap, u: FloatArray, scores: FloatArray, *, bends: bool) -> Laws:
    """Laws after one regression of scores on draws."""
    k, laws = made.n_globals, made.laws
    shift, log_scale, skew, pair = (np.array(of) for of in (*laws[:3], laws.pair))
    # locals: each on its own coordinate
    mine, own = u[:, k:], scores[:, k:]
    constant = own.mean(axis=0)
    slope = _bounded((own * mine).mean(axis=0) / (mine**2).mean(axis=0))
    square = mine**2 - 1.0
    third = _bounded(2.0 * (own * square).mean(axis=0) / (square**2).mean(axis=0))
    size = np.exp(log_scale[k:])
    shift[k:] += size * _bounded(constant / (1.0 - slope))
    log_scale[k:] -= 0.5 * np.log1p(-slope)
    skew[k:] += third / 3.0
    if pair.size:
        # and that of an only parent
        begins = made.arrays.begins
        alone = np.flatnonzero(np.diff(begins) == 1)
        of_parent = mine[:, made.arrays.parents[begins[alone]]]
        pair[alone, 1] += 0.5 * _bounded(((own * mine)[:, alone] * of_parent).mean(axis=0))
        bend = 0.5 * size[alone] * _bounded((own[:, alone] * (of_parent**2 - 1.0)).mean(axis=0))
        pair[alone, 0] += bend
        shift[k + alone] -= bend
    # globals: on all of them, and on their products
    first, second = np.tril_indices(k)
    pairs = u[:, first] * u[:, second] - (first == second)
    design = np.column_stack([np.ones(len(u)), u[:, :k], *([pairs] if bends else [])])
    gram = design.T @ design + 1e-9 * np.eye(len(design.T))
    coefficients = solve(gram, design.T @ scores[:, :k], assume_a="pos")
    slopes = 0.5 * (coefficients[1 : k + 1] + coefficients[1 : k + 1].T)
    eigenvalues, vectors = np.linalg.eigh(slopes)
    eigenvalues = _bounded(eigenvalues)
    moved = vectors @ ((vectors.T @ coefficients[0]) / (1.0 - eigenvalues))
    moved = _bounded(moved)
    root = np.linalg.cholesky((vectors / (1.0 - eigenvalues)) @ vectors.T)
    present = laws.linear + np.diag(np.exp(log_scale[:k]))
    shift[:k] += present @ moved
    present = present @ root
    linear = np.tril(present, -1)
    log_scale[:k] = np.log(np.diagonal(present))
    bend, scale = np.array(laws.bend), np.array(laws.scale)
    if bends:
        thirds = np.zeros((k, k, k))
        for a, b, row in zip(first, second, coefficients[k + 1 :], strict=True):
            thirds[:, a, b] = thirds[:, b, a] = row if a != b else 2.0 * row
        thirds = _bounded((thirds + thirds.transpose(1, 0, 2) + thirds.transpose(2, 1, 0)) / 3.0)
        sizes = np.exp(log_scale[:k])
        for i in range(k):
            skew[i] += thirds[i, i, i] / 3.0
            for j in range(i):
                scale[i, j] += 0.5 * thirds[i, i, j]
                for h in range(j):
                    bend[i, j, h] += sizes[i] * thirds[i, j, h]
                bend[i, j, j] += 0.5 * sizes[i] * thirds[i, j, j]
                shift[i] -= 0.5 * sizes[i] * thirds[i, j, j]
    skew = np.clip(skew, -_MOST_SKEWED, _MOST_SKEWED)
    return Laws(shift, log_scale, skew, laws.tail, linear, bend, scale, pair)


def _bounded(step: FloatArray) -> FloatArray:
    return np.clip(step, -_LARGEST, _LARGEST)
