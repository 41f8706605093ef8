"""Targets with exact answers, and a test that a kernel leaves its target invariant.

Nothing here imports pymc before ``ExactTarget.model()`` is called.
"""

from pymc_tempering.testing.chains import autoregressive_chains
from pymc_tempering.testing.exact import ExactTarget
from pymc_tempering.testing.gaussian_targets import (
    correlated_gaussian,
    hard_edge_gaussian,
    scaled_normal,
)
from pymc_tempering.testing.invariance import (
    InvarianceResult,
    invariance_test,
)
from pymc_tempering.testing.mixture_targets import asymmetric_bimodal, trimodal_1d
from pymc_tempering.testing.power import detectable_shift, draws_needed
from pymc_tempering.testing.statistics import default_statistics, delta_statistics
from pymc_tempering.testing.targets import (
    TARGETS,
    banana,
    heavy_tail,
    skewed_gamma,
)

__all__ = [
    "TARGETS",
    "ExactTarget",
    "InvarianceResult",
    "asymmetric_bimodal",
    "autoregressive_chains",
    "banana",
    "correlated_gaussian",
    "default_statistics",
    "delta_statistics",
    "detectable_shift",
    "draws_needed",
    "hard_edge_gaussian",
    "heavy_tail",
    "invariance_test",
    "scaled_normal",
    "skewed_gamma",
    "trimodal_1d",
]
