"""Replicas on a ladder of inverse temperatures, coupled by swaps, and how their scans are run."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.ensembles.ensemble import Ensemble
from pymc_tempering.engine.ensembles.ladder_scans import LadderRecord, Rungs, ladder_scans
from pymc_tempering.engine.ensembles.swap import SWEEP, begin_block, is_restarted
from pymc_tempering.engine.explorers.adaptation import Adaptation, new_dual_averaging
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.move import ExplorerSettings, packed_within
from pymc_tempering.engine.path.climb import climb
from pymc_tempering.engine.path.components import component_excess
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.replicas import evaluate
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.tally import EVALUATIONS, new_counts, zero_density_by_level
from pymc_tempering.types import FloatArray, IntArray


class ScanRecord(NamedTuple):
    """What a block of scans reports."""

    # (n_scans, n_levels), log_target - log_reference in nats by level, after each scan
    delta: FloatArray
    # (n_levels - 1,), mean swap probability of each pair of neighbours
    swap_acceptance_rate: FloatArray
    acceptance_rate: FloatArray  # (n_levels,), mean acceptance probability of the moves
    counts: dict[str, int]  # see `tally.counts_by_name`
    zero_density: IntArray  # (n_levels,), see `tally.zero_density_by_level`
    target_positions: FloatArray  # (n_scans, D) or (0, D), z at beta = 1 if asked for
    # (2, n_components), by component of the reference, a defensive one first: arrivals at beta = 1,
    # and scans with a replica there that came from it
    from_component: IntArray
    # whether the replica at beta = 1 came from the reference in this block; or unknown
    tempered_restart: bool = True
    # of the draws from a mixture, see `components.component_excess`; else empty
    component_excess: FloatArray = np.empty(0)


class Ladder(Ensemble):
    """Replicas at inverse temperatures from 0 to 1, with swaps between neighbours.

    `start` (n, D) are points ``z`` of finite density, used in turn for replicas whose draw from the
    reference has none, and for those of the upper half of the ladder; the last one at beta = 1.
    `swap_scheme` is a position in :data:`.swap.SWAP_SCHEMES`.
    """

    _changing = ("coordinates", "mixture", "betas", "scales", "dual_averaging", "scan", "u",
                 "replica_at", "last_end", "origin")  # fmt: skip

    def __init__(
        self, path: TemperedPath, betas: FloatArray, start: FloatArray, rng: np.random.Generator, *,
        settings: ExplorerSettings, swap_scheme: int = 0,
    ) -> None:  # fmt: skip
        self.path = path
        self.settings = settings
        self.swap_scheme = swap_scheme
        self.scan = 0
        self.scales = np.full(betas.size, 0.2)
        self._allocate(betas, np.zeros((betas.size, path.dim)))
        start = np.atleast_2d(start)
        for level in range(betas.size):
            fallback = self.coordinates.to_base(start[(level - betas.size) % len(start)])
            local = betas[level] > 0.5
            self._place(level, fallback if local else self._draw(rng), fallback, rng)
        self.restart_adaptation()

    @property
    def positions(self) -> FloatArray:
        """Positions ``z`` by level, shape (n_levels, D)."""
        return self.coordinates.from_base(self.u[self.replica_at])

    @property
    def _target_row(self) -> int:
        return int(self.replica_at[-1])

    def _allocate(self, betas: FloatArray, u: FloatArray) -> None:
        self.betas = betas
        self.u = u
        self.replica_at = np.arange(betas.size)
        self.last_end = np.zeros(betas.size, dtype=np.int64)
        self.origin = np.full(betas.size, -1)

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        draws, _, n_looked = self.path.draws_and_origins(1, rng, self.betas[1])
        self.n_off_record += n_looked
        return draws[0] if draws.size else rng.standard_normal(self.path.dim)

    def _place(
        self, replica: int, u: FloatArray, fallback: FloatArray, rng: np.random.Generator
    ) -> None:
        """Put a replica at ``u``, or nearby draws, or ``fallback``: wherever density is finite."""
        self._put(replica, u)
        # draws from the reference; those that need more take the start that is given
        for _ in range(100):
            if np.isfinite(self.replicas.log_target[replica]):
                return
            self._put(replica, self._draw(rng))
        self._put(replica, fallback)

    def _put(self, replica: int, u: FloatArray) -> None:
        self.u[replica] = u
        evaluate(self.path.view, self.replicas, replica)
        self.n_off_record += 1

    def restart_adaptation(self) -> None:
        """Search step sizes afresh from the present ones."""
        self.dual_averaging = new_dual_averaging(self.scales)

    def stop_adaptation(self) -> None:
        """Fix step sizes at their averages and count trips from here on."""
        if self.dual_averaging[:, 0].any():
            self.scales = np.exp(self.dual_averaging[:, 2])
        self.last_end = np.zeros(self.n_levels, dtype=np.int64)

    @density_guard()
    def run(
        self, n_scans: int, rng: np.random.Generator, *, adapt: bool = False,
        keep_positions: bool = False,
    ) -> ScanRecord:  # fmt: skip
        """Run a block of scans in compiled code.

        Scans that `adapt` tune step sizes after every transition and are not exactly invariant.
        With `keep_positions` the position at beta = 1 after each scan is returned.
        """
        n, dim = self.u.shape
        self.path.view.faults[:] = 0
        begin_block(self.last_end)
        draws, origins, n_looked = self.path.draws_and_origins(n_scans, rng, self.betas[1])
        n_components = 1 if self.mixture is None else len(self.mixture.fits) + 1
        record = LadderRecord(
            np.empty((n_scans, n)), np.zeros(n - 1), np.zeros(n), new_counts(n),
            np.empty((n_scans if keep_positions else 0, dim)), draws, origins,
            np.zeros((2, n_components), dtype=np.int64),
        )  # fmt: skip
        record.counts[0, EVALUATIONS] += n_looked
        # the only pair of two levels meets in every scan
        scheme = self.swap_scheme if n > 2 else SWEEP
        rungs = Rungs(self.betas, self.replica_at, self.last_end, self.origin, scheme, self.scan)
        adaptation = Adaptation(self.scales, self.dual_averaging if adapt else np.empty((0, 4)))
        explorer = packed_within(self.settings, self.path.reach)
        ladder_scans(
            tuple(self.path.view), tuple(explorer), tuple(rungs),
            tuple(self.replicas), tuple(adaptation), tuple(record), rng,
        )  # fmt: skip
        self.scan += n_scans
        positions = record.target_positions
        return ScanRecord(
            delta=record.delta,
            swap_acceptance_rate=record.swap_sums / n_scans,
            acceptance_rate=record.acceptance_sums / n_scans,
            counts=self._counted(record.counts, needs_gradient=self.settings.needs_gradient),
            zero_density=zero_density_by_level(record.counts),
            target_positions=self.coordinates.from_base(positions) if keep_positions else positions,
            from_component=record.from_component,
            tempered_restart=is_restarted(self.last_end, self._target_row),
            component_excess=self._excess(draws) if not adapt else np.empty(0),
        )

    def _excess(self, draws: FloatArray) -> FloatArray:
        if self.mixture is None:
            return np.empty(0)
        shares, orbit = self.mixture.shares, self.mixture.orbit
        n = 1 if orbit is None else orbit.size
        of_images = np.append(shares[0], np.repeat(shares[1:] / n, n))
        excess = component_excess(self.path.view.components, of_images, draws)
        # images of one fit are one component
        return np.append(excess[0], excess[1:].reshape(-1, n).sum(axis=1))

    def change_base(self, base: GaussianBase) -> None:
        """Keep the replicas where they are and describe them relative to another Gaussian."""
        base = self.path.as_whole(base)
        z = self.coordinates.from_base(self.u)
        ratio = np.exp((self.base.log_det_scale - base.log_det_scale) / base.dim)
        self.path = self.path.moved(base)
        self.u = self.coordinates.to_base(z)
        self.scales = np.clip(self.scales * ratio, 1e-6, self.settings.max_scale)
        self.restart_adaptation()

    def change_mixture(self, mixture: Mixture | None) -> None:
        """Start from a mixture, or again from the Gaussian; the replicas keep their places."""
        self.mixture = mixture
        self.origin = np.full(self.n_levels, -1)
        self.u = self.u

    def change_schedule(self, betas: FloatArray) -> None:
        """Move to another schedule; a new level starts from the replica of the nearest old one."""
        old_betas, old_scales = self.betas, self.scales
        nearest = np.abs(betas[:, None] - old_betas[None, :]).argmin(axis=1)
        # only the first level may sit where the target has no density
        nearest[1:] = np.maximum(nearest[1:], 1)
        self._allocate(betas, self.u[self.replica_at][nearest])
        self.scales = np.exp(np.interp(betas, old_betas[1:], np.log(old_scales[1:])))
        self.restart_adaptation()

    def rescue_target(self) -> bool:
        """Move the replica at beta = 1 uphill if no draw from the target could be where it is.

        For tuning only. A replica that started far out can have a log density hundreds of nats
        below its own mode's and no step size with which to leave. It is compared with what lies
        uphill of it, not with other replicas: a narrow mode may have a density hundreds of nats
        higher than a wide one, and none of the mass. Returns whether it was moved.
        """
        log_target, target = self.replicas.log_target, self.replica_at[-1]
        margin = 2.0 * self.path.dim + 50.0
        if log_target[target] > log_target.max() - margin:
            return False
        uphill, highest, n_evaluations = climb(self.path.view, self.u[target])
        self.n_off_record += n_evaluations
        if not highest > log_target[target] + margin:
            return False
        self._put(target, uphill)
        self.scales[-1] = self.scales[1:].max()
        self.restart_adaptation()
        return True
