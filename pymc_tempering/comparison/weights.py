"""Weights of models for an average: from a comparison or from estimates, errors carried."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pymc_tempering.comparison.probabilities import model_probabilities
from pymc_tempering.comparison.table import check_prior, simulate_log_z
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.evidence.reading import evidence_of

__all__ = ["evidence_table", "model_weights"]

_TABLE = ("log_marginal_likelihood", "se", "log_bayes_factor", "probability", "warning")


def evidence_table(
    comparison: Any, names: list[str], prior_probs: Mapping[str, float] | None
) -> pd.DataFrame:
    """Evidence of each model, from a table or from estimates.

    Parameters
    ----------
    comparison : DataFrame or mapping
        Table of :func:`pymc_tempering.compare`, or names to estimates or runs.
    names : list of str
        The models there must be, no more and no fewer.
    prior_probs : mapping of str to float or None
        Not together with a table, whose probabilities tell its own.

    Returns
    -------
    pandas.DataFrame
        In the order of `names`: ``log_z`` and ``se`` in nats, ``df``, ``prior``, ``warning``.

    Raises
    ------
    OptionError
        If the names do not match, or the table is another one.
    DataError
        If a run has no evidence.
    """
    if not isinstance(comparison, pd.DataFrame | Mapping):
        raise OptionError(
            f"`comparison` is a {type(comparison).__name__}; expected the table of `compare`, or a "
            "mapping of names to estimates or runs."
        )
    given = [
        str(n) for n in (comparison.index if isinstance(comparison, pd.DataFrame) else comparison)
    ]
    if sorted(given) != sorted(names):
        raise OptionError(
            f"The comparison has the models {sorted(given)}, the runs are {sorted(names)}; "
            "probabilities hold for one set of models. Compare those that are to be averaged."
        )
    if isinstance(comparison, pd.DataFrame):
        if prior_probs is not None:
            raise OptionError(
                "`prior_probs` are part of a table of `compare`; give them there, or pass "
                "estimates."
            )
        return _from_table(comparison).loc[names]
    estimates = evidence_of({str(name): value for name, value in comparison.items()})
    prior = check_prior(prior_probs, names)
    rows = [
        (e.log_z, e.se, e.df, p, bool(e.warnings))
        for e, p in zip((estimates[name] for name in names), prior, strict=True)
    ]
    return pd.DataFrame(
        rows, index=pd.Index(names, name="model"), columns=["log_z", "se", "df", "prior", "warning"]
    )


def _from_table(table: pd.DataFrame) -> pd.DataFrame:
    missing = [name for name in _TABLE if name not in table.columns]
    if missing:
        raise OptionError(
            f"The table lacks the columns {missing}; expected one that `pymc_tempering.compare` "
            "returned. (Weights of `arviz.compare` are no probabilities of models: "
            "`arviz.weight_predictions` mixes by those.)"
        )
    log_z = table["log_marginal_likelihood"].to_numpy(dtype=np.float64)
    with np.errstate(divide="ignore"):
        log_prior = np.log(table["probability"].to_numpy(dtype=np.float64)) - log_z
    prior = np.exp(log_prior - np.max(log_prior, initial=-np.inf))
    return pd.DataFrame(
        {
            "log_z": log_z,
            "se": table["se"].to_numpy(dtype=np.float64),
            "df": np.inf,
            "prior": prior / prior.sum(),
            "warning": table["warning"].to_numpy(dtype=bool),
        },
        index=pd.Index([str(name) for name in table.index], name="model"),
    )


def model_weights(evidence: pd.DataFrame, carry_error: bool) -> pd.DataFrame:
    """Posterior probability of each model, and its average over the errors of log Z.

    Parameters
    ----------
    evidence : DataFrame
        Of :func:`evidence_table`.
    carry_error : bool
        Whether ``weight`` is that average, or the same as ``probability``.

    Returns
    -------
    pandas.DataFrame
        ``weight``, ``probability``, ``prior_probability``, ``log_marginal_likelihood``, ``se``.

    Raises
    ------
    DataError
        If a log Z is not finite.
    OptionError
        If an error that is to be carried is unknown.

    Examples
    --------
    >>> rows = [(-10.0, 2.0, np.inf, 0.5, False), (-12.0, 2.0, np.inf, 0.5, False)]
    >>> evidence = pd.DataFrame(rows, columns=["log_z", "se", "df", "prior", "warning"])
    >>> model_weights(evidence, True)[["weight", "probability"]].round(1).values.tolist()
    [[0.7, 0.9], [0.3, 0.1]]
    """
    log_z, se, df, prior = (
        evidence[name].to_numpy(dtype=np.float64) for name in ("log_z", "se", "df", "prior")
    )
    unknown = evidence.index[~np.isfinite(log_z)].tolist()
    if unknown:
        raise DataError(
            f"log Z of {unknown} is not finite, so no model has a probability. Look at their "
            "warnings, and leave them out or sample them again."
        )
    probability = weight = model_probabilities(log_z, prior)
    if carry_error:
        without = evidence.index[~np.isfinite(se)].tolist()
        if without:
            raise OptionError(
                f"log Z of {without} has no error, so none can be carried. Sample for longer, or "
                "pass carry_error=False to take the estimates for exact."
            )
        weight = model_probabilities(simulate_log_z(log_z, se, df), prior).mean(axis=0)
    return pd.DataFrame(
        {
            "weight": weight,
            "probability": probability,
            "prior_probability": prior,
            "log_marginal_likelihood": log_z,
            "se": se,
        },
        index=evidence.index,
    )
