"""Gaussian base densities and the coordinates in which each of them is N(0, I)."""

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg.blas import dtrsm

from pymc_tempering.errors import BaseError, OptionError
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.types import FloatArray

TAIL = 0.005
"""Share of draws clipped on each side: what a chain that has not settled yet leaves there."""

_LEAST_SHARE = float(np.finfo(float).eps)
"""Of a standard deviation, what rounding leaves of it when the other coordinates are known."""


@dataclass(frozen=True, eq=False)
class GaussianBase:
    r"""A normalised Gaussian density on the flat unconstrained vector, the beta = 0 end of a path.

    The map :math:`z = m + S u` takes base coordinates ``u``, in which every base is
    :math:`N(0, I)`, to the model's unconstrained ``z``, so that

    .. math:: \log b(z) = -\tfrac12 \lVert u \rVert^2 - \log \lvert S \rvert - \tfrac D2 \log 2\pi.

    The arrays are copied and made read-only. Two bases are equal when mean, scale and
    ``log_zeta`` are; the hash is that of the density, as is :attr:`digest`.

    Parameters
    ----------
    mean : array of shape (D,)
        Mean of the base.
    scale : array of shape (D,) or (D, D)
        Standard deviations, or the lower Cholesky factor of the covariance.
    log_zeta : float, optional
        Guess of the target's log normaliser in nats that came with the fit (an ELBO). None, the
        default, when the fit gave no guess.

    Raises
    ------
    BaseError
        If a value is not finite, shapes disagree, the diagonal of ``scale`` is not positive, or a
        matrix ``scale`` is not lower triangular.

    Examples
    --------
    >>> import numpy as np
    >>> base = GaussianBase(mean=np.array([1.0, -2.0]), scale=np.array([2.0, 0.5]))
    >>> base.dim
    2
    >>> base.from_base(np.array([1.0, 1.0]))
    array([ 3. , -1.5])
    >>> round(float(base.log_density(base.mean)), 4)
    -1.8379
    """

    mean: FloatArray
    scale: FloatArray
    log_zeta: float | None = None

    def __post_init__(self) -> None:
        mean = _read_only(self.mean, "mean")
        scale = _read_only(self.scale, "scale")
        if mean.ndim != 1 or mean.size == 0:
            raise BaseError(
                f"The mean of a base has shape {mean.shape}; expected (D,) with D >= 1. "
                "Pass the flat unconstrained vector."
            )
        dim = mean.size
        if scale.shape not in ((dim,), (dim, dim)):
            raise BaseError(
                f"The scale of a base has shape {scale.shape} for a mean of shape {mean.shape}; "
                f"expected ({dim},) standard deviations or a ({dim}, {dim}) lower Cholesky factor."
            )
        diagonal = scale if scale.ndim == 1 else np.diagonal(scale)
        if not np.all(diagonal > 0.0):
            i = int(np.argmin(diagonal))
            raise BaseError(
                f"The scale of a base is {diagonal[i]:.3g} on the diagonal at coordinate {i}; "
                "every entry must be positive. Pass standard deviations or a Cholesky factor."
            )
        if scale.ndim == 2 and np.any(np.triu(scale, 1)):
            raise BaseError(
                "The scale matrix of a base has entries above the diagonal; expected a lower "
                "Cholesky factor. From a covariance use GaussianBase.from_moments."
            )
        log_zeta = self.log_zeta
        if log_zeta is not None:
            number = isinstance(log_zeta, int | float | np.integer | np.floating)
            if not number or not np.isfinite(log_zeta):
                raise BaseError(
                    f"log_zeta is {log_zeta!r}; expected a finite number of nats or None."
                )
            log_zeta = float(log_zeta)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "log_zeta", log_zeta)

    # Unpickled arrays are writeable again, so pickles are rebuilt through the constructor.
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (np.array(self.mean), np.array(self.scale), self.log_zeta)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GaussianBase):
            return NotImplemented
        return (
            np.array_equal(self.mean, other.mean)
            and np.array_equal(self.scale, other.scale)
            and self.log_zeta == other.log_zeta
        )

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        kind = "diagonal" if self.is_diagonal else "full"
        zeta = "None" if self.log_zeta is None else f"{self.log_zeta:.6g}"
        return f"GaussianBase(dim={self.dim}, {kind}, log_zeta={zeta}, digest={self.digest!r})"

    @classmethod
    def from_moments(
        cls, mean: FloatArray, covariance: FloatArray, log_zeta: float | None = None
    ) -> Self:
        """Build a base from its mean and covariance.

        Parameters
        ----------
        mean : array of shape (D,)
        covariance : array of shape (D,) or (D, D)
            Variances, of a diagonal base, or a symmetric positive definite matrix, of a full one.
        log_zeta : float, optional
            As for the class.

        Raises
        ------
        BaseError
            If the covariance is not finite, not symmetric or not positive definite.

        Examples
        --------
        >>> base = GaussianBase.from_moments([0.0, 0.0], [[4.0, 2.0], [2.0, 5.0]])
        >>> base.scale
        array([[2., 0.],
               [1., 2.]])
        """
        cov = _read_only(covariance, "covariance")
        if cov.ndim == 1:
            if not np.all(cov > 0.0):
                raise BaseError(
                    f"The smallest variance of a base is {cov.min(initial=np.inf):.3g}; "
                    "every variance must be positive."
                )
            return cls(mean, np.sqrt(cov), log_zeta)
        if cov.ndim != 2 or cov.shape[0] != cov.shape[1]:
            raise BaseError(
                f"The covariance of a base has shape {cov.shape}; expected (D,) variances or a "
                "square matrix."
            )
        if not np.allclose(cov, cov.T, rtol=1e-8, atol=1e-10 * float(np.abs(cov).max(initial=0.0))):
            raise BaseError("The covariance of a base is not symmetric; pass (C + C.T) / 2.")
        try:
            scale = np.linalg.cholesky(0.5 * (cov + cov.T))
        except np.linalg.LinAlgError as error:
            smallest = float(np.linalg.eigvalsh(cov)[0])
            raise BaseError(
                "The covariance of a base is not positive definite (smallest eigenvalue "
                f"{smallest:.3g}). Use more draws, pass variances, or GaussianBase.from_draws, "
                "which regularises."
            ) from error
        return cls(mean, scale, log_zeta)

    @classmethod
    def from_root(cls, mean: FloatArray, root: FloatArray) -> Self:
        """Build a base from a root of its covariance, ``root @ root.T``, which is never formed.

        Squares would lose what is narrow beside what is wide. Of a root that is singular, as far
        as rounding tells, what is missing is as narrow as a number can say.

        Examples
        --------
        >>> root = np.array([[0.0, 2.0], [2.0, 1.0]])
        >>> GaussianBase.from_root([0.0, 0.0], root).covariance
        array([[4., 2.],
               [2., 5.]])
        """
        scale = np.linalg.qr(root.T, mode="r").T
        diagonal = np.diagonal(scale)
        scale = scale * np.where(diagonal < 0.0, -1.0, 1.0)
        # the logarithm of the least scale is finite
        least = np.maximum(_LEAST_SHARE * np.abs(root).max(axis=1), 1e-300)
        np.fill_diagonal(scale, np.maximum(np.abs(diagonal), least))
        return cls(mean, scale)

    @classmethod
    def from_draws(
        cls, draws: FloatArray, *, full: bool | None = None, shrinkage: float | None = None,
        n_effective: float | None = None, min_scale: FloatArray | float | None = None,
    ) -> "GaussianBase":  # fmt: skip
        r"""Build a base from draws of shape (n, D), with scales that exist for any target.

        Each coordinate is winsorised at its 0.5 % and 99.5 % quantiles, so that Cauchy draws have a
        finite and stable scale, while a mode with one tenth of the mass counts in full; scales are
        corrected so that those of Gaussian draws are unbiased. Correlations R are shrunk linearly,
        :math:`(1 - \lambda) R + \lambda I`. With n effective draws,

        .. math:: \lambda = \max\Bigl(
            \frac{\sum_{i<j} (1 - r_{ij}^2)^2 / n}{\sum_{i<j} r_{ij}^2},\; 1 - \frac{n}{10 D}\Bigr),

        the first term being the intensity with the least expected squared error (Ledoit & Wolf
        2004; Schäfer & Strimmer 2005, section 2.4, target D), the second the rule that a full
        covariance takes ten effective draws per dimension. `shrinkage` replaces it.

        The scale is (D,) standard deviations, at least 1e-8 times the larger of 1 and the mean and
        at least `min_scale`, or a lower triangular factor (D, D). Correlations are kept if `full`
        says so; by default with at least two effective draws per dimension and if they are worth
        0.1 nats, :math:`-\tfrac12 \log |R| \ge 0.1`. Rows that are not finite are left out; with
        fewer than two a BaseError is raised.

        Examples
        --------
        >>> draws = np.random.default_rng(1).normal(3.0, 2.0, size=(4000, 2))
        >>> base = GaussianBase.from_draws(draws, full=False)
        >>> bool(np.all(np.abs(base.scale - 2.0) < 0.15))
        True
        """
        x = np.asarray(draws, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] == 0:
            raise BaseError(f"The draws have shape {x.shape}; expected (n, D): one row per draw.")
        x = x[np.isfinite(x).all(axis=1)]
        n, dim = x.shape
        if n < 2:
            raise BaseError(
                f"Only {n} of {len(draws)} draws are finite; a base needs at least two."
            )
        if shrinkage is not None and not 0.0 <= shrinkage <= 1.0:
            raise OptionError(f"shrinkage is {shrinkage}; it must lie between 0 and 1.")
        if n_effective is not None and not n_effective > 0.0:
            raise OptionError(f"n_effective is {n_effective}; it must be positive.")
        n_eff = float(n) if n_effective is None else min(float(n_effective), float(n))

        x = np.clip(x, *np.quantile(x, [TAIL, 1.0 - TAIL], axis=0))
        mean = x.mean(axis=0)
        raw = x.std(axis=0, ddof=1)
        # the square root of rounding
        floor = 1e-8 * np.maximum(1.0, np.abs(mean))
        # of a standard normal clipped at its 0.5 % and 99.5 % quantiles
        sd = np.maximum(raw / 0.9909, floor)
        if min_scale is not None:
            sd = np.maximum(sd, min_scale)
        if full is False or dim == 1 or (full is None and n_eff < 2 * dim):
            return cls(mean, sd)

        unit = (x - mean) / np.maximum(raw, floor)
        corr = unit.T @ unit / (n - 1)
        np.fill_diagonal(corr, 1.0)
        intensity = _shrinkage(corr, n_eff) if shrinkage is None else shrinkage
        # A rank-deficient matrix needs more than rounding to be inverted; others need only that.
        intensity = max(intensity, 0.05 if n <= dim else 1e-9)
        corr *= 1.0 - intensity
        np.fill_diagonal(corr, 1.0)
        return cls(mean, scale_from_correlation(sd, corr, keep=full is True))

    @property
    def dim(self) -> int:
        """Number of coordinates D."""
        return int(self.mean.size)

    @property
    def is_diagonal(self) -> bool:
        """Whether ``scale`` holds standard deviations, not a matrix."""
        return self.scale.ndim == 1

    @property
    def matrix(self) -> FloatArray:
        """Map from base coordinates to ``z - mean``, a (D, D) matrix also for diagonal bases."""
        return np.diag(self.scale) if self.is_diagonal else self.scale

    @property
    def covariance(self) -> FloatArray:
        """Covariance, a (D, D) matrix also for diagonal bases."""
        return np.diag(self.scale**2) if self.is_diagonal else self.scale @ self.scale.T

    @property
    def standard_deviation(self) -> FloatArray:
        """Marginal standard deviations, shape (D,)."""
        return self.scale.copy() if self.is_diagonal else np.sqrt((self.scale**2).sum(axis=1))

    @property
    def log_det_scale(self) -> float:
        """Log determinant of the map from base coordinates to z."""
        diagonal = self.scale if self.is_diagonal else np.diagonal(self.scale)
        return float(np.log(diagonal).sum())

    @property
    def digest(self) -> str:
        """Identity of the density: 16 hex digits of the SHA-256 of mean and scale."""
        h = hashlib.sha256()
        for array in (self.mean, self.scale):
            h.update(repr(array.shape).encode())
            # + 0.0 turns -0.0 into 0.0, which compares equal and so must hash equal.
            h.update((array + 0.0).astype("<f8").tobytes())
        return h.hexdigest()[:16]

    def from_base(self, u: FloatArray) -> FloatArray:
        """Map base coordinates ``u`` of shape (..., D) to ``mean + scale u``, same shape."""
        u = np.asarray(u, dtype=np.float64)
        return self.mean + (u * self.scale if self.is_diagonal else u @ self.scale.T)

    def to_base(self, z: FloatArray) -> FloatArray:
        """Map ``z`` of shape (..., D) to base coordinates, the inverse of :meth:`from_base`."""
        centred = np.asarray(z, dtype=np.float64) - self.mean
        if self.is_diagonal:
            return centred / self.scale
        flat = centred.reshape(-1, self.dim)
        # not LAPACK's dtrtrs, which wakes every thread for two rows and waits for them
        u = dtrsm(1.0, self.scale.T, flat.T, lower=0, trans_a=1).T
        return np.ascontiguousarray(u).reshape(centred.shape)

    def log_density(self, z: FloatArray) -> FloatArray:
        """Evaluate the normalised log density in nats: (..., D) in, (...) out."""
        u = self.to_base(z)
        return np.asarray(
            -0.5 * (u * u).sum(axis=-1) - self.log_det_scale - 0.5 * self.dim * LOG_2PI
        )

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw `n` independent vectors ``z`` from the base, shape (n, D)."""
        return self.from_base(rng.standard_normal((n, self.dim)))


def base_id(base: GaussianBase) -> int:
    """Identity of a base as a number that a statistic can hold: 52 bits of its digest."""
    return int(base.digest[:13], 16)


def _read_only(values: Any, name: str) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise BaseError(f"The {name} of a base is not an array of real numbers.") from error
    if not np.all(np.isfinite(array)):
        raise BaseError(
            f"The {name} of a base has {int((~np.isfinite(array)).sum())} non-finite entries; "
            "all must be finite."
        )
    array.setflags(write=False)
    return array


def scale_from_correlation(sd: FloatArray, corr: FloatArray, *, keep: bool) -> FloatArray:
    """Lower triangular factor (D, D) for standard deviations (D,) and correlations (D, D).

    Where correlations are worth less than 0.1 nats it is `sd`, unless `keep` says otherwise.
    """
    jitter = 0.0
    while True:
        try:
            factor = np.linalg.cholesky((corr + jitter * np.eye(len(corr))) / (1.0 + jitter))
            break
        except np.linalg.LinAlgError:
            # Perfectly correlated coordinates, up to rounding.
            jitter = max(10.0 * jitter, 1e-10)
    # a matrix doubles the cost of a cheap gradient
    if not keep and -float(np.log(np.diagonal(factor)).sum()) < 0.1:
        return sd
    return sd[:, None] * factor


def _shrinkage(corr: FloatArray, n_eff: float) -> float:
    r2 = corr[np.triu_indices_from(corr, 1)] ** 2
    expected_error = float(((1.0 - np.minimum(r2, 1.0)) ** 2).sum()) / n_eff
    total = float(r2.sum())
    least_error = expected_error / total if total > 0.0 else 1.0
    return min(1.0, max(least_error, 1.0 - n_eff / (10.0 * len(corr))))
