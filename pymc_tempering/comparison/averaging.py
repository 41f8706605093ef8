"""Bayesian model averaging: draws of several models mixed by posterior model probability."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_tempering.comparison.estimates import check_same_data, data_diagnostics
from pymc_tempering.comparison.probabilities import check_prior, model_probabilities, simulate_log_z
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.estimators.diagnostic import Diagnostic, warn_of
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.reading import evidence_of
from pymc_tempering.numerics import systematic_indices
from pymc_tempering.options import check_flag, check_random_seed, check_whole
from pymc_tempering.results.identity import check_one_model

# columns of the table of `compare` that weights are made from
_TABLE = ("log_marginal_likelihood", "se", "log_bayes_factor", "probability", "warning")


def average(
    models: Mapping[str, xr.DataTree | LogZEstimate],
    comparison: pd.DataFrame | Mapping[str, Any] | None = None,
    *,
    prior_probs: Mapping[str, float] | None = None,
    group: str = "posterior_predictive",
    var_names: str | Sequence[str] | None = None,
    num_samples: int | None = None,
    carry_error: bool = True,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataTree:
    r"""Mix the draws of several models by posterior model probability.

    The averaged density of a quantity x that all models have is (Hoeting et al. 1999,
    Statistical Science 14, 382, eq. 1)

    .. math:: p(x \mid y) = \sum_k p(M_k \mid y)\, p(x \mid y, M_k),
              \quad p(M_k \mid y) \propto p(M_k) Z_k .

    Nothing is sampled: runs that were read from files will do.

    Parameters
    ----------
    models : mapping of str to DataTree or LogZEstimate
        At least two runs that have the group; of an estimate, its ``idata``.
    comparison : DataFrame or mapping, optional
        Table of :func:`pymc_tempering.compare`, or estimates (or runs) by name. Default: the
        evidence that `models` carry. Errors of a table count as normal, those of estimates as
        Student's.
    prior_probs : mapping of str to float, optional
        Prior probability of each model; equal by default. Not together with a table.
    group : str, default "posterior_predictive"
        Group whose draws are mixed; any group with chains and draws, such as "posterior" for a
        parameter that all models have, or "predictions".
    var_names : str or sequence of str, optional
        Default: all variables that are in the group of every model.
    num_samples : int, optional
        Draws of the mixture; by default as many as the model with fewest has, so that no draw is
        repeated.
    carry_error : bool, default True
        Average the probabilities over the errors of log Z, so that the mixture is wider where
        these are large. With False the weights are the column ``probability`` of the table.
    random_seed : int or numpy.random.Generator, optional
        Of the choice of draws and of their order.

    Returns
    -------
    xarray.DataTree
        The group, with one chain and a coordinate ``model`` that names the model of each draw;
        ``model_weights`` with ``weight``, ``probability``, ``n_draws``, ``prior_probability``,
        ``log_marginal_likelihood`` and ``se`` of each model; and ``observed_data``. Each model has
        its share of draws to within one (systematic sampling), evenly spaced over its chains. The
        draws are in random order, so that any part of them is a mixture too.

    Raises
    ------
    DataError
        If the models are of different data, or draws and evidence of different models; if runs
        lack the group or the variables, or these differ in dimensions, sizes or coordinates; if an
        evidence is missing or not finite.
    OptionError
        If an argument is not one of those above, or an error that is to be carried is unknown.

    Warns
    -----
    TemperingWarning
        If an estimate that decides the weights has warnings, or likelihoods are potentials.

    Examples
    --------
    >>> def run(value):
    ...     draws = xr.Dataset({"y": (("chain", "draw"), np.full((2, 50), value))})
    ...     return xr.DataTree.from_dict({"posterior_predictive": draws})
    >>> a = LogZEstimate(-10.0, 0.1, "pt, mbar", np.full(4, -10.0))
    >>> b = LogZEstimate(-12.0, 0.1, "pt, mbar", np.full(4, -12.0))
    >>> mixture = average({"a": run(0.0), "b": run(1.0)}, {"a": a, "b": b}, random_seed=1)
    >>> mixture["model_weights"]["n_draws"].values.tolist()
    [88, 12]
    >>> float(mixture["posterior_predictive"]["y"].mean())
    0.12
    """
    runs = _check_runs(models, group)
    check_flag("carry_error", carry_error)
    check_random_seed(random_seed)
    names = list(runs)
    check_same_data(runs)
    warn_of(data_diagnostics(runs))
    if isinstance(comparison, Mapping):
        _check_estimates(runs, comparison)
    evidence = _evidence(models if comparison is None else comparison, names, prior_probs)
    table = model_weights(evidence, carry_error)
    variables = _common_variables(runs, group, var_names)
    sizes = [run[group].dataset.sizes for run in runs.values()]
    available = min(size["chain"] * size["draw"] for size in sizes)
    n = available if num_samples is None else check_whole("num_samples", num_samples, 1)
    rng = np.random.default_rng(random_seed)
    chosen = systematic_indices(table["weight"].to_numpy(), n, rng)
    table["n_draws"] = np.bincount(chosen, minlength=len(names))
    parts = [
        _evenly(run[group].to_dataset()[variables], int(count), rng)
        for run, count in zip(runs.values(), table["n_draws"], strict=True)
        if count > 0
    ]
    order = rng.permutation(n)
    mixture = xr.concat(
        parts, dim="draw", combine_attrs="drop_conflicts", join="override", coords="minimal",
        compat="override",
    ).isel(draw=order)  # fmt: skip
    origin = np.repeat(np.array(names, dtype=object), table["n_draws"])[order]
    mixture = mixture.expand_dims(chain=[0]).transpose("chain", "draw", ...)
    mixture = mixture.assign_coords(
        draw=np.arange(n), model=(("chain", "draw"), origin[None].astype(str))
    )
    groups = {group: mixture, "model_weights": xr.Dataset.from_dataframe(table)}
    for run in runs.values():
        if "observed_data" in run.children:
            groups["observed_data"] = run["observed_data"].to_dataset()
            break
    doubtful = evidence.index[evidence["warning"]].tolist()
    if doubtful:
        diagnostic = Diagnostic(
            "doubtful_evidence",
            f"the estimates of {doubtful} have warnings, and all weights depend on them.",
            "Read `estimate.warnings`, or the group `tempering` of the run.",
            {"models": doubtful},
        )
        warn_of([diagnostic])
    return xr.DataTree.from_dict(groups)


def _check_runs(models: Any, group: str) -> dict[str, xr.DataTree]:
    # a DataTree is a mapping too
    if not isinstance(models, Mapping) or isinstance(models, xr.DataTree) or len(models) < 2:
        raise OptionError(
            "average needs a mapping of at least two names to runs, for instance "
            'average({"linear": run_1, "quadratic": run_2}, compare(...)).'
        )
    runs = {}
    for name, model in models.items():
        run = model.idata if isinstance(model, LogZEstimate) else model
        if not isinstance(run, xr.DataTree):
            what = "has no `idata`" if isinstance(model, LogZEstimate) else "is no DataTree"
            raise OptionError(
                f"{name!r} is a {type(model).__name__} and {what}; expected the DataTree that "
                f"holds the draws of `{group}`."
            )
        runs[str(name)] = run
    for name, run in runs.items():
        if group not in run.children or not {"chain", "draw"} <= set(run[group].dataset.sizes):
            remedy = (
                " Add it with `pm.sample_posterior_predictive(run, model=model, "
                "extend_inferencedata=True)`, or pass another group, for instance "
                '`group="posterior"` for a quantity that all models have under one name.'
                if group == "posterior_predictive" else ""
            )  # fmt: skip
            raise DataError(
                f"{name!r} has no group `{group}` with chains and draws; it has "
                f"{sorted(map(str, run.children))}.{remedy}"
            )
    return runs


def _check_estimates(runs: dict[str, xr.DataTree], comparison: Mapping[str, Any]) -> None:
    """Refuse evidences that were stored with other models than the draws that they are to weigh."""
    for name in set(runs) & set(comparison):
        check_one_model(
            {f"the run {name!r}": runs[name], f"the evidence {name!r}": comparison[name]},
            "Draws and evidence are of different models",
            "Pass the evidence of the model that the draws are of.",
        )


def _common_variables(
    runs: dict[str, xr.DataTree], group: str, var_names: str | Sequence[str] | None
) -> list[str]:
    datasets = {name: run[group].dataset for name, run in runs.items()}
    first_name, first = next(iter(datasets.items()))
    if var_names is None:
        chosen = [
            str(variable)
            for variable in first.data_vars
            if all(variable in dataset.data_vars for dataset in datasets.values())
        ]
        if not chosen:
            have = {name: sorted(map(str, d.data_vars)) for name, d in datasets.items()}
            raise DataError(
                f"No variable of `{group}` is common to all models, which have {have}. Give what "
                "is to be averaged one name, as with `dataset.rename`."
            )
    else:
        chosen = [var_names] if isinstance(var_names, str) else list(var_names)
        for name, dataset in datasets.items():
            missing = [variable for variable in chosen if variable not in dataset.data_vars]
            if missing or not chosen:
                raise DataError(
                    f"`{group}` of {name!r} lacks the variables {missing}; it has "
                    f"{sorted(map(str, dataset.data_vars))}."
                )
    for variable in chosen:
        expected = first[variable].isel(chain=0, draw=0)
        for name, dataset in datasets.items():
            found = dataset[variable].isel(chain=0, draw=0)
            if dict(found.sizes) != dict(expected.sizes):
                raise DataError(
                    f"{variable!r} has dimensions {dict(found.sizes)} in {name!r} and "
                    f"{dict(expected.sizes)} in {first_name!r}; an average needs the same quantity "
                    "in all models. Rename or select with `var_names`."
                )
            for dim in set(expected.indexes) & set(found.indexes):
                if not np.array_equal(expected[dim].values, found[dim].values):
                    raise DataError(
                        f"{variable!r} has other coordinates along {dim!r} in {name!r} than in "
                        f"{first_name!r}. Give the models the same coordinates, in the same order."
                    )
    return chosen


def _evenly(dataset: xr.Dataset, n: int, rng: np.random.Generator) -> xr.Dataset:
    """Take n draws, evenly spaced over all chains from a random start; repeated where n is more."""
    n_draws = dataset.sizes["draw"]
    total = dataset.sizes["chain"] * n_draws
    index = np.minimum(((np.arange(n) + rng.uniform()) * (total / n)).astype(np.int64), total - 1)
    extra = [
        name for name, coord in dataset.coords.items()
        if name not in dataset.dims and {"chain", "draw"} & set(coord.dims)
    ]  # fmt: skip
    bare = dataset.drop_vars(["chain", "draw", *extra], errors="ignore")
    return bare.isel(
        chain=xr.DataArray(index // n_draws, dims="draw"),
        draw=xr.DataArray(index % n_draws, dims="draw"),
    ).compute()


def _evidence(
    comparison: Any, names: list[str], prior_probs: Mapping[str, float] | None
) -> pd.DataFrame:
    """Table of `names`: ``log_z`` and ``se`` in nats, ``df``, ``prior`` and ``warning``."""
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
    """Posterior probability of each model, and ``weight``: its average over the errors of log Z.

    Without `carry_error` the weight is the probability.

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
