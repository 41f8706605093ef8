"""The table of methods: what samples, what estimates, and what the estimate is made from.

A run records the code of its method with every draw, so that nothing has to be guessed from what
else it recorded. A new method is a row here and the module that the row names.
"""

from dataclasses import dataclass
from pkgutil import resolve_name as load

from pymc_tempering.options import check_choice

__all__ = ["AUTO", "METHODS", "METHOD_CODE", "Method", "load", "method_of_code", "resolve_method"]

METHOD_CODE = "method_code"
"""Statistic of every draw that says which method made it: :attr:`Method.code`."""


@dataclass(frozen=True)
class Method:
    """One method; places are dotted names, which :func:`load` imports when they are used."""

    name: str
    """As users write it."""
    code: int
    """What its runs record. Never that of another method, also of one that is gone."""
    label: str
    """Sampler and estimator, as users read them."""
    collect: str
    """Makes a :class:`pymc_tempering.evidence.run.MethodEstimate` of recorded statistics."""
    needs: tuple[str, ...]
    """Statistics that ``collect`` cannot do without."""
    step: str | None = None
    """The step method; None where chains cannot be sampled one by one."""
    discrete_step: str = ""
    """``discrete_step(model, options) -> class``, for a model with discrete free variables."""
    prepare: str = "pymc_tempering.steps.run.prepare_step"
    """``prepare(method, model, options, run) -> Sampler``."""
    collect_part: str = ""
    """Cheaper than ``collect``, for estimates from many parts of a run; empty: ``collect``."""
    read: str = ""
    """Reads the statistics of a DataTree; empty: those of ``sample_stats``."""
    per_draw: tuple[str, ...] = ()
    """Statistics with a dimension of draws; empty: all."""
    draws: int = 160
    """Draws of each chain that :func:`pymc_tempering.estimate_logz` makes by default."""
    takes_budget: bool = False
    """Whether its chains can be kept within a number of gradients."""


_ROWS = (
    Method(
        name="pt",
        code=1,
        label="pt, mbar",
        step="pymc_tempering.steps.parallel.ParallelTempering",
        discrete_step="pymc_tempering.steps.discrete.discrete_step",
        collect="pymc_tempering.evidence.parallel.collect",
        collect_part="pymc_tempering.evidence.parallel.collect_bar",
        needs=("delta", "betas", "swap_acceptance_rate", "n_round_trips", "base_id"),
        takes_budget=True,
    ),
    Method(
        name="gibbs_ct",
        code=2,
        label="gibbs_ct, bridge",
        step="pymc_tempering.steps.gibbs_continuous.GibbsCT",
        collect="pymc_tempering.evidence.coupled.collect_gibbs_ct",
        takes_budget=True,
        needs=(
            "delta", "target_delta", "base_delta", "beta", "knots", "bias", "n_base_draws",
            "n_base_support", "n_round_trips", "n_tempered_restarts", "exchange_rate", "base_id",
        ),
    ),
    Method(
        name="st",
        code=3,
        label="st, rts",
        step="pymc_tempering.steps.simulated.SimulatedTempering",
        collect="pymc_tempering.evidence.coupled.collect_st",
        takes_budget=True,
        needs=(
            "delta", "betas", "log_level_weights", "n_base_draws", "n_base_support",
            "n_round_trips", "n_tempered_restarts", "exchange_rate", "base_id",
        ),
    ),
    Method(
        name="hais",
        code=4,
        label="hais, bidirectional",
        step="pymc_tempering.steps.hais.HAIS",
        collect="pymc_tempering.evidence.hais.collect",
        needs=("log_weight_forward", "log_weight_reverse", "accepted", "n_levels", "base_id"),
    ),
    Method(
        name="joint_ct",
        code=5,
        label="joint_ct, bridge",
        prepare="pymc_tempering.transform.joint_ct.prepare",
        collect="pymc_tempering.transform.analysis.collect",
        collect_part="pymc_tempering.transform.analysis.collect_bridge",
        needs=("delta", "beta", "base_delta", "knots", "bias"),
        read="pymc_tempering.transform.untempered.stored_statistics",
        per_draw=("delta", "beta", "diverging"),
        draws=3000,  # of NUTS, a draw is one step
    ),
)  # fmt: skip

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
"""All methods by name."""

AUTO = "pt"
"""What "auto" takes: parallel tempering, the cheapest for a given error on 10 of 14 reference
problems (``benchmarks/agreement.py``). The rule has no branches."""


def resolve_method(name: str) -> Method:
    """Return the method that will run, with "auto" resolved.

    Examples
    --------
    >>> resolve_method("auto").label
    'pt, mbar'
    """
    check_choice("method", name, (*METHODS, "auto"))
    return METHODS[AUTO if name == "auto" else name]


def method_of_code(code: int) -> Method | None:
    """Return the method of a recorded code; None for a code of no method.

    Examples
    --------
    >>> method_of_code(METHODS["st"].code).name, method_of_code(-1)
    ('st', None)
    """
    return next((row for row in _ROWS if row.code == int(code)), None)
