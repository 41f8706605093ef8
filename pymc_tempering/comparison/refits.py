"""Refits without some of the data, for the cross-validation of ArviZ."""

from contextlib import suppress
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from arviz_stats.loo import SamplingWrapper

from pymc_tempering.errors import DataError, ModelError, OptionError
from pymc_tempering.evidence.estimate import sample
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.model.at_draws import constrained_model, evaluate, stack_draws
from pymc_tempering.model.compile import keep_density
from pymc_tempering.model.freeze import copied, discrete_names
from pymc_tempering.model.graph import interpreted
from pymc_tempering.model.open_data import OpenDensity
from pymc_tempering.options import check_random_seed, resolve_model
from pymc_tempering.types import BoolArray, IntArray

_OUT = "left_out"


class Refits(SamplingWrapper):
    r"""Tempered runs of a model without some of its data, for ``arviz_stats``.

    ``arviz_stats.reloo`` and ``arviz_stats.loo_kfold`` say what is left out, and sample what is
    left by this. The terms of the likelihood that are left out are not added up; so shapes stay
    as they are, and the model is compiled once for all refits.

    The log predictive density of a value that is left out alone is :math:`\log Z - \log Z_{-i}`,
    where `idata_orig` has its evidence. Otherwise it is the log of the mean of
    :math:`p(y_i \mid x)` over draws x without it, of which a value far out asks what no draw has
    seen.

    Parameters
    ----------
    model : pymc.Model, optional
        Default: that of the context. Not changed.
    idata_orig : DataTree, optional
        A tempered run of it with all data, and its group ``log_likelihood``, of
        ``pm.compute_log_likelihood``. ``reloo`` needs it.
    var_name : str, optional
        The observed variable whose values are left out. Default: the only one.
    random_seed : int or numpy.random.Generator, optional
        A refit depends on the seed and on what it leaves out, not on those before it.
    **kwargs
        Passed to :func:`pymc_tempering.sample`, for instance ``draws``, ``chains`` or ``method``.

    Raises
    ------
    ModelError
        If the model has no observed variable, or one whose values have no terms of their own, as
        those of a time series or of one multivariate normal.
    OptionError
        If `var_name` is no observed variable, or is missing where there are several.

    Notes
    -----
    Where values depend on one another given the parameters, leaving out terms is another question
    than the one that cross-validation asks.

    Examples
    --------
    >>> import arviz_stats
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 1.0, observed=[0.3, -0.5, 4.0])
    >>> options = {"draws": 100, "tune": 50, "chains": 2, "cores": 1, "progressbar": False,
    ...            "quiet": True}
    >>> run = pm.compute_log_likelihood(sample(model, random_seed=1, **options), model=model,
    ...                                 progressbar=False)
    >>> refits = Refits(model, run, random_seed=1, **options)
    >>> found = arviz_stats.loo_kfold(run, refits, k=3, pointwise=True)
    >>> round(float(found.elpd_i[2]), 1)
    -7.3
    """

    def __init__(
        self,
        model: pm.Model | None = None,
        idata_orig: xr.DataTree | None = None,
        *,
        var_name: str | None = None,
        random_seed: Any = None,
        **kwargs: Any,
    ) -> None:
        model = resolve_model(model, "Refits")
        check_random_seed(random_seed)
        super().__init__(model, idata_orig, sample_kwargs=kwargs)
        self._name = _observed_name(model, var_name)
        self._entropy = np.random.default_rng(random_seed).integers(2**32, size=4).tolist()
        self._constrained = constrained_model(model)
        self._left = copied(model)
        [terms] = self._left.logp(vars=[self._left[self._name]], sum=False)
        shape = interpreted(self._left.value_vars, terms.shape, on_unused_input="ignore")
        point = self._left.initial_point(random_seed=0)
        self._shape = tuple(map(int, shape(*(point[v.name] for v in self._left.value_vars))))
        if not self._shape:
            raise ModelError(
                f"The likelihood of {self._name!r} is one term for all values, so that none can be "
                "left out. Write it as a distribution of each value given the parameters."
            )
        self._left.observed_RVs.remove(self._left[self._name])
        with self._left:
            self._kept = pm.Data(f"{self._name} is kept", np.ones(self._shape, dtype=bool))
            pm.Potential(f"{self._name} without some", pt.where(self._kept, terms, 0.0).sum())
        self._open: OpenDensity | None = None
        self._log_z = np.nan
        if self.idata_orig is not None:
            with suppress(DataError):
                self._log_z = stored_estimate(self.idata_orig).log_z

    def sel_observations(self, idx: Any) -> tuple[BoolArray, IntArray]:
        """Give which values are kept, and the flat positions of those that are left out.

        `idx` is one position or several, or a coordinate value for each dimension, by its name.
        """
        if isinstance(idx, dict):
            values = self.idata_orig["log_likelihood"][self._name]
            axes = [dim for dim in values.dims if dim not in ("chain", "draw")]
            place = [values.get_index(dim).get_loc(idx[dim]) for dim in axes]
            idx = np.ravel_multi_index(place, self._shape)
        out = np.atleast_1d(np.asarray(idx, dtype=np.int64))
        kept = np.ones(self._shape, dtype=bool)
        kept.flat[out] = False
        return kept, out

    def sample(self, modified_observed_data: BoolArray) -> xr.DataTree:
        """Sample the model with the values that are kept."""
        self._kept.set_value(modified_observed_data)
        if not discrete_names(self._left):
            if self._open is None:
                self._open = OpenDensity(self._left, [self._kept.name])
            keep_density(self._left, self._open.at(self._left))
        out = np.flatnonzero(~modified_observed_data)
        seed = int(np.random.SeedSequence([*self._entropy, *out]).generate_state(1)[0])
        return sample(self._left, random_seed=seed, **self.sample_kwargs)

    def get_inference_data(self, fitted_model: xr.DataTree) -> xr.DataTree:
        """Give the run as it is."""
        return fitted_model

    def log_likelihood__i(self, excluded_obs: IntArray, idata__i: xr.DataTree) -> xr.DataArray:
        """Log likelihood (chain, draw, left_out) of what was left out, in nats.

        Of one value it is the same for all draws, if it is known from evidences.
        """
        sizes = idata__i["posterior"].sizes
        shape, dims = (sizes["chain"], sizes["draw"], len(excluded_obs)), ("chain", "draw", _OUT)
        ratio = self._log_z - stored_estimate(idata__i).log_z
        if len(excluded_obs) == 1 and np.isfinite(ratio):
            return xr.DataArray(np.full(shape, ratio), dims=dims)
        model = self._constrained
        [terms] = model.logp(vars=[model[self._name]], sum=False)
        draws = stack_draws(idata__i, model)
        [values] = evaluate(model, [terms.ravel()[excluded_obs]], draws)
        return xr.DataArray(values.reshape(shape), dims=dims)


def _observed_name(model: pm.Model, name: str | None) -> str:
    names = [rv.name for rv in model.observed_RVs]
    if not names:
        raise ModelError("The model has no observed variables, so that nothing can be left out.")
    if name is None and len(names) == 1:
        return str(names[0])
    if name not in names:
        raise OptionError(f"`var_name` is {name!r}; expected one of the observed {names}.")
    return str(name)
