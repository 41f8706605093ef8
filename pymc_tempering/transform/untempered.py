"""From the draws of a tempered model to posterior draws and log Z."""

from typing import Any

import numpy as np
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.diagnostic import warn_of
from pymc_tempering.evidence.common import combine
from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.numerics import systematic_indices
from pymc_tempering.results.datatree import (
    BETA,
    DELTA,
    OBSERVED,
    POSITION,
    PREFIX,
    RECORDS,
    attach_estimate,
    group_of,
    read_draws,
)
from pymc_tempering.transform.analysis import collect
from pymc_tempering.types import FloatArray, IntArray

# statistics of a transition that still mean something beside a draw picked by weight
_KEPT_STATISTICS = (
    "acceptance_rate", "depth", "diverging", "mean_tree_accept", "n_steps", "reached_max_treedepth",
    "step_size", "tree_depth",
)  # fmt: skip


def untemper(
    idata: xr.DataTree, *, random_seed: int | np.random.Generator | None = None
) -> xr.DataTree:
    r"""Return posterior draws and log Z from the draws of a tempered model.

    Each chain's draws are resampled (systematically, order kept) with the weights

    .. math:: w_1(z) = p(\beta = 1 \mid z)
              = e^{\delta(z) - c(1)} / \int_0^1 e^{b \delta(z) - c(b)} db

    of eq. 22 of Graham & Storkey (2017), which they give for ``c(beta) = beta log_zeta``. The log
    marginal likelihood is ``c(1) + log mean p(1 | z) + log C`` with the joint density's normaliser
    C from tempered and base draws together
    (:func:`pymc_tempering.estimators.continuous.bridged_log_z`); their eq. 21, with
    ``C = exp(-c(0)) / mean p(0 | z)``, is reported as ``log_z_continuous``. The integral is exact
    where c is piecewise linear, and within 2e-5 nats for a smooth c.

    Parameters
    ----------
    idata : xarray.DataTree
        What ``pm.sample`` returned inside the model that :func:`temper` made; also read back from
        a file.
    random_seed : int or numpy.random.Generator, optional
        Of the resampling.

    Returns
    -------
    xarray.DataTree
        ``posterior`` holds draws at beta = 1 only, under the names and dims of the original model,
        as many per chain as were drawn (repeated where the weights ask for it). ``sample_stats``
        has ``log_marginal_likelihood`` per chain, as ``pm.sample_smc`` has. ``tempering`` has
        the estimate under the names that all methods share (``log_marginal_likelihood`` and its
        error, ``log_z_chain``), and what it was made from, so that
        :func:`pymc_tempering.estimate_logz` makes it anew, also from part of the chains or draws.

    Raises
    ------
    DataError
        If a variable that the tempered model records is missing.

    Warns
    -----
    TemperingWarning
        If the run does not support what would be concluded from it.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_tempering.engine.path.gaussian import GaussianBase
    >>> from pymc_tempering.transform import temper
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    >>> with temper(model, base=GaussianBase([0.8], [0.7]), log_zeta=-1.4, random_seed=1):
    ...     tempered = pm.sample(500, tune=500, chains=2, cores=1, random_seed=1, quiet=True,
    ...                          progressbar=False, nuts_sampler="pymc")
    >>> idata = untemper(tempered, random_seed=1)
    >>> list(idata.posterior.data_vars)
    ['x']
    >>> round(float(idata.tempering["log_marginal_likelihood"]), 1)
    -1.4
    """
    statistics = statistics_of_draws(idata)
    parts = collect(statistics)
    rng = np.random.default_rng(random_seed)
    index = np.stack(
        [systematic_indices(np.exp(w - w.max()), w.size, rng) for w in parts.arrays["log_weights"]]
    )
    posterior = idata["posterior"].to_dataset()
    own = [name for name in (POSITION, DELTA) if name in posterior]
    own.append(_beta_of(posterior))
    groups: dict[str, Any] = {"posterior": _pick(posterior, own, index)}
    has_statistics = "sample_stats" in idata.children
    beside = idata["sample_stats"].to_dataset() if has_statistics else xr.Dataset()
    kept = [n for n in _KEPT_STATISTICS if n in beside and beside[n].dims == ("chain", "draw")]
    beside = _pick(beside[kept], [], index) if kept else xr.Dataset()
    code = np.full(index.shape, METHODS["joint_ct"].code)
    groups["sample_stats"] = beside.assign_coords(chain=posterior["chain"].values).assign(
        {METHOD_CODE: (("chain", "draw"), code)}
    )
    constant = idata["constant_data"].to_dataset()
    observed = [str(name) for name in constant.data_vars if str(name).startswith(OBSERVED)]
    if observed:
        groups["observed_data"] = _without_unused(
            constant[observed].rename({name: name.removeprefix(OBSERVED) for name in observed})
        )
    own_data = [str(name) for name in constant.data_vars if not str(name).startswith(PREFIX)]
    if own_data:
        groups["constant_data"] = _without_unused(constant[own_data])
    result = xr.DataTree.from_dict(groups)
    estimate = combine(parts, METHODS["joint_ct"].label, read_draws(result))
    warn_of(estimate.warnings)
    return attach_estimate(result, estimate, parts.arrays | {"tempered_draw": index})


