"""Simulation-based check of posterior model probabilities."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
from pymc.model.fgraph import clone_model

from pymc_tempering.annealing.bidirectional import check_generative
from pymc_tempering.comparison.calibrated import ModelCalibration
from pymc_tempering.comparison.table import check_prior
from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.estimate import estimate_logz
from pymc_tempering.methods import resolve_method
from pymc_tempering.model.compile import keep_density
from pymc_tempering.model.freeze import copies_of_gps, discrete_names
from pymc_tempering.model.interpreted import interpreted
from pymc_tempering.model.open_data import OpenDensity
from pymc_tempering.options import check_positive, check_random_seed
from pymc_tempering.private import reseed
from pymc_tempering.progress.phases import phases

__all__ = ["check_calibration"]

type OfData = Callable[[Mapping[str, np.ndarray]], LogZEstimate | float]


def check_calibration(
    models: Mapping[str, pm.Model],
    *,
    n_datasets: int = 100,
    prior_probs: Mapping[str, float] | None = None,
    method: str | Mapping[str, OfData] = "pt",
    random_seed: Any = None,
    progressbar: bool = True,
    **kwargs: Any,
) -> ModelCalibration:
    """Check that posterior probabilities of models are what they say.

    For each data set a model is drawn from the prior probabilities, its parameters and data from
    its prior predictive, and the posterior probability of every model is estimated. If models,
    estimates and arithmetic are right, the posterior probability of a model averaged over data sets
    is its prior probability, and of the data sets for which a model is given 80 % it made 80 %
    (Schad, Modrak & Vasishth 2024). It shows errors of log Z that are of no account on
    one data set, and those that depend on the data.

    Parameters
    ----------
    models : mapping of str to pymc.Model
        At least two, generative, with observed variables of the same names and shapes. Not changed;
        their observed values do not matter.
    n_datasets : int
        Default 100. A hundred notice a log Z that is off by half a nat or so, a thousand
        one that is off by a sixth.
    prior_probs : mapping of str to float, optional
        Prior probability of each model; equal by default. Scaled to sum to one.
    method : str or mapping of str to callable
        Of :func:`pymc_tempering.estimate_logz`; or for each model a function from the data, arrays
        by the name of the observed variable, to an estimate or a number: the exact log Z where it
        is known, or that of another program.
    random_seed : int or numpy.random.Generator, optional
        The same seed gives the same data sets whatever the method.
    progressbar : bool
        Show how many data sets are done. Default True.
    **kwargs
        Passed to :func:`pymc_tempering.estimate_logz`.

    Returns
    -------
    ModelCalibration
        Its print has the mean posterior probabilities and the tests; ``plot_calibration`` draws
        how often what was said was true.

    Raises
    ------
    ModelError
        For a model that cannot generate data, or models of different data.
    OptionError
        For fewer than two models, or options that do not fit, before any sampling.

    References
    ----------
    D. J. Schad, M. Modrák, S. Vasishth (2024). How accurate are Bayes factor-based null hypothesis
    tests? A simulation study. arXiv:2406.08022.

    Examples
    --------
    >>> import pymc as pm
    >>> from scipy import stats
    >>> models, exact = {}, {}
    >>> for name, sd in (("narrow", 0.5), ("wide", 2.0)):
    ...     with pm.Model() as models[name]:
    ...         x = pm.Normal("x", 0.0, sd)
    ...         y = pm.Normal("y", x, 1.0, observed=0.0)
    ...     exact[name] = lambda data, sd=sd: stats.norm(0.0, np.hypot(sd, 1.0)).logpdf(data["y"])
    >>> check = check_calibration(models, n_datasets=200, method=exact, random_seed=1,
    ...                           progressbar=False)
    >>> check.calibrated
    True
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise OptionError(
            "check_calibration needs a mapping of at least two names to models, as "
            "{'one': model_one, 'two': model_two}."
        )
    check_positive("n_datasets", n_datasets, integer=True)
    check_random_seed(random_seed)
    names = tuple(models)
    prior = check_prior(prior_probs, list(names))
    _check_models(models)
    functions = _functions(method, names, kwargs)
    makers = [_Conditioned(model) for model in models.values()]
    true = np.empty(n_datasets, dtype=np.int64)
    log_z, se = np.empty((2, n_datasets, len(names)))
    warned = np.zeros(n_datasets, dtype=bool)
    options = {"method": method, "progressbar": False, "quiet": True, **kwargs}
    with phases(progressbar) as work:
        phase = work.add("Data sets", n_datasets)
        for i, rng in enumerate(np.random.default_rng(random_seed).spawn(n_datasets)):
            true[i] = rng.choice(len(names), p=prior)
            data_seed, *seeds = (int(s) for s in rng.integers(2**31, size=1 + len(names)))
            data = makers[true[i]].simulate(data_seed)
            for k, (name, maker) in enumerate(zip(names, makers, strict=True)):
                result = (
                    functions[name](data)
                    if functions is not None
                    else estimate_logz(maker.observe(data), random_seed=seeds[k], **options)
                )
                if isinstance(result, LogZEstimate):
                    log_z[i, k], se[i, k] = result.log_z, result.se
                    warned[i] |= bool(result.warnings)
                else:
                    log_z[i, k], se[i, k] = float(result), np.nan
            phase.advance()
    return ModelCalibration(names, prior, true, log_z, se, warned)


