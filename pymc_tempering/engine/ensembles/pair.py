"""The tempered replica z and the target replica y of one chain, and how their scans are run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.ensembles.ensemble import Ensemble
from pymc_tempering.engine.ensembles.pair_scans import Bias, Pair, PairLog, PairScans
from pymc_tempering.engine.ensembles.swap import begin_block, is_restarted
from pymc_tempering.engine.explorers.adaptation import (
    Adaptation,
    averaged_step_sizes,
    new_dual_averaging,
)
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.move import ExplorerSettings, packed_within
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.tally import new_counts, zero_density_by_level
from pymc_tempering.types import FloatArray, IntArray


class PairRecord(NamedTuple):
    """What a block of scans reports."""

    # (n_scans,), log_target - log_reference of z in nats, just before beta is drawn
    delta: FloatArray
    target_delta: FloatArray  # (n_scans,), of y
    base_delta: FloatArray  # (n_scans,), of draws from the reference in continuous tempering
    beta: FloatArray  # (n_scans,), drawn at the end of each scan
    # (n_levels,) of the moves of z, nan without a move; the first of all in continuous tempering
    acceptance_rate: FloatArray
    exchange_rate: float  # of the exchanges
    counts: dict[str, int]  # see `tally.counts_by_name`
    zero_density: IntArray  # (n_grid,), see `tally.zero_density_by_level`
    tempered_restart: bool  # whether y arrived from the reference in this block


class TemperedPair(Ensemble):
    """Two replicas on a path, moved by `scans`: continuous or simulated ones.

    ``betas`` are the knots of the bias, or the levels of simulated tempering, for which the grid is
    the same. Replicas start at `z` and `y`, points (D,) of finite density, with a bias and `scales`
    (n_grid,). `level_update` is a position in :data:`.pair_scans.LEVEL_UPDATES`.
    """

    _changing = ("coordinates", "mixture", "betas", "bias", "grid", "scales", "dual_averaging", "u",
                 "holder", "last_end", "beta", "level")  # fmt: skip

    def __init__(
        self, path: TemperedPath, bias: Bias, scales: FloatArray, z: FloatArray, y: FloatArray, *,
        scans: Callable[[PairScans, np.random.Generator], None], settings: ExplorerSettings,
        level_update: int = 0,
    ) -> None:  # fmt: skip
        self.path, self.scans = path, scans
        self.settings = settings
        self.level_update = level_update
        self.betas, self.bias, self.grid = (np.array(values) for values in bias)
        self.scales = np.array(scales)
        self.u = self.coordinates.to_base(np.stack([z, y, y]))
        self.holder = np.arange(3)
        self.last_end = np.zeros(3, dtype=np.int64)
        self.beta = np.ones(1)
        self.level = np.array([self.betas.size - 1])
        self.dual_averaging = new_dual_averaging(self.scales)

    @property
    def _target_row(self) -> int:
        return int(self.holder[1])

    def redraw(self, rng: np.random.Generator) -> None:
        """Put z at a level drawn uniformly, as after an initial iteration; for tuning only."""
        level = rng.integers(self.betas.size)
        # only the first level may sit where the target has no density
        self.level[0] = level if np.isfinite(self.replicas.delta[self.holder[0]]) else 0
        self.beta[0] = self.betas[self.level[0]]

    def stop_adaptation(self) -> None:
        """Fix step sizes at their averages and count trips from here on."""
        if self.dual_averaging[:, 0].any():
            self.scales = averaged_step_sizes(self.grid, self.dual_averaging)
        self.last_end = np.zeros(3, dtype=np.int64)

    @density_guard()
    def run(self, n_scans: int, rng: np.random.Generator, *, adapt: bool = False) -> PairRecord:
        """Run a block of scans; those that `adapt` step sizes are not exactly invariant."""
        self.path.view.faults[:] = 0
        begin_block(self.last_end)
        n = self.betas.size
        delta, target_delta, base_delta, beta = np.empty((4, n_scans))
        log = PairLog(
            delta, target_delta, base_delta, beta,
            np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(1), new_counts(self.grid.size),
            self.path.draws_and_origins(n_scans, rng, self.betas[1])[0],
        )  # fmt: skip
        explorer = packed_within(self.settings, self.path.reach)
        scans = PairScans(
            self.path.view, explorer, Bias(self.betas, self.bias, self.grid),
            Pair(self.holder, self.last_end, self.beta, self.level, self.level_update),
            self.replicas,
            Adaptation(self.scales, self.dual_averaging if adapt else np.empty((0, 4))), log,
        )  # fmt: skip
        self.scans(scans, rng)
        with np.errstate(invalid="ignore"):
            acceptance_rate = log.acceptance_sums / np.where(log.visits > 0, log.visits, np.nan)
        return PairRecord(
            delta, target_delta, base_delta, beta, acceptance_rate,
            float(log.exchange_sum[0] / n_scans),
            self._counted(log.counts, needs_gradient=self.settings.needs_gradient),
            zero_density_by_level(log.counts), is_restarted(self.last_end, self._target_row),
        )  # fmt: skip
