"""The estimate of log Z that users see: value, error, interval, and what is doubtful about it."""

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.stats import t as student_t

from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.options import check_probability, is_number
from pymc_tempering.types import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class LogZEstimate:
    """Log marginal likelihood with its standard error.

    Parameters
    ----------
    log_z : float
        Estimate in nats, combined over chains.
    se : float
        Standard error in nats; ``nan`` where the run cannot support one.
    method : str
        Sampler and estimator, as in ``"pt, mbar"``.
    per_chain : ndarray of shape (n_chains,)
        Estimate of every chain.
    warnings : tuple of Diagnostic, default ()
        What speaks against the estimate, each with code, text, remedy and what measured it; empty
        where nothing does. Those that speak against comparisons alone go to `of_comparison`.
    ess : float, default nan
        Effective number of independent scans, or of draws where controls were used
        (:mod:`pymc_tempering.estimators.controls`).
    df : float, default inf
        Degrees of freedom of the interval; infinite gives the normal one.
    lower, upper : float, optional
        Stochastic bounds, below and above log Z in expectation (bidirectional Monte Carlo).
    per_method : mapping of str to float, optional
        Estimates by other methods from the same run.
    search : str, optional
        How far the modes were searched for before the run.
    gradients : mapping of str to int, optional
        Evaluations of the density, which nearly always is one of its gradient too, that the run
        took in all chains: for "search", "tuning" and "draws".
    of_comparison : tuple of Diagnostic, default ()
        What :func:`pymc_tempering.compare` says, where models differ in it.
    idata : DataTree, optional
        The run. Neither shown nor compared.

    Examples
    --------
    >>> LogZEstimate(-1081.02, 0.05, "pt, mbar", np.full(4, -1081.02))
    log Z = -1081.02 ± 0.05 nats (pt, mbar, 4 chains; 95 % interval [-1081.12, -1080.92])
    """

    log_z: float
    se: float
    method: str
    per_chain: FloatArray
    warnings: tuple[Diagnostic, ...] = ()
    ess: float = np.nan
    df: float = np.inf
    lower: float | None = None
    upper: float | None = None
    per_method: Mapping[str, float] = field(default_factory=dict)
    search: str | None = None
    gradients: Mapping[str, int] = field(default_factory=dict)
    of_comparison: tuple[Diagnostic, ...] = ()
    idata: Any = None

    def __post_init__(self) -> None:
        for name in ("log_z", "se"):
            value = getattr(self, name)
            if not is_number(value):
                raise OptionError(f"`{name}` is {value!r}; expected a number of nats.")
        if self.se < 0.0:
            raise OptionError(
                f"`se` is {self.se!r}; expected a standard error, which is not negative."
            )
        wrong = [warning for warning in self.warnings if not isinstance(warning, Diagnostic)]
        if wrong:
            raise OptionError(
                f"`warnings` has {wrong[0]!r}; expected objects of "
                "pymc_tempering.estimators.diagnostic.Diagnostic."
            )
        diagnostics = dict.fromkeys((*self.warnings, *self.of_comparison))
        for name, kept in (("warnings", False), ("of_comparison", True)):
            object.__setattr__(self, name, tuple(d for d in diagnostics if d.of_comparison is kept))

    @classmethod
    def from_dynesty(cls, results: Any) -> Self:
        """Take the evidence of ``sampler.results`` of dynesty, with the error that it states.

        As those of the other programs it enters :func:`pymc_tempering.compare` beside ours. Whether
        the likelihood and the priors there are those of the model here, nobody checks.
        """
        return cls._from_elsewhere("dynesty", lambda: (results.logz[-1], results.logzerr[-1]))

    @classmethod
    def from_ultranest(cls, result: Mapping[str, Any]) -> Self:
        """Take the evidence of what ``ReactiveNestedSampler.run()`` of ultranest returns."""
        return cls._from_elsewhere("ultranest", lambda: (result["logz"], result["logzerr"]))

    @classmethod
    def from_nautilus(cls, sampler: Any) -> Self:
        """Take the evidence of a ``Sampler`` of nautilus, which has run.

        Its weights are those of importance sampling, so that the error is ``n_eff ** -0.5``.
        """
        return cls._from_elsewhere("nautilus", lambda: (sampler.log_z, sampler.n_eff**-0.5))

    @classmethod
    def from_smc(cls, idata: Any) -> Self:
        """Take the evidence of what ``pm.sample_smc`` returns, with an error from its chains.

        Each chain is a run of its own, whose last stage has its log Z; a single one has no error.

        Examples
        --------
        >>> import xarray as xr
        >>> chains = [[np.nan, -2.25], [np.nan, -2.35]]
        >>> statistics = xr.Dataset({"log_marginal_likelihood": (("chain", "stage"), chains)})
        >>> estimate = LogZEstimate.from_smc(xr.DataTree.from_dict({"sample_stats": statistics}))
        >>> round(estimate.log_z, 2), round(estimate.se, 2)
        (-2.3, 0.05)
        """

        def read() -> FloatArray:
            stages = idata["sample_stats"]["log_marginal_likelihood"].values
            # of a single chain PyMC keeps the stages alone
            chains = stages if np.ndim(stages[0]) else [stages]
            rows = [np.asarray(row, dtype=np.float64) for row in chains]
            return np.array([row[~np.isnan(row)][-1] for row in rows])

        per_chain = cls._read_elsewhere("pm.sample_smc", read)
        n = per_chain.size
        se = float(per_chain.std(ddof=1)) / n**0.5 if n > 1 else np.nan
        df = n - 1.0 if n > 1 else np.inf
        return cls(float(per_chain.mean()), se, "sample_smc", per_chain, df=df)

    @classmethod
    def _from_elsewhere(cls, program: str, read: Callable[[], tuple[Any, Any]]) -> Self:
        log_z, se = cls._read_elsewhere(program, lambda: [float(number) for number in read()])
        return cls(log_z, se, program, np.array([log_z]))

    @staticmethod
    def _read_elsewhere(program: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (AttributeError, LookupError, TypeError, ValueError, ZeroDivisionError) as error:
            raise DataError(
                f"The result holds no evidence where {program} has it ({type(error).__name__}: "
                f"{error}); expected what a finished run of it returns."
            ) from error

    @property
    def mass_missing(self) -> bool:
        """Whether a warning says that a mode may be missing: then log Z is a lower bound at best.

        The standard error knows nothing of it, and no print shows more digits than that leaves. No
        log Z is no bound.
        """
        return not np.isnan(self.log_z) and any(w.mass_missing for w in self.warnings)

    def interval(self, prob: float = 0.95) -> tuple[float, float]:
        """Return the central interval that covers log Z with probability `prob`.

        Parameters
        ----------
        prob : float, default 0.95
            Nominal coverage over repeated runs.

        Returns
        -------
        tuple of float
            Student t interval with `df` degrees of freedom, in nats; ``nan`` where `se` is.

        Raises
        ------
        OptionError
            If `prob` is not strictly between 0 and 1.

        Examples
        --------
        >>> low, high = LogZEstimate(0.0, 1.0, "pt, mbar", np.zeros(4), df=3).interval(0.95)
        >>> round(high, 3)
        3.182
        """
        check_probability("prob", prob)
        half = self.se * float(student_t.ppf(0.5 + 0.5 * prob, self.df))
        return self.log_z - half, self.log_z + half

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogZEstimate):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.log_z, self.se, self.method))

    def _key(self) -> tuple[object, ...]:
        # nan marks a missing value here, and two missing values are the same.
        numbers = (self.log_z, self.se, self.ess, self.df, self.lower, self.upper)
        return (
            *(None if number is None or np.isnan(number) else float(number) for number in numbers),
            self.method,
            tuple(map(repr, self.warnings)),
            tuple(map(repr, np.asarray(self.per_chain, dtype=float).tolist())),
            tuple((name, repr(float(value))) for name, value in sorted(self.per_method.items())),
        )

    def __repr__(self) -> str:
        warnings = [f"warning: {warning}" for warning in self.warnings]
        return "\n  ".join([self._summary(), *self._details(), *warnings])

    def _summary(self) -> str:
        n_chains = np.size(self.per_chain)
        chains = f"{n_chains} chain{'s' if n_chains != 1 else ''}"
        digits = decimals_of_error(self.se)
        if self.mass_missing:
            value = with_error(self.log_z, self.se, mass_missing=True, unit=" nats")
            return f"log Z = {value}: a mode may be missing ({self.method}, {chains})"
        if not np.isfinite(self.se):
            return (
                f"log Z = {format_nats(self.log_z, digits)}, error unknown ({self.method}, "
                f"{chains})"
            )
        value, se, low, high = (
            format_nats(number, digits) for number in (self.log_z, self.se, *self.interval())
        )
        return (
            f"log Z = {value} ± {se} nats ({self.method}, {chains}; 95 % interval [{low}, {high}])"
        )

    def _details(self) -> list[str]:
        """What is known beside the estimate: bounds, search and gradients, a line each."""
        lines = []
        if self.lower is not None or self.upper is not None:
            lines.append(self._bounds())
        if self.search is not None:
            lines.append(f"search: {self.search}")
        if self.gradients:
            parts = ", ".join(f"{n:,} for {part}" for part, n in self.gradients.items())
            lines.append(f"gradients: {sum(self.gradients.values()):,} ({parts})")
        return lines

    def _bounds(self) -> str:
        digits = decimals_of_error(self.se)
        lower, upper = (
            "unknown" if bound is None else format_nats(bound, digits)
            for bound in (self.lower, self.upper)
        )
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            return (
                f"bounds crossed: lower {lower}, upper {upper} (each holds on average, not in "
                "every run)"
            )
        return f"bounds [{lower}, {upper}]"

    def _repr_html_(self) -> str:
        warnings = "".join(f"<li>{html.escape(str(warning))}</li>" for warning in self.warnings)
        details = "".join(f"<br>{html.escape(line)}" for line in self._details())
        listed = f"<ul>{warnings}</ul>" if warnings else ""
        return f"<div><b>{html.escape(self._summary())}</b>{details}{listed}</div>"


