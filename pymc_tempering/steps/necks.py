"""How replicas move where a target has necks, as short runs and tuning rounds find them."""

from collections.abc import Callable

import numpy as np

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.ensembles.ladder_like import LadderLike
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.state import Stateful
from pymc_tempering.references.necks import N_EVALUATIONS, N_PLACES, depth_of_necks
from pymc_tempering.references.prepared import CURVED, NEARLY_STRAIGHT, Prepared
from pymc_tempering.types import FloatArray

__all__ = ["NeckWatch"]

UNDECIDED = (NEARLY_STRAIGHT, CURVED)
"""Kinds of targets in which there may be necks that short runs have not met. A fit that was bent
covers them, or it would not have been kept."""


class NeckWatch(Stateful):
    """What is known of a target's necks, and the explorer that suits it.

    A short run in a mode may end before it met the neck: draws of tuning rounds, which came from
    the reference, know more of it.

    Parameters
    ----------
    suited : callable
        From the depth of necks, in nats, to how replicas move.

    Attributes
    ----------
    depth : float
        Of the necks, in nats, as far as they were looked for.
    """

    _changing = ("depth", "_may_look")

    def __init__(self, suited: Callable[[float], ExplorerSettings]) -> None:
        self._suited = suited
        self.depth, self._may_look = 0.0, False

    @property
    def settings(self) -> ExplorerSettings:
        """How replicas move."""
        return self._suited(self.depth)

    def start(self, found: Prepared | None) -> None:
        """Take what short runs before a chain found."""
        self.depth = found.search.necks if found is not None else 0.0
        self._may_look = found is not None and found.kind in UNDECIDED

    def look(self, ladder: LadderLike, positions: FloatArray, rng: np.random.Generator) -> None:
        """Look for necks among the draws of a round; where they are deep, moves change."""
        enough = self._may_look and len(positions) >= N_PLACES
        known = self.settings == self._suited(np.inf)
        if known or not enough or not isinstance(ladder, Ladder):
            return
        ladder.n_beside += N_EVALUATIONS
        self.depth = max(self.depth, depth_of_necks(ladder.path.target, positions, rng))
        if ladder.settings != self.settings:
            ladder.settings = self.settings
            ladder.restart_adaptation()
