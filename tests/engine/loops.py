"""Kernels applied to many states: compiled loops that call whole scans by their address."""

import numba
import numpy as np
from planted import address_of, call_kernel

from pymc_tempering.engine.ensembles.annealing_runs import (
    Annealing,
    AnnealingLog,
    AnnealingMoves,
    AnnealingTally,
    anneal_ensemble,
    annealing_scans,
)
from pymc_tempering.engine.ensembles.ladder_scans import LadderRecord, Rungs, ladder_scans
from pymc_tempering.engine.ensembles.pair_scans import Bias, Pair, PairLog, PairScans
from pymc_tempering.engine.ensembles.swap import DEO
from pymc_tempering.engine.explorers.adaptation import Adaptation, new_dual_averaging
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.replicas import evaluate, new_replicas
from pymc_tempering.engine.tally import new_counts


@numba.njit
def _each_ladder(scans, arguments, rows, scales, draws, states, rng):
    path, _, rungs, replicas, adaptation, record = arguments
    n, n_levels, dim = states.shape
    n_scans, n_drawn = record.reference_draws.shape
    for s in range(n):
        for k in range(n_levels):
            rungs.replica_at[k] = k
            rungs.last_end[k] = 0
            adaptation.scales[k] = scales[k]
            for i in range(dim):
                replicas.u[k, i] = states[s, k, i]
            evaluate(path, replicas, k)
        adaptation.dual_averaging[:] = rows
        for scan in range(n_scans):
            for i in range(n_drawn):
                record.reference_draws[scan, i] = draws[s, scan, i]
        call_kernel(scans, (*arguments, rng))
        for k in range(n_levels):
            for i in range(dim):
                states[s, k, i] = replicas.u[rungs.replica_at[k], i]


def many_draws(path, n, n_scans, rng):
    """Draws of a reference that kernels cannot draw from, shape (n, n_scans, D), else (.., 0)."""
    return path.draws_and_origins(n * n_scans, rng)[0].reshape(n, n_scans, -1)


def ladder_kernel(
    path, betas, scales, *, settings, n_scans=1, scheme=DEO, first_scan=0, adapt=False,
    scans=ladder_scans,
):  # fmt: skip
    """Kernel on states ``z`` of shape (n, n_levels, D): scans of a ladder, one state at a time.

    Its attribute ``record`` is that of all of them together, but for ``delta``, of the last one.
    """
    n_levels, dim = betas.size, path.dim
    none = np.empty((0, 4))
    rows = new_dual_averaging(scales) if adapt else none
    none_yet = np.zeros((2, n_levels), np.int64)
    record = LadderRecord(
        np.empty((n_scans, n_levels)), np.zeros(n_levels - 1), np.zeros(n_levels),
        new_counts(n_levels), np.empty((0, dim)),
        *path.draws_and_origins(n_scans, np.random.default_rng(0))[:2],
        np.zeros((2, 9), np.int64),
    )  # fmt: skip

    def kernel(states, rng):
        u = np.ascontiguousarray(path.coordinates.to_base(states))
        view = path.view
        arguments = (
            view, settings.packed,
            Rungs(betas, np.arange(n_levels), *none_yet, scheme, first_scan),
            new_replicas(view, u[0]), Adaptation(scales.copy(), rows.copy()), record,
        )  # fmt: skip
        draws = many_draws(path, len(u), n_scans, rng)
        _each_ladder(address_of(scans, *arguments, rng), arguments, rows, scales, draws, u, rng)
        return path.coordinates.from_base(u)

    kernel.record = record
    return kernel


def move_kernel(path, beta, scale, settings=None):
    """Kernel on states ``z`` of shape (n, D): one move at ``beta``.

    A scan of the ladder with levels 0 and beta that has no swap, so that nothing else is compiled.
    """
    ladder = ladder_kernel(
        path, np.array([0.0, beta]), np.array([1.0, scale]), settings=settings or Hamiltonian(),
        scheme=DEO, first_scan=1,
    )  # fmt: skip

    def kernel(states, rng):
        return ladder(np.stack([states, states], axis=1), rng)[:, 1]

    kernel.record = ladder.record
    return kernel