def format_nats(value: float, digits: int) -> str:
    """Write a number of nats with some decimals, or by its power of ten where it has no end.

    Examples
    --------
    >>> format_nats(-1081.02, 1), format_nats(3.2e195, 2)
    ('-1081.0', '3.2e+195')
    """
    return f"{value:.{digits}f}" if abs(value) < 1e12 or not np.isfinite(value) else f"{value:.4g}"


def with_error(value: float, se: float, *, mass_missing: bool = False, unit: str = "") -> str:
    """Write a number of nats with its error, with as many decimals as that determines.

    Where a mode may be missing, no decimal but the first is worth anything, and the number is a
    lower bound.

    Examples
    --------
    >>> with_error(-1.23456, 0.021), with_error(-1.23456, 0.021, mass_missing=True)
    ('-1.23 ± 0.02', '-1.2 or more')
    >>> with_error(0.0, 0.0), with_error(-3.2, np.nan)
    ('0', '-3.20 ± ?')
    """
    if np.isnan(value):
        return ""
    if mass_missing:
        return f"{format_nats(value, 1)}{unit} or more"
    digits = decimals_of_error(se)
    if se == 0.0:
        return f"{value:g}{unit}"
    unknown = "?" if np.isnan(se) else f"{se:.{digits}f}"
    return f"{value:z.{digits}f} ± {unknown}{unit}"


def decimals_of_error(se: float) -> int:
    """Decimals that show the first digit of an error: between 2 and 8, 2 where it is unknown.

    Examples
    --------
    >>> decimals_of_error(0.3), decimals_of_error(0.0021)
    (2, 3)
    """
    if not np.isfinite(se) or se <= 0.0:
        return 2
    return int(np.clip(np.ceil(-np.log10(se)), 2, 8))
