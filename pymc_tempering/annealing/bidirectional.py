"""How accurate is a sampler on this model? Simulated data, for which log Z can be sandwiched."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from pymc_tempering.annealing.particles import anneal, anneal_options
from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.evidence.estimate import estimate_logz
from pymc_tempering.methods import METHODS
from pymc_tempering.model.graph import in_python
from pymc_tempering.model.open_data import with_observed
from pymc_tempering.options import check_random_seed, check_whole, resolve_model
from pymc_tempering.private.of_pymc import is_improper
from pymc_tempering.progress import phases
from pymc_tempering.schedule.grid import check_n_levels

ANNEALING_METHODS = {
    "hais": "hamiltonian",
    "ais": "fresh_momentum",
    "ais_random_walk": "random_walk",
}
"""Methods that bound log Z from both sides, and the transitions they use."""

type Method = str | Callable[..., float]


class Simulated(NamedTuple):
    """One simulated data set, with all that is known about it.

    Attributes
    ----------
    model : pymc.Model
        A copy of the model that observes the simulated data.
    data : dict of ndarray
        Simulated data, by the name of the observed variable.
    parameters : dict of ndarray
        Free variables that generated the data, by name: an exact draw from the posterior of
        `model`.
    """

    model: pm.Model
    data: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]


def bidirectional_check(
    model: pm.Model | None = None, *, n_repeats: int = 3,
    methods: Sequence[str] | Mapping[str, Method] = ("hais",), n_particles: int = 100,
    n_levels: int = 500, random_seed: Any = None, progressbar: bool = True,
    return_simulated: bool = False, **kwargs: Any,
) -> pd.DataFrame | tuple[pd.DataFrame, list[Simulated]]:  # fmt: skip
    r"""Measure the accuracy of a sampler on this model by bidirectional Monte Carlo.

    For each repeat (Grosse, Ghahramani & Adams 2015)

    1. parameters and data are drawn from the prior predictive, and the model is conditioned on the
       data. The parameters are then an exact draw from its posterior;
    2. forward annealing from the base gives a stochastic lower bound of log Z;
    3. reverse annealing from draws of a Markov chain that starts at the exact draw, and so is
       stationary from its first state, gives a stochastic upper bound.

    The bounds hold whatever the sampler does wrong: each is violated by more than a nats with
    probability at most ``exp(-a)``. A small gap proves both accurate. Simulated data resemble real
    ones if the model is any good, so the gap says what accuracy to expect there.

    Parameters
    ----------
    model : pymc.Model, optional
        With observed variables. Default: the model of the context.
    n_repeats : int
        Fresh data sets, default 3.
    methods : sequence of str, or mapping of str to str or callable
        "hais", "ais" (fresh momentum), "ais_random_walk", which bound log Z from both sides; any
        other method of :func:`pymc_tempering.estimate_logz`, by name; or
        ``{"mine": function}`` with ``function(model, random_seed=...)`` that returns log Z. Those
        are held against the tightest bounds.
    n_particles, n_levels : int
        Of each annealing run in each direction.
    random_seed : int or numpy.random.Generator, optional
    progressbar : bool
        Show which repeat and method are done, with the gap of the last. Default True.
    return_simulated : bool
        Return the simulated data sets too, to put exact values or other methods beside the bounds.
        Default False.
    **kwargs
        Passed on to :func:`pymc_tempering.anneal`, for instance ``tune``, ``base`` or
        ``n_leapfrog``.

    Returns
    -------
    pandas.DataFrame
        One row per repeat and method: ``repeat``, ``method``, ``log_z``, ``lower`` and ``upper``
        (the method's own bounds, or the tightest known), ``gap`` in nats: ``upper - lower`` of a
        method with bounds; for others how far ``log_z`` can be from the truth if the bounds hold.
    list of Simulated
        With `return_simulated` only; one data set for each repeat, in order.

    Raises
    ------
    ModelError
        For a model that cannot generate data: no observed variables, potentials, flat priors, or a
        distribution without random draws.
    OptionError
        For unknown methods or arguments, before any sampling.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=[1.0, 2.0])
    >>> table = bidirectional_check(model, n_repeats=1, n_particles=50, n_levels=50, random_seed=1,
    ...                             progressbar=False)
    >>> bool(table["gap"].iloc[0] < 0.5)
    True
    """
    check_whole("n_repeats", n_repeats, 1)
    check_whole("n_particles", n_particles, 1)
    check_n_levels(n_levels)
    check_random_seed(random_seed)
    model = resolve_model(model, "bidirectional_check")
    named = _check_methods(methods)
    _check_options(kwargs)
    check_generative(model)
    rows: list[dict[str, Any]] = []
    all_simulated = []
    with phases(progressbar) as work:
        phase = work.add("Repeats x methods", n_repeats * len(named))
        for repeat, rng in enumerate(np.random.default_rng(random_seed).spawn(n_repeats)):
            data_rng, *method_rngs = rng.spawn(1 + len(named))
            simulated = simulate(model, data_rng)
            conditioned = simulated.model
            one_draw = {name: value[None, None] for name, value in simulated.parameters.items()}
            draws = az.from_dict({"posterior": one_draw})
            all_simulated.append(simulated)
            of_repeat: list[dict[str, Any]] = []
            for (name, method), method_rng in zip(named.items(), method_rngs, strict=True):
                row: dict[str, Any] = {"repeat": repeat, "method": name}
                if method in ANNEALING_METHODS:
                    estimate = anneal(
                        conditioned, n_particles=n_particles, n_levels=n_levels, direction="both",
                        draws=draws, transitions=ANNEALING_METHODS[method], progressbar=False,
                        random_seed=method_rng, **kwargs,
                    ).estimate  # fmt: skip
                    row |= {n: getattr(estimate, n) for n in ("log_z", "lower", "upper")}
                    row["gap"] = row["upper"] - row["lower"]
                else:
                    row["log_z"] = _other_estimate(method, conditioned, method_rng)
                of_repeat.append(row)
                gap = f", gap {row['gap']:.2g} nats" if "gap" in row else ""
                phase.advance(note=f"repeat {repeat}, {name}{gap}")
            _hold_against_bounds(of_repeat)
            rows += of_repeat
    table = pd.DataFrame(rows, columns=["repeat", "method", "log_z", "lower", "upper", "gap"])
    return (table, all_simulated) if return_simulated else table


def simulate(model: pm.Model, rng: np.random.Generator) -> Simulated:
    """Draw parameters and data from the prior predictive; a copy of the model has the data.

    A distribution that cannot be drawn from is a ModelError.
    """
    variables = [*model.free_RVs, *model.observed_RVs]
    try:
        # one draw: compiling would cost more than the interpreter
        with in_python():
            values = pm.draw(variables, random_seed=rng, mode="FAST_COMPILE")
    except (NotImplementedError, ValueError, TypeError) as error:
        raise ModelError(
            f"Data cannot be simulated from this model: {error}. Every distribution needs a way to "
            "draw from it; give `pm.CustomDist` its `random` function."
        ) from error
    drawn = {rv.name: np.asarray(value) for rv, value in zip(variables, values, strict=True)}
    conditioned = with_observed(
        model, lambda name, old: pt.constant(drawn[name].astype(old.dtype), name=name)
    )
    return Simulated(
        conditioned,
        {rv.name: drawn[rv.name] for rv in model.observed_RVs},
        {rv.name: drawn[rv.name] for rv in model.free_RVs},
    )


def check_generative(model: pm.Model) -> None:
    """Refuse a model that cannot generate data."""
    flat = [rv.name for rv in model.free_RVs if is_improper(rv)]
    problems = {
        "no observed variables": not model.observed_RVs,
        f"the potentials {[p.name for p in model.potentials]}, which change the prior or the "
        "likelihood in a way that cannot be simulated": bool(model.potentials),
        f"the flat priors {flat}, which cannot be drawn from": bool(flat),
    }
    for problem, is_there in problems.items():
        if is_there:
            raise ModelError(
                f"The check simulates data from the model, but it has {problem}. Write the model "
                "with proper priors and observed distributions, or bound log Z of the real data "
                "with `anneal(model, direction='both')`."
            )


def _check_methods(methods: Any) -> dict[str, Method]:
    sequence = isinstance(methods, Sequence | set) and not isinstance(methods, str)
    if not sequence and not isinstance(methods, Mapping):
        raise OptionError(
            f"`methods` is {methods!r}; expected a sequence of names, as ['hais'], or a mapping of "
            "names to functions of a model."
        )
    named = dict(methods) if isinstance(methods, Mapping) else {name: name for name in methods}
    known = sorted({*ANNEALING_METHODS, *METHODS})
    for name, method in named.items():
        if not callable(method) and method not in known:
            raise OptionError(
                f"Unknown method {name!r}; the known ones are {known}, or a mapping of a name to a "
                "function of a model."
            )
    if not any(method in ANNEALING_METHODS for method in named.values()):
        raise OptionError(
            f"None of the methods {sorted(named)} bounds log Z from both sides; add one of "
            f"{sorted(ANNEALING_METHODS)}."
        )
    return named


def _check_options(options: Mapping[str, Any]) -> None:
    # the rest the check settles itself
    known = anneal_options() - {"model", "direction", "draws", "transitions"}
    unknown = sorted(set(options) - known)
    if unknown:
        own = sorted(set(inspect.signature(bidirectional_check).parameters) - {"kwargs"})
        raise OptionError(
            f"bidirectional_check does not know the arguments {unknown}; it has {own}, and passes "
            f"{sorted(known - set(own))} on to `anneal`. Data, starting draws and direction are "
            "its own business."
        )


def _other_estimate(method: Method, model: pm.Model, rng: np.random.Generator) -> float:
    seed = int(rng.integers(2**31))
    if callable(method):
        return float(method(model, random_seed=seed))
    estimate = estimate_logz(model, method=method, random_seed=seed, progressbar=False, quiet=True)
    return estimate.log_z


def _hold_against_bounds(rows: list[dict[str, Any]]) -> None:
    lower = max(row["lower"] for row in rows if "lower" in row)
    upper = min(row["upper"] for row in rows if "upper" in row)
    for row in rows:
        if "gap" not in row:
            row |= {"lower": lower, "upper": upper}
            row["gap"] = max(abs(row["log_z"] - lower), abs(upper - row["log_z"]))
