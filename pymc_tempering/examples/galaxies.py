"""The 82 galaxy velocities of Roeder (1990) and Gaussian mixtures for them.

The velocities are those of galaxies in six well-separated conic sections of the Corona Borealis
region. Clusters of galaxies show as modes of their density, so the number of components of a
mixture is a question about the sky. The values are those of the paper's table, sorted. The 78th
is 26960 as published; the copy that is distributed with R (``MASS::galaxies``) has 26690 there,
so evidences computed from that copy differ.

References
----------
.. [1] K. Roeder (1990), Density estimation with confidence sets exemplified by superclusters and
   voids in the galaxies, Journal of the American Statistical Association 85, 617-624.
.. [2] S. Chib (1995), Marginal likelihood from the Gibbs output, Journal of the American
   Statistical Association 90, 1313-1321: the priors.
.. [3] S. Richardson and P. J. Green (1997), On Bayesian analysis of mixtures with an unknown
   number of components, Journal of the Royal Statistical Society B 59, 731-792.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_tempering.errors import OptionError
from pymc_tempering.types import FloatArray

__all__ = ["VELOCITIES_KM_S", "galaxy_mixture", "mixture_density", "velocities"]

# fmt: off
VELOCITIES_KM_S: tuple[int, ...] = (
    9172, 9350, 9483, 9558, 9775, 10227, 10406, 16084, 16170, 18419,
    18552, 18600, 18927, 19052, 19070, 19330, 19343, 19349, 19440, 19473,
    19529, 19541, 19547, 19663, 19846, 19856, 19863, 19914, 19918, 19973,
    19989, 20166, 20175, 20179, 20196, 20215, 20221, 20415, 20629, 20795,
    20821, 20846, 20875, 20986, 21137, 21492, 21701, 21814, 21921, 21960,
    22185, 22209, 22242, 22249, 22314, 22374, 22495, 22746, 22747, 22888,
    22914, 23206, 23241, 23263, 23484, 23538, 23542, 23666, 23706, 23711,
    24129, 24285, 24289, 24366, 24717, 24990, 25633, 26960, 26995, 32065,
    32789, 34279,
)
# fmt: on

PRIOR_MEAN = 20.0
PRIOR_MEAN_SD = 10.0
PRIOR_VARIANCE_SHAPE = 3.0
PRIOR_VARIANCE_SCALE = 20.0
PRIOR_WEIGHT = 1.0


def velocities() -> FloatArray:
    """Return the velocities in units of 1000 km/s.

    Returns
    -------
    ndarray, shape (82,)
        Sorted velocities. The density of the data, and so the evidence, depends on this unit:
        in km/s every log evidence would be lower by ``82 * log(1000)``.

    Examples
    --------
    >>> from pymc_tempering.examples.galaxies import velocities
    >>> velocities().shape, float(velocities()[77])
    ((82,), 26.96)
    """
    return np.asarray(VELOCITIES_KM_S, dtype=np.float64) / 1000.0


def galaxy_mixture(
    k: int,
    *,
    mean_loc: float = PRIOR_MEAN,
    mean_sd: float = PRIOR_MEAN_SD,
    variance_shape: float = PRIOR_VARIANCE_SHAPE,
    variance_scale: float = PRIOR_VARIANCE_SCALE,
    weight_concentration: float = PRIOR_WEIGHT,
) -> pm.Model:
    r"""Build the Gaussian mixture with ``k`` components for the galaxy velocities.

    .. math::

        y_i \mid w, \mu, \sigma^2 \sim \sum_{j=1}^{k} w_j \, N(\mu_j, \sigma_j^2), \quad
        \mu_j \sim N(20, 10^2), \quad \sigma_j^2 \sim \mathrm{InvGamma}(3, 20), \quad
        w \sim \mathrm{Dirichlet}(1, \ldots, 1)

    in units of 1000 km/s. Default are the priors of Chib (1995, section 4.2), all proper, as an
    evidence needs. The inverse gamma prior keeps a component from shrinking onto one galaxy, where
    the likelihood has no bound. Allocations are summed out. The means are exchangeable and
    unordered, so the posterior has (at least) ``k!`` modes that differ only by the labels, and
    the evidence is that of the model as written: no factor ``k!`` is owed.

    Parameters
    ----------
    k : int
        Number of components, at least 1. With ``k=1`` there are no weights.
    mean_loc, mean_sd : float
        Of the normal prior of each component's mean, in 1000 km/s; default 20 and 10.
    variance_shape, variance_scale : float
        Of the inverse gamma prior of each component's variance, whose mean is
        ``variance_scale / (variance_shape - 1)``; default 3 and 20, the latter in (1000 km/s)**2.
    weight_concentration : float
        Every entry of the Dirichlet prior of the weights; default 1, the uniform distribution.

    Returns
    -------
    pymc.Model
        With the free variables ``mean`` (k,), ``variance`` (k,) and, for ``k > 1``, ``weight``
        (k,); 3 k - 1 unconstrained parameters.

    Raises
    ------
    OptionError
        If ``k`` is not a positive integer, or a number of a prior not finite or, but for
        `mean_loc`, not positive.

    Examples
    --------
    >>> from pymc_tempering.examples.galaxies import galaxy_mixture
    >>> [variable.name for variable in galaxy_mixture(3).free_RVs]
    ['mean', 'variance', 'weight']

    The same under another prior:

    >>> vague = galaxy_mixture(3, mean_sd=20.0, variance_scale=10.0)
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        msg = f"The mixture needs a positive whole number of components, but k={k!r} was given."
        raise OptionError(msg)
    scales = {
        "mean_sd": mean_sd, "variance_shape": variance_shape, "variance_scale": variance_scale,
        "weight_concentration": weight_concentration,
    }  # fmt: skip
    for name, value in {"mean_loc": mean_loc, **scales}.items():
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if not is_number or not np.isfinite(value) or (name in scales and value <= 0):
            expected = "a positive finite number" if name in scales else "a finite number"
            raise OptionError(f"`{name}` is {value!r}; expected {expected}.")
    coords = {"component": np.arange(k), "galaxy": np.arange(len(VELOCITIES_KM_S))}
    with pm.Model(coords=coords) as model:
        # PyTensor stores a Python float in single precision and would take its logarithm there.
        mean = pm.Normal("mean", np.float64(mean_loc), np.float64(mean_sd), dims="component")
        variance = pm.InverseGamma(
            "variance", np.float64(variance_shape), np.float64(variance_scale), dims="component"
        )
        # A Dirichlet with one entry has no unconstrained value left to sample.
        weight = (
            pm.Dirichlet("weight", np.full(k, float(weight_concentration)), dims="component")
            if k > 1
            else np.ones(1)
        )
        pm.NormalMixture(
            "velocity", weight, mean, sigma=pt.sqrt(variance), observed=velocities(), dims="galaxy"
        )
    return model


def mixture_density(
    grid: FloatArray, weight: FloatArray, mean: FloatArray, variance: FloatArray
) -> FloatArray:
    """Average the mixture density over posterior draws: the predictive density.

    Parameters
    ----------
    grid : ndarray, shape (G,)
        Velocities in 1000 km/s.
    weight, mean, variance : ndarray, shape (S, K)
        S draws of the K components.

    Returns
    -------
    ndarray, shape (G,)
        Density per 1000 km/s.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_tempering.examples.galaxies import mixture_density
    >>> one = np.ones((1, 1))
    >>> mixture_density(np.zeros(1), one, 0 * one, one).round(4)
    array([0.3989])
    """
    total = np.zeros_like(grid)
    # One pass per component keeps the largest array at S x G.
    for j in range(mean.shape[1]):
        squared = (grid[None, :] - mean[:, j, None]) ** 2 / variance[:, j, None]
        height = weight[:, j, None] / np.sqrt(2.0 * np.pi * variance[:, j, None])
        total += (height * np.exp(-0.5 * squared)).mean(axis=0)
    return total
