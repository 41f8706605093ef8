"""Posterior draws of a DataTree: log densities there, and the flat unconstrained vectors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.model.transform.conditioning import remove_value_transforms
from pymc.model.transform.optimization import freeze_dims_and_data
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace, vectorize_graph

from pymc_tempering.errors import DataError
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.freeze import copies_of_gps
from pymc_tempering.model.graph import interpreted
from pymc_tempering.model.point import PointMap
from pymc_tempering.private.of_pymc import rewrite_parameter_checks
from pymc_tempering.types import BoolArray, FloatArray, IntArray


def constrained_model(model: pm.Model) -> pm.Model:
    """Copy of a model whose values are those of the posterior: data fixed, no transforms.

    Its log density has no Jacobian terms. A ratio of two such densities at one point is that of
    the unconstrained densities as well, since both have the same Jacobian.
    """
    with copies_of_gps():
        frozen = freeze_dims_and_data(model)
        # PyMC 6.4 does not transform models that have initial values, which mean nothing here
        frozen.rvs_to_initial_values.update(dict.fromkeys(frozen.rvs_to_initial_values))
        return remove_value_transforms(frozen)


def _posterior(idata: xr.DataTree, model: pm.Model, hint: str) -> xr.Dataset:
    """Refuse a DataTree without draws of all free variables of a model; its posterior."""
    if "posterior" not in idata.children:
        raise DataError(
            f"The DataTree has the groups {sorted(map(str, idata.children))} but no `posterior`; "
            "pass the result of `pm.sample`."
        )
    posterior = idata["posterior"].dataset
    missing = [rv.name for rv in model.free_RVs if rv.name not in posterior]
    if missing:
        raise DataError(
            f"The posterior lacks the free variables {missing} of the model; it has "
            f"{sorted(map(str, posterior.data_vars))}. Pass draws of the same model{hint}."
        )
    return posterior


def stack_draws(idata: xr.DataTree, model: pm.Model) -> dict[str, np.ndarray]:
    """Draws of a `constrained_model`'s free variables, each of shape (n_chains * n_draws, ...).

    DataError if the group ``posterior`` or a variable is missing, or has another shape.
    """
    posterior = _posterior(idata, model, "")
    draws = {}
    point = model.initial_point(random_seed=0)
    for rv in model.free_RVs:
        value = model.rvs_to_values[rv]
        array = posterior[rv.name].transpose("chain", "draw", ...).values
        expected = np.shape(point[value.name])
        if array.shape[2:] != expected:
            raise DataError(
                f"{rv.name!r} has shape {array.shape[2:]} in the posterior and {expected} in the "
                "model. Pass draws of the same model."
            )
        # -1 for the number of draws is ambiguous for a variable without entries
        n_draws = array.shape[0] * array.shape[1]
        draws[rv.name] = array.reshape(n_draws, *expected).astype(value.dtype)
    return draws


def evaluate(
    model: pm.Model, outputs: list[Any], draws: Mapping[str, np.ndarray]
) -> list[FloatArray]:
    """Values of graphs of a `constrained_model` at draws of shape (n, ...): arrays of (n, ...).

    In nats for log densities; ``-inf`` where parameters are invalid, also for nan.
    """
    values = [model.rvs_to_values[rv] for rv in model.free_RVs]
    batched = [pt.tensor(shape=(None, *value.type.shape), dtype=value.dtype) for value in values]
    # a check of parameters is one for all draws once there are many: it must be a switch before
    checked = FunctionGraph(outputs=outputs, clone=False)
    rewrite_parameter_checks(checked)
    graphs = vectorize_graph(list(checked.outputs), dict(zip(values, batched, strict=True)))
    with model:
        # one call for many draws: compiling would cost more than the interpreter
        function = interpreted(batched, graphs, on_unused_input="ignore")
    arrays = [draws[rv.name] for rv in model.free_RVs]
    n = len(arrays[0])
    results: list[Any] = [None] * len(outputs)
    with np.errstate(all="ignore"):
        # not all in one call: the whole data enter it once for each draw
        for start in range(0, max(n, 1), 500):
            part = slice(start, start + 500)
            for i, value in enumerate(function(*(a[part] for a in arrays))):
                if results[i] is None:
                    # one without draws in it is the same for all
                    of_one = np.shape(value)[np.ndim(value) - outputs[i].ndim :]
                    results[i] = np.empty((n, *of_one))
                results[i][part] = value
    return [np.where(np.isnan(values), -np.inf, values) for values in results]


def constrained_draws(
    model: pm.Model, names: Sequence[str], points: PointMap
) -> Callable[[FloatArray], dict[str, np.ndarray]]:
    """Compile what maps vectors ``z`` (n, D) to values (n, ...) of these variables of the model.

    They are free variables and deterministics. Shared data are read when it is called. ``points``
    are those of the density that the vectors are of: a frozen model has another order of variables.
    """
    outputs = model.replace_rvs_by_values([model[name] for name in names])
    values_of = {v.name: v for v in model.value_vars}
    ordered = [values_of[name] for name in points.names]
    batched = [pt.tensor(v.name, shape=(None, *v.type.shape), dtype=v.dtype) for v in ordered]
    graphs = vectorize_graph(outputs, dict(zip(ordered, batched, strict=True)))
    function = interpreted(batched, graphs, on_unused_input="ignore")
    ends = np.cumsum(points.sizes)[:-1]

    def values(z: FloatArray) -> dict[str, np.ndarray]:
        parts = np.split(points.values(z), ends, axis=1)
        layout = zip(parts, points.shapes, points.dtypes, strict=True)
        results = function(
            *(part.reshape(len(z), *shape).astype(dtype) for part, shape, dtype in layout)
        )
        found = {}
        for name, output, result in zip(names, outputs, results, strict=True):
            # what depends on the data alone is the same for all
            shape = (len(z), *np.shape(result)[np.ndim(result) - output.ndim :])
            found[name] = np.array(np.broadcast_to(result, shape))
        return found

    return values


def log_jacobian(model: pm.Model, constrained: pm.Model) -> Any:
    """Graph of what the transforms of a model add to its log density.

    It is written in the values of `constrained`, the model's `constrained_model`.
    """
    total = pt.constant(0.0)
    for original in model.free_RVs:
        transform = model.rvs_to_transforms[original]
        if transform is None:
            continue
        rv = constrained[original.name]
        inputs = constrained.replace_rvs_by_values(list(rv.owner.inputs))
        free = transform.forward(constrained.rvs_to_values[rv], *inputs)
        total = total + transform.log_jac_det(free, *inputs).sum()
    return total


def differing(
    recorded: FloatArray,
    now: FloatArray,
    sizes: Callable[[IntArray], FloatArray],
    eps: float = float(np.finfo(np.float64).eps),
) -> BoolArray:
    """Draws at which two log densities, in nats and of shape (n,), differ by more than rounding.

    A sum may have an error of 300 units of the last digit of what is summed.

    `sizes` gives, for positions of draws, the magnitude in nats of what is summed there. It is
    asked only where the sums themselves do not explain the difference.

    Examples
    --------
    >>> recorded, now = np.array([-1.0, -1.0, 3e5]), np.array([-1.0 + 1e-11, -1.5, 3e5 + 1e-3])
    >>> differing(recorded, now, lambda index: np.full(index.size, 1e3)).tolist()
    [False, True, True]
    """
    rounding = 300.0 * eps
    with np.errstate(invalid="ignore"):
        difference = np.abs(recorded - now)
    same = (recorded == now) | (np.isnan(recorded) & np.isnan(now))
    same |= difference <= rounding * (1.0 + np.abs(recorded))
    left = np.flatnonzero(~same & np.isfinite(difference))
    if left.size:
        same[left] = difference[left] <= rounding * (1.0 + sizes(left))
    return ~same


def size_of_terms(model: pm.Model) -> Any:
    """Graph of the sum of the magnitudes of all terms of a model's log density."""
    return sum((pt.abs(term).sum() for term in model.logp(sum=False)), start=pt.constant(0.0))


