"""Comparing models by their evidence."""

import os
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_tempering.comparison.estimates import diagnostics_of_comparison, resolve_estimates
from pymc_tempering.comparison.probabilities import check_prior, model_probabilities, simulate_log_z
from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.diagnostic import Diagnostic, kinds, warn_of
from pymc_tempering.estimators.result import LogZEstimate, with_error
from pymc_tempering.options import check_probability, check_random_seed
from pymc_tempering.types import FloatArray


class PrintedTable(pd.DataFrame):
    """A data frame whose print has short columns, made from its own, and fits 80 characters.

    What is selected or computed from it is a plain data frame again.
    """

    @staticmethod
    def short(table: pd.DataFrame) -> pd.DataFrame:
        """Make the columns to print."""
        return pd.DataFrame(table)

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        table = type(self).short(self)
        names = [str(name) for name in table.index]
        longest = max(map(len, names), default=0)
        width = len(table.to_string().split("\n", 1)[0])
        most = max(8, longest + 80 - width)
        table.index = pd.Index([n if len(n) <= most else f"{n[: most - 1]}…" for n in names])
        return table.to_string()


class ComparisonTable(PrintedTable):
    """Table of :func:`compare`; its print has the errors beside the numbers."""

    @staticmethod
    def short(table: pd.DataFrame) -> pd.DataFrame:
        """Columns that fit 80 characters; no more digits than missing modes leave."""
        missing = mass_missing(table)
        unknown = missing | missing.iloc[0] if len(table) else missing
        columns = ("probability", "probability_low", "probability_high")
        intervals = zip(*(table[name] for name in columns), strict=True)
        factors = zip(table["log_bayes_factor"], table["log_bayes_factor_se"], unknown, strict=True)
        return pd.DataFrame(
            {
                "log Z": [
                    with_error(z, se, mass_missing=lacks)
                    for z, se, lacks in zip(
                        table["log_marginal_likelihood"], table["se"], missing, strict=True
                    )
                ],
                "log Bayes factor": [
                    f"{b:.1f} ± ?" if lacks and b != 0.0 else with_error(b, se)
                    for b, se, lacks in factors
                ],
                "probability": [
                    "unknown" if missing.any() else f"{p:.2f} [{low:.2f}, {high:.2f}]"
                    for p, low, high in intervals
                ],
                "warning": ["yes" if warning else "" for warning in table["warning"]],
            },
            index=table.index.rename(None),
        )

    def __repr__(self) -> str:
        """Add what the warnings are, below the numbers."""
        lines = [super().__repr__()]
        for name, codes in self["warning_codes"].items():
            if codes:
                lines += textwrap.wrap(f"{name}: {codes}", 80, subsequent_indent="  ")
        return "\n".join(lines)


