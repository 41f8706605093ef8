"""``pm.sample`` with the step of a method: what is refused before, and what comes back."""

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from pymc.backends import NDArray

from pymc_tempering.checkpoint.description import describe, plain_seed
from pymc_tempering.checkpoint.store import Store
from pymc_tempering.errors import OptionError
from pymc_tempering.methods import METHODS, Method, load
from pymc_tempering.model.freeze import discrete_names
from pymc_tempering.model.identity import Kept, digest_deterministics, recipe
from pymc_tempering.model.python_density import NO_FORK
from pymc_tempering.options import check_positive, check_random_seed, check_whole, did_you_mean
from pymc_tempering.progress import compiling, phases, plan, say
from pymc_tempering.results.compact import compact, without_idle_draws
from pymc_tempering.results.datatree import label_dimensions
from pymc_tempering.results.identity import with_identity
from pymc_tempering.steps.arguments import check_memory, check_passed_on
from pymc_tempering.steps.budget import Budget
from pymc_tempering.steps.spread import spread_chains
from pymc_tempering.steps.workers import check_workers, errors_of_workers, refuse_before_start

Sampler = Callable[..., xr.DataTree]
"""Samples ``chains`` chains with ``random_seed``; both are keyword arguments."""

DEFAULT_CHAINS = 4
"""As of ``pm.sample``: enough for R-hat, and for an error of log Z from between chains."""

_log = logging.getLogger("pymc")

# what PyMC says where no chain has draws, which happens after an interrupt alone
_NO_DRAWS = "Not enough samples to build a trace."

# what the package passes to pm.sample itself, and what would leave no DataTree or no tempered run
_SETTLED = {
    "step", "model", "kwargs", "nuts_sampler", "nuts_sampler_kwargs", "return_inferencedata",
}  # fmt: skip


def check_run(
    *,
    draws: int,
    tune: int | None,
    chains: int,
    cores: int | None,
    random_seed: Any,
    target_se: float | None = None,
) -> None:
    """Refuse a run that cannot start."""
    refuse_before_start()
    check_whole("draws", draws, 1)
    check_whole("chains", chains, 1)
    if tune is not None:
        check_whole("tune", tune, 0)
    if cores is not None:
        check_whole("cores", cores, 1)
    check_random_seed(random_seed)
    if target_se is not None:
        check_positive("target_se", target_se)


def check_budget(method: Method, max_gradients: int | None) -> Budget | None:
    """Refuse a bound on gradients that a run cannot keep; None without one."""
    if max_gradients is None:
        return None
    if isinstance(max_gradients, float) and max_gradients.is_integer():
        # millions are written 2e6
        max_gradients = int(max_gradients)
    check_whole("max_gradients", max_gradients, 1)
    able = [name for name, row in METHODS.items() if row.takes_budget]
    if not method.takes_budget:
        raise OptionError(
            f"`max_gradients` is not available for {method.name}; {', '.join(able)} take it. Lower "
            "`draws`, `tune` or `chains` instead."
        )
    return Budget(int(max_gradients))


def build_step(method: Method, model: pm.Model, options: dict[str, Any]) -> Any:
    """Build the step of a method; its arguments are taken out of ``options``.

    An option that neither the step nor ``pm.sample`` knows, or that the package settles, is an
    OptionError.
    """
    cls, known = check_options(method, model, options)
    return cls(model=model, **{key: options.pop(key) for key in list(options) if key in known})


def check_options(method: Method, model: pm.Model, options: dict[str, Any]) -> tuple[Any, set[str]]:
    """Refuse options that cannot be given; return the step and the names of its arguments."""
    assert method.step is not None
    if method.discrete_step and discrete_names(model):
        cls = load(method.discrete_step)(model, options)
    else:
        cls = load(method.step)
    known = set(inspect.signature(cls.__init__).parameters) - {"self", "kwargs", "model", "rng"}
    passed_on = set(inspect.signature(pm.sample).parameters) - _SETTLED
    unknown = sorted(set(options) - known - passed_on)
    if unknown:
        raise OptionError(
            f"Unknown or unavailable options {unknown}{did_you_mean(unknown, known | passed_on)}; "
            f"{cls.__name__} has {sorted(known)}, and `pm.sample` takes {sorted(passed_on)}. A "
            "step of your own goes to `pm.sample` itself."
        )
    return cls, known | {"backend"}


