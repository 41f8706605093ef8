"""Tempered samplers for PyMC: every mode of the posterior, and the evidence with its error.

Names are imported when they are first used, so that ``import pymc_tempering`` costs nothing and
optional packages are needed only by what uses them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymc_tempering.annealing.bidirectional import bidirectional_check
    from pymc_tempering.annealing.particles import anneal
    from pymc_tempering.comparison.averaging import average
    from pymc_tempering.comparison.bayes_factor import bayes_factor
    from pymc_tempering.comparison.calibration import check_calibration
    from pymc_tempering.comparison.refits import Refits
    from pymc_tempering.comparison.sensitivity import prior_sensitivity
    from pymc_tempering.comparison.table import compare
    from pymc_tempering.diagnostics.modes import modes
    from pymc_tempering.diagnostics.structure import ModelStructure, structure
    from pymc_tempering.engine.path.gaussian import GaussianBase
    from pymc_tempering.estimators.continuous import tempered_expectation
    from pymc_tempering.estimators.result import LogZEstimate
    from pymc_tempering.evidence.estimate import estimate_logz, sample
    from pymc_tempering.evidence.many import ManyEvidences, estimate_many, sample_many
    from pymc_tempering.plots.comparison import (
        plot_calibration,
        plot_evidence,
        plot_prior_sensitivity,
    )
    from pymc_tempering.plots.index_process import plot_index_process
    from pymc_tempering.plots.log_weights import plot_log_weights
    from pymc_tempering.plots.logz_trace import plot_logz_trace
    from pymc_tempering.plots.modes import plot_modes
    from pymc_tempering.plots.report import plot_report, report
    from pymc_tempering.plots.schedule import plot_barrier, plot_beta_occupancy, plot_logz_curve
    from pymc_tempering.plots.structure import plot_structure
    from pymc_tempering.references.prepare import fit_base
    from pymc_tempering.results.concat import concat_chains
    from pymc_tempering.results.modes import Modes
    from pymc_tempering.steps.deferred import Deferred
    from pymc_tempering.steps.discrete import CompoundTempering, DiscreteTempering
    from pymc_tempering.steps.gibbs_continuous import GibbsCT
    from pymc_tempering.steps.hais import HAIS
    from pymc_tempering.steps.parallel import ParallelTempering
    from pymc_tempering.steps.simulated import SimulatedTempering
    from pymc_tempering.transform import temper, untemper
    from pymc_tempering.updates.update import update

    __version__: str

__all__ = [
    "HAIS",
    "CompoundTempering",
    "Deferred",
    "DiscreteTempering",
    "GaussianBase",
    "GibbsCT",
    "LogZEstimate",
    "ManyEvidences",
    "ModelStructure",
    "Modes",
    "ParallelTempering",
    "Refits",
    "SimulatedTempering",
    "anneal",
    "average",
    "bayes_factor",
    "bidirectional_check",
    "check_calibration",
    "compare",
    "concat_chains",
    "estimate_logz",
    "estimate_many",
    "fit_base",
    "modes",
    "plot_barrier",
    "plot_beta_occupancy",
    "plot_calibration",
    "plot_evidence",
    "plot_index_process",
    "plot_log_weights",
    "plot_logz_curve",
    "plot_logz_trace",
    "plot_modes",
    "plot_prior_sensitivity",
    "plot_report",
    "plot_structure",
    "prior_sensitivity",
    "report",
    "sample",
    "sample_many",
    "structure",
    "temper",
    "tempered_expectation",
    "untemper",
    "update",
]

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
"""Module of each of them."""


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
