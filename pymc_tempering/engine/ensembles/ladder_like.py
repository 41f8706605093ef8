"""What parallel tempering asks of replicas at several betas, whoever moves them."""

from typing import Any, Protocol

import numpy as np

from pymc_tempering.engine.ensembles.ladder import ScanRecord
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["LadderLike"]


class _Identified(Protocol):
    @property
    def base_id(self) -> int: ...


class LadderLike(Protocol):
    """Replicas at inverse temperatures from 0 to 1 that exchange places.

    :class:`pymc_tempering.engine.ensembles.ladder.Ladder` is one whose moves are compiled,
    :class:`pymc_tempering.steps.compound_ladder.CompoundLadder` one of Python code. Tuning,
    statistics and estimates of log Z need no more of either than this.
    """

    betas: FloatArray  # (n_levels,)
    replica_at: IntArray  # (n_levels,), replica at each level
    n_off_record: int  # evaluations of the density beside those of scans

    @property
    def n_levels(self) -> int:
        """Number of levels, reference and target included."""
        ...

    @property
    def path(self) -> _Identified:
        """What replicas move on, with the identity of its reference."""
        ...

    @property
    def base(self) -> GaussianBase:
        """Gaussian of the coordinates."""
        ...

    @property
    def mixture(self) -> Mixture | None:
        """Mixture that the path starts from, where it starts from one."""
        ...

    @property
    def scales(self) -> FloatArray:
        """Step size of each level, shape (n_levels,); nan where moves have none."""
        ...

    @property
    def target_position(self) -> FloatArray:
        """Position ``z`` of the replica at beta = 1, shape (D,)."""
        ...

    @property
    def target_log_density(self) -> float:
        """Log target density of :attr:`target_position`, in nats."""
        ...

    def run(
        self,
        n_scans: int,
        rng: np.random.Generator,
        *,
        adapt: bool = False,
        keep_positions: bool = False,
    ) -> ScanRecord:
        """Run a block of scans; only without `adapt` are they exactly invariant."""
        ...

    def stop_adaptation(self) -> None:
        """Fix what moves have tuned and count trips from here on."""
        ...

    def change_schedule(self, betas: FloatArray) -> None:
        """Move to another schedule of shape (n_levels,), of another length perhaps."""
        ...

    def change_base(self, base: GaussianBase) -> None:
        """Keep the replicas where they are and describe them relative to another Gaussian."""
        ...

    def rescue_target(self) -> bool:
        """Move the replica at beta = 1 if no draw could be where it is; whether that was so."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything that changes, as copies."""
        ...
