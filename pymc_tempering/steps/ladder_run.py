"""What one chain of parallel tempering consists of."""

from dataclasses import dataclass, field

from pymc_tempering.engine.ensembles.ladder_like import LadderLike
from pymc_tempering.steps.choice import ReferenceChoice
from pymc_tempering.steps.progress import Totals
from pymc_tempering.steps.tuning import RoundTuner

__all__ = ["LadderRun"]


@dataclass
class LadderRun:
    """One chain: its ladder, what tunes them, and totals since tuning ended."""

    ladder: LadderLike
    tuner: RoundTuner
    choice: ReferenceChoice
    totals: Totals = field(default_factory=Totals)
    barrier_sum: float = 0.0
    n_draws: int = 0
    n_unreached_modes: int = 0
    n_scans: int = 0