def statistics_of_draws(idata: xr.DataTree) -> dict[str, FloatArray]:
    """What log Z is made from, of draws of the tempered model; see :mod:`.analysis`.

    A variable that is missing, and a delta that is not a number, are a DataError.
    """
    posterior, constants = _find(idata)
    statistics = {
        "delta": posterior[DELTA].transpose("chain", "draw").values,
        "beta": posterior[_beta_of(posterior)].transpose("chain", "draw").values,
        "base_mean": constants["base_mean"],
        "base_scale": constants["base_scale"],
    }
    _check_delta(statistics["delta"])
    n_chains = len(statistics["delta"])
    parts = np.array_split(constants["base_delta"], n_chains)
    statistics["base_delta"] = np.full((n_chains, len(parts[0])), np.nan)
    for row, part in zip(statistics["base_delta"], parts, strict=True):
        row[: len(part)] = part
    for name in ("knots", "bias"):
        statistics[name] = np.tile(constants[name], (n_chains, 1))
    if "sample_stats" in idata.children and "diverging" in idata["sample_stats"]:
        diverging = idata["sample_stats"].to_dataset()["diverging"]
        statistics["diverging"] = diverging.transpose("chain", "draw").values.astype(np.bool_)
    if POSITION in posterior:
        statistics["position"] = posterior[POSITION].transpose("chain", "draw", ...).values
    return statistics


def _beta_of(posterior: xr.Dataset) -> str:
    """Name of beta: another one where the model has a variable that is called so."""
    return PREFIX + BETA if PREFIX + BETA in posterior else BETA


def _find(idata: xr.DataTree) -> tuple[xr.Dataset, dict[str, FloatArray]]:
    if not isinstance(idata, xr.DataTree):
        raise DataError(
            f"The argument is of type {type(idata).__name__}; expected the DataTree that "
            "`pm.sample` returns (`return_inferencedata=True`)."
        )
    remedy = (
        "Pass what `pm.sample` returned inside the model that `pymc_tempering.temper` made, with "
        "all its variables (no `var_names`); a result of `untemper` has them no longer."
    )
    if "posterior" not in idata.children:
        groups = sorted(idata.children)
        raise DataError(f"The DataTree has groups {groups}, no `posterior`. {remedy}")
    posterior = idata["posterior"].to_dataset()
    missing = [DELTA] if DELTA not in posterior else []
    if _beta_of(posterior) not in posterior:
        missing.append(BETA)
    constant = idata["constant_data"].to_dataset() if "constant_data" in idata.children else {}
    missing += [name for name in RECORDS if name not in constant]
    if missing:
        raise DataError(f"The DataTree lacks the recorded variables {missing}. {remedy}")
    return posterior, {name.removeprefix(PREFIX): constant[name].values for name in RECORDS}


def stored_statistics(idata: xr.DataTree) -> dict[str, FloatArray]:
    """Read what a result of `untemper` keeps, chain first.

    Chains or draws that were cut away, or have no finite delta, are a DataError.
    """
    dataset = group_of(idata, "tempering")
    absent = [name for name in ("chain", "draw") if not dataset.sizes.get(name, 0)]
    if absent:
        raise DataError(
            f"The group `tempering` has nothing along {absent}; expected chains and draws. Select "
            "with lists or slices, as in `idata.isel(chain=[0])`, which keep the dimension."
        )
    if "delta" in dataset:
        _check_delta(dataset["delta"].values)
    return {
        str(name): variable.transpose("chain", "draw", ..., missing_dims="ignore").values
        for name, variable in dataset.data_vars.items()
        if "chain" in variable.dims or str(name).startswith("base_")
    }


def _check_delta(delta: FloatArray) -> None:
    if np.isnan(delta).any() or not np.isfinite(delta).any(axis=-1).all():
        raise DataError(
            f"`{DELTA}` has {int(np.isnan(delta).sum())} nan values and "
            f"{int((~np.isfinite(delta)).all(axis=-1).sum())} chains without a finite one; "
            "expected finite values. Sample the tempered model from a start inside the support; "
            "put only chains with equal numbers of draws together."
        )


def _pick(dataset: xr.Dataset, dropped: list[str], index: IntArray) -> xr.Dataset:
    """Take other draws of each chain, and leave variables out with the dims only they had."""
    attrs = dataset.attrs
    dataset = _without_unused(dataset.drop_vars(dropped))
    n_chains, n_draws = index.shape
    chain = dataset["chain"].values if "chain" in dataset.coords else np.arange(n_chains)
    bare = dataset.drop_vars(["chain", "draw"], errors="ignore")
    picked = bare.isel(
        chain=xr.DataArray(np.arange(n_chains), dims="chain"),
        draw=xr.DataArray(index, dims=("chain", "draw")),
    )
    picked = picked.transpose("chain", "draw", ..., missing_dims="ignore")
    return picked.assign_coords(chain=chain, draw=np.arange(n_draws)).assign_attrs(attrs)


def _without_unused(dataset: xr.Dataset) -> xr.Dataset:
    used = {dim for variable in dataset.data_vars.values() for dim in variable.dims}
    return dataset.drop_dims(set(dataset.dims) - used - {"chain", "draw"})
