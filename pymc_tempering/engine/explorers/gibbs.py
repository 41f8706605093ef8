"""Gibbs sweeps over entries with finitely many values, beside moves of all other coordinates.

Each such entry is drawn anew from its conditional distribution at the replica's beta: the path is
evaluated at all values that the entry may have, the others as they are. What is left is moved as if
these entries were constants. The path has to show them as they are, in units of 1 around 0; see
:attr:`pymc_tempering.engine.path.tempered.TemperedPath.whole`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian, draw_trajectory, propose
from pymc_tempering.engine.explorers.slice import Slice, update_coordinate
from pymc_tempering.engine.move import ACCEPTED, REJECTED, Move
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import (
    Replicas,
    Work,
    evaluate_trial,
    log_tempered,
    take_trial,
    trial_position,
)
from pymc_tempering.jit import compiled
from pymc_tempering.numerics import draw_below
from pymc_tempering.types import FloatArray

Support = tuple[int, int, int]
"""Of one entry: its place in ``z``, its lowest value, and how many values it has, one apart."""


@compiled(borrows=True)
def _redraw(
    path: Path, beta: float, support: FloatArray, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> tuple[int, int]:  # fmt: skip
    """Draw one entry from its conditional; how often the density and a bad gradient were met."""
    i, lowest, n_values = int(support[0]), support[1], int(support[2])
    position, present = trial_position(replicas), replicas.u[row, i]
    total = log_tempered(beta, replicas.log_target[row], replicas.log_reference[row])
    n_bad = 0
    for k in range(n_values):
        value = lowest + k
        if value == present:
            continue
        position[i] = value
        trial = evaluate_trial(path, replicas)
        n_bad += trial.bad_gradient
        log_p = log_tempered(beta, trial.log_target, trial.log_reference)
        if log_p == -np.inf:
            continue
        # the latest value replaces what was drawn among those before by its share of their sum
        total = np.logaddexp(total, log_p)
        if rng.random() < np.exp(log_p - total):
            take_trial(trial, replicas, row)
    position[i] = replicas.u[row, i]
    return n_values - 1, n_bad


@compiled(borrows=True, apart=True, inside=True)
def _sweep(
    path: Path, beta: float, supports: FloatArray, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> tuple[int, int]:  # fmt: skip
    """Draw every entry once, from a random one on; as :func:`_redraw` otherwise."""
    position = trial_position(replicas)
    for i in range(position.shape[0]):
        position[i] = replicas.u[row, i]
    n_evaluations, n_bad = 0, 0
    first = draw_below(supports.shape[0], rng)
    for k in range(supports.shape[0]):
        support = supports[(first + k) % supports.shape[0]]
        more = _redraw(path, beta, support, replicas, row, rng)
        n_evaluations += more[0]
        n_bad += more[1]
    return n_evaluations, n_bad


@compiled
def gibbs_slice_move(
    path: Path, options: FloatArray, beta: float, width: float, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> Move:  # fmt: skip
    """Sweep, then update every other coordinate; the density at ``beta`` stays invariant.

    `options` (2 + 3 n,) are those of slices; and of every entry with a support its place, lowest
    value and number of values, in the order of places.
    """
    supports = options[2:].reshape(-1, 3)
    n_evaluations, n_bad = _sweep(path, beta, supports, replicas, row, rng)
    counts, entry = np.zeros(4), 0
    for i in range(replicas.u.shape[1]):
        if entry < supports.shape[0] and int(supports[entry, 0]) == i:
            entry += 1
            continue
        update_coordinate(path, options, (beta, width, i), replicas, row, counts, rng)
    tuned = counts[2] + counts[3]
    signal = counts[2] / tuned if tuned > 0.0 else 0.5
    n_evaluations += int(counts[0])
    return Move(1.0, signal, ACCEPTED, n_evaluations, n_bad + int(counts[1]))


@compiled
def gibbs_hamiltonian_move(
    path: Path, options: FloatArray, beta: float, step_size: float, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> Move:  # fmt: skip
    """Sweep, then follow a trajectory of the others; the density at ``beta`` stays invariant.

    A trajectory rotates every coordinate around the origin. One that is there without momentum and
    without a force stays there: the values that the sweep drew become part of the origin. Options
    are as for :func:`gibbs_slice_move`.
    """
    supports = options[2:].reshape(-1, 3)
    n_evaluations, n_bad = _sweep(path, beta, supports, replicas, row, rng)
    jittered, n_steps = draw_trajectory(step_size, options[0], int(options[1]), rng)
    mean, momentum = replicas.work[Work.MEAN], replicas.work[Work.MOMENTUM]
    u, residual = replicas.u[row], replicas.residual[row]
    for i in range(mean.shape[0]):
        mean[i] = path.mean[i]
        momentum[i] = rng.standard_normal()
    for k in range(supports.shape[0]):
        i = int(supports[k, 0])
        mean[i] = u[i]
        u[i] = momentum[i] = 0.0
        # a residual contains the position, see `evaluate_reference`
        if residual.shape[0] > 0:
            residual[i] = 0.0
    around = Path(
        path.target_address, path.reference_address, mean, path.scale, path.log_det_scale,
        path.components, path.faults,
    )  # fmt: skip
    move = propose(around, beta, jittered, n_steps, replicas, row, momentum, rng)
    for k in range(supports.shape[0]):
        i = int(supports[k, 0])
        u[i] = mean[i]
        if residual.shape[0] > 0:
            residual[i] = mean[i]
    return Move(
        move.acceptance_rate,
        move.signal,
        # entries may have moved all the same
        ACCEPTED if move.status == REJECTED else move.status,
        n_evaluations + move.n_evaluations,
        n_bad + move.n_bad_gradients,
    )


@dataclass(frozen=True)
class GibbsHamiltonian(Hamiltonian):
    """Gibbs sweeps over `supports`, and Hamiltonian moves of all other coordinates.

    The other settings are those of the Hamiltonian moves.
    """

    move: ClassVar[Any] = staticmethod(gibbs_hamiltonian_move)
    supports: tuple[Support, ...] = ()

    def most_evaluations(self, dim: int) -> int:
        """Those of a sweep, and of the longest trajectory."""
        return _of_sweep(self.supports) + super().most_evaluations(dim - len(self.supports))


@dataclass(frozen=True)
class GibbsSlice(Slice):
    """Gibbs sweeps over `supports`, and slice sampling of all other coordinates, if there are any.

    The other settings are those of slice sampling, but `n_updates` does not apply.
    """

    move: ClassVar[Any] = staticmethod(gibbs_slice_move)
    supports: tuple[Support, ...] = ()

    def most_evaluations(self, dim: int) -> int:
        """Those of a sweep, and twice what slices take of all other coordinates on average."""
        return _of_sweep(self.supports) + Slice().most_evaluations(dim - len(self.supports))


def _of_sweep(supports: tuple[Support, ...]) -> int:
    """Evaluations of a sweep: of all values but the present one of every entry."""
    return sum(n_values - 1 for _, _, n_values in supports)