def prepare_step(
    method: Method, model: pm.Model, options: dict[str, Any], run: dict[str, Any]
) -> Sampler:
    """Build the step of a method, and say what the run will do unless it is to be quiet.

    ``run`` has ``draws``, ``tune``, ``chains``, ``cores`` and ``progressbar``; ``executor`` where
    chains are sampled elsewhere, ``target_se`` where an error of log Z is requested, ``store``
    where the run is kept, and ``budget`` where its gradients have a bound. The first call of the
    sampler fits the modes for the chains of all.
    """
    show = bool(run["progressbar"]) and not options.get("quiet", False)
    executor = run.get("executor")
    # processes that somebody else started run no program again
    cores = run["cores"] if executor is None else executor if isinstance(executor, int) else 1
    check_workers(options.get("mp_ctx"), chains=run["chains"], cores=cores)
    started = perf_counter()
    given = dict(options)
    with compiling(show), _muted(bool(options.get("quiet", False))):
        step = build_step(method, model, options)
    check_passed_on(
        model, step.density.points, options, chains=run["chains"], progressbar=run["progressbar"]
    )
    check_memory(step, draws=run["draws"], tune=run["tune"], chains=run["chains"])
    if step.density.uses_jax:
        options["mp_ctx"] = check_workers(
            options.get("mp_ctx"), chains=run["chains"], cores=cores, no_fork=NO_FORK
        )
    if "target_se" in run and hasattr(step, "chain_error"):
        step.chain_error = run["target_se"] * run["chains"] ** 0.5
    budget: Budget | None = run.get("budget")
    if budget is not None:
        budget.searches = step.searches
        budget.check(run["chains"], step.least_share)
        step.share_of_search = budget.of_search
    store = run.get("store")
    there = "" if store is None else _attach(store, step, model, given, run)
    if show and there:
        say(there)
    elif show:
        settings = {name: run[name] for name in ("draws", "tune", "chains")}
        most = np.inf if budget is None else budget.most
        say(plan(step, **settings, compiled=perf_counter() - started, most=most))
    settled = {name: run[name] for name in ("draws", "tune", "cores", "progressbar")}
    prepared = False

    def sample_chains(*, chains: int, random_seed: Any) -> xr.DataTree:
        nonlocal prepared
        if not prepared:
            with phases(show) as work:
                step.prepare(random_seed, work.report)
            prepared = True
            if budget is not None:
                budget.n_spent = step.n_searched
                budget.check(chains, step.least_share)
        if budget is not None:
            step.share_of_chain = budget.share(chains)
        idata = run_chains(
            step, model, chains=chains, random_seed=random_seed, executor=executor, **settled,
            **options,
        )  # fmt: skip
        return idata if budget is None else _accounted(idata, budget)

    return sample_chains


def _accounted(idata: xr.DataTree, budget: Budget) -> xr.DataTree:
    """Count what chains took, and leave away the draws that they had nothing left for."""
    so_far = idata["sample_stats"]["so_far"].sel(so_far_entry="gradients_so_far")
    budget.spend(int(so_far.isel(draw=-1).sum()), so_far.sizes["chain"])
    kept = without_idle_draws(idata)
    if kept is not idata:
        budget.n_draws = kept["posterior"].sizes["draw"]
    return kept


