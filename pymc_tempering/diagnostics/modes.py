"""The modes of a posterior: where they are, how probable, and what each adds to the evidence."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.diagnostics.clustering.tree import find_modes
from pymc_tempering.diagnostics.copies import without_copies
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.estimators.diagnostic import Diagnostic, warn_of
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.evidence.checks import found
from pymc_tempering.evidence.checks.chains import posterior_findings
from pymc_tempering.evidence.checks.modes import exchangeable, pieces, unseen_by_chains
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.evidence.stored import estimate_from_idata, has_statistics
from pymc_tempering.options import resolve_model
from pymc_tempering.results.datatree import (
    by_chain_and_draw,
    group_of,
    named_entries,
    open_hint,
)
from pymc_tempering.results.modes import Modes

type By = str | Callable[[xr.Dataset], Any] | xr.DataArray | np.ndarray


def modes(
    idata: xr.DataTree | LogZEstimate,
    *,
    model: pm.Model | None = None,
    by: By | None = None,
    var_names: str | Sequence[str] | None = None,
) -> Modes:
    r"""Find the modes of a posterior in its draws, with the probability of each.

    Draws are parted where they leave a valley: along coordinates, principal directions and
    directions in which neighbours are close, at most half as many draws as on the emptier side,
    more clearly than chance and autocorrelation explain. A curved mode and one with heavy tails
    stay whole. A mode needs some 40 draws to be seen; those that no chain visited are not.

    Parameters
    ----------
    idata : DataTree or LogZEstimate
        Draws of any sampler, in a group ``posterior``; of an estimate, its ``idata``. Draws of a
        tempered run have an evidence, and so has each mode.
    model : Model, optional
        The model of these draws. Where its labels can be exchanged, as those of the components of a
        mixture, each draw is taken to one of its orders: all copies of a mode are one, with their
        share and evidence together, and its means are those of one order.
    by : str, callable, DataArray or ndarray, optional
        What tells the modes apart, where you know it: the name of a variable, a function of the
        dataset ``posterior``, or its values, with dimensions chain and draw first. Whole numbers,
        booleans and texts name the mode of each draw. Modes are looked for in real values.
    var_names : str or sequence of str, optional
        Variables to look for modes in; by default all that are real. Leave out deterministics of
        many entries to save time.

    Returns
    -------
    Modes
        Prints as a table. The mode with the largest share is number 1.

    Raises
    ------
    DataError
        If there are no posterior draws, too few, or some that are not finite.
    OptionError
        If `by` or `var_names` name nothing that is there, or `by` has another shape; if `by` and
        `model` are both given.
    ModelError
        If the model has discrete variables.

    Warns
    -----
    TemperingWarning
        If some chains have no draw in a mode, or differ in what they say of the posterior; if the
        draws of a mode leave a gap; if entries look exchangeable, and their orders overlap.

    Notes
    -----
    The share of a mode is the mean of an indicator, and its error the Monte Carlo error of that
    mean (ArviZ's, with split chains): it contains autocorrelation and disagreement of the chains.
    The evidence of a mode is that of the model with all other modes cut away,

    .. math:: \log Z_k = \log Z + \log s_k, \qquad
              \mathrm{se}^2(\log Z_k) = \mathrm{se}^2(\log Z) + \mathrm{se}^2(s_k) / s_k^2.

    Two modes that overlap, with no valley of half their height, count as one. A mode inside a ring,
    or two that no plane parts, need `by`.

    Labels are those of dimensions, axes and numbered names whose exchange leaves the density of
    draws as it is; 120 orders at most, all of five labels. A draw gets that of its image nearest to
    the mean of its mode, in standard deviations (Stephens 2000). Signs that can be turned are not.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> right = rng.random((4, 500)) < 0.3
    >>> x = rng.normal(np.where(right, 5.0, -5.0), 1.0)
    >>> run = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), x)})})
    >>> found = modes(run)
    >>> found.dataset["share"].round(2).values.tolist()
    [0.71, 0.29]
    """
    tree = idata.idata if isinstance(idata, LogZEstimate) else idata
    if not isinstance(tree, xr.DataTree):
        raise DataError(
            f"modes was given a {type(idata).__name__} without a run; expected a DataTree or a "
            f"LogZEstimate that has its `idata`.{open_hint(idata)}"
        )
    if model is not None and by is not None:
        raise OptionError(
            "modes was given `model` and `by`; pass one of them: `by` says what tells modes apart, "
            "and `model` which of them are copies."
        )
    posterior, copies = _posterior(tree), None
    if model is not None:
        model = resolve_model(model, "modes")
        copies = without_copies(tree, model, lambda draws: _labels(draws, None, var_names)[0])
    if copies is None:
        labels, names = _labels(posterior, by, var_names)
    else:
        (posterior, labels), names = copies, None
    evidence = idata if isinstance(idata, LogZEstimate) else _evidence(tree)
    table = _summary(posterior, labels, names, evidence)
    if by is None:
        table = replace(table, warnings=(*table.warnings, *_unparted(posterior, labels, var_names)))
    warn_of(table.warnings)
    return table


def _posterior(tree: xr.DataTree) -> xr.Dataset:
    if "posterior" not in tree.children:
        raise DataError(
            f"The DataTree has the groups {sorted(map(str, tree.children))} but no `posterior`; "
            "pass the result of `pm.sample` or `pymc_tempering.sample`."
        )
    posterior = tree["posterior"].to_dataset()
    least = 4  # draws: an error of a share needs halves of two
    if posterior.sizes.get("draw", 0) < least or not posterior.sizes.get("chain", 0):
        raise DataError(
            f"`posterior` has sizes {dict(posterior.sizes)}; expected chains of at least "
            f"{least} draws. Select with lists or slices, as in `idata.isel(chain=[0])`, "
            "which keep the dimension."
        )
    return posterior


def _labels(
    posterior: xr.Dataset, by: By | None, var_names: str | Sequence[str] | None
) -> tuple[np.ndarray, list[str] | None]:
    """Mode of each draw from 0, by share; and names of the modes where the user gave them."""
    if by is None:
        columns = _real_variables(posterior, var_names).values()
        flat = [v.reshape(*v.shape[:2], -1) for v in columns]
        return find_modes(np.concatenate(flat, axis=2).astype(np.float64)), None
    values = _values_by(posterior, by)
    if values.dtype.kind == "f":
        return find_modes(_finite(values.reshape(*values.shape[:2], -1), "by")), None
    if values.ndim > 2:
        raise OptionError(
            f"`by` gives labels of shape {values.shape}; expected one for each chain and draw, "
            f"{values.shape[:2]}."
        )
    names, labels = np.unique(values, return_inverse=True)
    order = np.argsort(-np.bincount(labels.ravel()), kind="stable")
    return np.argsort(order)[labels].reshape(values.shape), [str(names[i]) for i in order]


def _real_variables(
    posterior: xr.Dataset, var_names: str | Sequence[str] | None
) -> dict[str, np.ndarray]:
    """Draws of each real variable, chain and draw first."""
    draws = {n: x for n, x in by_chain_and_draw(posterior).items() if x.dtype.kind == "f"}
    chosen = list(draws) if var_names is None else [var_names] if isinstance(var_names, str) else [
        *var_names
    ]  # fmt: skip
    missing = [name for name in chosen if name not in draws]
    if missing or not chosen:
        raise OptionError(
            f"`var_names` has {missing}; the posterior has the real variables {sorted(draws)}. "
            "Modes that whole numbers tell apart are found with `by=`."
        )
    return {name: _finite(draws[name], name) for name in chosen}


def _unparted(
    posterior: xr.Dataset, labels: np.ndarray, var_names: str | Sequence[str] | None
) -> list[Diagnostic]:
    """Modes that stand for several, as far as the draws show."""
    variables = _real_variables(posterior, var_names)
    shapes = {name: values.shape[2:] for name, values in variables.items()}
    entries: dict[str, np.ndarray] = {}
    for label, name, index in named_entries(shapes):
        place: Any = (..., *index)
        entries[label] = variables[name][place]
    n_modes = int(labels.max()) + 1
    return found("modes_not_parted", [*pieces(entries, labels), *exchangeable(variables, n_modes)])


def _finite(values: np.ndarray, name: str) -> np.ndarray:
    if not np.isfinite(values).all():
        raise DataError(
            f"{name!r} has draws that are not finite. Leave it out with `var_names`, or cut chains "
            "to equal lengths, as in `idata.isel(draw=slice(100))`."
        )
    return values


def _values_by(posterior: xr.Dataset, by: By) -> np.ndarray:
    if isinstance(by, str):
        if by not in posterior.data_vars:
            raise OptionError(
                f"`by` is {by!r}; the posterior has {sorted(map(str, posterior.data_vars))}."
            )
        given: Any = posterior[by]
    else:
        given = by(posterior) if callable(by) else by
    shape = tuple(posterior.sizes[dim] for dim in ("chain", "draw"))
    if isinstance(given, xr.DataArray) and {"chain", "draw"} <= set(given.dims):
        given = given.transpose("chain", "draw", ...)
    values = np.asarray(given)
    if values.shape[:2] != shape:
        raise OptionError(
            f"`by` gives values of shape {values.shape}; expected chains and draws first, {shape}."
        )
    return values


def _evidence(tree: xr.DataTree) -> LogZEstimate | None:
    if "log_marginal_likelihood" in group_of(tree, "tempering"):
        return stored_estimate(tree)
    return estimate_from_idata(tree) if has_statistics(tree) else None


def _summary(
    posterior: xr.Dataset,
    labels: np.ndarray,
    names: list[str] | None,
    evidence: LogZEstimate | None,
) -> Modes:
    n_modes = int(labels.max()) + 1
    inside = labels[None] == np.arange(n_modes)[:, None, None]
    by_chain = inside.mean(axis=2)
    share = inside.mean(axis=(1, 2))
    errors = [
        log_z_standard_error(s, i - s[:, None]) for s, i in zip(by_chain, inside, strict=True)
    ]
    se = np.array([error.se for error in errors])
    log_z, log_z_se = (np.nan, np.nan) if evidence is None else (evidence.log_z, evidence.se)
    coords: dict[str, Any] = {
        "mode": np.arange(1, n_modes + 1),
        "chain": posterior["chain"].values,
        "draw": posterior["draw"].values,
    }
    coords |= {} if names is None else {"label": ("mode", np.array(names))}
    dataset = xr.Dataset(
        {
            "share": ("mode", share),
            "share_se": ("mode", se, {"long_name": "Monte Carlo standard error of the share"}),
            "share_ess": ("mode", np.array([error.ess for error in errors])),
            "share_chain": (("mode", "chain"), by_chain),
            "log_z": ("mode", log_z + np.log(share), {"units": "nats"}),
            "log_z_se": ("mode", np.hypot(log_z_se, se / share), {"units": "nats"}),
            "mode_of_draw": (("chain", "draw"), labels + 1),
        },
        coords=coords,
    )  # fmt: skip
    drawn = posterior[[
        name for name, variable in posterior.data_vars.items()
        if {"chain", "draw"} <= set(variable.dims) and variable.dtype.kind in "fiub"
    ]]  # fmt: skip
    values = {name: x.astype(np.float64) for name, x in by_chain_and_draw(drawn).items()}
    # slow chains differ where no valley parts them
    differences = unseen_by_chains(by_chain, coords["chain"]) or posterior_findings(values)
    groups = [drawn.where(dataset["mode_of_draw"] == k) for k in coords["mode"]]
    dims = ("chain", "draw")
    return Modes(
        dataset,
        mean=xr.concat([g.mean(dims) for g in groups], dataset["mode"]),
        sd=xr.concat([g.std(dims) for g in groups], dataset["mode"]),
        draws=drawn,
        warnings=tuple(found("chains_disagree", differences)),
    )
