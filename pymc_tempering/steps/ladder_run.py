"""What one chain of parallel tempering consists of, and what it says of a draw."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_tempering.engine.ensembles.ladder import ScanRecord
from pymc_tempering.engine.state import Stateful
from pymc_tempering.results.compact import round_delta
from pymc_tempering.results.statistics import N_COMPONENTS
from pymc_tempering.steps.compound_ladder import AnyLadder
from pymc_tempering.steps.reference import ReferenceChoice
from pymc_tempering.steps.tuning import Tuner
from pymc_tempering.types import FloatArray, IntArray


def components(record: ScanRecord) -> dict[str, Any]:
    """Statistics of the components of a mixture; those that have no room are put together."""

    def stored(values: FloatArray | IntArray) -> Any:
        if values.shape[1] <= N_COMPONENTS:
            return values
        first, others = np.split(values, [N_COMPONENTS - 1], axis=1)
        return np.column_stack([first, others.sum(axis=1)])

    arrivals, scans = stored(record.from_component)
    excess = stored(record.component_excess[None])[0]
    return {
        "component_arrivals": arrivals, "component_scans": scans, "component_excess": excess,
    }  # fmt: skip


@dataclass
class LadderRun(Stateful):
    """One chain: what tunes its ladder, and scans of a draw.

    ``n_scans`` are those of a draw on average, ``n_scans_requested`` those that the error takes.
    """

    _changing = ("n_unreached_modes", "barrier_sum", "n_draws", "n_scans", "n_scans_requested")

    tuner: Tuner
    n_unreached_modes: int = 0
    barrier_sum: float = 0.0
    n_draws: int = 0
    n_scans: float = 0
    n_scans_requested: int = -1

    @property
    def ladder(self) -> AnyLadder:
        """Replicas of the chain."""
        return self.tuner.ladder

    @property
    def choice(self) -> ReferenceChoice:
        """What chooses the reference."""
        assert self.tuner.choice is not None
        return self.tuner.choice

    def statistics(self, record: ScanRecord) -> dict[str, Any]:
        """Statistics of a draw, by name, without those that every step has."""
        ladder = self.ladder
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
            "tempered_restart": record.tempered_restart,
            "scans_requested": self.n_scans_requested,
            "n_components": 0 if ladder.mixture is None else len(ladder.mixture.fits),
            **components(record),
            "log_z_before": self.choice.second_opinion[0],
            "log_z_se_before": self.choice.second_opinion[1],
        }

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        return super().state() | {"tuner": self.tuner.state()}