def _attach(
    store: Store, step: Any, model: pm.Model, options: dict[str, Any], run: dict[str, Any]
) -> str:
    """Have a step keep its chains, and say what is there already; nothing for a new run."""
    seed = plain_seed(store.random_seed)
    made = step.density.points.map
    coordinates = "" if made is None else made.digest
    name, identity = type(step).__name__, step.identity
    store.attach(step, describe(model, name, identity, seed, options, run, coordinates))
    if not step.identity.is_certain:
        store.check_densities(step)
    total = run["draws"] + (step.default_tune_steps if run["tune"] is None else run["tune"])
    return store.progress(run["chains"], total, rounds="target_se" in run)


@contextmanager
def _muted(quiet: bool) -> Iterator[None]:
    """Keep back what a step says of the model, as ``quiet=`` of ``pm.sample`` does of its own."""
    level = _log.level
    if quiet:
        _log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        _log.setLevel(level)


@errors_of_workers()
def run_chains(step: Any, model: pm.Model, *, executor: Any = None, **kwargs: Any) -> xr.DataTree:
    """``pm.sample`` with a tempered step; statistics labelled, without levels that are not used.

    ``kwargs`` are what ``pm.sample`` takes, with ``chains`` and ``progressbar``.
    """
    sample = _sample if executor is None else partial(spread_chains, executor, _sample)
    # its thresholds are for chains of NUTS, and its divergences of any trajectory of a draw: what
    # speaks against a tempered run is said with the estimate
    kwargs.setdefault("compute_convergence_checks", False)
    points, start = step.density.points, step.density.start
    if kwargs.get("initvals") is None and not np.array_equal(start, points.ravel(points.initial)):
        # the model's own has no density, and PyMC would refuse it
        kwargs["initvals"] = points.unravel(start)
    try:
        idata = sample(step, model, **kwargs)
    except ValueError as error:
        if str(error) != _NO_DRAWS:
            raise
        raise KeyboardInterrupt(
            "The run was interrupted before any chain had finished tuning, so there are no draws "
            "to return."
        ) from error
    labelled = label_dimensions(idata)
    if _has_no_draw(labelled):
        raise OptionError(
            "`max_gradients` was used up before the first draw: after tuning no draw of "
            f"{step.scans_per_draw} scans fits into what is left. Pass more, or a smaller "
            "`scans_per_draw`."
        )
    return with_identity(compact(labelled), step.identity)


def _sample(step: Any, model: pm.Model, **options: Any) -> xr.DataTree:
    """``pm.sample``, without compiling anew for every chain what is stored of its draws."""
    if options.get("trace") is None and options.get("var_names") is None:
        options["trace"] = reused_trace(model, step.density.points.initial)
    idata: xr.DataTree = pm.sample(step=step, model=model, **options)
    return idata


def _has_no_draw(idata: xr.DataTree) -> bool:
    """Whether some chain made not even its first draw, its gradients spent."""
    if "delta" not in idata["sample_stats"].dataset:
        return False
    first = idata["sample_stats"]["delta"].isel(draw=0)
    return bool(first.isnull().all([d for d in first.dims if d != "chain"]).any())


class _Copied(NDArray):
    """What ``pm.sample`` copies for every chain of a run."""

    def __copy__(self) -> NDArray:
        return NDArray(
            model=self.model, vars=self.vars, fn=self.fn, var_shapes=self.var_shapes,
            var_dtypes=self.var_dtypes,
        )  # fmt: skip


_functions = Kept[Any]()


def reused_trace(model: pm.Model, point: Mapping[str, np.ndarray]) -> NDArray:
    """Record of all variables of a model, to be given to ``pm.sample`` as ``trace``.

    By itself PyMC compiles, for every chain of every run, the function from a point to what is
    stored of it. The shapes of draws follow from ``point``, values of the value variables.
    """
    typed = {v.name: np.asarray(point[v.name], dtype=v.dtype) for v in model.value_vars}
    flags = pytensor.config
    content = [*recipe(model), (*digest_deterministics(model), flags.mode, flags.linker)]
    function = _functions.get(model, content, lambda: NDArray(model=model, test_point=typed).fn)
    return _Copied(model=model, vars=model.unobserved_value_vars, fn=function, test_point=typed)
