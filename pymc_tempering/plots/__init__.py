"""Pictures of tempered runs; every function returns the axes that it drew on.

matplotlib is imported when the first picture is drawn, so that sampling starts without it.
"""

from pymc_tempering.plots.barrier import plot_barrier
from pymc_tempering.plots.beta_occupancy import plot_beta_occupancy
from pymc_tempering.plots.calibration import plot_calibration
from pymc_tempering.plots.evidence import plot_evidence
from pymc_tempering.plots.index_process import plot_index_process
from pymc_tempering.plots.log_weights import plot_log_weights
from pymc_tempering.plots.logz_curve import plot_logz_curve
from pymc_tempering.plots.logz_trace import plot_logz_trace
from pymc_tempering.plots.modes import plot_modes
from pymc_tempering.plots.overview import plot_report
from pymc_tempering.plots.prior_sensitivity import plot_prior_sensitivity

__all__ = [
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
]
