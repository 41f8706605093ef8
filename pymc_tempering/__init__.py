"""Tempered samplers for PyMC: every mode of the posterior, and the evidence with its error.

Names are imported when they are first used, so that ``import pymc_tempering`` costs nothing and
optional packages are needed only by what uses them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymc_tempering.annealing import anneal
    from pymc_tempering.averaging import average
    from pymc_tempering.base.fit import fit_base
    from pymc_tempering.bayes import bayes_factor
    from pymc_tempering.bidirectional import bidirectional_check
    from pymc_tempering.comparison import compare
    from pymc_tempering.engine.path.gaussian import GaussianBase
    from pymc_tempering.estimators.continuous import tempered_expectation
    from pymc_tempering.estimators.result import LogZEstimate
    from pymc_tempering.evidence.estimate import estimate_logz
    from pymc_tempering.mode_table import modes
    from pymc_tempering.plots import (
        plot_barrier,
        plot_beta_occupancy,
        plot_evidence,
        plot_index_process,
        plot_log_weights,
        plot_logz_curve,
        plot_logz_trace,
        plot_modes,
        plot_prior_sensitivity,
        plot_report,
    )
    from pymc_tempering.reporting import report
    from pymc_tempering.results.datatree import concat_chains
    from pymc_tempering.results.modes import Modes
    from pymc_tempering.sampling import sample
    from pymc_tempering.sensitivity import prior_sensitivity
    from pymc_tempering.step_methods.gibbs_continuous import GibbsCT
    from pymc_tempering.step_methods.hais import HAIS
    from pymc_tempering.step_methods.parallel import ParallelTempering
    from pymc_tempering.step_methods.simulated import SimulatedTempering
    from pymc_tempering.transform import temper, untemper

    __version__: str

__all__ = [
    "HAIS",
    "GaussianBase",
    "GibbsCT",
    "LogZEstimate",
    "Modes",
    "ParallelTempering",
    "SimulatedTempering",
    "anneal",
    "average",
    "bayes_factor",
    "bidirectional_check",
    "compare",
    "concat_chains",
    "estimate_logz",
    "fit_base",
    "modes",
    "plot_barrier",
    "plot_beta_occupancy",
    "plot_evidence",
    "plot_index_process",
    "plot_log_weights",
    "plot_logz_curve",
    "plot_logz_trace",
    "plot_modes",
    "plot_prior_sensitivity",
    "plot_report",
    "prior_sensitivity",
    "report",
    "sample",
    "temper",
    "tempered_expectation",
    "untemper",
]

_HOMES = {
    "HAIS": "pymc_tempering.step_methods.hais",
    "GaussianBase": "pymc_tempering.engine.path.gaussian",
    "GibbsCT": "pymc_tempering.step_methods.gibbs_continuous",
    "LogZEstimate": "pymc_tempering.estimators.result",
    "Modes": "pymc_tempering.results.modes",
    "ParallelTempering": "pymc_tempering.step_methods.parallel",
    "SimulatedTempering": "pymc_tempering.step_methods.simulated",
    "anneal": "pymc_tempering.annealing",
    "average": "pymc_tempering.averaging",
    "bayes_factor": "pymc_tempering.bayes",
    "bidirectional_check": "pymc_tempering.bidirectional",
    "compare": "pymc_tempering.comparison",
    "concat_chains": "pymc_tempering.results.datatree",
    "estimate_logz": "pymc_tempering.evidence.estimate",
    "fit_base": "pymc_tempering.base.fit",
    "modes": "pymc_tempering.mode_table",
    "plot_barrier": "pymc_tempering.plots",
    "plot_beta_occupancy": "pymc_tempering.plots",
    "plot_evidence": "pymc_tempering.plots",
    "plot_index_process": "pymc_tempering.plots",
    "plot_log_weights": "pymc_tempering.plots",
    "plot_logz_curve": "pymc_tempering.plots",
    "plot_logz_trace": "pymc_tempering.plots",
    "plot_modes": "pymc_tempering.plots",
    "plot_prior_sensitivity": "pymc_tempering.plots",
    "plot_report": "pymc_tempering.plots",
    "prior_sensitivity": "pymc_tempering.sensitivity",
    "report": "pymc_tempering.reporting",
    "sample": "pymc_tempering.sampling",
    "temper": "pymc_tempering.transform",
    "tempered_expectation": "pymc_tempering.estimators.continuous",
    "untemper": "pymc_tempering.transform",
}


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
