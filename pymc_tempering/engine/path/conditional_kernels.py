"""Kernels of :mod:`.conditional`: a map of a hierarchy as compiled code evaluates it."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.conditional_laws import bounded, saturating, unwarp, warp, warp_tail
from pymc_tempering.engine.path.path import call_density
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray

TILE = 1024  # 8 kB of each array: three of them stay in a first-level cache of 32

type Scratch = tuple[FloatArray, ...]


class Arrays(NamedTuple):
    """A map as compiled code sees it: D coordinates, k globals, n locals, N nodes, R functions."""

    order: IntArray  # (D,), entry of z of each coordinate of u
    begins: IntArray  # (n + 1,), where the parents of each local begin and end
    parents: IntArray  # of all locals, each after its child
    summed: IntArray  # (m,), locals with a sum whose variance is smaller; mostly none
    in_sd: IntArray  # of all parents, 1 where slopes are in standard deviations; empty if none are
    used: IntArray  # of each tile of the M, functions that matter there; empty if all do
    mean: FloatArray  # (k,)
    root: FloatArray  # (k, k)
    nodes: FloatArray  # (N, k), in units of the lengths
    lengths: FloatArray  # (k,)
    trend: FloatArray  # (1 + k, R)
    weights: FloatArray  # (N, R)
    affine: FloatArray  # (n, 1 + k), of the globals without their root: where locals lie, roughly
    # (M,), M = 2 n + number of parents: means of residuals, log precisions, slopes of locals by
    # their parents; with a sum n + 1 more, how much others move with it, and minus the log of what
    # is left of its standard deviation
    constants: FloatArray
    loadings: FloatArray  # (R, M)
    shift: FloatArray
    log_scale: FloatArray
    skew: FloatArray
    tail: FloatArray
    linear: FloatArray
    bend: FloatArray
    scale: FloatArray
    pair: FloatArray
    width: FloatArray = np.empty(0)  # (D,), of residuals: e^c, made by the map itself


@compiled(borrows=True, inside=True)
def _of_global(m: Arrays, u: FloatArray, sizes: FloatArray, i: int) -> tuple[float, float]:
    """Mean and log scale of a global's residual; ``sizes`` are what :func:`saturating` gives."""
    mean, log_scale = m.shift[i], m.log_scale[i]
    for j in range(i):
        mean += m.linear[i, j] * u[j]
        for h in range(min(j + 1, m.bend.shape[0])):
            mean += m.bend[i, j, h] * sizes[j] * sizes[h]
        log_scale += m.scale[i, j] * sizes[j]
    return mean, log_scale


@compiled(borrows=True, inside=True)
def _of_local(m: Arrays, u: FloatArray, j: int) -> tuple[float, float]:
    """Mean and log scale of a local's residual."""
    c = m.mean.size + j
    if m.pair.shape[0] == 0 or m.begins[j + 1] != m.begins[j] + 1:
        return m.shift[c], m.log_scale[c]
    parent = u[m.mean.size + m.parents[m.begins[j]]]
    size = saturating(parent)[0]
    return m.shift[c] + m.pair[j, 0] * size * size, m.log_scale[c] + m.pair[j, 1] * size


# sums in any order, as in :mod:`.path`, so that the compiler can use vector instructions
@compiled(borrows=True, fastmath={"reassoc", "contract"}, inside=True)
def _residuals(m: Arrays, u: FloatArray, gap: FloatArray, law: FloatArray) -> float:
    """Fill the residuals of all locals, and in five rows what derivatives are made of.

    Those are their slopes, that of the log determinant, what of them is scaled, and what an only
    parent does to mean and log scale. The sixth row is for gaps. Return the log determinant.
    """
    k, n = m.mean.size, gap.size
    mine, width, skew, shift = u[k:], m.width[k:], m.skew[k:], m.shift[k:]
    slopes, curves, scaled, by_mean, by_scale = law[0], law[1], law[2], law[3], law[4]
    for j in range(n):
        value, slope, curve = warp(mine[j], skew[j])
        slopes[j] = width[j] * slope
        curves[j] = curve / slope
        scaled[j] = width[j] * value
    for j in range(n):
        gap[j] = shift[j] + scaled[j]
    for j in range(m.pair.shape[0]):
        by_mean[j] = by_scale[j] = 0.0
        if m.begins[j + 1] == m.begins[j] + 1:
            parent = mine[m.parents[m.begins[j]]]
            size, slope = saturating(parent)
            times = np.exp(m.pair[j, 1] * size)
            gap[j] += m.pair[j, 0] * size * size + (times - 1.0) * scaled[j]
            slopes[j] *= times
            scaled[j] *= times
            by_mean[j] = 2.0 * m.pair[j, 0] * size * slope
            by_scale[j] = m.pair[j, 1] * slope
    log_det = 0.0
    # logarithms are dear, and so many slopes have no overflow
    for first in range(0, n, 16):
        product = 1.0
        for slope in slopes[first : first + 16]:
            product *= slope
        log_det += np.log(product)
    return log_det


