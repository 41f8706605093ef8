"""A mixture of the local fits as reference: its weights and shapes from draws of the target."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity, Mixture
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.references.fit import expand_to_draws, n_independent
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.prepared import centre
from pymc_tempering.references.same_mode import owner
from pymc_tempering.types import FloatArray

_PRIOR_DRAWS = 5.0
"""What each fit counts for beside draws of the target."""

MOST_COMPONENTS = 12
"""Of a mixture of draws; its criterion asks for fewer, unless a round has far more draws."""

MOST_DRAWS = 2000
"""Draws that one is made of, evenly spaced: with five labels in any order each has 120 images."""

N_ROUNDS = 8
"""Rounds in which its draws are moved to images where it is high, and it to the draws."""


def first_mixture(fits: Sequence[LocalDensity], orbit: Orbit | None = None) -> Mixture:
    """Mixture of local fits before any draw, with weights from their ELBOs (``log_zeta``, nats).

    Half of the weights are spread evenly: ELBOs of unlike modes do not compare.
    """
    elbos = np.array([0.0 if fit.log_zeta is None else fit.log_zeta for fit in fits])
    return Mixture(tuple(fits), _with_floor(softmax(elbos), 0.5), orbit=orbit)


def _with_floor(weights: FloatArray, floor: float = 0.1) -> FloatArray:
    """Spread a share of the weights evenly, however many draws made them: they may miss a mode."""
    mixed = (1.0 - floor) * weights / weights.sum() + floor / weights.size
    return np.asarray(mixed / mixed.sum())


def uncovered_share(fits: Sequence[LocalDensity], positions: FloatArray) -> float:
    """Share of draws (n, D) that no component explains."""
    return float((owner(fits, positions) < 0).mean())


def refined_mixture(
    mixture: Mixture, coordinates: Coordinates, positions: FloatArray, n_effective: float
) -> Mixture:
    """Weights from the responsibilities of draws; Gaussians widened where draws spread further.

    ``mixture`` is of the fits as they are, so that widening does not compound from round to round;
    the Gaussian of ``coordinates`` is the defensive component. Of the draws of the target,
    ``positions`` (n, D), ``n_effective`` count as independent.
    """
    finite = positions[np.isfinite(positions).all(axis=1)]
    shares = mixture.responsibilities(finite, coordinates)
    nearest = shares.argmax(axis=1)
    independent = n_effective / max(len(positions), 1)
    weights = independent * shares[:, 1:].sum(axis=0) + _PRIOR_DRAWS
    fits: list[LocalDensity] = []
    for k, fit in enumerate(mixture.fits):
        draws = finite[nearest == k + 1]
        n_own = independent * len(draws)
        # fewer than ten draws for each coordinate say nothing of a covariance
        if isinstance(fit, GaussianBase) and n_own >= 10 * mixture.dim:
            fits.append(expand_to_draws(fit, draws, n_own))
        else:
            fits.append(fit)
    return replace(mixture, fits=tuple(fits), weights=_with_floor(weights))


def mixture_of_maps(mixture: Mixture, coordinates: Coordinates, positions: FloatArray) -> Mixture:
    """Mixture with a transport map of the draws nearest to each fit, where one is found.

    ``positions`` (n, D) are draws of the target in the order of a chain; ``coordinates`` tell which
    are near. A fit without a map stays as it is.
    """
    finite = positions[np.isfinite(positions).all(axis=1)]
    means = coordinates.to_base(np.stack([fit.mean for fit in mixture.fits]))
    u = coordinates.to_base(finite)
    nearest = ((u[:, None] - means) ** 2).sum(axis=-1).argmin(axis=1)
    fits, weights = [], np.full(len(mixture.fits), _PRIOR_DRAWS)
    for k, fit in enumerate(mixture.fits):
        draws = finite[nearest == k]
        n = n_independent(draws)
        weights[k] += n
        fits.append(map_of_draws(draws, n) or fit)
    return replace(mixture, fits=tuple(fits), weights=_with_floor(weights))


def with_fit_of_uncovered(mixture: Mixture, positions: FloatArray) -> Mixture:
    """Mixture with one more Gaussian, fitted to the draws (n, D) that no component explains.

    The same mixture where these are fewer than 10, than there are coordinates, or than a twentieth
    of all. A search whose ascents all end in a narrow mode has no fit of a wide one around it.
    """
    finite = positions[np.isfinite(positions).all(axis=1)]
    uncovered = finite[owner(mixture.fits, finite) < 0]
    if len(uncovered) < max(10, mixture.dim, len(positions) / 20):
        return mixture
    found = GaussianBase.from_draws(uncovered)
    # few draws rather spread too little than too far
    fit = GaussianBase(found.mean, 1.2 * found.scale)
    n = len(mixture.fits)
    weights = np.append(n * mixture.weights, 1.0) / (n + 1.0)
    return replace(mixture, fits=(*mixture.fits, fit), weights=weights)


def with_known(mixture: Mixture, known: Mixture) -> Mixture:
    """Mixture with the fits of another whose centres it does not explain, of little weight."""
    centres = mixture.at_home(np.stack([centre(fit) for fit in known.fits]))
    lost = owner(mixture.fits, centres) < 0
    others = [fit for fit, is_lost in zip(known.fits, lost, strict=True) if is_lost]
    weights = _with_floor(np.append(mixture.weights, np.zeros(len(others))))
    return replace(mixture, fits=(*mixture.fits, *others), weights=weights)


def mixture_of_draws(mixture: Mixture, positions: FloatArray, n_effective: float) -> Mixture | None:
    """Fit as many Gaussians to draws (n, D) as these tell apart; None if they are too few for one.

    Components of a mixture model that empty, split or trade places have shapes that no Gaussian at
    a maximum has. Several Gaussians have, and with exchanged labels divided out a few hundred draws
    are enough.

    ``mixture`` has the images, and the defensive component. ``n_effective`` of the draws count as
    independent. The number of components has the largest likelihood less half of the log of these
    for each coefficient (Schwarz 1978); it grows until it does not pay.
    """
    dim, rng = mixture.dim, np.random.default_rng(0)
    z = positions[np.isfinite(positions).all(axis=1)]
    z = mixture.at_home(z[np.linspace(0, len(z) - 1, min(len(z), MOST_DRAWS)).astype(np.int64)])
    n_effective = min(n_effective, float(len(z)))
    units, shares = z.std(axis=0), np.ones((len(z), 1))
    best, score = None, -np.inf
    # fewer than ten draws for each coordinate say nothing of a covariance
    for k in range(1, min(MOST_COMPONENTS, int(n_effective / (10 * dim))) + 1):
        for _ in range(N_ROUNDS):
            for _ in range(4):
                fits, weights = _of_shares(z, shares, n_effective / len(z), units)
                parts = np.stack([fit.log_density(z) for fit in fits], axis=1) + np.log(weights)
                shares = np.exp(parts - logsumexp(parts, axis=1, keepdims=True))
            found = replace(mixture, fits=fits, weights=weights)
            z = found.at_image(z, rng)
        logs = found.log_fits(z)
        n_coefficients = k * (1 + dim * (dim + 3) // 2) - 1
        new = n_effective * logs.mean() - 0.5 * n_coefficients * np.log(n_effective)
        if new <= score:
            break
        best, score = found, new
        # the next one begins with those that these explain least
        worst = logs < np.quantile(logs, 1.0 / (k + 1))
        shares = np.column_stack([np.where(worst[:, None], 0.0, shares), worst])
    return best


def _of_shares(
    z: FloatArray, shares: FloatArray, independent: float, units: FloatArray
) -> tuple[tuple[GaussianBase, ...], FloatArray]:
    """Gaussians of draws (n, D) by the shares (n, k) that they have in them, and their weights.

    Correlations are shrunk as by half as many draws without any as there are coordinates.
    """
    fits = []
    totals = shares.sum(axis=0) + 1e-9
    for share, total in zip(shares.T, totals, strict=True):
        mean = share @ z / total
        centred = z - mean
        covariance = (share[:, None] * centred).T @ centred / total
        kept = total * independent / (total * independent + 0.5 * (z.shape[1] + 2))
        variances = np.diagonal(covariance) * kept + (1.0 - kept) * (0.1 * units) ** 2
        covariance = kept * covariance
        np.fill_diagonal(covariance, variances)
        fits.append(GaussianBase.from_moments(mean, covariance))
    return tuple(fits), totals / totals.sum()


def swap_rejection(delta_reference: FloatArray, delta_target: FloatArray) -> float:
    """Rejection rate of swaps between a reference and the target, without levels in between.

    Both are ``log_target - log_reference`` in nats: at draws of the reference, shape (m,), where
    ``-inf`` is allowed, and at draws of the target, shape (n,).

    Examples
    --------
    >>> swap_rejection(np.array([0.0, -np.inf]), np.array([0.0, np.log(2.0)]))
    0.625
    """
    difference = delta_reference[:, None] - delta_target[None, :]
    return 1.0 - float(np.exp(np.minimum(difference, 0.0)).mean())
