"""Tempered samplers for PyMC: every mode of the posterior, and the evidence with its error."""

from pymc_tempering.base.fit import fit_base
from pymc_tempering.base.gaussian import GaussianBase
from pymc_tempering.compare import compare
from pymc_tempering.estimators.continuous import tempered_expectation
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.estimate import estimate_logz
from pymc_tempering.sampling import sample
from pymc_tempering.step_methods.gibbs_continuous import GibbsCT
from pymc_tempering.step_methods.hais import HAIS
from pymc_tempering.step_methods.parallel import ParallelTempering
from pymc_tempering.step_methods.simulated import SimulatedTempering
from pymc_tempering.transform import temper, untemper

__all__ = [
    "HAIS",
    "GaussianBase",
    "GibbsCT",
    "LogZEstimate",
    "ParallelTempering",
    "SimulatedTempering",
    "compare",
    "estimate_logz",
    "fit_base",
    "sample",
    "temper",
    "tempered_expectation",
    "untemper",
]
