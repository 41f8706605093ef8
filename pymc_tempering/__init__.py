"""Tempered samplers for PyMC: every mode of the posterior, and the evidence with its error."""

from pymc_tempering.base.fit import fit_base
from pymc_tempering.base.gaussian import GaussianBase
from pymc_tempering.compare import compare
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.estimate import estimate_logz
from pymc_tempering.sampling import sample
from pymc_tempering.step_methods.parallel import ParallelTempering

__all__ = [
    "GaussianBase",
    "LogZEstimate",
    "ParallelTempering",
    "compare",
    "estimate_logz",
    "fit_base",
    "sample",
]
