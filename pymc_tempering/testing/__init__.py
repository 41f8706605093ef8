"""Targets with exact answers, and a test that a kernel leaves its target invariant.

Nothing here imports pymc before ``ExactTarget.model()`` is called.
"""

from pymc_tempering.testing.exact import ExactTarget
from pymc_tempering.testing.invariance import InvarianceResult, default_statistics, invariance_test
from pymc_tempering.testing.targets import (
    TARGETS,
    asymmetric_bimodal,
    banana,
    correlated_gaussian,
    hard_edge_gaussian,
    heavy_tail,
    scaled_normal,
    skewed_gamma,
    trimodal_1d,
)

__all__ = ["TARGETS", "ExactTarget", "InvarianceResult", "asymmetric_bimodal",
           "banana", "correlated_gaussian", "default_statistics",
           "hard_edge_gaussian", "heavy_tail", "invariance_test", "scaled_normal",
           "skewed_gamma", "trimodal_1d"]  # fmt: skip
