"""From a PyMC model to one with an inverse temperature among its variables."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pytensor.compile.ops import TypeCastingOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply
from pytensor.graph.replace import graph_replace

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError, ModelError, OptionError
from pymc_tempering.model.at_draws import unconstrained_draws
from pymc_tempering.model.compile import CompiledDensity, compile_density
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.options import check_nats, check_random_seed, resolve_model
from pymc_tempering.progress import phases
from pymc_tempering.references.fit import base_from_draws
from pymc_tempering.references.own import check_gaussian
from pymc_tempering.references.prepare import prepare, shared_generator
from pymc_tempering.results.datatree import BETA, DELTA, OBSERVED, POSITION, PREFIX, RECORDS
from pymc_tempering.steps.arguments import need_gradient
from pymc_tempering.steps.tuning import overdisperse
from pymc_tempering.transform.bias import Bias, run_pilot
from pymc_tempering.types import FloatArray


def temper(
    model: pm.Model | None = None,
    base: GaussianBase | xr.DataTree | None = None,
    log_zeta: float | None = None,
    bias: Bias | tuple[Any, Any] | None = None,
    *,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = False,
) -> pm.Model:
    r"""Return a new model whose variables include the inverse temperature beta.

    Joint continuous tempering (Graham & Storkey 2017, eq. 15 to 17). The new model has the log
    density

    .. math:: \log b(z) + \beta\, \delta(z) - c(\beta), \qquad \delta = \log\pi - \log b

    of the original's unconstrained values z and of beta in (0, 1), with a normalised Gaussian base
    b, and any sampler of PyMC's draws from it: ``pm.sample()``, nutpie, NumPyro or BlackJAX.
    :func:`untemper` turns its draws into those of the posterior, and into log Z.

    1. The model is copied with its data and dims frozen.
    2. A short compiled run of parallel tempering supplies base and bias, as far as they are not
       given.
    3. The sampler moves base coordinates ``tempering_u``, ``z = mean + scale u``, in which the base
       is N(0, I) and the mass matrix that NUTS has to find is close to the identity. The original
       variables and deterministics follow as deterministics, under their own names and dims.
    4. All terms of the original, potentials included, are multiplied by beta in one potential.
       The new model therefore has no observed variables; for predictions pass the result of
       :func:`untemper` to ``pm.sample_posterior_predictive`` with the *original* model.

    Parameters
    ----------
    model : pymc.Model, optional
        Not changed. Default: the model of the context.
    base : GaussianBase or DataTree, optional
        From :func:`pymc_tempering.fit_base`, or posterior draws of an earlier run. Should be wider
        than the posterior: one that leaves out a mode finds it no better than NUTS would. Default:
        local fits of all modes found, over-dispersed, and refined by the pilot run.
    log_zeta : float, optional
        The published form ``c(beta) = beta log_zeta``, in nats.
    bias : Bias or (knots, values), optional
        A smooth c through the values, in nats. Default: from the pilot run,
        :func:`pymc_tempering.transform.bias.bias_from_levels`; one slope is not enough on harder
        problems.
    random_seed : int or numpy.random.Generator, optional
        Of fits, pilot run and the base's mass on the support.
    progressbar : bool
        Show how far the pilot run is. Default False: it takes seconds.

    Returns
    -------
    pymc.Model
        With ``beta`` (``tempering_beta`` where the model has a variable of that name), uniform
        under the log-odds transform, whose Jacobian is the :math:`|\partial\beta/\partial u|` of
        eq. 15. Where the target is zero the log density is ``-inf`` and its gradient finite.

    Raises
    ------
    ModelError
        If the model cannot be compiled, is tempered already, or has a pilot run without overlap.
    BaseError
        If the base is of another type or dimension.
    OptionError
        If ``log_zeta`` is no finite number, ``bias`` no bias, or both are given.
    ScheduleError
        If the knots of the bias are no schedule.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    >>> tempered = temper(model, base=GaussianBase([0.8], [0.7]), log_zeta=-1.4, random_seed=1)
    >>> [variable.name for variable in tempered.free_RVs]
    ['tempering_u', 'beta']
    """
    model = resolve_model(model, "temper")
    check_random_seed(random_seed)
    taken = [name for name in model.named_vars if name.startswith(PREFIX)]
    if taken:
        raise ModelError(
            f"The model has variables named {taken}, as tempered models do. Temper the original "
            "model, or rename these variables."
        )
    if log_zeta is not None and bias is not None:
        raise OptionError(
            "Both `log_zeta` and `bias` were given, but `log_zeta` is the bias with one slope. "
            "Pass one of them."
        )
    given = _check_bias(log_zeta, bias)
    density = compile_density(model)
    need_gradient("temper", density)
    if isinstance(base, xr.DataTree):
        base = overdisperse(base_from_draws(unconstrained_draws(base, density)), 2)
    elif base is not None:
        base = check_gaussian(base, density)
    rng = np.random.default_rng(random_seed)
    position = density.start
    if given is None:
        with phases(progressbar) as work:
            pilot = run_pilot(density, base, rng, work)
        base, given, position = pilot.base, pilot.bias, pilot.position
    elif base is None:
        found = prepare(density, density.start, shared_generator(rng))
        base = overdisperse(found.pooled, len(found.modes))
        position = found.modes[0]
    return _build(model, density, base, given, position, rng)


def _check_bias(log_zeta: Any, bias: Any) -> Bias | None:
    if log_zeta is not None:
        more = ", a guess of log Z. Leave it out to have the bias found by a pilot run."
        return Bias.linear(check_nats("log_zeta", log_zeta, more))
    if bias is None or isinstance(bias, Bias):
        return bias
    if not isinstance(bias, tuple | list) or len(bias) != 2:
        raise OptionError(
            f"`bias` is of type {type(bias).__name__}; expected a Bias or a pair (knots, values). "
            "Leave it out to have it found by a pilot run."
        )
    return Bias(*bias)


def _build(
    model: pm.Model,
    density: CompiledDensity,
    base: GaussianBase,
    bias: Bias,
    position: FloatArray,
    rng: np.random.Generator,
) -> pm.Model:
    frozen, points = density.model, density.points
    # for the base's end of log Z: a few hundredths of a nat at the overlap of a usual bias
    draws = base.draw(rng, 10_000)
    log_targets = np.array([density.value_and_grad(z)[0] for z in draws])
    inside = np.isfinite(log_targets)
    if not inside.any():
        raise BaseError(
            f"None of {len(draws)} draws from the base lies where the target has density. Fit "
            "the base with `pymc_tempering.fit_base(model)`."
        )
    delta_base = np.where(inside, log_targets - base.log_density(draws), -np.inf)
    shown = [*frozen.free_RVs, *frozen.deterministics]
    outputs, z_input = points.join(
        frozen.logp(), frozen.replace_rvs_by_values(shown), frozen.value_vars
    )
    with pm.Model() as tempered:
        for dim, length in frozen.dim_lengths.items():
            tempered.add_coord(dim, frozen.coords.get(dim), length=int(length.eval()))
        start = base.to_base(position).astype(pytensor.config.floatX)
        u = pm.Normal(POSITION, shape=density.dim, initval=start)
        beta_name = PREFIX + BETA if BETA in model.named_vars else BETA
        beta = pm.Uniform(beta_name, 0.0, 1.0, initval=0.5)
        scale = pt.constant(np.array(base.scale))
        z = pt.constant(np.array(base.mean)) + (scale * u if base.is_diagonal else scale @ u)
        log_target, *values = graph_replace(
            outputs, {z_input: finite_gradient(z).astype(z_input.dtype)}
        )
        # u, not z: the base's own log density is that of N(0, I) less a constant
        log_base = -0.5 * (u**2).sum() - 0.5 * density.dim * LOG_2PI - base.log_det_scale
        valid = pt.and_(pt.lt(log_target, np.inf), pt.gt(log_target, -np.inf))
        delta = pt.switch(valid, log_target, -np.inf) - log_base
        tempering = beta * (pt.switch(valid, log_target, 0.0) - log_base) - bias.graph(beta)
        pm.Potential(PREFIX + "density", pt.switch(valid, tempering, -np.inf))
        pm.Deterministic(DELTA, delta)
        for variable, value in zip(shown, values, strict=True):
            dims = frozen.named_vars_to_dims.get(variable.name)
            pm.Deterministic(variable.name, value, dims=dims)
        _record(model, frozen, base, bias, delta_base)
    return tempered


def _record(
    model: pm.Model, frozen: pm.Model, base: GaussianBase, bias: Bias, delta_base: FloatArray
) -> None:
    """Put what `untemper` needs where every sampler copies it: the model's constant data."""
    values = (bias.knots, bias.values, base.mean, base.scale, delta_base)
    for name, value in zip(RECORDS, values, strict=True):
        pm.Data(name, np.array(value))
    for variable in model.data_vars:
        if isinstance(variable, SharedVariable):
            dims = model.named_vars_to_dims.get(variable.name)
            pm.Data(variable.name, variable.get_value(), dims=dims)
    for variable in frozen.observed_RVs:
        dims = frozen.named_vars_to_dims.get(variable.name)
        pm.Data(OBSERVED + variable.name, frozen.rvs_to_values[variable].eval(), dims=dims)


