"""Hooks into parts of PyMC."""

import sys
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from pymc_tempering.private.of_pytensor import JAX_DISPATCH, jax_dispatch


class ProgressHooks:
    """Columns of a step's own in PyMC's progress bar.

    PyMC asks a step for ``_progressbar_config`` and ``_make_progressbar_update_functions``, names
    that it keeps to its own steps. There is no public way to add a column.
    """

    # columns, and what they show before the first draw; what they show, from a draw's statistics
    progress_columns: Callable[[int], tuple[list[Any], dict[str, list[Any]]]]
    progress_update: Callable[[], Callable[[dict[str, Any]], dict[str, Any]]]

    def _progressbar_config(self, n_chains: int = 1) -> tuple[list[Any], dict[str, list[Any]]]:
        return self.progress_columns(n_chains)

    def _make_progressbar_update_functions(self) -> tuple[Any, ...]:
        return (self.progress_update(),)


def is_circular(transform: Any) -> bool:
    """Whether a value variable is an angle that may be any number of turns away.

    PyMC's class is not public, and ``pymc.dims`` has another: they share a name.
    """
    return getattr(transform, "name", None) == "circular"


def is_packed_cholesky(transform: Any) -> bool:
    """Whether values are rows of a Cholesky factor with log diagonals; the class is not public."""
    from pymc.distributions.transforms import CholeskyCovPacked

    return isinstance(transform, CholeskyCovPacked)


def is_improper(rv: Any) -> bool:
    """Whether a variable has no proper law: ``pm.Flat`` or ``pm.HalfFlat``, by private classes."""
    from pymc.distributions.continuous import FlatRV, HalfFlatRV

    return isinstance(rv.owner.op, FlatRV | HalfFlatRV)


def is_log_transform(transform: Any) -> bool:
    """Whether a value variable is the logarithm of its variable; the class is not public."""
    from pymc.distributions.transforms import LogTransform

    return isinstance(transform, LogTransform)


def is_ordered(transform: Any) -> bool:
    """Whether a transform keeps values in increasing order; the class is not public."""
    from pymc.distributions.transforms import Ordered

    return isinstance(transform, Ordered)


def is_simplex(transform: Any) -> bool:
    """Whether a transform leaves out the last share of values that sum to one."""
    from pymc.distributions.transforms import SimplexTransform

    return isinstance(transform, SimplexTransform)


def is_simulator(rv: Any) -> bool:
    """Whether a variable is a ``pm.Simulator``, whose density is a distance to simulated data."""
    from pymc.distributions.simulator import SimulatorRV

    return isinstance(rv.owner.op, SimulatorRV)


def has_total_size(rv: Any) -> bool:
    """Whether ``total_size=`` was given for a variable, whose log likelihood it multiplies.

    The variable is then wrapped; inputs of the wrapper are the variable and a size for each axis.
    """
    from pymc.variational.minibatch_rv import MinibatchRandomVariable

    return isinstance(rv.owner.op, MinibatchRandomVariable)


def parameter_error() -> type[Exception]:
    """What PyMC's checks of parameters raise, such as for a negative standard deviation."""
    from pymc.logprob.utils import ParameterValueError

    return ParameterValueError


def reseed(function: Any, seed: int) -> None:
    """Give the generators of a compiled function that draws variables a new seed, in place.

    ``pymc.pytensorf.compile`` takes a seed once, when the function is made.
    """
    from pymc.pytensorf import reseed_rngs

    shared = function.get_shared()
    generators = [v for v in shared if isinstance(v.get_value(borrow=True), np.random.Generator)]
    reseed_rngs(generators, seed)


def constant_values(variables: list[Any]) -> tuple[np.ndarray, ...] | None:
    """Values of variables that depend on no other variable of a model; None where any does.

    ``eval`` of the shape of a random variable would draw it, and compile what draws it.
    """
    from pymc.exceptions import NotConstantValueError
    from pymc.pytensorf import constant_fold

    try:
        return constant_fold(variables)
    except NotConstantValueError:
        return None


def draws_from_prior(model: Any) -> Callable[[int], dict[str, Any]]:
    """Give the function from a seed to one draw of the prior, as values of the value variables.

    ``pm.draw`` gives variables on their own scale; PyMC's starting points with the strategy
    "prior" are the same on the unconstrained scale, and obey ``initval=``.
    """
    from pymc.initial_point import make_initial_point_fn

    return make_initial_point_fn(model=model, default_strategy="prior", return_transformed=True)