def compare(
    models: Mapping[str, pm.Model | xr.DataTree | LogZEstimate | str | os.PathLike[str]],
    prior_probs: Mapping[str, float] | None = None,
    *,
    prob: float = 0.95,
    random_seed: Any = None,
    executor: Any = None,
    **kwargs: Any,
) -> pd.DataFrame:
    """Rank models by their log marginal likelihood.

    Parameters
    ----------
    models : mapping of str to Model, DataTree, LogZEstimate or path-like
        At least two. Models are sampled; runs, also in files (netCDF or zarr), and estimates are
        used as they are. A model may also be the object of a package that builds PyMC models and
        keeps its own at ``.backend.model``, as bambi does after ``build()``.
    prior_probs : mapping of str to float, optional
        Prior probability of each model; equal by default. Scaled to sum to one.
    prob : float
        Coverage of the intervals of model probabilities, default 0.95.
    random_seed : optional
        For models that have to be sampled.
    executor : int or executor, optional
        Where models are sampled, each a task with all its chains, as for
        :func:`pymc_tempering.sample`. Of one model alone it is the chains that are tasks.
    **kwargs
        Passed to :func:`pymc_tempering.estimate_logz` for models.

    Returns
    -------
    pandas.DataFrame
        Best first, one row per model, in nats. ``log_marginal_likelihood`` and ``se``;
        ``log_bayes_factor`` against the best (0 for itself) with ``log_bayes_factor_se``;
        ``probability`` with ``probability_low`` and ``probability_high``, which carry the errors of
        log Z and are nan where one of these is; ``rank_stability``, the probability that the row
        keeps its rank under these errors; ``warning``, whether the estimate has any, and
        ``warning_codes``, separated by commas. Its print shows the most important columns in 80
        characters; ``.T`` prints all. A model whose worker was lost twice, or that Ctrl-C left
        undone, has nan for log Z; the others keep theirs.

    Raises
    ------
    DataError
        If the models were fitted to different data, or a file holds no run.
    OptionError
        If there are fewer than two models, or ``prior_probs`` does not match them.
    Exception
        Where all models raise: the first, with a note that names its model.
    WorkerError
        If the workers of all models were lost, twice.
    KeyboardInterrupt
        After Ctrl-C before any model was done.

    Warns
    -----
    TemperingWarning
        Of everything that speaks against an estimate of a model that was sampled; of models without
        one; of extremely wide priors, where they are not as wide in all models; and if likelihoods
        are potentials, of which it cannot be told whether the data are the same.

    Examples
    --------
    >>> a = LogZEstimate(-10.0, 0.1, "pt, mbar", np.full(4, -10.0))
    >>> b = LogZEstimate(-12.0, 0.1, "pt, mbar", np.full(4, -12.0))
    >>> table = compare({"a": a, "b": b})
    >>> table.index.tolist(), table["probability"].round(2).tolist()
    (['a', 'b'], [0.88, 0.12])
    """
    # a DataTree is a mapping too
    if not isinstance(models, Mapping) or isinstance(models, xr.DataTree) or len(models) < 2:
        raise OptionError(
            "compare needs a mapping of at least two names to models, runs or estimates, for "
            'instance compare({"linear": linear, "quadratic": quadratic}).'
        )
    check_probability("prob", prob)
    check_random_seed(random_seed)
    prior = check_prior(prior_probs, list(models))
    estimates = resolve_estimates(models, random_seed=random_seed, executor=executor, **kwargs)
    of_comparison = diagnostics_of_comparison(estimates)
    warn_of(of_comparison.values())
    warnings = {name: list(e.warnings) for name, e in estimates.items()}
    for name, diagnostic in of_comparison.items():
        warnings[name].append(diagnostic)
    return _table(estimates, warnings, prior, prob)


def _table(
    estimates: dict[str, LogZEstimate],
    warnings: dict[str, list[Diagnostic]],
    prior: FloatArray,
    prob: float,
) -> pd.DataFrame:
    names = list(estimates)
    log_z, se, df = np.array([(e.log_z, e.se, e.df) for e in estimates.values()]).T
    order = np.argsort(-np.where(np.isfinite(log_z), log_z, -np.inf), kind="stable")
    simulated = simulate_log_z(log_z, se, df)
    tail = 0.5 * (1.0 - prob)
    low, high = np.quantile(model_probabilities(simulated, prior), [tail, 1.0 - tail], axis=0)
    ranks = np.argsort(np.argsort(-simulated, axis=1), axis=1)
    stability = (ranks == np.argsort(order)).mean(axis=0)
    best = order[0]
    table = pd.DataFrame(
        {
            "rank": np.argsort(order),
            "log_marginal_likelihood": log_z,
            "se": se,
            "log_bayes_factor": log_z - log_z[best],
            "log_bayes_factor_se": np.where(
                np.arange(len(names)) == best, 0.0, np.hypot(se, se[best])
            ),
            "probability": model_probabilities(log_z, prior),
            "probability_low": low,
            "probability_high": high,
            "rank_stability": np.where(np.isfinite(simulated).all(), stability, np.nan),
            "warning": [bool(diagnostics) for diagnostics in warnings.values()],
            "warning_codes": [
                ", ".join(dict.fromkeys(diagnostic.code for diagnostic in diagnostics))
                for diagnostics in warnings.values()
            ],
        },
        index=pd.Index(names, name="model"),
    )
    return ComparisonTable(table.iloc[order])


def mass_missing(table: pd.DataFrame) -> "pd.Series[bool]":
    """Which rows of a comparison have warnings that a mode may be missing."""
    return table["warning_codes"].map(
        lambda codes: any(c in kinds() and kinds()[c].mass_missing for c in codes.split(", "))
    )
