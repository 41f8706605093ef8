"""PyMC's step methods as the moves of replicas at any inverse temperature.

One set of step methods serves all levels. What they tune and draw from belongs to a level: it is
put in before a move and taken out after it, as the sampling state that PyMC defines for each.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytensor

from pymc_tempering.engine.state import to_plain
from pymc_tempering.engine.tally import DIVERGENCES, EVALUATIONS, TARGET_DIVERGENCES
from pymc_tempering.model.powered import PoweredModel
from pymc_tempering.private import assigned_steps
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["PyMCMoves"]

_ACCEPTANCE = ("mean_tree_accept", "accepted")
"""Statistics that say how often proposals are accepted; a Gibbs step or a slice has none."""


class PyMCMoves:
    """The step methods that PyMC assigns to a model, on its tempered copy; their state by level."""

    def __init__(self, powered: PoweredModel) -> None:
        self._powered = powered
        model, self._beta = powered.tempered()
        # a worker that compiles by itself has to draw alike, to the last bit
        with pytensor.config.change_flags(numba__fastmath=False):
            self._step = assigned_steps(model)
        self._leaves = list(_leaves(self._step))
        sizes = dict(zip(powered.points.names, powered.points.sizes, strict=True))
        # NUTS counts its evaluations; others make about one for each entry
        self._n_other = sum(
            sizes[value.name]
            for leaf in self._leaves
            if "tree_size" not in leaf.stats_dtypes_shapes
            for value in leaf.vars
        )
        self._fresh = self._step.sampling_state
        self.states: list[Any] = []

    # compiled functions share the power of the likelihood, which pickling them would take apart
    def __reduce__(self) -> tuple[Any, ...]:
        return PyMCMoves, (self._powered,)

    @property
    def assignment(self) -> str:
        """Which step method moves which variables, in words."""
        return ", ".join(
            f"{type(leaf).__name__} ({', '.join(value.name for value in leaf.vars)})"
            for leaf in self._leaves
        )

    def start(self, n_levels: int, rng: np.random.Generator) -> None:
        """Forget everything that was tuned, and give every level a stream of its own."""
        self.states = [self._fresh] * n_levels
        self._give_streams(rng)

    def rearrange(self, levels: IntArray, rng: np.random.Generator) -> None:
        """Continue with what is tuned at these levels, in this order, from new streams."""
        self.states = [self.states[level] for level in levels]
        self._give_streams(rng)

    def stop_tuning(self) -> None:
        """Fix what is tuned, at every level; every later move is exactly invariant."""
        for level, state in enumerate(self.states):
            self._step.sampling_state = state
            self._step.stop_tuning()
            self.states[level] = self._step.sampling_state

    def _give_streams(self, rng: np.random.Generator) -> None:
        for level, entropy in enumerate(rng.integers(2**63, size=(len(self.states), 4))):
            self._step.sampling_state = self.states[level]
            self._step.setup_chain(np.random.default_rng(entropy), 0, 0)
            self.states[level] = self._step.sampling_state

    def __call__(
        self, level: int, betas: FloatArray, z: FloatArray, counts: IntArray
    ) -> tuple[FloatArray, float]:
        """Move a replica at z, shape (D,), by every step method once; ``counts`` are incremented.

        The density at its level stays invariant. Gives the position and the mean acceptance rate of
        those step methods that may reject; 1 without any.
        """
        points = self._powered.points
        self._beta.set_value(betas[level])
        self._step.sampling_state = self.states[level]
        point, statistics = self._step.step(points.unravel(z))
        self.states[level] = self._step.sampling_state
        counts[EVALUATIONS] += self._n_other + sum(s.get("tree_size", 0) for s in statistics)
        n_diverging = sum(bool(s.get("diverging", False)) for s in statistics)
        counts[DIVERGENCES] += n_diverging
        counts[TARGET_DIVERGENCES] += n_diverging * (level == betas.size - 1)
        rates = [float(np.mean(s[name])) for s in statistics for name in _ACCEPTANCE if name in s]
        return points.ravel(point), float(np.mean(rates)) if rates else 1.0

    def state(self) -> list[Any]:
        """What is tuned at every level, as plain values."""
        return [to_plain(_fields(state)) for state in self.states]

    def set_state(self, states: list[Any]) -> None:
        """Continue from :meth:`state`."""
        self.states = [_like(self._fresh, state) for state in states]


def _leaves(step: Any) -> Iterator[Any]:
    """Step methods below one that is composed of several, however deep."""
    for method in getattr(step, "methods", ()):
        yield from _leaves(method)
    if not hasattr(step, "methods"):
        yield step


def _fields(state: Any) -> Any:
    """Mapping of the fields of a sampling state."""
    if is_dataclass(state):
        return {item.name: _fields(getattr(state, item.name)) for item in fields(state)}
    if isinstance(state, list | tuple):
        return [_fields(item) for item in state]
    return state


def _like(example: Any, value: Any) -> Any:
    """Sampling state of the types of another one, from :func:`_fields`."""
    if is_dataclass(example) and not isinstance(example, type):
        named = {f.name: _like(getattr(example, f.name), value[f.name]) for f in fields(example)}
        return type(example)(**named)
    if isinstance(example, list | tuple) and len(example) == len(value):
        # a named tuple takes its entries one by one
        make = getattr(example, "_make", type(example))
        return make(map(_like, example, value))
    return value
