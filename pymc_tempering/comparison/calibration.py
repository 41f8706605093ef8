"""Are posterior model probabilities calibrated? A check on simulated data sets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy import stats

from pymc_tempering.annealing.bidirectional import check_generative
from pymc_tempering.comparison.probabilities import check_prior, model_probabilities
from pymc_tempering.comparison.replications import OfData, Replication, Replicator
from pymc_tempering.errors import DataError, ModelError, OptionError, WorkerError
from pymc_tempering.estimators.diagnostic import Diagnostic, warn_of
from pymc_tempering.methods import resolve_method
from pymc_tempering.options import check_random_seed, check_whole
from pymc_tempering.progress import phases
from pymc_tempering.steps.executors import Lost, check_executor, run_tasks
from pymc_tempering.types import BoolArray, FloatArray, IntArray


def shift(probability: FloatArray, happened: BoolArray) -> float:
    r"""Z-score of the mean of what happened less what was said.

    :math:`\sum (y - p) / \sqrt{\sum p (1 - p)}`, standard normal for calibrated probabilities.

    `probability` and `happened` have the shape (n,).

    Examples
    --------
    >>> shift(np.full(100, 0.5), np.arange(100) < 60)
    2.0
    """
    return _score(happened - probability, probability * (1.0 - probability))


def over_dispersion(probability: FloatArray, happened: BoolArray) -> float:
    r"""Z-score of Spiegelhalter (1986): positive where probabilities are too extreme.

    :math:`\sum (y - p)(1 - 2p) / \sqrt{\sum (1 - 2p)^2 p (1 - p)}`.

    `probability` and `happened` have the shape (n,).

    Examples
    --------
    >>> round(over_dispersion(np.full(100, 0.1), np.arange(100) < 16), 6)
    2.0
    """
    weight = 1.0 - 2.0 * probability
    variance = probability * (1.0 - probability)
    return _score((happened - probability) * weight, variance * weight**2)


def _score(terms: FloatArray, variances: FloatArray) -> float:
    """Sum over its standard deviation; certainties that came true have neither."""
    total, variance = float(terms.sum()), float(variances.sum())
    if variance > 0.0:
        return total / variance**0.5
    return 0.0 if total == 0.0 else float(np.copysign(np.inf, total))


@dataclass(frozen=True)
class ModelCalibration:
    """Result of :func:`pymc_tempering.check_calibration`.

    Attributes
    ----------
    names : tuple of str
        Of the K models.
    prior : ndarray of shape (K,)
        Prior probabilities, with which the models were drawn that made the data.
    true : ndarray of int of shape (n,)
        Index of the model that made each data set.
    log_z, se : ndarray of shape (n, K)
        Estimates and errors in nats; errors are 0 for exact values and nan where none was given.
    warned : ndarray of bool of shape (n,)
        Whether an estimate for the data set carried a warning.
    """

    names: tuple[str, ...]
    prior: FloatArray
    true: IntArray
    log_z: FloatArray
    se: FloatArray
    warned: BoolArray

    def __post_init__(self) -> None:
        n, k = len(self.true), len(self.names)
        shapes = {
            "prior": (self.prior.shape, (k,)), "log_z": (self.log_z.shape, (n, k)),
            "se": (self.se.shape, (n, k)), "warned": (self.warned.shape, (n,)),
        }  # fmt: skip
        wrong = {name: given for name, (given, right) in shapes.items() if given != right}
        if wrong or n == 0:
            raise DataError(
                f"{n} data sets and the models {list(self.names)} do not go with the shapes "
                f"{wrong}; expected one row for each data set and one column for each model."
            )

    @property
    def probabilities(self) -> FloatArray:
        """Posterior probability of each model given each data set, shape (n, K)."""
        return model_probabilities(self.log_z, self.prior)

    @property
    def table(self) -> pd.DataFrame:
        """One row for each model.

        ``prior``; ``mean_posterior``, the posterior probability averaged over data sets, with its
        standard error ``mean_posterior_se``: it equals the prior (Schad, Modrak & Vasishth 2024);
        ``share``, of the data sets that are of the model; and z-scores of three tests, standard
        normal for calibrated probabilities: ``z_prior`` of the mean posterior against the prior,
        ``z_shift`` of what was said against what was true, and ``z_extreme``, positive where
        probabilities are too extreme (:func:`over_dispersion`).
        """
        rows = []
        for k, probability in enumerate(self.probabilities.T):
            is_true = self.true == k
            n = len(probability)
            se = float(probability.std(ddof=1) / n**0.5) if n > 1 else np.nan
            mean = float(probability.mean())
            prior = float(self.prior[k])
            z_prior = (mean - prior) / se if se > 0.0 else np.nan
            tests = (z_prior, shift(probability, is_true), over_dispersion(probability, is_true))
            rows.append((prior, mean, se, float(is_true.mean()), *tests))
        columns = ["prior", "mean_posterior", "mean_posterior_se", "share", "z_prior", "z_shift",
                   "z_extreme"]  # fmt: skip
        return pd.DataFrame(rows, index=pd.Index(self.names, name="model"), columns=columns)

    @property
    def p_value(self) -> float:
        """Chance of z-scores as large as the largest if probabilities are calibrated (Bonferroni).

        Of two models one determines the other, and counts alone.
        """
        table = self.table[["z_prior", "z_shift", "z_extreme"]]
        z = np.abs(table.to_numpy()[:1] if len(self.names) == 2 else table.to_numpy())
        z = z[~np.isnan(z)]
        return float(min(1.0, 2.0 * stats.norm.sf(z.max()) * z.size)) if z.size else 1.0

    @property
    def calibrated(self) -> bool:
        """Whether nothing speaks against it: ``p_value`` is at least 0.001."""
        return self.p_value >= 1e-3

    def curve(self, n_bins: int = 10) -> pd.DataFrame:
        """How often what was said to be probable was true, in bins of equal width.

        All models together; of two models the second is left out, as it repeats the first. One row
        for each bin that is not empty: ``said``, the mean stated probability; ``true``, the share
        that was true, with its exact 95 % interval ``low`` to ``high``; and ``n``.
        """
        used = slice(0, 1) if len(self.names) == 2 else slice(None)
        said = self.probabilities[:, used]
        happened = (self.true[:, None] == np.arange(len(self.names)))[:, used]
        place = np.minimum((said * n_bins).astype(int), n_bins - 1)
        rows = []
        for i in range(n_bins):
            here = place == i
            n, count = int(here.sum()), int(happened[here].sum())
            if n == 0:
                continue
            interval = stats.binomtest(count, n).proportion_ci(0.95)
            rows.append((float(said[here].mean()), count / n, interval.low, interval.high, n))
        return pd.DataFrame(rows, columns=["said", "true", "low", "high", "n"])

    def __repr__(self) -> str:
        table = self.table
        means = zip(table["mean_posterior"], table["mean_posterior_se"], strict=True)
        columns = {
            "prior": table["prior"].map("{:.3f}".format),
            "mean posterior": [f"{mean:.3f} ± {se:.3f}" for mean, se in means],
            "of the data sets": table["share"].map("{:.3f}".format),
        }
        for test in ("z prior", "z shift", "z extreme"):
            columns[test] = table[test.replace(" ", "_")].map("{:.2f}".format)
        short = pd.DataFrame(columns, index=table.index.rename(None))
        verdict = (
            "nothing speaks against calibrated probabilities"
            if self.calibrated
            else "the probabilities are NOT calibrated"
        )
        warned = int(self.warned.sum())
        return (
            f"{short.to_string()}\n{len(self.true)} data sets, {warned} with a warning; "
            f"p = {self.p_value:.2g}: {verdict}"
        )


def check_calibration(
    models: Mapping[str, pm.Model],
    *,
    n_datasets: int = 100,
    prior_probs: Mapping[str, float] | None = None,
    method: str | Mapping[str, OfData] = "pt",
    random_seed: Any = None,
    executor: Any = None,
    progressbar: bool = True,
    **kwargs: Any,
) -> ModelCalibration:
    """Check that posterior probabilities of models are what they say.

    For each data set a model is drawn from the prior probabilities, its parameters and data from
    its prior predictive, and the posterior probability of every model is estimated. If all is
    right, the posterior probability of a model averaged over data sets is its prior probability,
    and of the data sets for which a model is given 80 % it made 80 % (Schad, Modrak & Vasishth
    2024). The check finds errors of log Z that are too small to be seen on one data set.

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
    executor : int or executor, optional
        Where data sets are drawn and estimated, as for :func:`pymc_tempering.sample`.
    progressbar : bool
        Show how many data sets are done. Default True.
    **kwargs
        Passed to :func:`pymc_tempering.estimate_logz`.

    Returns
    -------
    ModelCalibration
        Its print has the mean posterior probabilities and the tests; ``plot_calibration`` draws
        how often what was said was true. Where estimates carry warnings, it says of how many data
        sets. After Ctrl-C, of the data sets that were done.

    Raises
    ------
    ModelError
        For a model that cannot generate data, or models of different data.
    OptionError
        For fewer than two models, or options that do not fit, before any sampling.
    WorkerError
        If the workers of all data sets were lost, twice.
    KeyboardInterrupt
        After Ctrl-C before any data set was done.

    Warns
    -----
    TemperingWarning
        If there are fewer data sets than were requested, after Ctrl-C or where workers were lost.

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
    check_whole("n_datasets", n_datasets, 1)
    check_random_seed(random_seed)
    names = tuple(models)
    prior = check_prior(prior_probs, list(names))
    _check_models(models)
    check_executor(executor)
    functions = _functions(method, names, kwargs)
    options = {"method": method, "progressbar": False, "quiet": True, **kwargs}
    work = Replicator(list(models.values()), prior, functions, options)
    rngs = np.random.default_rng(random_seed).spawn(n_datasets)
    with phases(progressbar) as shown:
        done = shown.add("Data sets", n_datasets).advance
        results = run_tasks(executor, work.replicate, [(rng,) for rng in rngs], done=done)
    found = [result for result in results if isinstance(result, Replication)]
    lost = {i: result.why for i, result in enumerate(results) if isinstance(result, Lost)}
    if not found:
        raise WorkerError(f"The workers of all data sets were lost, and lost again: {lost}")
    if len(found) < n_datasets:
        why = "it was stopped"
        if lost:
            whose = ", ".join(set(lost.values()))
            why = f"the workers of {sorted(lost)} were lost twice ({whose})"
        text = f"the check is of {len(found)} of {n_datasets} data sets: {why}."
        measured = {"data_sets": len(found)}
        warn_of([Diagnostic("interrupted", text, "Run it again for the rest.", measured)])
    true, log_z, se, warned = map(np.array, zip(*found, strict=True))
    return ModelCalibration(names, prior, true, log_z, se, warned)


def _functions(
    method: str | Mapping[str, OfData], names: tuple[str, ...], options: Mapping[str, Any]
) -> list[OfData] | None:
    """Functions of the data in the order of names, where given; None for a method by name."""
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
    return [method[name] for name in names]


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
