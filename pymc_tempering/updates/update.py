"""Posterior and evidence of more data, from draws of the posterior of less."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.diagnostics.clustering.tree import find_modes
from pymc_tempering.errors import DataError, ModelError
from pymc_tempering.estimators.diagnostic import Diagnostic, warn_of
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.common import with_warnings
from pymc_tempering.evidence.estimate import sample_and_estimate
from pymc_tempering.evidence.many_result import labelled_draws
from pymc_tempering.evidence.many_worker import IMPORTANCE
from pymc_tempering.evidence.reading import check_tree, stored_estimate
from pymc_tempering.evidence.stored import has_statistics
from pymc_tempering.methods import resolve_method
from pymc_tempering.model.at_draws import constrained_draws, unconstrained_draws
from pymc_tempering.model.compile import CompiledDensity, compile_density
from pymc_tempering.model.freeze import discrete_names
from pymc_tempering.model.identity import Identity
from pymc_tempering.model.open_data import value_of
from pymc_tempering.model.point import PointMap
from pymc_tempering.numerics import one_blas_thread, weight_ess
from pymc_tempering.options import check_flag, resolve_model, unwrapped
from pymc_tempering.references.importance import (
    N_DRAWS,
    OneMode,
    QuickEvidence,
    evidence_at_mode,
    log_mean_weight,
)
from pymc_tempering.references.posterior import PosteriorDraws
from pymc_tempering.references.prepare import prepare
from pymc_tempering.results.datatree import attach_estimate
from pymc_tempering.results.identity import observed_values, with_identity
from pymc_tempering.steps.run import DEFAULT_CHAINS, check_budget, check_run
from pymc_tempering.updates.rows import check_all_data, with_new_rows

GROUP = "updates"
"""Group of a run with an entry for each update, along the dimension `update`."""

_TARGET_SE = 0.02
"""Nats, as of `estimate_many`, and what a run has that is sampled with defaults."""


def update(  # noqa: PLR0913 - every option by its name, as of sample
    idata: xr.DataTree, new_data: Mapping[str, Any] | pm.Model, model: pm.Model | None = None, *,
    draws: int = 1000, tune: int | None = None, chains: int = DEFAULT_CHAINS,
    cores: int | None = None, random_seed: Any = None, max_gradients: int | None = None,
    quick: bool = False, resume: str | os.PathLike[str] | None = None, executor: Any = None,
    progressbar: bool = True, **kwargs: Any,
) -> xr.DataTree:  # fmt: skip
    r"""Update the posterior and the evidence of a run with more data.

    The modes of the old draws are the reference, moved and narrowed by a few ascents; tempering
    corrects it. There is no search for modes: one that the new data open far from all old draws is
    missed.

    Parameters
    ----------
    idata : DataTree
        The run so far, with log Z: of :func:`pymc_tempering.sample`, of an update, or of another
        sampler with ``estimate_logz(idata, model=model).idata``. It has the old data, in
        ``observed_data`` and ``constant_data``.
    new_data : mapping of str to array, or pymc.Model
        New rows by the names of observed variables and ``pm.Data``, to come after the old ones
        along the first axis; what is not named stays. Or the model of all data, as where covariates
        are written down in it: the old observations come first in it, and of its likelihoods
        nothing else is compared.
    model : pymc.Model, optional
        With new rows: the model that was sampled. Default: that of the context. Not changed; its
        own values of what `new_data` has do not matter where the run has them. Compiled once for
        all updates.
    draws, tune, chains, cores, random_seed, max_gradients, resume, executor, progressbar
        As of :func:`pymc_tempering.sample`.
    quick : bool
        Whether to try importance sampling first, as :func:`pymc_tempering.estimate_many` does:
        where old draws and ascents know the same one mode, and a Gaussian fits there, log Z and
        draws are those of weights, without chains. Then the run has no ``sample_stats``, and log Z
        is read from its group ``tempering``. Default False.
    **kwargs
        Options of :class:`pymc_tempering.ParallelTempering`, or of ``pm.sample``.

    Returns
    -------
    DataTree
        As of :func:`pymc_tempering.sample`, of all data. The group ``updates`` has, for each update
        so far, ``log_increment``, the log probability of the new data given the old, in nats, with
        its error ``log_increment_se``; ``log_marginal_likelihood`` of all data after it, and its
        error; ``gradients``; and the codes of the ``warnings`` that it rests on.

    Raises
    ------
    DataError
        For a run without log Z, of another model, or with other data; for rows that do not fit;
        where a prior depends on the number of rows, or on data that grow.
    ModelError
        For a model with discrete variables, or that cannot be tempered.

    Notes
    -----
    The increment is a difference, :math:`\log Z_{all} - \log Z_{old}`. The new chains have random
    numbers of their own, whatever their reference, so both errors are independent. Increments of
    consecutive updates share a log Z: sums of them telescope, and have the error of the first and
    the last log Z alone, not that of independent terms.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> options = {"draws": 100, "tune": 50, "chains": 2, "cores": 1, "random_seed": 1,
    ...            "progressbar": False, "quiet": True}
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=[1.0, 0.8])
    >>> idata = pm_temper.sample(model, **options)
    >>> idata = pm_temper.update(idata, {"y": [1.1]}, model, **options)
    >>> idata["updates"]["log_increment"].values.round(1).tolist()
    [-0.5]
    """
    tree, new_data = check_tree(idata), unwrapped(new_data)
    check_flag("quick", quick)
    check_run(draws=draws, tune=tune, chains=chains, cores=cores, random_seed=random_seed)
    check_budget(resolve_method("pt"), max_gradients)
    if "tempering" not in tree.children and not has_statistics(tree):
        raise DataError(
            "The run has no log Z, which the increment is relative to. Estimate it first, as in "
            "`idata = estimate_logz(idata, model=model).idata`, and pass that."
        )
    before = stored_estimate(tree)
    given = new_data if isinstance(new_data, pm.Model) else resolve_model(model, "update")
    if names := discrete_names(given):
        raise ModelError(
            f"The free variables {names} are discrete; `update` fits its reference to continuous "
            "ones. Sample the model of all data afresh, with `sample`."
        )
    if isinstance(new_data, pm.Model):
        check_all_data(given, tree)
        whole, density = given, compile_density(given)
    else:
        whole, density = with_new_rows(given, tree, new_data)
    known = _known_draws(tree, density)
    # a mode that the old draws lack is lacking in the reference
    inherited = [d for d in before.warnings if d.mass_missing]
    found, spent = None, 0
    if quick:
        rng = np.random.default_rng(random_seed)
        most = np.inf if max_gradients is None else max_gradients
        found, n_search, spent = _by_weights(density, known, rng, draws * chains, most)
    if found is not None:
        estimate = _run_of_weights(
            whole, found, density.points, rng,
            draws=draws, chains=chains, n_search=n_search, warnings=inherited,
        )  # fmt: skip
        spent = 0
    else:
        if max_gradients is not None:
            max_gradients = max(max_gradients - spent, 1)
        estimate = sample_and_estimate(
            whole, "pt", draws, kwargs | {"base": known}, tune=tune, chains=chains, cores=cores,
            random_seed=random_seed, max_gradients=max_gradients, resume=resume,
            executor=executor, progressbar=progressbar, inherited=inherited,
        )  # fmt: skip
    warn_of(estimate.warnings)
    run = estimate.idata
    assert run is not None
    run[GROUP] = xr.DataTree(_updates(tree, before, estimate, spent))
    return run


def _updates(
    tree: xr.DataTree, before: LogZEstimate, after: LogZEstimate, spent: int
) -> xr.Dataset:
    """What the run had of earlier updates, and one entry more; ``spent`` are gradients before."""
    codes = dict.fromkeys(d.code for d in (*before.warnings, *after.warnings))
    nats = {
        "log_increment": after.log_z - before.log_z,
        "log_increment_se": float(np.hypot(before.se, after.se)),
        "log_marginal_likelihood": after.log_z,
        "log_marginal_likelihood_se": after.se,
    }
    others = {"gradients": spent + sum(after.gradients.values()), "warnings": " ".join(codes)}
    row = xr.Dataset(
        {name: ("update", [value], {"units": "nats"}) for name, value in nats.items()}
        | {name: ("update", [value]) for name, value in others.items()}
    )
    earlier = [tree[GROUP].to_dataset()] if GROUP in tree.children else []
    return xr.concat([*earlier, row], "update", combine_attrs="override")


def _known_draws(tree: xr.DataTree, density: CompiledDensity) -> PosteriorDraws:
    """Unconstrained draws of the old posterior, 4000 at most, and their modes."""
    posterior = tree["posterior"].to_dataset()
    step = -(-posterior.sizes["chain"] * posterior.sizes["draw"] // 4000)
    thinned = xr.DataTree.from_dict({"/posterior": posterior.isel(draw=slice(None, None, step))})
    z = unconstrained_draws(thinned, density)
    mode = find_modes(z.reshape(posterior.sizes["chain"], -1, density.dim)).ravel()
    depth = tree["tempering"].get("search_funnel_depth") if "tempering" in tree.children else None
    return PosteriorDraws(z, mode, 0.0 if depth is None else float(depth.max()))


def _by_weights(
    density: CompiledDensity,
    known: PosteriorDraws,
    rng: np.random.Generator,
    n_draws: int,
    most: float,
) -> tuple[QuickEvidence | None, int, int]:
    """Weighted draws of the one mode, or None; gradients of the search for it, and of all.

    The draws and the ascents around them are to have found the same one mode.
    """
    if density.no_gradient or most <= N_DRAWS:
        return None, 0, 0
    with one_blas_thread():
        prepared = prepare(density, density.start, rng, draws=known, most=most)
        n = prepared.search.n_gradients
        several = len(prepared.fits) > 1 or prepared.poorly_fitted
        if several or prepared.search.mass_once > 0.0 or most - n <= N_DRAWS:
            return None, n, n
        # of equal weight, none comes twice
        found = evidence_at_mode(
            density, OneMode(prepared.fits[0], 0), rng, target_se=_TARGET_SE, n_draws=2 * n_draws,
            most=most - n,
        )  # fmt: skip
    return None if found.doubt else found, n, n + found.n_gradients


def _run_of_weights(
    model: pm.Model,
    found: QuickEvidence,
    points: PointMap,
    rng: np.random.Generator,
    *,
    draws: int,
    chains: int,
    n_search: int,
    warnings: list[Diagnostic],
) -> LogZEstimate:
    """Estimate with a run of independent draws, dealt out to chains.

    ``points`` are those of the density that was weighted.
    """
    names = [v.name for v in (*model.free_RVs, *model.deterministics)]
    z = found.draws(draws * chains, rng)
    # copies of a draw are neighbours otherwise, as in a slow chain
    values = constrained_draws(model, names, points)(rng.permutation(z))
    arrays = {name: v.reshape(chains, draws, *v.shape[1:]) for name, v in values.items()}
    held = [d for d in model.data_vars if d not in model.values_to_rvs]
    constants = {d.name: np.asarray(value_of(d)) for d in held}
    groups = {
        "posterior": labelled_draws(model, arrays, ("chain", "draw")),
        "observed_data": labelled_draws(model, observed_values(model), ()),
        "constant_data": labelled_draws(model, constants, ()),
    }
    for name, data in groups.items():
        # numbers where there are no labels, as PyMC has them
        numbers = {d: np.arange(n) for d, n in data.sizes.items() if d not in data.coords}
        groups[name] = data.assign_coords(numbers)
    log_weights = found.weighted[1]
    estimate = LogZEstimate(
        found.log_z, found.se, IMPORTANCE,
        np.array([log_mean_weight(part)[0] for part in np.array_split(log_weights, chains)]),
        ess=weight_ess(log_weights), gradients={"search": n_search, "draws": found.n_gradients},
    )  # fmt: skip
    estimate = with_warnings(estimate, warnings)
    run = with_identity(
        xr.DataTree.from_dict({name: data for name, data in groups.items() if data}),
        Identity.of(model),
    )
    return replace(estimate, idata=attach_estimate(run, estimate, {}))
