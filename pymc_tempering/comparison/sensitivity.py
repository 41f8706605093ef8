"""How much the evidence depends on the priors: reweighted from one run, without new sampling."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_tempering.comparison.table import PrintedTable
from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.diagnostic import Diagnostic, warn_of
from pymc_tempering.estimators.result import with_error
from pymc_tempering.evidence.checks.few_draws import MIN_ESS
from pymc_tempering.evidence.reweighted import (
    MIN_WEIGHTS,
    Change,
    Row,
    evaluate_changes,
    from_draws,
    from_ladder,
    original_of,
)
from pymc_tempering.model.scaled_prior import scalable_names
from pymc_tempering.options import resolve_model
from pymc_tempering.references.importance import FINITE_VARIANCE
from pymc_tempering.steps.executors import check_executor

type Factors = Sequence[float]
type Names = str | tuple[str, ...]


class SensitivityTable(PrintedTable):
    """Table of :func:`prior_sensitivity`; its print has the errors beside the numbers."""

    @staticmethod
    def short(table: pd.DataFrame) -> pd.DataFrame:
        """Columns that fit 80 characters."""
        changes = zip(table["change"], table["name"], table["value"], strict=True)
        labels = [
            {
                "original": "original",
                "prior scale": f"{name} * {value:g}",
                "likelihood power": f"{name} ** {value:g}",
            }.get(kind, name)
            for kind, name, value in changes
        ]
        return pd.DataFrame(
            {
                "log Z": list(map(with_error, table["log_z"], table["se"])),
                "log BF": [
                    *map(with_error, table["log_bayes_factor"], table["log_bayes_factor_se"])
                ],
                "warning": list(table["warning"]),
            },
            index=labels,
        )


def prior_sensitivity(
    idata: Any,
    model: pm.Model | None = None,
    *,
    prior_scale: Mapping[Names, Factors] | Factors | None = None,
    likelihood_power: Factors | None = None,
    alternatives: Mapping[str, pm.Model] | None = None,
    executor: Any = None,
) -> pd.DataFrame:
    r"""Evidence under other priors or likelihood powers, from the draws of one run.

    Nothing is sampled. With draws x of the posterior (Geyer & Thompson 1992, JRSS B 54, 657)

    .. math:: \log Z' - \log Z = \log \mathrm{E}\left[\frac{p'(x)}{p(x)}\right], \qquad
              \log Z_a - \log Z = \log \mathrm{E}\left[L(x)^{a - 1}\right]

    for a prior p' instead of p, and for the likelihood L raised to the power a. The weights tell
    how large a change the draws support: columns ``weight_ess_share`` and ``pareto_k``.

    Parameters
    ----------
    idata : DataTree or LogZEstimate
        A run of the model, from a file too; of an estimate, its ``idata``. Draws of any sampler
        give Bayes factors against the model; log Z itself needs a tempered run.
    model : pymc.Model, optional
        The model that was sampled. Default: that of the context.
    prior_scale : mapping or sequence of float, optional
        Factors by variable, as in ``{"tau": (0.5, 2)}``; a tuple of names is scaled together:
        ``{("alpha", "beta"): (0.5, 2)}``. A sequence alone scales, each by itself, all variables
        whose prior depends on no other variable. The scaled prior of n entries about its location m
        (zero for positive variables) is :math:`p_s(x) = s^{-n} p(m + (x - m) / s)`: the same family
        with its scale parameter times s. For priors on a bounded range use `alternatives`.
    likelihood_power : sequence of float, optional
        Positive powers a of the likelihood, which is all observed terms and potentials, as in
        ``pm.sample_smc``. :math:`Z_a` is the normaliser of prior times :math:`L^a`; it is no
        probability of data unless a is 1.
    alternatives : mapping of str to pymc.Model, optional
        Models with the same free variables and data; priors and likelihoods may differ.
    executor : int or executor, optional
        Where alternatives are evaluated, each a task, as for :func:`pymc_tempering.sample`.

    Without any change: scales 0.5 and 2, and powers 0.8 and 1.25.

    Returns
    -------
    pandas.DataFrame
        The model first (``change`` is "original"), then one row for each change. ``change``,
        ``name`` and ``value`` (factor or power, nan for alternatives); ``log_z`` with ``se``, nan
        where the run has no evidence; ``log_bayes_factor`` of the changed model against the
        original with its own error ``log_bayes_factor_se``, smaller than `se` as both share their
        draws; ``weight_ess_share``, effective weights as a share of the draws; ``pareto_k`` of the
        weights; ``source``, "draws" or "ladder"; ``warning``, the code of what speaks against the
        row, or empty. All in nats. Errors are of autocorrelated draws and of chains that differ.
        Its print shows the most important ones, in 80 columns; ``.T`` prints all.

    Raises
    ------
    DataError
        If the run is not one of the model, or an alternative has other data or variables.
    ModelError
        If a prior has no scale that can be multiplied; the message says why.
    OptionError
        If a name is no free variable, or a factor or power is not a positive number.
    WorkerError
        If the worker of an alternative was lost, twice.

    Warns
    -----
    TemperingWarning
        Once for each kind of diagnostic, naming the rows.

    Notes
    -----
    A run of parallel tempering whose base is the prior records the log likelihood at all levels:
    :math:`\delta = \log L`. This is recognised by comparing its last delta with the log likelihood
    of every draw. Powers then use all tempered states (source "ladder"), and those between 0 and
    1 are as good as log Z itself.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    >>> draws = np.random.default_rng(1).normal(0.8, 0.2**0.5, (4, 1000))
    >>> run = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), draws)})})
    >>> table = prior_sensitivity(run, model, prior_scale={"x": (0.5, 2.0)})
    >>> table["log_bayes_factor"].round(1).tolist()
    [0.0, -0.1, -0.3]
    """
    tree = idata if isinstance(idata, xr.DataTree) else getattr(idata, "idata", None)
    if not isinstance(tree, xr.DataTree):
        raise OptionError(
            f"prior_sensitivity was given a {type(idata).__name__} without a run; expected a "
            "DataTree or a LogZEstimate that has its `idata`."
        )
    model = resolve_model(model, "prior_sensitivity")
    changes = _changes(model, prior_scale, likelihood_power, alternatives)
    check_executor(executor)
    weights, log_likelihood = evaluate_changes(tree, model, changes, executor)
    original = original_of(tree)
    rows: list[tuple[Any, ...]] = [
        ("original", "", 1.0, original.log_z, original.se, 0.0, 0.0, 1.0, -np.inf, "draws", "")
    ]
    powers = [change.value for change in changes if change.kind == "likelihood power"]
    by_ladder = from_ladder(tree, powers, log_likelihood) if powers else None
    ladder = dict(zip(powers, by_ladder or (), strict=False))
    for change, log_weights, diagnostic in weights:
        row = ladder.get(change.value) if change.kind == "likelihood power" else None
        row = row or from_draws(original, log_weights)
        rows.append((change.kind, change.name, change.value, *row[:-1], diagnostic or row.warning))
    table = SensitivityTable(rows, columns=["change", "name", "value", *Row._fields])
    warn_of(_diagnostics(table))
    return table


_DOUBTS = (
    Diagnostic(
        "weights_collapse",
        "few draws of the run lie where the posterior is after {}: Pareto k is too high, or "
        f"effectively fewer than {MIN_WEIGHTS:.0f} weights are left. These log Z cannot be "
        "trusted, nor can their errors.",
        "Sample the changed model instead, or change less.",
    ),
    Diagnostic(
        "heavy_tailed_weights",
        f"after {{}} Pareto k is above {FINITE_VARIANCE}, where weights have no variance, so the "
        "error may be too small.",
        "Raise `draws` of the run, change less, or sample the changed model.",
    ),
    Diagnostic(
        "too_few_effective_draws",
        f"log Z after {{}} rests on fewer than {MIN_ESS:.0f} independent weights, and its error "
        "is uncertain.",
        "Raise `draws` of the run, or change less.",
    ),
    Diagnostic(
        "prior_mass_out_of_reach",
        "{} has prior mass where the model of the run has none. No draw shows what it is worth, "
        "so log Z may be too low.",
        "Sample the alternative instead.",
    ),
)
"""What a code in the column ``warning`` stands for, with a place for the rows that have it."""


def _diagnostics(table: pd.DataFrame) -> Iterator[Diagnostic]:
    """One for each code in the column ``warning``."""
    for doubt in _DOUBTS:
        part = table[table["warning"] == doubt.code]
        if part.empty:
            continue
        labels = list(map(_label, part["change"], part["name"], part["value"]))
        numbers = {name: part[name].tolist() for name in ("pareto_k", "weight_ess_share")}
        text = doubt.text.format(", ".join(labels))
        yield replace(doubt, text=text, measured={"rows": labels} | numbers)


def _changes(
    model: pm.Model,
    prior_scale: Mapping[Names, Factors] | Factors | None,
    likelihood_power: Factors | None,
    alternatives: Mapping[str, pm.Model] | None,
) -> list[Change]:
    if prior_scale is None and likelihood_power is None and alternatives is None:
        prior_scale = (0.5, 2.0)
        likelihood_power = (0.8, 1.25) if model.observed_RVs or model.potentials else ()
    by_name: Mapping[Names, Factors]
    if prior_scale is None:
        by_name = {}
    elif isinstance(prior_scale, Mapping):
        by_name = prior_scale
    else:
        by_name = dict.fromkeys(scalable_names(model), prior_scale)
        if not by_name:
            raise OptionError(
                "The model has no prior that can be scaled by itself. Name the variables in "
                "`prior_scale`, or pass models with other priors as `alternatives`."
            )
    changes: list[Change] = []
    for names, factors in by_name.items():
        named = isinstance(names, str | tuple) and all(isinstance(name, str) for name in names)
        if not named:
            raise OptionError(
                f"`prior_scale` has the key {names!r}; expected the name of a variable, or a tuple "
                "of names that are scaled together."
            )
        group = (names,) if isinstance(names, str) else names
        changes += [
            Change("prior scale", ", ".join(group), value, names=group)
            for value in _positive("prior_scale", factors)
        ]
    changes += [
        Change("likelihood power", "likelihood", value)
        for value in _positive("likelihood_power", likelihood_power or ())
    ]
    if not isinstance(alternatives, Mapping | None):
        raise OptionError(
            f"`alternatives` is a {type(alternatives).__name__}; expected a mapping of names to "
            'models, as in {"wide": wide_model}.'
        )
    for name, other in (alternatives or {}).items():
        if not isinstance(other, pm.Model):
            raise OptionError(
                f"The alternative {name!r} is a {type(other).__name__}; expected a pymc.Model with "
                "the same free variables."
            )
        changes.append(Change("alternative", str(name), model=other))
    return changes


def _positive(option: str, values: Any) -> list[float]:
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if array.ndim != 1 or not (np.isfinite(array) & (array > 0.0)).all():
        raise OptionError(f"`{option}` has {values!r}; expected positive numbers.")
    return [float(value) for value in array]


def _label(kind: str, name: str, value: float) -> str:
    if np.isnan(value):
        return f"{kind} {name!r}"
    return f"{kind} {value:g}" if kind == "likelihood power" else f"{kind} of {name} {value:g}"