class FiniteGradient(TypeCastingOp):
    """Identity whose gradient has 0 wherever it is nan or infinite.

    A leapfrog step stays reversible and volume-preserving with any deterministic field in place of
    the gradient, so that exactness is not at stake. Under JAX, which differentiates by itself, this
    is a plain identity; its NUTS counts a nan as a divergence.

    A switch on the output alone is not enough: the backward pass multiplies its 0 with the inf or
    nan of the branch that was not taken. A switch on the input as well would evaluate the model
    twice.

    Examples
    --------
    >>> x = pt.dscalar("x")
    >>> y = pt.switch(x > 0, pt.sqrt(finite_gradient(x)), 0.0)
    >>> pytensor.grad(y, x).eval({x: 0.0}).item()
    0.0
    """

    # not a ViewOp: PyMC's rewrites before the gradient remove those
    __props__ = ()

    def make_node(self, x: Any) -> Apply:
        """Of one input, and an output of its type."""
        x = pt.as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def infer_shape(self, node: Any, input_shapes: Any) -> Any:
        """That of the input."""
        return input_shapes

    def pullback(self, inputs: Any, outputs: Any, output_gradients: Any) -> list[Any]:
        """Gradient that comes in, with zero for what is not finite."""
        return [
            pt.switch(pt.or_(pt.isnan(g), pt.isinf(g)), pt.zeros_like(g), g)
            for g in output_gradients
        ]


finite_gradient = FiniteGradient()
