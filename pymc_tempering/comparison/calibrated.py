"""Are posterior model probabilities calibrated? What simulated data sets say, as arrays."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from pymc_tempering.comparison.probabilities import model_probabilities
from pymc_tempering.errors import DataError
from pymc_tempering.types import BoolArray, FloatArray, IntArray

__all__ = ["ModelCalibration", "over_dispersion", "shift"]

MAX_P_VALUE = 1e-3
"""P-value below which probabilities are said not to be calibrated: the smallest of all tests,
times their number."""


def shift(probability: FloatArray, happened: BoolArray) -> float:
    r"""Z-score of the mean of what happened less what was said.

    :math:`\sum (y - p) / \sqrt{\sum p (1 - p)}`, standard normal for calibrated probabilities.

    Parameters
    ----------
    probability : ndarray of shape (n,)
    happened : ndarray of bool of shape (n,)

    Examples
    --------
    >>> shift(np.full(100, 0.5), np.arange(100) < 60)
    2.0
    """
    return _score(happened - probability, probability * (1.0 - probability))


def over_dispersion(probability: FloatArray, happened: BoolArray) -> float:
    r"""Z-score of Spiegelhalter (1986): positive where probabilities are too extreme.

    :math:`\sum (y - p)(1 - 2p) / \sqrt{\sum (1 - 2p)^2 p (1 - p)}`.

    Parameters
    ----------
    probability : ndarray of shape (n,)
    happened : ndarray of bool of shape (n,)

    Examples
    --------
    >>> round(over_dispersion(np.full(100, 0.1), np.arange(100) < 16), 6)
    2.0
    """
    weight = 1.0 - 2.0 * probability
    variance = probability * (1.0 - probability)
    return _score((happened - probability) * weight, variance * weight**2)


def _score(terms: FloatArray, variances: FloatArray) -> float:
    """Sum over its standard deviation; certainties that came true have neither."""
    total, variance = float(terms.sum()), float(variances.sum())
    if variance > 0.0:
        return total / variance**0.5
    return 0.0 if total == 0.0 else float(np.copysign(np.inf, total))


@dataclass(frozen=True)
class ModelCalibration:
    """Result of :func:`pymc_tempering.check_calibration`.

    Attributes
    ----------
    names : tuple of str
        Of the K models.
    prior : ndarray of shape (K,)
        Prior probabilities, with which the models were drawn that made the data.
    true : ndarray of int of shape (n,)
        Index of the model that made each data set.
    log_z, se : ndarray of shape (n, K)
        Estimates for each data set and their errors, in nats; errors are 0 for exact values and nan
        where none was given.
    warned : ndarray of bool of shape (n,)
        Whether an estimate for the data set carried a warning.
    """

    names: tuple[str, ...]
    prior: FloatArray
    true: IntArray
    log_z: FloatArray
    se: FloatArray
    warned: BoolArray

    def __post_init__(self) -> None:
        n, k = len(self.true), len(self.names)
        shapes = {
            "prior": (self.prior.shape, (k,)), "log_z": (self.log_z.shape, (n, k)),
            "se": (self.se.shape, (n, k)), "warned": (self.warned.shape, (n,)),
        }  # fmt: skip
        wrong = {name: given for name, (given, right) in shapes.items() if given != right}
        if wrong or n == 0:
            raise DataError(
                f"{n} data sets and the models {list(self.names)} do not go with the shapes "
                f"{wrong}; expected one row for each data set and one column for each model."
            )

    @property
    def probabilities(self) -> FloatArray:
        """Posterior probability of each model given each data set, shape (n, K)."""
        return model_probabilities(self.log_z, self.prior)

    @property
    def table(self) -> pd.DataFrame:
        """One row for each model.

        ``prior``; ``mean_posterior``, the posterior probability averaged over data sets, with its
        standard error ``mean_posterior_se``: it equals the prior (Schad, Modrak & Vasishth 2024);
        ``share``, of the data sets that are of the model; and z-scores of three tests, standard
        normal for calibrated probabilities: ``z_prior`` of the mean posterior against the prior,
        ``z_shift`` of what was said against what was true, and ``z_extreme``, positive where
        probabilities are too extreme (:func:`over_dispersion`).
        """
        rows = []
        for k, probability in enumerate(self.probabilities.T):
            is_true = self.true == k
            n = len(probability)
            se = float(probability.std(ddof=1) / n**0.5) if n > 1 else np.nan
            mean = float(probability.mean())
            rows.append(
                {
                    "prior": float(self.prior[k]),
                    "mean_posterior": mean,
                    "mean_posterior_se": se,
                    "share": float(is_true.mean()),
                    "z_prior": (mean - float(self.prior[k])) / se if se > 0.0 else np.nan,
                    "z_shift": shift(probability, is_true),
                    "z_extreme": over_dispersion(probability, is_true),
                }
            )
        return pd.DataFrame(rows, index=pd.Index(self.names, name="model"))

    @property
    def p_value(self) -> float:
        """Chance of z-scores as large as the largest if probabilities are calibrated (Bonferroni).

        Of two models one determines the other, and counts alone.
        """
        table = self.table[["z_prior", "z_shift", "z_extreme"]]
        z = np.abs(table.to_numpy()[:1] if len(self.names) == 2 else table.to_numpy())
        z = z[~np.isnan(z)]
        return float(min(1.0, 2.0 * stats.norm.sf(z.max()) * z.size)) if z.size else 1.0

    @property
    def calibrated(self) -> bool:
        """Whether nothing speaks against it: ``p_value`` is at least 0.001."""
        return self.p_value >= MAX_P_VALUE

    def curve(self, n_bins: int = 10) -> pd.DataFrame:
        """How often what was said to be probable was true.

        All models together; of two models the second is left out, as it repeats the first.

        Parameters
        ----------
        n_bins : int
            Of equal width in the stated probability.

        Returns
        -------
        DataFrame
            One row for each bin that is not empty: ``said``, the mean stated probability; ``true``,
            the share that was true, with its exact 95 % interval ``low`` to ``high``; ``n``.
        """
        used = slice(0, 1) if len(self.names) == 2 else slice(None)
        said = self.probabilities[:, used]
        happened = (self.true[:, None] == np.arange(len(self.names)))[:, used]
        place = np.minimum((said * n_bins).astype(int), n_bins - 1)
        rows = []
        for i in range(n_bins):
            here = place == i
            n, count = int(here.sum()), int(happened[here].sum())
            if n == 0:
                continue
            interval = stats.binomtest(count, n).proportion_ci(0.95)
            rows.append(
                {
                    "said": float(said[here].mean()),
                    "true": count / n,
                    "low": float(interval.low),
                    "high": float(interval.high),
                    "n": n,
                }
            )
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        table = self.table
        short = pd.DataFrame(
            {
                "prior": table["prior"].map("{:.3f}".format),
                "mean posterior": [
                    f"{mean:.3f} ± {se:.3f}"
                    for mean, se in zip(
                        table["mean_posterior"], table["mean_posterior_se"], strict=True
                    )
                ],
                "of the data sets": table["share"].map("{:.3f}".format),
                "z prior": table["z_prior"].map("{:.2f}".format),
                "z shift": table["z_shift"].map("{:.2f}".format),
                "z extreme": table["z_extreme"].map("{:.2f}".format),
            },
            index=table.index.rename(None),
        )
        verdict = (
            "nothing speaks against calibrated probabilities"
            if self.calibrated
            else "the probabilities are NOT calibrated"
        )
        warned = int(self.warned.sum())
        return (
            f"{short.to_string()}\n{len(self.true)} data sets, {warned} with a warning; "
            f"p = {self.p_value:.2g}: {verdict}"
        )
