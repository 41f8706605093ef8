"""Comparing models by their evidence."""

import logging
import os
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_tempering.comparison.diagnostics import diagnostics_of_comparison, mass_missing
from pymc_tempering.comparison.probabilities import model_probabilities
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.estimators.diagnostic import Diagnostic, warn_of
from pymc_tempering.estimators.result import LogZEstimate, with_error
from pymc_tempering.evidence.estimate import estimate_logz
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.evidence.stored import has_statistics
from pymc_tempering.model.identity import Identity
from pymc_tempering.options import as_numbers, check_probability, check_random_seed
from pymc_tempering.results.files import as_run
from pymc_tempering.results.identity import describe_observed, observed_digest, recorded_identity
from pymc_tempering.results.printed import PrintedTable
from pymc_tempering.types import FloatArray

__all__ = [
    "check_prior",
    "check_same_data",
    "compare",
    "data_diagnostics",
    "resolve_estimates",
    "simulate_log_z",
]

_N_ERROR_DRAWS = 4000

# where PyMC says what it samples, so that users silence both alike
_log = logging.getLogger("pymc")


class ComparisonTable(PrintedTable):
    """Table of :func:`compare`; its print has the errors beside the numbers."""

    @staticmethod
    def short(table: pd.DataFrame) -> pd.DataFrame:
        """Columns that fit 80 characters; no more digits than missing modes leave."""
        missing = mass_missing(table)
        poorly_fitted = missing | missing.iloc[0] if len(table) else missing
        intervals = zip(
            table["probability"], table["probability_low"], table["probability_high"], strict=True
        )
        factors = zip(
            table["log_bayes_factor"], table["log_bayes_factor_se"], poorly_fitted, strict=True
        )
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
    **kwargs
        Passed to :func:`pymc_tempering.estimate_logz` for models.

    Returns
    -------
    pandas.DataFrame
        Best first, one row per model. ``log_marginal_likelihood`` and ``se``; ``log_bayes_factor``
        against the best (0 for itself, negative for the others) with ``log_bayes_factor_se``;
        ``probability`` with ``probability_low`` and ``probability_high``, which carry the errors
        of log Z and are nan where one of these is; ``rank_stability``, the probability over those
        errors that the row would keep its rank; ``warning``, whether the estimate has any, and
        ``warning_codes``, which (separated by commas; explained on the page of diagnostics).
        All in nats.

        Its print shows the most important ones, in 80 columns; ``.T`` prints all.

    Raises
    ------
    DataError
        If the models were fitted to different data, or a file holds no run.
    OptionError
        If there are fewer than two models, or ``prior_probs`` does not match them.

    Warns
    -----
    TemperingWarning
        Of extremely wide priors, where they are not as wide in all models; and if likelihoods
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
    estimates = resolve_estimates(models, random_seed=random_seed, **kwargs)
    of_comparison = diagnostics_of_comparison(estimates)
    warn_of(of_comparison.values())
    warnings = {name: list(e.warnings) for name, e in estimates.items()}
    for name, diagnostic in of_comparison.items():
        warnings[name].append(diagnostic)
    return _table(estimates, warnings, prior, prob)


def resolve_estimates(
    models: Mapping[str, Any], *, random_seed: Any = None, **kwargs: Any
) -> dict[str, LogZEstimate]:
    """Estimates of models, runs and estimates of the same data; models are sampled.

    Parameters
    ----------
    models : mapping of str to Model, DataTree, LogZEstimate or path-like
    random_seed : optional
        For models.
    **kwargs
        Passed to :func:`pymc_tempering.estimate_logz` for models.

    Raises
    ------
    OptionError
        For anything else.
    DataError
        If they were fitted to different data, or a file holds no run.
    """
    models = {name: as_run(_unwrapped(model)) for name, model in models.items()}
    for name, model in models.items():
        if not isinstance(model, pm.Model | xr.DataTree | LogZEstimate):
            build = " Call its `build()` first." if callable(getattr(model, "build", None)) else ""
            raise OptionError(
                f"{name!r} is a {type(model).__name__}; expected a pymc.Model, a DataTree, a "
                f"LogZEstimate or the path of a stored run.{build}"
            )
    check_same_data(models)
    warn_of(data_diagnostics(models), outwards=1)
    if kwargs.get("resume") is not None:
        raise OptionError(
            f"`resume` is {kwargs['resume']!r}, which would be one folder for several runs. Pass "
            "estimates, each from `estimate_logz(model, resume=...)` with a path of its own."
        )
    if kwargs and not any(isinstance(model, pm.Model) for model in models.values()):
        raise OptionError(
            f"The options {sorted(kwargs)} are for sampling, and there is no model among these: "
            "runs and estimates are used as they are. Leave the options out, or pass models."
        )
    seeds = np.random.SeedSequence(_entropy(random_seed)).generate_state(len(models))
    estimates = {}
    for (name, model), seed in zip(models.items(), seeds, strict=True):
        if isinstance(model, LogZEstimate):
            estimates[name] = model
        elif isinstance(model, pm.Model):
            if not kwargs.get("quiet"):
                _log.info("Sampling the model %r", name)
            estimates[name] = estimate_logz(model, random_seed=int(seed), **kwargs)
        else:
            estimates[name] = _of_run(name, model)
    return estimates


