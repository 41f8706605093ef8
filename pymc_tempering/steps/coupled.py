"""What continuous and simulated tempering share as PyMC steps: the pilot, the pair, the target."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_tempering.engine.ensembles.pair import PairRecord, TemperedPair
from pymc_tempering.engine.ensembles.pair_scans import Bias
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.results.compact import round_delta
from pymc_tempering.schedule.weights import (
    BiasAdapter,
    knot_log_occupancy,
    level_log_occupancy,
    wanted_occupancy,
)
from pymc_tempering.steps.arguments import Requested
from pymc_tempering.steps.budget import BESIDE_SCANS, LEAST_SCANS, block_within
from pymc_tempering.steps.common import TemperedStep
from pymc_tempering.steps.tuning import (
    MAX_LEVELS,
    PilotResult,
    Tuner,
    overdisperse,
    read_pilot,
    resumed_pilot,
    start_pilot,
)
from pymc_tempering.types import FloatArray

_PILOT_SHARE = 2
"""One part of tuning in so many is for the pilot."""


@dataclass(frozen=True, kw_only=True)
class PairRequested(Requested):
    """What the user asked of a step with a target replica.

    ``n_entries`` are the knots or levels at most. ``betas`` is a schedule that the pilot keeps,
    and ``bias`` one that is not adapted; None where they adapt.
    """

    n_entries: int
    needs_pilot: bool
    betas: FloatArray | None = None
    bias: FloatArray | None = None
    level_update: int = 0


class CoupledStep(TemperedStep):
    """Base class of the steps with one tempered replica z and one replica y at beta = 1.

    What ``pm.sample`` records is y. The first half of tuning is a short parallel tempering run
    where something has to be found that a single replica learns slowly: the base, the schedule,
    log z(beta). The second half adapts bias and step sizes of the pair itself.
    """

    _requested: PairRequested
    _scans: staticmethod
    """Compiled scans of the pair."""
    _has_knots: bool  # the bias is linear between knots; else it is one number for each level

    # What a subclass says

    def _own_statistics(self, pair: TemperedPair, record: PairRecord) -> dict[str, Any]:
        raise NotImplementedError

    def _ladder(self, base: GaussianBase, pilot: PilotResult | None) -> tuple[FloatArray, ...]:
        """Knots or levels, bias, and the grid of step sizes, to start from."""
        raise NotImplementedError

    # One chain

    def _reset_chain(self) -> None:
        self._pilot: Tuner | None = None
        self._pair: TemperedPair | None = None
        self._adapter: BiasAdapter | None = None
        self._barrier = np.nan
        self._tuned = [0, 0, 0]  # steps; scans of the pair, and their gradients

    def _start_chain(self, point: dict[str, np.ndarray]) -> None:
        known = self._known()
        base = self._source.base or overdisperse(known.pooled, len(known.modes))
        path, places = self._path(base), self._places(known.modes, point)
        asked, n_tune = self._requested, self._current.n_tune
        n_pilot = n_tune // _PILOT_SHARE if self.tune and asked.needs_pilot else 0
        if n_pilot > 0:
            self._pilot = start_pilot(
                path, known, places, self.rng, n_steps=n_pilot, adapt_base=asked.adapt_base,
                settings=self._source.explorer, betas=asked.betas, uses_fits=asked.uses_fits,
            )  # fmt: skip
            return
        self._current.account.n_spent += len(places)
        inside = [z for z in places if np.isfinite(self.density.value_and_grad(z)[0])]
        inside = inside or [self.density.points.ravel(point)]
        self._start_pair(path, None, inside[-1], inside[0], n_tune)

    def _start_pair(
        self, path: TemperedPath, pilot: PilotResult | None, z: FloatArray, y: FloatArray,
        n_blocks: int,
    ) -> None:  # fmt: skip
        betas, bias, grid = self._ladder(path.base, pilot)
        step_sizes = np.full(grid.size, 0.2) if pilot is None else pilot.step_sizes_at(grid)
        self._pair = TemperedPair(
            path, Bias(betas, bias, grid), step_sizes, z, y, scans=self._scans,
            settings=self._source.explorer, level_update=self._requested.level_update,
        )  # fmt: skip
        self._adapter = None
        if self.tune and self._requested.bias is None:
            wanted = wanted_occupancy(betas.size, knots=self._has_knots)
            self._adapter = BiasAdapter(bias, wanted, n_blocks, known=pilot is not None)

    def _end_pilot(self, pilot: Tuner) -> None:
        found = read_pilot(pilot)
        n_blocks = max(self._current.n_tune - self._tuned[0], 1)
        middle, top = found.positions[len(found.positions) // 2], found.positions[-1]
        self._start_pair(found.path, found, middle, top, n_blocks)
        self._pilot = None
        self._barrier = float(found.rejection_rates.sum())

    @density_guard()
    def stop_tuning(self) -> None:
        """Fix base, bias and step sizes; every later scan is exactly invariant."""
        self.tune = False
        if self._pilot is not None and self._pilot.blocks:
            self._end_pilot(self._pilot)
        if self._pair is not None:
            self._pair.stop_adaptation()
        self._adapter = None

    def _advance(self, point: dict[str, np.ndarray]) -> tuple[FloatArray, dict[str, Any]]:
        if self._pair is None and self._pilot is None:
            self._start_chain(point)
        if self._pilot is not None and self._pilot.finished:
            self._end_pilot(self._pilot)
        pair, pilot = self._pair, self._pilot
        n_scans = self._scans_of_next()
        self._tuned[0] += self.tune
        if not n_scans:
            return self._idle(point)
        if pair is not None:
            return self._step_pair(pair, n_scans)
        assert pilot is not None
        return self._step_pilot(pilot, n_scans)

    def _most_of_draw(self) -> int:
        """Gradients that the scans of a draw take at most."""
        return self.scans_per_draw * (1 + 2 * self._most_of_move)

    @property
    def _most_of_move(self) -> int:
        return self.density.n_each * self._source.explorer.most_evaluations(self.dim)

    @property
    def least_share(self) -> int:
        """Gradients that a chain cannot do without."""
        pilot = LEAST_SCANS * MAX_LEVELS * self._most_of_move
        return pilot + 2 * (self._most_of_draw() + BESIDE_SCANS)

    def _scans_of_next(self) -> int:
        """Scans of the draw that follows; none where gradients are not enough for them."""
        account, n_scans = self._current.account, self.scans_per_draw
        most = self._most_of_draw() // n_scans
        if not self.tune:
            return n_scans if account.fitting(n_scans, most) == n_scans else 0
        if self._pair is None and self._pilot is not None:
            most = self._pilot.ladder.n_levels * self._most_of_move
            n_scans = block_within(n_scans, MAX_LEVELS, account.to_tune / _PILOT_SHARE)
        elif account.is_limited:
            if account.left_to_tune <= 0.0:
                return 0
            n_tuned, n_done, n_gradients = self._tuned
            expected = n_gradients / n_done if n_done else most / 4
            n_steps = max(self._current.n_tune - n_tuned, 1)
            n_scans = int(np.clip(account.left_to_tune // (n_steps * expected), 1, n_scans))
        # what the end of a round and the first draw cannot do without
        return account.fitting(n_scans, most, reserve=self._most_of_draw() + BESIDE_SCANS)

    def _step_pilot(self, pilot: Tuner, n_scans: int) -> tuple[FloatArray, dict[str, Any]]:
        account = self._current.account
        left = account.to_tune / _PILOT_SHARE - account.n_spent
        record = pilot.run(n_scans, self.rng, left=left)
        record.counts["n_gradients"] += self.density.n_each * pilot.choice_counted()
        self._charge_off_record(pilot.ladder)
        # there is no tempered replica yet
        return pilot.ladder.target_position, self._recorder.blank() | {
            "target_delta": record.delta[:, -1],
            "global_barrier": float((1.0 - record.swap_acceptance_rate).sum()),
            **self._of_ensemble(pilot.ladder, record.counts, n_scans),
        }

    def _step_pair(self, pair: TemperedPair, n_scans: int) -> tuple[FloatArray, dict[str, Any]]:
        record = pair.run(n_scans, self.rng, adapt=self.tune)
        self._charge_off_record(pair)
        if self.tune:
            self._tuned[1] += n_scans
            self._tuned[2] += record.counts["n_gradients"]
        statistics = self._own_statistics(pair, record) | {
            "delta": round_delta(record.delta),
            "target_delta": round_delta(record.target_delta),
            "beta": record.beta,
            "step_size": pair.scales.copy(),
            "exchange_rate": record.exchange_rate,
            "n_zero_density_at": record.zero_density,
            "global_barrier": self._barrier,
            "tempered_restart": record.tempered_restart,
            **self._of_ensemble(pair, record.counts, n_scans),
        }
        if self._adapter is not None:
            log_occupancy = knot_log_occupancy if self._has_knots else level_log_occupancy
            occupied = log_occupancy(record.delta, pair.betas, pair.bias)
            ended = self._adapter.update(occupied, record.delta.size)
            pair.bias = self._adapter.bias.copy()
            if ended:
                pair.redraw(self.rng)
        return pair.target_position, statistics

    def _state(self) -> dict[str, Any] | None:
        if self._pair is None and self._pilot is None:
            return None
        parts = {"pilot": self._pilot, "pair": self._pair, "adapter": self._adapter}
        state = {name: part.state() for name, part in parts.items() if part is not None}
        return state | {"barrier": self._barrier, "tuned": self._tuned.copy()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._barrier, self._tuned = state["barrier"], state["tuned"].copy()
        asked, path, explorer = self._requested, self._any_path(), self._source.explorer
        if "pilot" in state:
            self._pilot = resumed_pilot(state["pilot"], path, explorer)
        if "pair" in state:
            self._pair = TemperedPair.restored(
                state["pair"], path=path, scans=self._scans, settings=explorer,
                level_update=asked.level_update,
            )  # fmt: skip
            self._pair.n_off_record = 0
        if "adapter" in state:
            self._adapter = BiasAdapter.restored(state["adapter"])
