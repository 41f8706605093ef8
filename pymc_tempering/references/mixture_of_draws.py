"""A mixture of Gaussians fitted to draws of the target, where fits of modes do not describe it.

Components of a mixture model that empty, split or trade places have shapes that no Gaussian at a
maximum has. Several Gaussians have, once there are draws; with exchanged labels divided out, a few
hundred are enough.
"""

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.types import FloatArray

__all__ = ["mixture_of_draws"]

MOST_COMPONENTS = 12
"""The criterion asks for fewer, unless there are more draws than a round has."""

MOST_DRAWS = 2000
"""That a fit is made of, evenly spaced: with all orders of five labels each has 120 images."""

N_ROUNDS = 8
"""In which draws are moved to images where the mixture is high, and the mixture to the draws."""


def mixture_of_draws(mixture: Mixture, positions: FloatArray, n_effective: float) -> Mixture | None:
    """Fit as many Gaussians to draws (n, D) as these tell apart; None if they are too few for one.

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
