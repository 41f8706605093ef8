"""How much time is spent where on the path: the bias on beta, or the weights of levels.

Both are one vector c with one entry per knot or level: the density over beta is proportional to
``z(beta) exp(-c(beta))``, the probability of level k to ``z_k exp(-c_k)``, so that
``log_level_weights = -c``. It is adapted by its occupancies, averages over positions of the
conditional probabilities of knots or levels (Rao-Blackwellised, eq. 9 of Carlson et al. 2016).
Between knots c is linear; a knot's probability is the integral of its hat function.
"""

import numpy as np
from scipy.special import log_softmax, logsumexp

from pymc_tempering.engine.state import Stateful
from pymc_tempering.numerics import log_exprel
from pymc_tempering.types import FloatArray


def _mean_position(slope: FloatArray) -> FloatArray:
    # mean of the density proportional to exp(slope t) on [0, 1]; the series avoids cancellation
    small = np.abs(slope) < 1e-2
    s = np.where(small, 1.0, slope)
    with np.errstate(over="ignore"):
        exact = -1.0 / np.expm1(-s) - 1.0 / s
    return np.where(small, 0.5 + slope / 12.0 - slope**3 / 720.0, exact)


def knot_log_occupancy(delta: FloatArray, knots: FloatArray, bias: FloatArray) -> FloatArray:
    r"""Log of the mean probability of every knot given the positions.

    The probability of a knot is :math:`\int h_k(\beta) p(\beta \mid z) d\beta` with the hat
    function of that knot, 1 there and 0 at its neighbours; they add up to 1.

    ``delta`` (n_scans,) is finite, in nats; knots, bias and what is returned are (n_knots,).

    Examples
    --------
    >>> np.exp(knot_log_occupancy(np.zeros(3), np.array([0, 0.5, 1]), np.zeros(3))).tolist()
    [0.25, 0.5, 0.25]
    """
    width = np.diff(knots)
    slope = np.multiply.outer(delta, width) - np.diff(bias)
    start = np.multiply.outer(delta, knots[:-1]) - bias[:-1]
    log_integral = np.array([log_exprel(s) for s in slope.ravel()]).reshape(slope.shape)
    log_mass = log_softmax(np.log(width) + start + log_integral, axis=1)
    position = np.clip(_mean_position(slope), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        upper, lower = log_mass + np.log(position), log_mass + np.log1p(-position)
    none = np.full((delta.size, 1), -np.inf)
    both = np.logaddexp(np.hstack([lower, none]), np.hstack([none, upper]))
    return np.asarray(logsumexp(both, axis=0) - np.log(delta.size))


def level_log_occupancy(delta: FloatArray, betas: FloatArray, bias: FloatArray) -> FloatArray:
    """Log of the mean probability of every level given the positions, eq. 9 of Carlson et al.

    ``delta`` (n_scans,) is in nats, ``-inf`` puts all probability on the base; ``bias`` is minus
    the log level weights, like ``betas`` and what is returned of shape (n_levels,).

    Examples
    --------
    >>> np.exp(level_log_occupancy(np.zeros(3), np.array([0, 1]), np.zeros(2))).tolist()
    [0.5, 0.5]
    """
    floor = np.maximum(delta, -1e300)
    log_p = log_softmax(np.multiply.outer(floor, betas) - bias, axis=1)
    return np.asarray(logsumexp(log_p, axis=0) - np.log(delta.size))


def wanted_occupancy(n: int, *, knots: bool) -> FloatArray:
    """Occupancies of n knots or levels, with which every piece or level has the same time.

    Examples
    --------
    >>> wanted_occupancy(3, knots=True).tolist()
    [0.25, 0.5, 0.25]
    """
    shares = np.ones(n)
    if knots:  # hats at the two ends are half as wide
        shares[[0, -1]] = 0.5
    return shares / shares.sum()


def bias_for_equal_pieces(knots: FloatArray, log_z: FloatArray) -> FloatArray:
    """Bias with which every piece has about the same share of time, from log z at the knots.

    With knots at equal barrier the time per unit of barrier is then constant. A density flat in
    beta itself would cross the narrow pieces near a wide base too seldom: the best density of a
    diffusing temperature is proportional to one over the root of its diffusivity (Katzgraber et al.
    2006, eq. 9), which is the local barrier.

    All are of shape (n_knots,); the bias is in nats, 0 at the first knot.

    Examples
    --------
    >>> bias_for_equal_pieces(np.array([0.0, 0.5, 1.0]), np.array([0.0, -1.0, -3.0])).tolist()
    [0.0, -1.0, -3.0]
    """
    log_width = np.log(np.diff(knots))
    inner = 0.5 * (log_width[1:] + log_width[:-1])
    bias = log_z + np.concatenate([log_width[:1], inner, log_width[-1:]])
    return np.asarray(bias - bias[0])


class BiasAdapter(Stateful):
    r"""Adapts a bias to wanted occupancies, block of scans by block.

    1. Initial iterations (Carlson et al. 2016, section 2.4), for a bias that may be far off:
       rounds of 1, 2, 4, ... blocks; after each,
       :math:`c_k \leftarrow c_k + \log \hat c_k / r_k` (their eq. 12), until every occupancy is
       right to a tenth (their rule), at the latest after half of the blocks.
    2. A vanishing gain: :math:`c_k \leftarrow c_k + \gamma_t (\hat c_k / r_k - \hat c_0 / r_0)`
       with :math:`\gamma_t = n / (t_0 + t)` (eq. 19 there; Tan 2015), n scans in the block, t so
       far.

    ``n_blocks`` updates are to come; a bias that is ``known`` is from a pilot run, and step 2
    begins at once.
    """

    _changing = ("bias", "wanted", "first", "n_seen", "in_round", "round_length", "log_sum",
                 "n_scans")  # fmt: skip

    def __init__(self, bias: FloatArray, wanted: FloatArray, n_blocks: int, *, known: bool) -> None:
        self.bias = bias - bias[0]
        self.wanted = wanted
        self.first = 0 if known else n_blocks // 2
        self.n_seen = 0
        self.in_round, self.round_length = 0, 1
        self.log_sum = np.full(bias.size, -np.inf)
        self.n_scans = 0

    @property
    def iterating(self) -> bool:
        """Whether initial iterations go on."""
        return self.n_seen < self.first

    def update(self, log_occupancy: FloatArray, n_scans: int) -> bool:
        """Take note of a block's log occupancies (n,) at the present bias.

        Returns whether an initial iteration ended, after which a fresh level is to be drawn.
        """
        if not self.iterating:
            self.n_scans += n_scans
            excess = np.exp(log_occupancy) / self.wanted
            gain = n_scans / (10.0 * self.bias.size + self.n_scans)
            self.bias = self.bias + gain * (excess - excess[0])
            return False
        self.n_seen += 1
        self.in_round += 1
        self.log_sum = np.logaddexp(self.log_sum, log_occupancy)
        if self.in_round < self.round_length and self.iterating:
            return False
        log_mean = self.log_sum - np.log(self.in_round)
        # right to a tenth of their mean, as in the paper
        if np.abs(np.exp(log_mean) - self.wanted).max() < 0.1 / self.wanted.size:
            self.first = self.n_seen
        change = log_mean - np.log(self.wanted)
        # an occupancy of nearly zero says which way to go, but not how far
        self.bias = self.bias + np.clip(change - change[0], -1e3, 1e3)
        self.in_round, self.round_length = 0, 2 * self.round_length
        self.log_sum = np.full(self.bias.size, -np.inf)
        return True
