"""The Bayes factor of two models, with its error and in words."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from pymc_tempering.comparison.estimates import resolve_estimates
from pymc_tempering.estimators.result import decimals_of_error, format_nats
from pymc_tempering.options import check_probability

# in nats, half of Kass & Raftery's 2, 6 and 10
_LIMITS = ((1.0, "not worth more than a bare mention"), (3.0, "positive"), (5.0, "strong"))


@dataclass(frozen=True)
class BayesFactor:
    """Evidence for model a against model b.

    Attributes
    ----------
    log_bayes_factor : float
        ``log Z_a - log Z_b``, in nats.
    se : float
        Its standard error, in nats.
    df : float
        Degrees of freedom of ``se``, those of both estimates combined as by Welch.
    mass_missing : tuple of str
        Of "a" and "b" those whose log Z may lack a mode, of which ``se`` knows nothing.
    """

    log_bayes_factor: float
    se: float
    df: float = np.inf
    mass_missing: tuple[str, ...] = ()

    @property
    def log10(self) -> float:
        """The Bayes factor as a power of ten."""
        return self.log_bayes_factor / np.log(10.0)

    @property
    def bayes_factor(self) -> float:
        """The Bayes factor itself, ``Z_a / Z_b``; infinite beyond the range of floats."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_bayes_factor))

    @property
    def words(self) -> str:
        """The scale of Kass & Raftery (1995, section 3.2)."""
        return kass_raftery(self.log_bayes_factor)

    def interval(self, prob: float = 0.95) -> tuple[float, float]:
        """Interval of the log Bayes factor that carries the errors of both log Z, in nats.

        Raises
        ------
        OptionError
            If ``prob`` is not strictly between 0 and 1.
        """
        check_probability("prob", prob)
        half = self.se * float(t.ppf(0.5 + 0.5 * prob, self.df))
        return self.log_bayes_factor - half, self.log_bayes_factor + half

    def _ratio(self) -> str:
        if np.isposinf(self.log10):
            return "infinite"
        if self.log10 < 0.0:
            return f"1/{BayesFactor(-self.log_bayes_factor, self.se)._ratio()}"  # noqa: SLF001  its own class
        if self.log10 < 4.0:
            return f"{self.bayes_factor:.2g}" if self.log10 < 2 else f"{self.bayes_factor:.0f}"
        return f"10^{self.log10:.2f}"

    def __repr__(self) -> str:
        if np.isnan(self.log_bayes_factor):
            return "log BF unknown: at least one of the two log Z is unknown"
        if self.mass_missing:
            return (
                f"log BF = {self.log_bayes_factor:.1f} nats, error unknown: a mode of "
                f"{' and of '.join(self.mass_missing)} may be missing"
            )
        digits = decimals_of_error(self.se)
        value = format_nats(self.log_bayes_factor, digits)
        error = f"± {format_nats(self.se, digits)} nats"
        if not np.isfinite(self.se):
            error = "nats, error unknown"
        return f"log BF = {value} {error} (BF = {self._ratio()}; {self.words})"


def kass_raftery(log_bayes_factor: float) -> str:
    """Say a log Bayes factor in nats in the words of Kass & Raftery (1995, section 3.2).

    Their scale is in twice the natural logarithm: up to 2, 6, 10 and beyond. Negative values speak
    for the other model; nan is unknown.

    Examples
    --------
    >>> kass_raftery(2.0), kass_raftery(-7.0)
    ('positive evidence for a', 'very strong evidence for b')
    """
    if np.isnan(log_bayes_factor):
        return "unknown"
    size = abs(log_bayes_factor)
    word = next((word for limit, word in _LIMITS if size <= limit), "very strong")
    if size <= _LIMITS[0][0]:
        return word
    return f"{word} evidence for {'a' if log_bayes_factor > 0 else 'b'}"


def bayes_factor(a: object, b: object, **kwargs: object) -> BayesFactor:
    """Bayes factor of model a against model b.

    Parameters
    ----------
    a, b : pymc.Model, DataTree, LogZEstimate or path-like
        Models are sampled; runs, also in files, and estimates are used as they are.
    **kwargs
        Passed to :func:`pymc_tempering.estimate_logz` for models; `executor` as in
        :func:`pymc_tempering.compare`, where the models are tasks.

    Returns
    -------
    BayesFactor

    Raises
    ------
    DataError
        If they were fitted to different data.

    Examples
    --------
    >>> from pymc_tempering import LogZEstimate
    >>> a = LogZEstimate(-10.0, 0.3, "pt, mbar", np.full(4, -10.0))
    >>> b = LogZEstimate(-14.0, 0.4, "pt, mbar", np.full(4, -14.0))
    >>> bayes_factor(a, b)
    log BF = 4.00 ± 0.50 nats (BF = 55; strong evidence for a)
    """
    estimates = resolve_estimates({"a": a, "b": b}, **kwargs)
    first, second = estimates["a"], estimates["b"]
    variances = np.array([first.se, second.se]) ** 2
    uncertain = float(np.sum(variances**2 / np.array([first.df, second.df])))
    df = float(variances.sum() ** 2) / uncertain if uncertain > 0.0 else np.inf
    missing = tuple(name for name, estimate in estimates.items() if estimate.mass_missing)
    se = float(np.hypot(first.se, second.se))
    return BayesFactor(first.log_z - second.log_z, se, df, missing)