def _functions(
    method: str | Mapping[str, OfData], names: tuple[str, ...], options: Mapping[str, Any]
) -> Mapping[str, OfData] | None:
    """Functions of the data, where they were given; None for a method by name."""
    if not isinstance(method, Mapping):
        resolve_method(method)
        return None
    if set(method) != set(names) or not all(map(callable, method.values())):
        raise OptionError(
            f"`method` has {dict(method)}; expected a function for each of the models "
            f"{list(names)}, or the name of a method."
        )
    if options:
        raise OptionError(
            f"The options {sorted(options)} are for `estimate_logz`, and `method` has functions. "
            "Let these have them."
        )
    return method


def _check_models(models: Mapping[str, pm.Model]) -> None:
    wrong = {n: type(m).__name__ for n, m in models.items() if not isinstance(m, pm.Model)}
    if wrong:
        raise OptionError(
            f"Not models: {wrong}; expected pymc.Model objects, as data are drawn from each."
        )
    observed = {}
    for name, model in models.items():
        check_generative(model)
        observed[name] = {
            rv.name: tuple(model.rvs_to_values[rv].shape.eval()) for rv in model.observed_RVs
        }
    first, *others = observed.values()
    if any(other != first for other in others):
        raise ModelError(
            f"The models observe different things, {observed} (names and shapes), so that data of "
            "one are no data of another. Give the observed variables the same names and shapes."
        )


class _Conditioned:
    """A copy of a model whose observed values are exchanged in place, so that it stays one model.

    Parameters
    ----------
    model : pymc.Model
    """

    def __init__(self, model: pm.Model) -> None:
        with copies_of_gps():
            self.model = clone_model(model)
        self._data: dict[str, Any] = {}
        with self.model:
            for rv in self.model.observed_RVs:
                old = self.model.rvs_to_values[rv]
                new = pm.Data(f"simulated {rv.name}", old.eval())
                self.model.values_to_rvs.pop(old)
                self.model.rvs_to_values[rv] = new
                self.model.values_to_rvs[new] = rv
                self._data[rv.name] = new
        self._draw = interpreted([], self.model.observed_RVs)
        self._density: OpenDensity | None = None

    def simulate(self, seed: int) -> dict[str, np.ndarray]:
        """Draw parameters and data; return the data by the name of the observed variable."""
        reseed(self._draw, seed)
        return dict(zip(self._data, map(np.asarray, self._draw()), strict=True))

    def observe(self, data: Mapping[str, np.ndarray]) -> pm.Model:
        """Give the model these data, and its density, which is compiled for the first only."""
        for name, values in data.items():
            self._data[name].set_value(values.astype(self._data[name].dtype))
        if not discrete_names(self.model):
            if self._density is None:
                self._density = OpenDensity(self.model)
            keep_density(self.model, self._density.at(self.model))
        return self.model
