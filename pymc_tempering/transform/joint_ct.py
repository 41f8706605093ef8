"""Joint continuous tempering as a method: temper, sample with any NUTS, untemper, estimate."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import TemperingWarning
from pymc_tempering.evidence.common import MethodEstimate
from pymc_tempering.methods import Method
from pymc_tempering.model.identity import Identity
from pymc_tempering.options import check_names
from pymc_tempering.results.identity import with_identity
from pymc_tempering.steps.run import Sampler
from pymc_tempering.transform.analysis import analyse_record, bridge_chains
from pymc_tempering.transform.record import JointRecord
from pymc_tempering.transform.tempered import temper
from pymc_tempering.transform.untempered import untemper
from pymc_tempering.types import FloatArray

__all__ = ["collect", "collect_bridge", "prepare", "run"]

DEFAULT_TUNE = 1000


def collect(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z of each chain by Bennett's ratio between base and tempered draws.

    Parameters
    ----------
    statistics : mapping of ndarray
        From :func:`pymc_tempering.transform.record.stored_statistics`: ``delta`` and ``beta``
        (chain, draw), ``base_delta`` (chain, base_draw), ``knots`` and ``bias`` (chain, knot).
    """
    parts = analyse_record(JointRecord.from_statistics(statistics)).parts
    carried = {"base_mean", "base_scale", "tempered_draw"} & set(statistics)
    parts.arrays.update({name: statistics[name] for name in sorted(carried)})
    return parts


def collect_bridge(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z as :func:`collect` does, without what is found out beside it."""
    return MethodEstimate(*bridge_chains(JointRecord.from_statistics(statistics)))


def prepare(
    method: Method, model: pm.Model, options: dict[str, Any], run_settings: dict[str, Any]
) -> Sampler:
    """Check the options of a run; see :func:`pymc_tempering.steps.run.prepare_step`.

    Raises
    ------
    OptionError
        For an unknown option.
    """
    known = {"draws", "chains", "cores", "random_seed", "progressbar", "nuts_sampler"}
    # asked of every pm.sample call; here they are settled by the method
    own = {k: v for k, v in options.items() if k not in ("quiet", "compute_convergence_checks")}
    check_names(
        method.name, own, known, " For more control use `temper`, `pm.sample` and `untemper`."
    )
    settled = {name: run_settings[name] for name in ("draws", "tune", "cores", "progressbar")}
    return partial(run, model, **settled, **own)


def run(
    model: pm.Model,
    *,
    draws: int,
    tune: int | None,
    chains: int,
    cores: int | None,
    random_seed: int | np.random.Generator | None,
    progressbar: bool,
    nuts_sampler: str | None = None,
) -> xr.DataTree:
    """Sample the tempered model and return posterior draws with the estimate attached.

    Parameters
    ----------
    model : pymc.Model
    draws, tune, chains, cores, progressbar
        As for ``pm.sample``. About 3000 draws in each of two chains reach an error of 0.05 nats on
        problems in ten dimensions.
    random_seed : int or numpy.random.Generator, optional
    nuts_sampler : {"pymc", "nutpie", "numpyro", "blackjax"}, optional
        Default "pymc": nutpie samples faster, but compiles every model afresh, for most of a
        minute.

    Returns
    -------
    xarray.DataTree
        As :func:`pymc_tempering.transform.untemper` returns it.

    Raises
    ------
    ModelError
        If the model cannot be tempered.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    >>> idata = run(model, draws=500, tune=500, chains=2, cores=1, random_seed=1,
    ...             progressbar=False)
    >>> bool(abs(idata.tempering["log_marginal_likelihood"] + 1.4305) < 0.1)
    True
    """
    identity = Identity.of(model)
    rng = np.random.default_rng(random_seed)
    seeds = rng.integers(2**31, size=chains)
    options: dict[str, Any] = {} if cores is None else {"cores": cores}
    with temper(model, random_seed=rng, progressbar=bool(progressbar)):
        tempered = pm.sample(
            draws,
            tune=DEFAULT_TUNE if tune is None else tune,
            chains=chains,
            random_seed=[int(seed) for seed in seeds],
            progressbar=progressbar,
            quiet=True,
            nuts_sampler=nuts_sampler or "pymc",
            # R-hat of tempered states says nothing about posterior draws
            compute_convergence_checks=False,
            **options,
        )
    with warnings.catch_warnings():
        # they are part of the estimate
        warnings.simplefilter("ignore", TemperingWarning)
        return with_identity(untemper(tempered, random_seed=rng), identity)
