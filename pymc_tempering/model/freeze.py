"""What a model must be like to be tempered, checked before anything is compiled."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.transform.optimization import freeze_dims_and_data
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors

from pymc_tempering.engine.explorers.gibbs import Support
from pymc_tempering.errors import ModelError
from pymc_tempering.model.point import PointMap
from pymc_tempering.private.of_pymc import (
    constant_values,
    has_random_terms,
    is_improper,
    is_simulator,
)
from pymc_tempering.types import FloatArray

NO_FREE_VARIABLES = (
    "The model has no free variables, so there is nothing to sample; give at least one variable no "
    "`observed` values."
)


def discrete_names(model: pm.Model) -> list[str]:
    """Names of the free variables that have no density."""
    return [rv.name for rv in model.free_RVs if rv.dtype not in ("float64", "float32")]


def freeze(model: pm.Model, *, discrete: bool = False, but: Sequence[str] = ()) -> pm.Model:
    """Check a model and copy it with its data and dims fixed; the model itself is not changed.

    Data that `but` names stay shared variables, and so do the lengths of their first dims and those
    that follow from them.

    ModelError if it has no free variables, free discrete variables without `discrete`, flat
    variables that nothing depends on, simulators, variables that do not fit their coordinates, or
    a random graph.
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
    with naming_shapes(model):
        is_random = has_random_terms([model.logp()])
    if is_random:
        raise ModelError(
            "The log density changes from call to call, as with `pm.Minibatch` or a random "
            "variable inside a potential. Evidence needs the density of all the data: pass the "
            "whole data set instead."
        )
    with copies_of_gps(), naming_shapes(model):
        of_open = {dim for name in but for dim in model.named_vars_to_dims.get(name, ())[:1]}
        data = [name for name in model.named_vars if name not in but]
        dims = [dim for dim in model.dim_lengths if dim not in of_open]
        frozen = freeze_dims_and_data(model, data=data, dims=dims)
    return _like(model, frozen)


def copied(model: pm.Model) -> pm.Model:
    """Copy a model with nothing fixed; PyMC's own copy of one with ``initval=`` is an error."""
    with copies_of_gps():
        return _like(model, freeze_dims_and_data(model, data=[], dims=[]))


def _like(model: pm.Model, copy: pm.Model) -> pm.Model:
    """Give a copy the model's `check_bounds`, and its order of free variables, which PyMC changes.

    A base that was given has that order.
    """
    copy.check_bounds = model.check_bounds
    order = {rv.name: i for i, rv in enumerate(model.free_RVs)}
    copy.free_RVs.sort(key=lambda rv: order[rv.name])
    return copy