def term_sizes(model: pm.Model, points: Sequence[Mapping[str, Any]]) -> FloatArray:
    """Sum of the magnitudes of all terms of a log density (nats) at points of value variables."""
    function = interpreted(model.value_vars, size_of_terms(model), on_unused_input="ignore")
    names = [variable.name for variable in model.value_vars]
    return np.array([float(function(*(point[name] for name in names))) for point in points])


def unconstrained_draws(
    idata: xr.DataTree, density: CompiledDensity, *, max_draws: int = 4000
) -> FloatArray:
    """Posterior draws of any sampler as flat unconstrained vectors, shape (n, D).

    More than `max_draws`, plenty for moments, are thinned evenly. DataError if the group
    ``posterior`` or a free variable is missing, or has another shape.
    """
    model = density.model
    hint = ", with all its free variables (bambi leaves some out: see `omit_offsets` of its `fit`)"
    posterior = _posterior(idata, model, hint)
    names = [rv.name for rv in model.free_RVs]
    shapes = dict(zip(density.points.names, density.points.shapes, strict=True))
    inputs, outputs = [], []
    for rv in model.free_RVs:
        value = rv.clone()
        inputs.append(value)
        transform = model.rvs_to_transforms[rv]
        outputs.append(value if transform is None else transform.forward(value, *rv.owner.inputs))
    # bounds of one variable may be other variables, whose drawn values are meant
    outputs = graph_replace(outputs, dict(zip(model.free_RVs, inputs, strict=True)), strict=False)
    forward = interpreted(inputs, outputs, on_unused_input="ignore")
    n = posterior.sizes["chain"] * posterior.sizes["draw"]
    picked = np.unique(np.linspace(0, n - 1, min(n, max_draws)).astype(int))
    arrays = {name: posterior[name].transpose("chain", "draw", ...).values for name in names}
    # not by xarray, which cannot stack variables without entries
    values = {name: array.reshape(n, *array.shape[2:]) for name, array in arrays.items()}
    value_names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    draws = np.empty((picked.size, density.dim))
    for row, i in enumerate(picked):
        try:
            results = forward(*(values[name][i] for name in names))
        except TypeError as error:
            raise DataError(
                "The shapes of the posterior's variables, "
                f"{ {name: values[name].shape[1:] for name in names} }, are not those of this "
                f"model, whose unconstrained values have {shapes}. Pass draws of the same model."
            ) from error
        draws[row] = density.points.ravel(dict(zip(value_names, results, strict=True)))
    if not np.isfinite(draws).all():
        raise DataError("Some posterior draws lie outside the support of this model.")
    return draws
