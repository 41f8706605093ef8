"""From the draws of a tempered model to posterior draws and log Z."""

from typing import Any

import numpy as np
import xarray as xr

from pymc_tempering.estimators.diagnostic import warn_of
from pymc_tempering.evidence.common import combine
from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.numerics import systematic_indices
from pymc_tempering.results.datatree import attach_estimate, read_draws
from pymc_tempering.results.names import BETA, DELTA, OBSERVED, POSITION, PREFIX
from pymc_tempering.transform.analysis import analyse
from pymc_tempering.types import IntArray

__all__ = ["untemper"]

# statistics of a transition that still mean something beside a draw picked by weight
_KEPT_STATISTICS = (
    "acceptance_rate",
    "depth",
    "diverging",
    "mean_tree_accept",
    "n_steps",
    "reached_max_treedepth",
    "step_size",
    "tree_depth",
)


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
    (:func:`pymc_tempering.transform.bridge.bridged_log_z`); their eq. 21, with
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
    run = analyse(idata)
    rng = np.random.default_rng(random_seed)
    index = np.stack(
        [systematic_indices(np.exp(w - w.max()), w.size, rng) for w in run.log_weights]
    )
    posterior = idata["posterior"].to_dataset()
    own = [name for name in (POSITION, DELTA) if name in posterior]
    own.append(PREFIX + BETA if PREFIX + BETA in posterior else BETA)
    groups: dict[str, Any] = {"posterior": _pick(posterior, own, index)}
    statistics = _statistics(idata)
    statistics = _pick(statistics, [], index) if statistics is not None else xr.Dataset()
    code = np.full(index.shape, METHODS["joint_ct"].code)
    groups["sample_stats"] = statistics.assign_coords(chain=posterior["chain"].values).assign(
        {METHOD_CODE: (("chain", "draw"), code)}
    )
    constant = idata["constant_data"].to_dataset()
    observed = [str(name) for name in constant.data_vars if str(name).startswith(OBSERVED)]
    if observed:
        groups["observed_data"] = _without_unused(
            constant[observed].rename({name: name.removeprefix(OBSERVED) for name in observed})
        )
    kept = [name for name in constant.data_vars if not str(name).startswith(PREFIX)]
    if kept:
        groups["constant_data"] = _without_unused(constant[kept])
    estimate = combine(
        run.parts, METHODS["joint_ct"].label, read_draws(xr.DataTree.from_dict(groups))
    )
    warn_of(estimate.warnings)
    arrays = run.arrays | {"tempered_draw": index}
    return attach_estimate(xr.DataTree.from_dict(groups), estimate, arrays)


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


def _statistics(idata: xr.DataTree) -> xr.Dataset | None:
    if "sample_stats" not in idata.children:
        return None
    statistics = idata["sample_stats"].to_dataset()
    kept = [
        name
        for name in _KEPT_STATISTICS
        if name in statistics and statistics[name].dims == ("chain", "draw")
    ]
    return statistics[kept] if kept else None


def _without_unused(dataset: xr.Dataset) -> xr.Dataset:
    used = {dim for variable in dataset.data_vars.values() for dim in variable.dims}
    unused = [
        name
        for name, coordinate in dataset.coords.items()
        if name not in {"chain", "draw"} and not set(coordinate.dims) <= used
    ]
    return dataset.drop_vars(unused)