def _unwrapped(model: Any) -> Any:
    """Give the PyMC model inside the object of a package that builds one, as bambi's."""
    inner = getattr(getattr(model, "backend", None), "model", None)
    return inner if isinstance(inner, pm.Model) else model


def _of_run(name: str, idata: xr.DataTree) -> LogZEstimate:
    try:
        # a run may have been cut down to its result
        return estimate_logz(idata) if has_statistics(idata) else stored_estimate(idata)
    except DataError as error:
        raise DataError(f"{name!r}: {error}") from error


def simulate_log_z(log_z: FloatArray, se: FloatArray, df: FloatArray) -> FloatArray:
    """Draw log Z of every model from the distribution of its error, the same draws at every call.

    Parameters
    ----------
    log_z, se, df : ndarray of shape (n_models,)
        Estimates and errors in nats, and degrees of freedom of Student's t; infinite for a normal.

    Returns
    -------
    ndarray of shape (n_draws, n_models)
        In nats; nan throughout where one error is unknown, since that leaves the probabilities of
        all models uncertain by an unknown amount.

    Examples
    --------
    >>> draws = simulate_log_z(np.array([-4.0, -5.0]), np.array([0.1, 0.2]), np.full(2, np.inf))
    >>> draws.std(axis=0).round(1).tolist()
    [0.1, 0.2]
    """
    # fixed: what is made of it is a function of the estimates
    rng = np.random.default_rng(20160101)
    errors = rng.standard_normal((_N_ERROR_DRAWS, len(log_z)))
    finite_df = np.where(np.isfinite(df), df, 1e9)
    errors /= np.sqrt(rng.chisquare(finite_df, errors.shape) / finite_df)
    return log_z + (se if np.isfinite(se).all() else np.nan) * errors


def _table(
    estimates: dict[str, LogZEstimate],
    warnings: dict[str, list[Diagnostic]],
    prior: FloatArray,
    prob: float,
) -> pd.DataFrame:
    names = list(estimates)
    log_z = np.array([e.log_z for e in estimates.values()])
    se = np.array([e.se for e in estimates.values()])
    df = np.array([e.df for e in estimates.values()])
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


def check_prior(prior_probs: Mapping[str, float] | None, names: list[str]) -> FloatArray:
    """Prior probabilities of the named models in their order, scaled to sum to one.

    Raises
    ------
    OptionError
        If names do not match, or a probability is negative or not a number.
    """
    if prior_probs is None:
        return np.full(len(names), 1.0 / len(names))
    if not isinstance(prior_probs, Mapping):
        raise OptionError(
            f"`prior_probs` is a {type(prior_probs).__name__}; expected a mapping of the names "
            f"{sorted(map(str, names))} to probabilities."
        )
    if set(prior_probs) != set(names):
        raise OptionError(
            f"`prior_probs` has the names {sorted(map(str, prior_probs))}, the models are "
            f"{sorted(map(str, names))}; "
            "give each model one probability."
        )
    values = as_numbers("prior_probs", [prior_probs[name] for name in names])
    if not np.isfinite(values).all() or values.ndim != 1 or (values < 0).any() or values.sum() <= 0:
        raise OptionError(f"`prior_probs` are {values.tolist()}; expected non-negative numbers.")
    return values / values.sum()


def check_same_data(models: Mapping[str, Any]) -> None:
    """Refuse models, runs and estimates of different data.

    Raises
    ------
    DataError
        Naming the groups that share theirs.
    """
    digests = {name: observed_digest(model) for name, model in models.items()}
    known = {name: digest for name, digest in digests.items() if digest is not None}
    if len(set(known.values())) > 1:
        groups: dict[str, list[str]] = {}
        for name, digest in known.items():
            groups.setdefault(digest, []).append(name)
        listed = "; ".join(
            f"{' and '.join(map(repr, names))} {describe_observed(models[names[0]])}"
            for names in groups.values()
        )
        raise DataError(
            f"The models were fitted to different data: {listed}. Evidences of different data "
            "cannot be compared; fit all models to the same observations."
        )


def data_diagnostics(models: Mapping[str, Any]) -> list[Diagnostic]:
    """Say of which models nobody can tell whether their data are the same.

    A potential may hold data or none. Where those of all models are the same, so are the data.

    Parameters
    ----------
    models : mapping of str to Model, DataTree or LogZEstimate
    """
    potentials: dict[str, dict[str, str]] = {}
    for name, model in models.items():
        identity = Identity.of(model) if isinstance(model, pm.Model) else recorded_identity(model)
        if identity is not None and observed_digest(model) is None:
            potentials[name] = identity.potentials
    alike = [each for each in potentials.values() if each]
    if not alike or (len(alike) == len(models) and all(each == alike[0] for each in alike)):
        return []
    named = [name for name, each in potentials.items() if each]
    diagnostic = Diagnostic(
        "data_not_compared",
        f"the likelihoods of {named} are potentials, which do not say what in them is data, so "
        "that it cannot be checked that all models are of the same data.",
        "Make sure that they are; evidences of different data have nothing to do with one another.",
        {"models": named},
    )
    return [diagnostic]


def _entropy(random_seed: Any) -> int | None:
    if random_seed is None or isinstance(random_seed, int | np.integer):
        return None if random_seed is None else int(random_seed)
    return int(np.random.default_rng(random_seed).integers(2**62))