def assigned_steps(model: Any) -> Any:
    """Step methods that ``pm.sample`` would take for a model, composed to one."""
    from pymc.sampling.mcmc import assign_step_methods, instantiate_steppers
    from pymc.step_methods.compound import CompoundStep

    steps = instantiate_steppers(model, *assign_step_methods(model))
    return CompoundStep(steps if isinstance(steps, list) else [steps])


def default_cores() -> int:
    """How many processes ``pm.sample`` starts at most without ``cores``: one samples here."""
    from pymc.sampling.parallel import _cpu_count

    return min(4, int(_cpu_count()))


def start_method(mp_ctx: Any) -> str:
    """How ``pm.sample`` starts processes for its argument ``mp_ctx``; None is PyMC's default."""
    from pymc.sampling.parallel import _initialize_multiprocessing_context

    return _initialize_multiprocessing_context(mp_ctx, quiet=True).get_start_method()


def dispatch_by_op(names: Collection[str] = ()) -> dict[str, Any]:
    """Functions that look up by the class of an Op what to do, by name.

    Distributions register there what they know of themselves. That of JAX, "jax", is among them
    where JAX is loaded, or `names` has it.
    """
    from pymc.distributions.distribution import _support_point
    from pymc.distributions.shape_utils import _change_dist_size
    from pymc.distributions.transforms import _default_transform
    from pymc.logprob.abstract import _icdf, _logccdf, _logcdf, _logprob

    functions = {
        "logprob": _logprob,
        "logcdf": _logcdf,
        "logccdf": _logccdf,
        "icdf": _icdf,
        "support_point": _support_point,
        "change_dist_size": _change_dist_size,
        "default_transform": _default_transform,
    }
    if "jax" in names or JAX_DISPATCH in sys.modules:
        functions["jax"] = jax_dispatch()
    return functions


def has_random_terms(outputs: list[Any]) -> bool:
    """Whether evaluating these graphs twice draws anew, as with minibatches."""
    from pymc.pytensorf import collect_default_updates

    return bool(collect_default_updates(inputs=[], outputs=outputs))


def resize_observed(model: Any, i: int, value: Any) -> Any:
    """Put a variable of the size of `value` in the place of a model's observed variable i.

    Its values and transform are those of a variable without any. Returned is the variable; one of
    a distribution over the rows together stays as it is.
    """
    from pymc.distributions.shape_utils import change_dist_size

    rv = model.observed_RVs[i]
    n_batch = rv.type.ndim - rv.owner.op.ndim_supp
    if n_batch == 0:
        return rv
    # what is known is written down, as in a model that was built with it
    known = None not in value.type.shape
    new = change_dist_size(rv, (value.type.shape if known else value.shape)[:n_batch])
    new.name = rv.name
    # PyMC has lists of variables grow, and nothing else
    list.__setitem__(model.observed_RVs, i, new)
    model.rvs_to_transforms[new] = model.rvs_to_transforms.pop(rv, None)
    model.named_vars[rv.name] = new
    return new


def rewrite_before_gradient(graph: Any) -> Any:
    """Rewrite a log density as PyMC does before it takes the gradient.

    Otherwise gradients differ from those of ``Model.compile_dlogp`` where PyMC replaces a term by
    a stable one.
    """
    from pymc.pytensorf import rewrite_pregrad

    return rewrite_pregrad(graph)


def rewrite_parameter_checks(graph: Any) -> None:
    """Make every check of parameters in a function graph a switch to ``-inf``, in place.

    PyMC's own rewrite comes while a function is compiled, after graphs have been made one for many
    draws; a check is then one for all draws.
    """
    from pymc.logprob.utils import local_check_parameter_to_ninf_switch
    from pytensor.graph.rewriting.basic import in2out

    in2out(local_check_parameter_to_ninf_switch).rewrite(graph)


def random_walk(rv: Any) -> tuple[Any, Any] | None:
    """Laws of the first value and of the steps of a random walk; the Op's class is not public."""
    from pymc.distributions.timeseries import RandomWalkRV

    return tuple(rv.owner.inputs[:2]) if isinstance(rv.owner.op, RandomWalkRV) else None


def autoregression(rv: Any) -> tuple[Any, Any, Any] | None:
    """Law of the first value, scale and coefficient of an autoregression that has one alone."""
    from pymc.distributions.timeseries import AutoRegressiveRV

    op = rv.owner.op
    if not isinstance(op, AutoRegressiveRV) or op.ar_order != 1 or op.constant_term:
        return None
    coefficients, scale, first = rv.owner.inputs[:3]
    is_one = coefficients.ndim == 1 and scale.ndim == 0
    return (first, scale, coefficients[0]) if is_one else None
