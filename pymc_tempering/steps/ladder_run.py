"""What one chain of parallel tempering consists of, and what it says of a draw."""

from dataclasses import dataclass
from typing import Any

from pymc_tempering.engine.ensembles.ladder import ScanRecord
from pymc_tempering.engine.ensembles.ladder_like import LadderLike
from pymc_tempering.results.compact import round_delta
from pymc_tempering.steps.choice import ReferenceChoice
from pymc_tempering.steps.progress import is_diverging
from pymc_tempering.steps.tuning import RoundTuner

__all__ = ["LadderRun"]

_FEW_SCANS = 10


@dataclass
class LadderRun:
    """One chain: its ladder, what tunes it, and scans of a draw."""

    ladder: LadderLike
    tuner: RoundTuner
    choice: ReferenceChoice
    barrier_sum: float = 0.0
    n_draws: int = 0
    n_unreached_modes: int = 0
    n_scans: float = 0
    n_scans_requested: int = -1

    def statistics(self, record: ScanRecord, *, adapts_scans: bool) -> dict[str, Any]:
        """Statistics of a draw, by name, without those that are counted.

        Parameters
        ----------
        record : ScanRecord
        adapts_scans : bool
            Whether the number of scans follows from tuning.
        """
        ladder, counts = self.ladder, record.counts
        # one divergence in a draw of few scans is no tenth of its trajectories
        n_scans = max(len(record.delta), _FEW_SCANS) if adapts_scans else len(record.delta)
        diverging = is_diverging(counts["n_target_divergences"], n_scans)
        self.barrier_sum += ladder.n_levels - 1 - float(record.swap_acceptance_rate.sum())
        self.n_draws += 1
        return {
            "delta": round_delta(record.delta),
            "betas": ladder.betas,
            "swap_acceptance_rate": record.swap_acceptance_rate,
            "acceptance_rate": record.acceptance_rate,
            "n_zero_density_at": record.zero_density,
            "step_size": ladder.scales,
            "replica": ladder.replica_at,
            "global_barrier": self.barrier_sum / self.n_draws,
            "diverging": diverging,
            "tempered_restart": record.tempered_restart,
            "scans_requested": self.n_scans_requested,
            **self.choice.statistics(ladder, record),
            "base_id": ladder.path.base_id,
            "model_logp": ladder.target_log_density,
        }

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        return {
            "ladder": self.ladder.state(),
            "tuner": self.tuner.state(),
            "sums": [
                self.barrier_sum,
                self.n_draws,
                self.n_unreached_modes,
                self.n_scans,
                self.n_scans_requested,
            ],
            "choice": self.choice.state(),
        }
