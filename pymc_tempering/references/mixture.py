"""A mixture of the local fits as reference: its weights and shapes from draws of the target."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import erfinv, softmax

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity, Mixture
from pymc_tempering.references.independent import n_independent
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.moments import expand_to_draws
from pymc_tempering.types import FloatArray

__all__ = [
    "barrier_of_rejection",
    "first_mixture",
    "mixture_of_maps",
    "refined_mixture",
    "swap_rejection",
    "with_fit_of_uncovered",
]

_FIRST_FLOOR = 0.5
"""Share of the weights that is spread evenly at first: ELBOs of unlike modes do not compare."""

_PRIOR_DRAWS = 5.0
"""What each fit counts for beside draws of the target: a mode that they missed keeps a share."""

_FLOOR = 0.1
"""Share of the weights that is spread evenly however many draws there are."""

_DRAWS_PER_DIMENSION = 10
"""Draws of one component below which its shape is left alone."""

_LEAST_UNCOVERED = 10
_LEAST_SHARE_UNCOVERED = 0.05
_UNCOVERED_WIDENING = 1.2
"""Of a fit to few draws, which rather spread too little than too far."""


def first_mixture(fits: Sequence[LocalDensity]) -> Mixture:
    """Mixture of local fits, before any draw, with weights from their ELBOs.

    Parameters
    ----------
    fits : sequence of K LocalDensity
        With an ELBO in nats as ``log_zeta``, or none.

    Examples
    --------
    >>> fits = [GaussianBase([-2.0], [1.0], -3.0), GaussianBase([2.0], [1.0], -2.0)]
    >>> first_mixture(fits).weights.round(2)
    array([0.38, 0.62])
    """
    elbos = np.array([0.0 if fit.log_zeta is None else fit.log_zeta for fit in fits])
    return Mixture(tuple(fits), _with_floor(softmax(elbos), _FIRST_FLOOR))


def _with_floor(weights: FloatArray, floor: float) -> FloatArray:
    mixed = (1.0 - floor) * weights + floor / weights.size
    return np.asarray(mixed / mixed.sum())


def refined_mixture(
    mixture: Mixture, coordinates: Coordinates, positions: FloatArray, n_effective: float
) -> Mixture:
    """Weights from the responsibilities of draws; shapes widened where draws spread further.

    Parameters
    ----------
    mixture : Mixture
        Of the local fits as they are, so that widening does not compound from round to round.
    coordinates : Coordinates
        Whose Gaussian is the defensive component.
    positions : ndarray of shape (n, D)
        Draws of the target.
    n_effective : float
        How many of them count as independent.

    Examples
    --------
    >>> fits = [GaussianBase([-2.0], [1.0]), GaussianBase([2.0], [1.0])]
    >>> wide = Coordinates.of(GaussianBase([0.0], [3.0]))
    >>> draws = np.array([[-2.1], [1.9], [2.2], [2.0]])
    >>> refined_mixture(first_mixture(fits), wide, draws, 4).weights.round(2)
    array([0.44, 0.56])
    """
    finite = positions[np.isfinite(positions).all(axis=1)]
    shares = mixture.responsibilities(finite, coordinates)
    owner = shares.argmax(axis=1)
    owned = shares[:, 1:].sum(axis=0)
    independent = n_effective / max(len(positions), 1)
    weights = independent * owned + _PRIOR_DRAWS
    fits: list[LocalDensity] = []
    for k, fit in enumerate(mixture.fits):
        draws = finite[owner == k + 1]
        n_own = independent * len(draws)
        enough = n_own >= _DRAWS_PER_DIMENSION * mixture.dim
        if enough and isinstance(fit, GaussianBase):
            fits.append(expand_to_draws(fit, draws, n_own))
        else:
            fits.append(fit)
    weights = _with_floor(weights / weights.sum(), _FLOOR)
    return replace(mixture, fits=tuple(fits), weights=weights)


def mixture_of_maps(mixture: Mixture, coordinates: Coordinates, positions: FloatArray) -> Mixture:
    """Mixture with each fit bent as the draws are that are nearest to it, where they bend.

    Parameters
    ----------
    mixture : Mixture
        What does not bend keeps its shape.
    coordinates : Coordinates
        In which draws are near or far.
    positions : ndarray of shape (n, D)
        Draws of the target, in the order of a chain.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> a = rng.standard_normal(400)
    >>> banana = np.column_stack([a, a**2 + rng.normal(0.0, 0.1, 400)])
    >>> fit = GaussianBase(np.zeros(2), np.array([1.0, 0.1]))
    >>> mixture = mixture_of_maps(first_mixture([fit]), Coordinates.of(fit), banana)
    >>> mixture.has_map
    True
    """
    finite = positions[np.isfinite(positions).all(axis=1)]
    means = coordinates.to_base(np.stack([fit.mean for fit in mixture.fits]))
    u = coordinates.to_base(finite)
    owner = ((u[:, None] - means) ** 2).sum(axis=-1).argmin(axis=1)
    fits, weights = [], np.full(len(mixture.fits), _PRIOR_DRAWS)
    for k, fit in enumerate(mixture.fits):
        draws = finite[owner == k]
        n = n_independent(draws)
        weights[k] += n
        fits.append(map_of_draws(draws, n) or fit)
    weights = _with_floor(weights / weights.sum(), _FLOOR)
    return replace(mixture, fits=tuple(fits), weights=weights)


def with_fit_of_uncovered(
    mixture: Mixture, coordinates: Coordinates, positions: FloatArray
) -> Mixture:
    """Mixture with a further fit, of the draws that the defensive component alone explains.

    The same mixture where these are fewer than 10 or than there are dimensions, or a twentieth of
    all: a search that ascends from every start has no fit of a wide mode around a narrow one.

    Parameters
    ----------
    mixture : Mixture
    coordinates : Coordinates
        Whose scales the defensive component has.
    positions : ndarray of shape (n, D)
        Draws of the target.

    Examples
    --------
    >>> narrow = first_mixture([GaussianBase([0.0], [0.1])])
    >>> coordinates = Coordinates.of(narrow.fits[0])
    >>> draws = np.concatenate([np.zeros(30), np.linspace(-3.0, 3.0, 30)])[:, None]
    >>> further = with_fit_of_uncovered(narrow, coordinates, draws).fits[1]
    >>> bool(1.0 < further.scale[0] < 3.0)
    True
    """
    finite = positions[np.isfinite(positions).all(axis=1)]
    uncovered_draws = finite[mixture.responsibilities(finite, coordinates).argmax(axis=1) == 0]
    if len(uncovered_draws) < max(
        _LEAST_UNCOVERED, mixture.dim, _LEAST_SHARE_UNCOVERED * len(positions)
    ):
        return mixture
    found = GaussianBase.from_draws(uncovered_draws)
    fit = GaussianBase(found.mean, _UNCOVERED_WIDENING * found.scale)
    n = len(mixture.fits)
    weights = np.append(n * mixture.weights, 1.0) / (n + 1.0)
    return replace(mixture, fits=(*mixture.fits, fit), weights=weights)


def swap_rejection(delta_reference: FloatArray, delta_target: FloatArray) -> float:
    """Rejection rate of swaps between a reference and the target, without levels in between.

    Parameters
    ----------
    delta_reference : ndarray of shape (m,)
        ``log_target - log_reference`` in nats at draws of the reference; ``-inf`` allowed.
    delta_target : ndarray of shape (n,)
        The same at draws of the target.

    Examples
    --------
    >>> swap_rejection(np.array([0.0, -np.inf]), np.array([0.0, np.log(2.0)]))
    0.625
    """
    difference = delta_reference[:, None] - delta_target[None, :]
    return 1.0 - float(np.exp(np.minimum(difference, 0.0)).mean())


def barrier_of_rejection(rejection: float) -> float:
    r"""Barrier of a path whose ends swap with this rejection rate, were log weights normal.

    With variance V of the log weights all along it, the barrier is :math:`\sqrt{V / \pi}`, and the
    ends reject :math:`\operatorname{erf}(\sqrt V / 2)`.

    Examples
    --------
    >>> round(barrier_of_rejection(0.5), 2), round(barrier_of_rejection(0.9), 2)
    (0.54, 1.31)
    """
    return float(2.0 / np.sqrt(np.pi) * erfinv(min(rejection, 1.0)))
