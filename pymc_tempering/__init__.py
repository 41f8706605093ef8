"""Tempered samplers for PyMC: every mode of the posterior, and the evidence with its error."""

from pymc_tempering.base.fit import fit_base
from pymc_tempering.base.gaussian import GaussianBase
from pymc_tempering.step_methods.parallel import ParallelTempering

__all__ = ["GaussianBase", "ParallelTempering", "fit_base"]
