"""log Z while a run goes on, from sums that cost little to keep; for display only.

The estimates that are stored use every recorded draw and better weights; these exist so that a
progress bar can show where log Z is going.
"""

from typing import Any

import numpy as np

from pymc_tempering.engine.state import Stateful
from pymc_tempering.errors import DataError
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

__all__ = ["RunningLogZ"]

_N_BATCHES = 32
"""At most; two by two they become one when all are full, so that 16 to 32 carry the error."""

_LEAST_BATCHES = 4


@compiled(borrows=True)
def _accumulate(log_weights: FloatArray, peak: FloatArray, sums: FloatArray, batch: int) -> None:
    for k in range(peak.size):
        highest = -np.inf
        for i in range(log_weights.shape[0]):
            # a replica without density, possible before its first valid state, has weight inf
            if highest < log_weights[i, k] < np.inf:
                highest = log_weights[i, k]
        if highest > peak[k]:
            shrink = np.exp(peak[k] - highest)
            for b in range(sums.shape[0]):
                sums[b, k] *= shrink
            peak[k] = highest
        if peak[k] == -np.inf:
            continue
        total = 0.0
        for i in range(log_weights.shape[0]):
            if log_weights[i, k] < np.inf:
                total += np.exp(log_weights[i, k] - peak[k])
        sums[batch, k] += total


@compiled(borrows=True)
def _estimate(
    peak: FloatArray,
    sums: FloatArray,
    signs: FloatArray,
    n_scans: float,
    per_batch: float,
    influence: FloatArray,
) -> tuple[float, float]:
    log_z, n = 0.0, influence.size
    for k in range(peak.size):
        total = 0.0
        for b in range(sums.shape[0]):
            total += sums[b, k]
        mean = total / n_scans
        if mean <= 0.0:
            return np.nan, np.nan
        log_z += signs[k] * (peak[k] + np.log(mean))
        for b in range(n):
            influence[b] += signs[k] * sums[b, k] / (per_batch * mean)
    if n < _LEAST_BATCHES:
        return log_z, np.nan
    total = 0.0
    for b in range(n):
        total += influence[b]
    centre = total / n
    square = 0.0
    for b in range(n):
        square += (influence[b] - centre) ** 2
    return log_z, np.sqrt(square / (n * (n - 1)))


class RunningLogZ(Stateful):
    r"""Signed sum of logs of mean weights, with an error from batch means.

    .. math:: \log Z \approx a + \sum_k s_k \log \overline{W_k}, \qquad s_k = \pm 1

    which is the form of the geometric bridge (parallel tempering, annealing), of eq. 21 of Graham &
    Storkey (2017) and of eq. 12 of Carlson et al. (2016). Sums are kept for at most 32 batches of
    equal length; their spread gives the error, which counts autocorrelation within a batch.

    Parameters
    ----------
    signs : array_like of shape (n_weights,)
        1 or -1.

    Examples
    --------
    >>> running = RunningLogZ([1.0])
    >>> for block in np.log(np.arange(1.0, 9.0)):
    ...     log_z, se = running.add(np.array([[block]]))
    >>> round(log_z, 6) == round(float(np.log(4.5)), 6), round(se, 3)
    (True, 0.192)
    """

    _changing = ("signs", "peak", "sums", "blocks_per_batch", "n_blocks", "n_scans")

    def __init__(self, signs: Any) -> None:
        self.signs = np.array(signs, dtype=np.float64)
        self.peak = np.full(self.signs.size, -np.inf)
        self.sums = np.zeros((_N_BATCHES, self.signs.size))
        self.blocks_per_batch = 1
        self.n_blocks = 0
        self.n_scans = 0

    def add(self, log_weights: FloatArray, constant: float = 0.0) -> tuple[float, float]:
        """Add a block of scans and return the estimate so far.

        Parameters
        ----------
        log_weights : ndarray of shape (n_scans, n_weights)
            In nats; ``-inf`` for a weight of zero. Every block has as many scans as the first.
        constant : float
            Added to the estimate, default 0.

        Returns
        -------
        log_z, se : float
            In nats; nan while some weights are all zero, and ``se`` while there are fewer than four
            batches.

        Raises
        ------
        DataError
            If the number of weights differs from that of the signs.
        """
        if log_weights.shape[1] != self.signs.size:
            raise DataError(
                f"log_weights has shape {log_weights.shape}; expected {self.signs.size} columns, "
                "one for each sign. Start another RunningLogZ when the schedule changes."
            )
        _accumulate(log_weights, self.peak, self.sums, self.n_blocks // self.blocks_per_batch)
        self.n_blocks += 1
        self.n_scans += len(log_weights)
        n_full = self.n_blocks // self.blocks_per_batch
        per_batch = self.blocks_per_batch * self.n_scans / self.n_blocks
        log_z, se = _estimate(
            self.peak, self.sums, self.signs, self.n_scans, per_batch, np.zeros(n_full)
        )
        if n_full == _N_BATCHES:
            self.sums[: n_full // 2] = self.sums[::2] + self.sums[1::2]
            self.sums[n_full // 2 :] = 0.0
            self.blocks_per_batch *= 2
        return log_z + constant, se