@contextmanager
def copies_of_gps() -> Iterator[None]:
    """Copy a model without PyMC's notice on Gaussian processes.

    The notice is for those who go on to build on the copy with the objects of the original.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Detected variables likely created by GP")
        yield


@contextmanager
def naming_shapes(model: pm.Model) -> Iterator[None]:
    """Say which term cannot be built, and the shapes of variables and data, where one cannot.

    PyTensor alone says only "Incompatible Elemwise input shapes [(5,), (4,)]".
    """
    try:
        yield
    except ModelError:
        raise
    except (ValueError, TypeError, NotImplementedError) as error:
        terms = [*model.basic_RVs, *model.potentials]
        wrong = [repr(term.name) for term in terms if not _can_be_built(model, term)]
        shapes = {
            data.name: tuple(data.get_value(borrow=True).shape)
            for data in model.data_vars
            if isinstance(data, SharedVariable)
        }
        observed = {rv.name: model.rvs_to_values[rv].type.shape for rv in model.observed_RVs}
        shapes |= {f"{name} (observed)": shape for name, shape in observed.items()}
        shapes |= {rv.name: rv.type.shape for rv in model.free_RVs}
        where = f" at {', '.join(wrong)}" if 0 < len(wrong) < len(terms) else ""
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape)
        raise ModelError(
            f"The log density of the model cannot be built{where}: {str(error).strip()} Shapes of "
            f"data and variables: {listed or 'all are scalars'}. Change those that do not fit."
        ) from error


def _can_be_built(model: pm.Model, term: Any) -> bool:
    try:
        model.logp(vars=[term])
    except (ValueError, TypeError, NotImplementedError):
        return False
    return True


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


def points_of(frozen: pm.Model) -> PointMap:
    """Give the flat vector of a model; ModelError where it has no entries."""
    points = PointMap.from_model(frozen)
    if points.dim == 0:
        raise ModelError(
            f"The free variables {list(points.names)} have no entries, so there is nothing to "
            "sample; look at their shapes and at the lengths of the coordinates they are over."
        )
    return points


def starting_points(start: FloatArray, supports: Sequence[Support] = ()) -> FloatArray:
    """Give the model's initial point and seven points around it, shape (8, D).

    At these the log density is tried before a model is refused. Discrete entries have any value of
    their supports in all points but the first.
    """
    # what compiles a model must not depend on chance
    rng, n_moved = np.random.default_rng(0), 7
    moved = start + rng.uniform(-1, 1, (n_moved, start.size))
    for place, lowest, n_values in supports:
        moved[:, place] = rng.integers(lowest, lowest + n_values, n_moved)
    return np.vstack([start, moved])


def check_finite(
    value_and_grad: Callable[[FloatArray], tuple[float, FloatArray]],
    points: PointMap,
    model: pm.Model,
    starts: FloatArray,
    more: Callable[[], FloatArray] | None = None,
) -> FloatArray:
    """Find the first point, of shape (D,), with a finite log density and gradient.

    It is looked for among `starts` of shape (n, D), the initial point first; then among what `more`
    gives, draws of the prior. ModelError names the terms that are not finite at the initial point.
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


MAX_VALUES = 500
"""Of one entry. A sweep evaluates the density at each, and steps between neighbours cost less."""

_BOUNDS: dict[Any, Callable[[list[Any]], tuple[Any, Any]]] = {
    pm.Bernoulli.rv_type: lambda _: (0, 1),
    pm.Categorical.rv_type: lambda p: (0, p[0].shape[-1] - 1),
    pm.DiscreteUniform.rv_type: lambda p: (p[0], p[1]),
    pm.Binomial.rv_type: lambda p: (0, p[0]),
    pm.BetaBinomial.rv_type: lambda p: (0, p[0]),
    pm.HyperGeometric.rv_type: lambda p: (0, p[2]),
}
"""Lowest and highest value, from the parameters of a distribution; values that cannot occur may be
among them."""


def finite_supports(model: pm.Model, points: PointMap) -> tuple[Support, ...]:
    """Place in the flat vector, lowest value and number of values of each discrete entry.

    ModelError says which variable is not known to have few values, and why.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x")
    ...     k = pm.DiscreteUniform("k", [-1, 2], 3)
    >>> finite_supports(model, PointMap.from_model(model))
    ((1, -1, 5), (2, 2, 2))
    """
    discrete, supports, place = set(discrete_names(model)), [], 0
    by_value = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
    for name, shape, size in zip(points.names, points.shapes, points.sizes, strict=True):
        rv = by_value[name]
        if rv.name in discrete:
            ends = [np.broadcast_to(end, shape).ravel() for end in _bounds(rv)]
            for i, (lowest, highest) in enumerate(zip(*ends, strict=True)):
                n_values = int(highest) - int(lowest) + 1
                if n_values > MAX_VALUES:
                    raise ModelError(
                        f"{rv.name!r} has {n_values} values in an entry, more than {MAX_VALUES}."
                    )
                supports.append((place + i, int(lowest), n_values))
        place += size
    return tuple(supports)


def _bounds(rv: Any) -> tuple[np.ndarray, np.ndarray]:
    op = rv.owner.op
    kind = getattr(op, "_print_name", (type(op).__name__,))[0]
    if type(op) not in _BOUNDS:
        raise ModelError(f"{rv.name!r} ({kind}) is not known to have finitely many values.")
    ends = _BOUNDS[type(op)](op.dist_params(rv.owner))
    values = constant_values([pt.as_tensor(end) for end in ends])
    if values is None:
        raise ModelError(
            f"The values that {rv.name!r} ({kind}) can have depend on other variables."
        )
    return values[0], values[1]
