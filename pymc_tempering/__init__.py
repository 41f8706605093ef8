"""Tempered samplers for PyMC: every mode of the posterior, and the evidence with its error.

Names are imported when they are first used, so that ``import pymc_tempering`` costs nothing and
optional packages are needed only by what uses them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymc_tempering.annealing.bidirectional import bidirectional_check as bidirectional_check
    from pymc_tempering.annealing.particles import anneal as anneal
    from pymc_tempering.comparison.averaging import average as average
    from pymc_tempering.comparison.bayes_factor import bayes_factor as bayes_factor
    from pymc_tempering.comparison.calibration import check_calibration as check_calibration
    from pymc_tempering.comparison.refits import Refits as Refits
    from pymc_tempering.comparison.sensitivity import prior_sensitivity as prior_sensitivity
    from pymc_tempering.comparison.table import compare as compare
    from pymc_tempering.diagnostics.modes import modes as modes
    from pymc_tempering.diagnostics.structure import ModelStructure as ModelStructure
    from pymc_tempering.diagnostics.structure import structure as structure
    from pymc_tempering.engine.path.gaussian import GaussianBase as GaussianBase
    from pymc_tempering.estimators.continuous import tempered_expectation as tempered_expectation
    from pymc_tempering.estimators.result import LogZEstimate as LogZEstimate
    from pymc_tempering.evidence.estimate import estimate_logz as estimate_logz
    from pymc_tempering.evidence.estimate import sample as sample
    from pymc_tempering.evidence.many import ManyEvidences as ManyEvidences
    from pymc_tempering.evidence.many import estimate_many as estimate_many
    from pymc_tempering.evidence.many import sample_many as sample_many
    from pymc_tempering.plots.comparison import plot_calibration as plot_calibration
    from pymc_tempering.plots.comparison import plot_evidence as plot_evidence
    from pymc_tempering.plots.comparison import plot_prior_sensitivity as plot_prior_sensitivity
    from pymc_tempering.plots.index_process import plot_index_process as plot_index_process
    from pymc_tempering.plots.log_weights import plot_log_weights as plot_log_weights
    from pymc_tempering.plots.logz_trace import plot_logz_trace as plot_logz_trace
    from pymc_tempering.plots.modes import plot_modes as plot_modes
    from pymc_tempering.plots.report import plot_report as plot_report
    from pymc_tempering.plots.report import report as report
    from pymc_tempering.plots.schedule import plot_barrier as plot_barrier
    from pymc_tempering.plots.schedule import plot_beta_occupancy as plot_beta_occupancy
    from pymc_tempering.plots.schedule import plot_logz_curve as plot_logz_curve
    from pymc_tempering.plots.structure import plot_structure as plot_structure
    from pymc_tempering.references.prepare import fit_base as fit_base
    from pymc_tempering.results.concat import concat_chains as concat_chains
    from pymc_tempering.results.modes import Modes as Modes
    from pymc_tempering.steps.deferred import Deferred as Deferred
    from pymc_tempering.steps.discrete import CompoundTempering as CompoundTempering
    from pymc_tempering.steps.discrete import DiscreteTempering as DiscreteTempering
    from pymc_tempering.steps.gibbs_continuous import GibbsCT as GibbsCT
    from pymc_tempering.steps.hais import HAIS as HAIS
    from pymc_tempering.steps.parallel import ParallelTempering as ParallelTempering
    from pymc_tempering.steps.simulated import SimulatedTempering as SimulatedTempering
    from pymc_tempering.transform import temper as temper
    from pymc_tempering.transform import untemper as untemper
    from pymc_tempering.updates.update import update as update

    __version__: str

_HOMES = {
    name: f"pymc_tempering.{module}"
    for module, names in {
        "annealing.bidirectional": ("bidirectional_check",),
        "annealing.particles": ("anneal",),
        "comparison.averaging": ("average",),
        "comparison.bayes_factor": ("bayes_factor",),
        "comparison.calibration": ("check_calibration",),
        "comparison.refits": ("Refits",),
        "comparison.sensitivity": ("prior_sensitivity",),
        "comparison.table": ("compare",),
        "diagnostics.modes": ("modes",),
        "diagnostics.structure": ("ModelStructure", "structure"),
        "engine.path.gaussian": ("GaussianBase",),
        "estimators.continuous": ("tempered_expectation",),
        "estimators.result": ("LogZEstimate",),
        "evidence.estimate": ("estimate_logz", "sample"),
        "evidence.many": ("ManyEvidences", "estimate_many", "sample_many"),
        "plots.comparison": ("plot_calibration", "plot_evidence", "plot_prior_sensitivity"),
        "plots.index_process": ("plot_index_process",),
        "plots.log_weights": ("plot_log_weights",),
        "plots.logz_trace": ("plot_logz_trace",),
        "plots.modes": ("plot_modes",),
        "plots.report": ("plot_report", "report"),
        "plots.schedule": ("plot_barrier", "plot_beta_occupancy", "plot_logz_curve"),
        "plots.structure": ("plot_structure",),
        "references.prepare": ("fit_base",),
        "results.concat": ("concat_chains",),
        "results.modes": ("Modes",),
        "steps.deferred": ("Deferred",),
        "steps.discrete": ("CompoundTempering", "DiscreteTempering"),
        "steps.gibbs_continuous": ("GibbsCT",),
        "steps.hais": ("HAIS",),
        "steps.parallel": ("ParallelTempering",),
        "steps.simulated": ("SimulatedTempering",),
        "transform": ("temper", "untemper"),
        "updates.update": ("update",),
    }.items()
    for name in names
}
"""Module of each public name."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # of what is installed: pyproject.toml is the one place where it is written
        from importlib.metadata import version

        return version("pymc-tempering")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
