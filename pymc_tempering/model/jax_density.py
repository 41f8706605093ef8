"""A model's log density as a function of JAX: of the flat vector, and of the data beside it.

PyMC's own ``get_jaxified_logp`` makes constants of the data. As arguments they are not copied into
what JAX compiles, and can be given others, or an axis of data sets that ``jax.vmap`` goes over.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from pymc.pytensorf import compile as pymc_compile
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_tempering.errors import ModelError
from pymc_tempering.model.compile import N_VERIFIED, CompiledDensity
from pymc_tempering.model.freeze import starting_points
from pymc_tempering.model.graph import density_graph
from pymc_tempering.model.open_data import value_of
from pymc_tempering.model.python_density import check_jax
from pymc_tempering.model.verify import check_same_density
from pymc_tempering.private.of_pytensor import jax_dispatch, jitted


class JaxDensity(NamedTuple):
    """A log density in nats, ``log_density(z, *data.values())``, for JAX to trace.

    ``data`` has the observed values and all other arrays of real numbers, by the names that they
    have in the model; those of no name are numbered.
    """

    log_density: Callable[..., Any]
    data: dict[str, np.ndarray]


def jax_density(density: CompiledDensity) -> JaxDensity:
    """Compile for JAX the density of a model that has been compiled before.

    It is in double precision within ``jax.enable_x64(True)``. Value and gradient are compared with
    those of `density` at starting points. ModelError names the Op that JAX cannot compile;
    OptionError where JAX is not installed.
    """
    check_jax()
    if density.points.map is not None:
        raise _refusal("it is in the coordinates of a map")
    import jax

    frozen, term = density.model, density.model.logp()
    constants = _data(frozen, term)
    inputs = {value: value.type(f"data {name}") for name, value in constants.items()}
    data = {name: np.asarray(value_of(value)) for name, value in constants.items()}
    graph = density_graph(frozen, density.points, term, inputs)
    if graph.no_gradient:
        raise _refusal(f"it has no gradient ({graph.no_gradient})")
    function = None
    with jax.enable_x64(True):
        try:
            with frozen:
                function = pymc_compile(
                    [graph.z, *inputs.values()], [graph.log_density], mode="JAX",
                    on_unused_input="ignore",
                )  # fmt: skip
            inner, dtype = jitted(function), graph.z.dtype

            def log_density(z: Any, *arguments: Any) -> Any:
                return inner(z.astype(dtype), *arguments)[0].reshape(())

            both = jax.jit(jax.value_and_grad(log_density))
            starts = starting_points(density.start)[:N_VERIFIED]
            found = [both(z, *data.values()) for z in starts]
        except Exception as error:  # dispatch of others' Ops raises what it likes
            named = "" if function is None else _failing_op(function, list(data.values()))
            reason = str(error).strip().split("\n")[0]
            raise _refusal(f"{named}{type(error).__name__}: {reason}") from error
    for z, (value, gradient) in zip(starts, found, strict=True):
        expected = density.value_and_grad(z)
        check_same_density(z, (float(value), np.asarray(gradient)), expected, "jax")
    return JaxDensity(log_density, data)


def _data(frozen: Any, term: Any) -> dict[str, Any]:
    """Constants of a density that can be arguments: no length or axis is among them."""
    observed = {frozen.rvs_to_values[rv]: rv.name for rv in frozen.observed_RVs}
    found: dict[str, Any] = {}
    for i, value in enumerate(ancestors([term], blockers=observed)):
        is_array = isinstance(value, Constant) and np.size(value.data) > 1
        if value in observed or (is_array and value.type.dtype.startswith("float")):
            found[observed.get(value) or value.name or f"constant {i}"] = value
    return found


def _refusal(why: str) -> ModelError:
    return ModelError(
        f"JAX cannot compute the log density of this model: {why}. Leave `backend` at 'numba', or "
        "write that part of the model in another way."
    )


def _failing_op(function: Any, data: Sequence[np.ndarray]) -> str:
    """Name the first Op of a graph that JAX cannot trace; empty where each can be alone."""
    import jax

    graph = function.maker.fgraph
    known: dict[Any, Any] = dict(zip(graph.inputs[1:], data, strict=True))
    known[graph.inputs[0]] = jax.ShapeDtypeStruct(graph.inputs[0].type.shape, "float64")
    for node in graph.toposort():
        fixed = [v.data if isinstance(v, Constant) else None for v in node.inputs]
        moving = [known[v] for v in node.inputs if not isinstance(v, Constant)]

        def call(*given: Any, node: Any = node, fixed: list[Any] = fixed) -> Any:
            rest = iter(given)
            made = jax_dispatch()(node.op, node=node)
            found = made(*(next(rest) if value is None else value for value in fixed))
            return found if isinstance(found, tuple | list) else (found,)

        try:
            outputs = jax.eval_shape(call, *moving)
        except Exception:  # noqa: BLE001  whatever it is, the Op is found
            return f"the Op {node.op} raises "
        known.update(zip(node.outputs, outputs, strict=True))
    return ""