@numba.njit
def _each_pair(scans, arguments, by_level, draws, states, rng):
    path, _, bias, pair, replicas, _, log = arguments
    n, dim = states.shape[0], replicas.u.shape[1]
    for s in range(n):
        for row in range(2):
            for i in range(dim):
                replicas.u[row, i] = states[s, row * (dim + 1) + i]
            evaluate(path, replicas, row)
        for row in range(3):
            pair.holder[row] = row
            pair.last_end[row] = 0
        pair.beta[0] = states[s, dim]
        pair.level[0] = np.searchsorted(bias.betas, states[s, dim]) if by_level else 0
        for i in range(log.reference_draws.shape[1]):
            log.reference_draws[0, i] = draws[s, 0, i]
        call_kernel(scans, (arguments, rng))
        for row in range(2):
            for i in range(dim):
                states[s, row * (dim + 1) + i] = replicas.u[pair.holder[row], i]
        states[s, dim] = bias.betas[pair.level[0]] if by_level else pair.beta[0]


def pair_kernel(scans, path, bias, scales, *, settings, level_update=None):
    """Kernel on states (z, beta, y) of shape (n, 2 D + 1): one scan of each.

    Its attribute ``log`` adds up what all of them count.
    """
    by_level = level_update is not None
    n, dim = bias.betas.size, path.dim
    delta, target_delta, base_delta, beta = np.empty((4, 1))
    log = PairLog(
        delta, target_delta, base_delta, beta,
        np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(1), new_counts(scales.size),
        path.draws_and_origins(1, np.random.default_rng(0))[0],
    )  # fmt: skip
    coordinates = path.coordinates

    def kernel(states, rng):
        u = np.column_stack(
            [coordinates.to_base(states[:, :dim]), states[:, dim],
             coordinates.to_base(states[:, dim + 1 :])]
        )  # fmt: skip
        view = path.view
        arguments = PairScans(
            view, settings.packed, Bias(*bias),
            Pair(np.arange(3), np.zeros(3, np.int64), np.zeros(1), np.zeros(1, np.int64),
                 level_update or 0),
            new_replicas(view, np.zeros((3, dim))),
            Adaptation(scales.copy(), np.empty((0, 4))), log,
        )  # fmt: skip
        address = address_of(scans, arguments, rng)
        _each_pair(address, arguments, by_level, many_draws(path, len(u), 1, rng), u, rng)
        return np.column_stack(
            [coordinates.from_base(u[:, :dim]), u[:, dim], coordinates.from_base(u[:, dim + 1 :])]
        )

    kernel.log = log
    return kernel


@numba.njit
def _each_annealed(ensemble, scans, reverse, arguments, particle, ends, weight, draws, states, rng):
    chain, log = arguments
    dim = states.shape[1]
    for s in range(states.shape[0]):
        for i in range(dim):
            chain.replicas.u[1, i] = states[s, i]
            ends[0, i] = states[s, i]
        evaluate(chain.path, chain.replicas, 1)
        call_kernel(ensemble, (reverse, particle, ends, weight, rng))
        log.log_weight[0] = weight[0]
        for scan in range(log.reference_draws.shape[0]):
            for i in range(log.reference_draws.shape[1]):
                log.reference_draws[scan, i] = draws[s, scan, i]
        call_kernel(scans, (*arguments, rng))
        for i in range(dim):
            states[s, i] = chain.replicas.u[1, i]


def annealing_kernel(
    path, betas, steps, *, n_leapfrog, settings, target_scale, n_scans=1, kind=0,
    ensemble=anneal_ensemble, scans=annealing_scans,
):  # fmt: skip
    """Kernel on states ``z`` of shape (n, D), draws of the target: whole scans of each.

    The weight that a chain starts from is drawn by a reverse run, with the kernel of ``ensemble``.
    """
    dim = path.dim

    def kernel(states, rng):
        u = np.ascontiguousarray(path.coordinates.to_base(states))
        view = path.view
        moves = AnnealingMoves(betas, steps, n_leapfrog, kind, False, settings.packed, target_scale)
        tally = AnnealingTally(np.zeros(betas.size), new_counts(betas.size), np.empty((0, 5)), 0.8)
        draws = many_draws(path, len(u), n_scans, rng)
        log = AnnealingLog(
            np.zeros(1), np.empty(n_scans), np.empty(n_scans), np.zeros(n_scans, dtype=np.bool_),
            draws[0].copy(),
        )  # fmt: skip
        chain = Annealing(view, moves, new_replicas(view, np.zeros((2, dim))), tally)
        arguments = (chain, log)
        particle = Annealing(view, moves, new_replicas(view, u[:1]), tally)
        ends, weight = u[:1].copy(), np.zeros(1)
        reversal = (True, particle, ends, weight, rng)
        _each_annealed(
            address_of(ensemble, *reversal), address_of(scans, *arguments, rng), True, arguments,
            particle, ends, weight, draws, u, rng,
        )  # fmt: skip
        return path.coordinates.from_base(u)

    return kernel
