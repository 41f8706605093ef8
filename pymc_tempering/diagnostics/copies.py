"""Draws with their labels in one order, where a model lets labels be exchanged.

A mode of a mixture with K components has K! copies, which are one mode to its user, and in part of
which any run has few draws, or which overlap. Each draw is taken to its image nearest to the mean
of a mode, in its standard deviations, by turns with these (as Stephens 2000, of a posterior). An
image has the density of its draw, so that shares and log Z of modes are those of all their copies.
To begin with the draw of highest density, as is usual, changed nothing.
"""

from collections.abc import Callable

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.model.at_draws import constrained_draws, unconstrained_draws
from pymc_tempering.model.compile import density_at_hand
from pymc_tempering.model.symmetries import Symmetries
from pymc_tempering.types import BoolArray, FloatArray, IntArray

_ROUNDS = 20
"""Of images nearest to their mean: the distance falls with each, so that few are taken."""

_MOST_NUMBERS = 2**21
"""In the images of a block of draws: 16 megabytes."""


def without_copies(
    idata: xr.DataTree, model: pm.Model, find: Callable[[xr.Dataset], IntArray]
) -> tuple[xr.Dataset, IntArray] | None:
    """Draws of a model's variables with labels in one order, and their modes; None without copies.

    ``find`` gives the modes (chain, draw), from 0, of draws. Attributes of these are ``n_orders``,
    and ``exchanged``, names of variables.
    """
    density = density_at_hand(model)
    model, points = density.model, density.points
    posterior = idata["posterior"].to_dataset()
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    z = unconstrained_draws(idata, density, max_draws=sizes[0] * sizes[1])
    orbit = Symmetries.of(points, model).exchanges(density, z[:: max(1, len(z) // 4)])
    if orbit is None:
        return None
    names = [name for name in map(str, posterior.data_vars) if name in model.named_vars]
    drawn = posterior[names].transpose("chain", "draw", ...)
    values_of = constrained_draws(model, names, points)

    def at(z: FloatArray) -> xr.Dataset:
        values = values_of(z)
        return drawn.copy(data={n: v.reshape(*sizes, *v.shape[1:]) for n, v in values.items()})

    z, labels = in_one_order(z, orbit, lambda z: find(at(z)).ravel())
    moved = (orbit.order != orbit.order[0]).any(axis=0)[: density.dim]
    parts = zip(points.names, np.split(moved, np.cumsum(points.sizes)[:-1]), strict=True)
    rvs = {value.name: rv.name for rv, value in model.rvs_to_values.items()}
    exchanged = [rvs[name] for name, part in parts if part.any()]
    one_order = at(z).assign_attrs(n_orders=orbit.size, exchanged=exchanged)
    return one_order, labels.reshape(sizes)


def in_one_order(
    z: FloatArray, orbit: Orbit, find: Callable[[FloatArray], IntArray]
) -> tuple[FloatArray, IntArray]:
    """Take one image of each draw ``z`` (n, D), so that copies of a mode are one, and find modes.

    ``find`` gives the mode (n,), from 0, of draws. By turns the largest mode not yet settled is the
    pivot of all that are not; what is a copy of it joins it.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> z = np.where(rng.random((200, 1)) < 0.5, [0.0, 5.0], [5.0, 0.0]) + rng.normal(size=(200, 2))
    >>> two = Orbit(np.array([[0, 1], [1, 0]]), np.empty((0, 2)))
    >>> moved, modes = in_one_order(z, two, lambda z: (z[:, 0] > z[:, 1]).astype(int))
    >>> sorted(abs(moved.mean(axis=0)).round().tolist()), len(set(modes.tolist()))
    ([0.0, 5.0], 1)
    """
    # those of all copies, which are alike for what is exchanged
    scales = orbit.images(z[:: max(1, len(z) // 100)]).std(axis=(0, 1))
    settled = np.zeros(len(z), dtype=bool)
    z, labels = z.copy(), find(z)
    while not settled.all():
        rest: BoolArray = ~settled
        own = rest & (labels == np.bincount(labels[rest]).argmax())
        for _ in range(_ROUNDS):
            mean, spread = z[own].mean(axis=0), z[own].std(axis=0)
            z[rest], n_moved = _nearest(z[rest], orbit, mean, np.maximum(spread, 1e-6 * scales))
            if not n_moved:
                break
        labels = find(z)
        settled |= own | (labels == np.bincount(labels[own]).argmax())
    return z, labels


def _nearest(
    z: FloatArray, orbit: Orbit, place: FloatArray, scales: FloatArray
) -> tuple[FloatArray, int]:
    """Images nearest to a place, and how many are others than before; in blocks, for memory."""
    base = GaussianBase(place, np.where(scales > 0.0, scales, 1.0))
    step = max(1, _MOST_NUMBERS // (orbit.size * z.shape[1]))
    blocks = np.array_split(z, range(step, len(z), step))
    moved = [orbit.nearest(block, place[None], base) for block in blocks]
    return np.concatenate([m for m, _ in moved]), sum(int((w != 0).sum()) for _, w in moved)
