"""What a model must be like to be tempered, checked before anything is compiled."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymc as pm
from pymc.model.transform.optimization import freeze_dims_and_data
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors

from pymc_tempering.engine.explorers.gibbs import Support
from pymc_tempering.errors import ModelError
from pymc_tempering.model.point import PointMap
from pymc_tempering.private import has_random_terms, is_improper, is_simulator
from pymc_tempering.types import FloatArray

__all__ = [
    "NO_FREE_VARIABLES",
    "N_STARTS",
    "check_finite",
    "copies_of_gps",
    "discrete_names",
    "freeze",
    "shared_values",
    "starting_points",
]

N_STARTS = 8
"""Starting points at which the log density is tried before a model is refused."""

NO_FREE_VARIABLES = (
    "The model has no free variables, so there is nothing to sample; give at least one variable no "
    "`observed` values."
)


def discrete_names(model: pm.Model) -> list[str]:
    """Names of the free variables that have no density."""
    return [rv.name for rv in model.free_RVs if rv.dtype not in ("float64", "float32")]


def freeze(model: pm.Model, *, discrete: bool = False) -> pm.Model:
    """Check a model and copy it with its data and dims fixed.

    Parameters
    ----------
    model : pymc.Model
        Not changed.
    discrete : bool
        Whether free variables may be discrete.

    Returns
    -------
    pymc.Model

    Raises
    ------
    ModelError
        If the model has no free variables, free discrete variables, flat variables that nothing
        depends on, simulators, variables that do not fit their coordinates, or a random graph.
    """
    if not model.free_RVs:
        raise ModelError(NO_FREE_VARIABLES)
    names = discrete_names(model)
    if names and not discrete:
        raise ModelError(
            f"The free variables {names} are discrete, and these moves need continuous ones. "
            "`method='pt'` takes others: compiled Gibbs sweeps where each entry has few values "
            "(`pymc_tempering.DiscreteTempering` as a step), else PyMC's own step methods "
            "(`CompoundTempering`). Faster: sum them out, by `pm.Mixture` or another marginal "
            "distribution (`pm.BetaBinomial`, `pm.ZeroInflatedPoisson`, ...), or by "
            '`pm.Potential("sum", pm.math.logsumexp(terms, axis=0).sum())` over their values. '
            "(`pymc_extras.marginalize` does it by itself, but installing it takes PyMC back below "
            "the 6.4 that this package needs, as of pymc-extras 0.15.)"
        )
    _check_simulators(model)
    _check_flat(model)
    _check_coordinates(model)
    try:
        is_random = has_random_terms([model.logp()])
    except (ValueError, NotImplementedError) as error:
        raise ModelError(f"The log density of the model cannot be built: {error}") from error
    if is_random:
        raise ModelError(
            "The log density changes from call to call, as with `pm.Minibatch` or a random "
            "variable inside a potential. Evidence needs the density of all the data: pass the "
            "whole data set instead."
        )
    with copies_of_gps():
        frozen = freeze_dims_and_data(model)
    frozen.check_bounds = model.check_bounds
    return frozen


@contextmanager
def copies_of_gps() -> Iterator[None]:
    """Copy a model without PyMC's notice on Gaussian processes.

    It is for those who go on to build on the copy, with the objects of the original. Copies that
    are made here are compiled, and nothing else.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Detected variables likely created by GP")
        yield


def _check_simulators(model: pm.Model) -> None:
    simulators = [rv.name for rv in model.basic_RVs if is_simulator(rv)]
    if simulators:
        raise ModelError(
            f"{simulators} are `pm.Simulator`s, whose density is a distance to data simulated "
            "afresh at every call, with neither a fixed value nor a gradient. Use "
            "`pm.sample_smc(kernel='abc')`, or give the model a likelihood that can be computed."
        )


def _check_coordinates(model: pm.Model) -> None:
    """Refuse variables of another length than the labels that their draws are stored with."""
    for name, dims in model.named_vars_to_dims.items():
        for dim, length in zip(dims, model.named_vars[name].type.shape, strict=False):
            labels = model.coords.get(dim)
            if labels is not None and length is not None and length != len(labels):
                raise ModelError(
                    f"{name!r} has length {length} along {dim!r}, and that coordinate has "
                    f"{len(labels)} labels, so that its draws could not be stored. Leave `shape` "
                    "away, or give the coordinate as many labels."
                )


def _check_flat(model: pm.Model) -> None:
    """Refuse flat variables that nothing else depends on: their posterior has no integral."""
    flat = [rv for rv in model.free_RVs if is_improper(rv)]
    terms = [*model.observed_RVs, *model.potentials, *(r for r in model.free_RVs if r not in flat)]
    used = set(ancestors(terms))
    idle = [rv.name for rv in flat if rv not in used]
    if idle:
        raise ModelError(
            f"The variables {idle} are flat and neither data nor another term of the model depend "
            "on them, so the posterior is improper and log Z infinite. Give them proper priors, or "
            "let the likelihood depend on them."
        )


def starting_points(
    start: FloatArray, random_seed: int, supports: Sequence[Support] = ()
) -> FloatArray:
    """Give the model's initial point and points around it, shape (8, D).

    Parameters
    ----------
    start : ndarray of shape (D,)
    random_seed : int
    supports : sequence of Support
        Of the discrete entries, which have any of their values in all points but the first.
    """
    rng = np.random.default_rng(random_seed)
    moved = start + rng.uniform(-1, 1, (N_STARTS - 1, start.size))
    for place, lowest, n_values in supports:
        moved[:, place] = rng.integers(lowest, lowest + n_values, N_STARTS - 1)
    return np.vstack([start, moved])


def check_finite(
    value_and_grad: Callable[[FloatArray], tuple[float, FloatArray]],
    points: PointMap,
    model: pm.Model,
    starts: FloatArray,
    more: Callable[[], FloatArray] | None = None,
) -> FloatArray:
    """Find where a log density is finite, or refuse the model.

    Parameters
    ----------
    value_and_grad : callable
    points : PointMap
    model : pymc.Model
    starts : ndarray of shape (n, D)
        The initial point, then others around it.
    more : callable, optional
        Gives further places, shape (m, D), where it is finite at none of these: draws of the prior.

    Returns
    -------
    ndarray of shape (D,)
        The first of them.

    Raises
    ------
    ModelError
        If there is none. Names the terms that are not finite at the initial point.
    """

    def is_finite(z: FloatArray) -> bool:
        value, grad = value_and_grad(z)
        return bool(np.isfinite(value) and np.isfinite(grad).all())

    further = np.empty((0, points.dim))
    place = next(filter(is_finite, starts), None)
    if place is None and more is not None:
        further = more()
        place = next(filter(is_finite, further), None)
    if place is not None:
        return place
    drawn = f" nor at {len(further)} draws from the prior" if len(further) else ""
    terms = {
        name: float(value)
        for name, value in model.point_logps(points.initial).items()
        if not np.isfinite(value)
    }
    raise ModelError(
        f"The log density is not finite at the model's initial point nor at {len(starts) - 1} "
        f"points around it{drawn}. Terms that are not finite at the initial point: "
        f"{terms or 'the gradient'}. Check the observed values against their distributions, or "
        "set `initval=`."
    )


def shared_values(variables: list[Any]) -> list[Any]:
    """Shared arrays that variables depend on, random generators left out.

    Parameters
    ----------
    variables : list of pytensor variables
    """
    return [
        variable
        for variable in ancestors(variables)
        if isinstance(variable, SharedVariable)
        and not isinstance(variable.get_value(borrow=True), np.random.Generator)
    ]