@compiled(borrows=True, fastmath={"reassoc", "contract"}, inside=True)
def _features(
    m: Arrays, t: FloatArray, v: FloatArray, near: FloatArray, lat: FloatArray, out: FloatArray
) -> None:
    """Fill bounded globals, kernels at nodes, shared functions, and what locals depend on.

    Globals are in units of the lengths.
    """
    k, n_nodes, n_functions = t.size, m.nodes.shape[0], lat.size
    for r in range(n_functions):
        lat[r] = m.trend[0, r]
    for i in range(k):
        of_trend = bounded(t[i])[0]
        v[i] = of_trend / m.lengths[i]
        for r in range(n_functions):
            lat[r] += m.trend[1 + i, r] * of_trend
    for a in range(n_nodes):
        square = 0.0
        for i in range(k):
            gap = v[i] - m.nodes[a, i]
            square += gap * gap
        near[a] = np.exp(-0.5 * square)
        for r in range(n_functions):
            lat[r] += m.weights[a, r] * near[a]
    # over what is next to each other in memory, and as much of it as stays in the cache: these are
    # most of the numbers of a map
    for first in range(0, out.size, TILE):
        tile, constants = out[first : first + TILE], m.constants[first : first + TILE]
        for o in range(tile.size):
            tile[o] = constants[o]
        n_used = m.used[first // TILE] if m.used.size else n_functions
        for r in range(n_used):
            loadings, share = m.loadings[r, first : first + TILE], lat[r]
            for o in range(tile.size):
                tile[o] += loadings[o] * share


@compiled(borrows=True, inside=True)
def _about(m: Arrays, t: FloatArray, j: int) -> float:
    """Where a local lies roughly; its gap is from there."""
    total = m.affine[j, 0]
    for i in range(t.size):
        total += m.affine[j, 1 + i] * t[i]
    return total


@compiled(borrows=True, inside=True)
def map_forward(m: Arrays, u: FloatArray, z: FloatArray, scratch: Scratch) -> float:
    """Map ``u`` (D,) to ``z``; return the log determinant without that of the root.

    In the scratch space gaps become those of the locals from where they lie roughly, also in
    standard deviations, and log precisions sizes, which are dear to compute twice.
    """
    t, v, near, lat, out, gap, law = scratch
    k, n = t.size, gap.size
    log_det = _residuals(m, u, gap, law)
    for i in range(k):
        v[i] = saturating(u[i])[0]  # until features take the place
        mean, log_scale = _of_global(m, u, v, i)
        value, slope, _ = warp_tail(u[i], m.skew[i], m.tail[i, :])
        t[i] = mean + np.exp(log_scale) * value
        log_det += log_scale + np.log(slope)
    for i in range(k):
        total = m.mean[i]
        for j in range(k):
            total += m.root[i, j] * t[j]
        z[m.order[i]] = total
    _features(m, t, v, near, lat, out)
    slopes, log_precision, places = out[2 * n :], out[n : 2 * n], m.order[k:]
    gaps_in_sd = law[5]
    for j in range(n - 1, -1, -1):
        size = np.exp(-log_precision[j])
        in_sd, total = out[j] + gap[j], 0.0
        for e in range(m.begins[j], m.begins[j + 1]):
            if m.in_sd.size and m.in_sd[e]:
                in_sd -= slopes[e] * gaps_in_sd[m.parents[e]]
            else:
                total -= slopes[e] * gap[m.parents[e]]
        total += size * in_sd
        gaps_in_sd[j] = total / size
        gap[j] = total
        log_det -= log_precision[j]
        z[places[j]] = _about(m, t, j) + total
        log_precision[j] = size
    if m.summed.size:
        first = out.size - n - 1
        moved = np.expm1(-out[first + n]) * _sum(m, gap)
        for j in range(n):
            z[m.order[k + j]] += out[first + j] * moved
        log_det -= out[first + n]
    return log_det


@compiled(borrows=True, inside=True)
def _sum(m: Arrays, gap: FloatArray) -> float:
    """Sum of the locals that have one, as if they had none, about where they lie roughly."""
    total = 0.0
    for j in m.summed:
        total += gap[j]
    return total


@compiled(fastmath={"reassoc", "contract"}, inside=True)
def _pull_back_of_sum(
    m: Arrays, grad_z: FloatArray, out: FloatArray, gap: FloatArray, pull: FloatArray
) -> None:
    """Fill what the sum adds to the derivatives by gaps, and those by what only it needs."""
    k, n = m.mean.size, gap.size
    first = out.size - n - 1
    left = np.exp(-out[first + n])
    total = _sum(m, gap)
    force = 0.0
    for j in range(n):
        of_local = grad_z[m.order[k + j]]
        force += of_local * out[first + j]
        out[first + j] = (left - 1.0) * total * of_local
    out[first + n] = -left * total * force - 1.0
    for j in m.summed:
        pull[j] = (left - 1.0) * force


@compiled(fastmath={"reassoc", "contract"}, inside=True)
def pull_back_through(
    m: Arrays, u: FloatArray, grad_z: FloatArray, grad: FloatArray, scratch: Scratch
) -> None:
    """Gradient by u of a density of z with gradient `grad_z`, plus that of the log determinant.

    After :func:`map_forward` with the same scratch space, where derivatives by what locals depend
    on, most of the numbers of a map, take the place of what they are by.
    """
    t, v, near, lat, out, gap, law = scratch
    k, n, n_functions = t.size, gap.size, lat.size
    by_lat, by_t, by_affine, pull = np.zeros(n_functions), np.zeros(k), np.zeros(k), np.zeros(n)
    by_gap_in_sd = np.zeros(n)
    if m.summed.size:
        _pull_back_of_sum(m, grad_z, out, gap, pull)
    for j in range(n):
        of_local = grad_z[m.order[k + j]]
        pull[j] += of_local
        for i in range(k):
            by_affine[i] += m.affine[j, 1 + i] * of_local
    slopes, mine = out[2 * n :], grad[k:]
    for j in range(n):
        own_gap, size = gap[j], out[n + j]
        own = pull[j] + by_gap_in_sd[j] / size
        for e in range(m.begins[j], m.begins[j + 1]):
            p = m.parents[e]
            if m.in_sd.size and m.in_sd[e]:
                by_gap_in_sd[p] -= slopes[e] * own * size
                slopes[e] = -own * size * law[5, p]
            else:
                own_gap += slopes[e] * gap[p]
                pull[p] -= slopes[e] * own
                slopes[e] = -own * gap[p]
        pull[j] = out[j] = own * size
        out[n + j] = by_gap_in_sd[j] * law[5, j] - own * own_gap - 1.0
    for j in range(n):
        mine[j] = pull[j] * law[0, j] + law[1, j]
    for j in range(m.pair.shape[0]):
        if law[3, j] != 0.0 or law[4, j] != 0.0:
            mine[m.parents[m.begins[j]]] += (
                pull[j] * law[3, j] + (pull[j] * law[2, j] + 1.0) * law[4, j]
            )
    for first in range(0, out.size, TILE):
        tile = out[first : first + TILE]
        n_used = m.used[first // TILE] if m.used.size else n_functions
        for r in range(n_used):
            loadings, total = m.loadings[r, first : first + TILE], 0.0
            for o in range(tile.size):
                total += loadings[o] * tile[o]
            by_lat[r] += total
    for a in range(near.size):
        force = 0.0
        for r in range(n_functions):
            force += m.weights[a, r] * by_lat[r]
        force *= near[a]
        for i in range(k):
            by_t[i] -= force * (v[i] - m.nodes[a, i])
    for i in range(k):
        by_t[i] /= m.lengths[i]
        for r in range(n_functions):
            by_t[i] += m.trend[1 + i, r] * by_lat[r]
        by_t[i] *= bounded(t[i])[1]
        by_t[i] += by_affine[i]
        for j in range(k):
            by_t[i] += m.root[j, i] * grad_z[m.order[j]]
        grad[i] = 0.0
    sizes, by_size = np.empty(k), np.empty(k)
    for i in range(k):
        sizes[i], by_size[i] = saturating(u[i])
    for i in range(k - 1, -1, -1):
        _, log_scale = _of_global(m, u, sizes, i)
        value, slope, curve = warp_tail(u[i], m.skew[i], m.tail[i, :])
        size = np.exp(log_scale)
        grad[i] += by_t[i] * size * slope + curve / slope
        of_scale = by_t[i] * size * value + 1.0
        for j in range(i):
            grad[j] += by_t[i] * m.linear[i, j]
            for h in range(min(j + 1, m.bend.shape[0])):
                grad[j] += by_t[i] * m.bend[i, j, h] * sizes[h] * by_size[j]
                grad[h] += by_t[i] * m.bend[i, j, h] * sizes[j] * by_size[h]
            grad[j] += of_scale * m.scale[i, j] * by_size[j]


@compiled(inside=True)
def _scratch(m: Arrays) -> Scratch:
    # globals, these in lengths, kernels at nodes, shared functions, what they make, gaps of locals,
    # derivatives of their residuals, and gaps in standard deviations
    k, n, n_nodes, n_functions = m.mean.size, m.begins.size - 1, m.nodes.shape[0], m.trend.shape[1]
    return (
        np.empty(k), np.empty(k), np.empty(n_nodes), np.empty(n_functions),
        np.empty(m.constants.size), np.empty(n), np.empty((6, n)),
    )  # fmt: skip


@compiled
def forward_all(m: Arrays, u: FloatArray, z: FloatArray, log_det: FloatArray) -> None:
    """Map the rows of ``u``; fill ``z`` and log determinants, but for that of the root."""
    scratch = _scratch(m)
    for row in range(u.shape[0]):
        log_det[row] = map_forward(m, u[row], z[row], scratch)


@compiled
def back_all(m: Arrays, z: FloatArray, u: FloatArray) -> None:
    """Fill the rows of ``u`` that the map takes to those of ``z``."""
    k, n = m.mean.size, m.begins.size - 1
    t, v, near, lat, out, gap, _ = _scratch(m)
    inverse = np.linalg.inv(m.root)
    for row in range(z.shape[0]):
        for i in range(k):
            t[i] = 0.0
            for j in range(k):
                t[i] += inverse[i, j] * (z[row, m.order[j]] - m.mean[j])
        for i in range(k):
            mean, log_scale = _of_global(m, u[row], v, i)
            unskewed = unwarp((t[i] - mean) * np.exp(-log_scale), m.skew[i])
            power = 1.0 + (m.tail[i, 0] if unskewed < 0.0 else m.tail[i, 1])
            u[row, i] = np.sinh(np.arcsinh(power * unskewed) / power)
            v[i] = saturating(u[row, i])[0]
        _features(m, t, v, near, lat, out)
        for j in range(n):
            gap[j] = z[row, m.order[k + j]] - _about(m, t, j)
        if m.summed.size:
            first = out.size - n - 1
            more = np.expm1(out[first + n]) * _sum(m, gap)
            for j in range(n):
                gap[j] += out[first + j] * more
        for j in range(n - 1, -1, -1):
            c = k + j
            mean, log_scale = _of_local(m, u[row], j)
            residual = gap[j]
            for e in range(m.begins[j], m.begins[j + 1]):
                slope, p = out[2 * n + e], m.parents[e]
                if m.in_sd.size and m.in_sd[e]:
                    slope *= np.exp(out[n + p] - out[n + j])
                residual += slope * gap[p]
            residual = residual * np.exp(out[n + j]) - out[j] - mean
            u[row, c] = unwarp(residual * np.exp(-log_scale), m.skew[c])


@compiled
def density_through(address: int, m: Arrays, u: FloatArray, grad: FloatArray) -> float:
    """Log density by ``u`` (D,) of that at an address, but for the root, and its gradient.

    In nats; -inf where numbers go beyond all bounds on the way.
    """
    scratch, z, grad_z = _scratch(m), np.empty(u.size), np.empty(u.size)
    log_det = map_forward(m, u, z, scratch)
    finite = np.isfinite(log_det)
    for i in range(z.size):
        finite = finite and np.isfinite(z[i])
    value = call_density(address, z, grad_z) if finite else -np.inf
    if not np.isfinite(value):
        for i in range(grad.size):
            grad[i] = 0.0
        return -np.inf
    pull_back_through(m, u, grad_z, grad, scratch)
    return value + log_det


@compiled
def pull_back_all(
    address: int, m: Arrays, u: FloatArray, values: FloatArray, grads: FloatArray
) -> None:
    """Fill what :func:`density_through` gives at the rows of ``u``."""
    for row in range(u.shape[0]):
        values[row] = density_through(address, m, u[row], grads[row])
