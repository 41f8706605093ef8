"""From the draws of a tempered model to posterior draws and log Z."""

import warnings
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import chi2

from pymc_tempering.errors import TemperingWarning
from pymc_tempering.estimators.uncertainty import chain_standard_errors, log_z_standard_error
from pymc_tempering.transform.analysis import TemperedRun, analyse
from pymc_tempering.transform.names import BETA, DELTA, OBSERVED, POSITION, PREFIX
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["tempering_dataset", "untemper"]

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
_DISAGREEMENT_RATE = 1e-5


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
        log Z per chain and combined, with its error, the effective number of weights per chain,
        and what the run was made with.

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
    >>> from pymc_tempering.base.gaussian import GaussianBase
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
    >>> round(float(idata.tempering["log_z"]), 1)
    -1.4
    """
    run = analyse(idata)
    rng = np.random.default_rng(random_seed)
    index = np.stack([_systematic(row, rng) for row in run.log_weights])
    posterior = idata["posterior"].to_dataset()
    own = [name for name in (POSITION, DELTA) if name in posterior]
    own.append(PREFIX + BETA if PREFIX + BETA in posterior else BETA)
    groups: dict[str, Any] = {"posterior": _pick(posterior, own, index)}
    statistics = _statistics(idata)
    statistics = _pick(statistics, [], index) if statistics is not None else xr.Dataset()
    groups["sample_stats"] = statistics.assign(
        log_marginal_likelihood=("chain", run.log_z)
    ).assign_coords(chain=posterior["chain"].values)
    groups["tempering"] = tempering_dataset(run, index)
    constant = idata["constant_data"].to_dataset()
    observed = [str(name) for name in constant.data_vars if str(name).startswith(OBSERVED)]
    if observed:
        groups["observed_data"] = _without_unused(
            constant[observed].rename({name: name.removeprefix(OBSERVED) for name in observed})
        )
    kept = [name for name in constant.data_vars if not str(name).startswith(PREFIX)]
    if kept:
        groups["constant_data"] = _without_unused(constant[kept])
    for text in run.warnings + _disagreement(run):
        warnings.warn(text, TemperingWarning, stacklevel=2)
    return xr.DataTree.from_dict(groups)


def tempering_dataset(run: TemperedRun, index: IntArray) -> xr.Dataset:
    """Return the group ``tempering``: log Z, its error, and the run, as labelled arrays.

    Parameters
    ----------
    run : TemperedRun
    index : ndarray of shape (n_chains, n_draws)
        Which tempered draw each posterior draw is.
    """
    error = log_z_standard_error(run.log_z, run.influences)
    dims = {
        "log_z_levels": ("chain", "knot"),
        "delta": ("chain", "draw"),
        "beta": ("chain", "draw"),
        "knots": ("knot",),
        "bias": ("knot",),
        "base_mean": ("base_dim",),
        "base_scale": ("base_dim", "base_dim_bis")[: run.constants["base_scale"].ndim],
        "log_support_mass": (),
    }
    variables: dict[str, Any] = {
        name: (dims.get(name, ("chain",)), values)
        for name, values in (run.arrays | run.constants).items()
    }
    n_chains, n_draws = run.log_weights.shape
    return xr.Dataset(
        variables
        | {
            "log_marginal_likelihood": ("chain", run.log_z),
            "log_z_continuous": ("chain", run.log_z_continuous),
            "log_z": ((), float(run.log_z.mean())),
            "log_z_se": ((), error.se),
            "log_z_df": ((), error.df),
            "log_z_ess": ((), error.ess),
            "log_weights": (("chain", "draw"), run.log_weights),
            "tempered_draw": (("chain", "draw"), index),
        },
        coords={"chain": np.arange(n_chains), "draw": np.arange(n_draws)},
    )


def _systematic(log_weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """Indices drawn in proportion to weights, each within one of its expected number, sorted."""
    weights = np.exp(log_weights - log_weights.max())
    ends = np.cumsum(weights)
    points = (np.arange(weights.size) + rng.uniform()) * (ends[-1] / weights.size)
    return np.minimum(np.searchsorted(ends, points, side="right"), weights.size - 1)


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


def _disagreement(run: TemperedRun) -> list[str]:
    if len(run.log_z) < 2:
        return []
    own = np.maximum(chain_standard_errors(run.influences), 1e-12)
    weights = 1.0 / own**2
    centre = float(np.sum(weights * run.log_z) / weights.sum())
    statistic = float(np.sum(((run.log_z - centre) / own) ** 2))
    ess = log_z_standard_error(run.log_z, run.influences).ess / len(run.log_z)
    # an error from few effective draws is uncertain by itself: be lenient by that much
    if chi2.sf(statistic / (1.0 + 20.0 / max(ess, 1.0)), len(run.log_z) - 1) > _DISAGREEMENT_RATE:
        return []
    text = (
        f"chains disagree: their log Z {np.round(run.log_z, 2).tolist()} differ by more than their "
        "own errors explain, so some have not found every mode. Raise `tune` and `draws`, or pass "
        "a wider `base`."
    )
    return [text]
