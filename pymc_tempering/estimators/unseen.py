"""What share of the tries would find something that no try has found."""

import math

from scipy.stats import beta

__all__ = ["unseen_share"]


_PROBABILITY, _QUANTILE = 0.95, 1.645


def unseen_share(n_starts: int, n_once: int, n_twice: int) -> tuple[float, float]:
    r"""Estimate which share of starts leads to modes that no start has led to, and bound it.

    The bound holds with probability 0.95. Good (1953), after Turing: the share :math:`f_1 / n` of
    starts that found a mode which no other start found. The bound is the larger of two: the
    binomial one (Clopper & Pearson 1934) for :math:`f_1` of :math:`n`, about 3 / n where there is
    none, and the normal one with Esty's (1983) variance
    :math:`(f_1 (1 - f_1 / n) + 2 f_2) / n^2`, which knows that these events depend on one another.

    Parameters
    ----------
    n_starts : int
    n_once, n_twice : int
        Modes that one start led to, and two.

    Returns
    -------
    share, upper : float
        Of such starts as were used, not of the posterior's mass.

    Examples
    --------
    >>> share, upper = unseen_share(1000, 0, 0)
    >>> share, round(upper, 4)
    (0.0, 0.003)
    """
    if n_starts == 0:
        return 1.0, 1.0
    share = n_once / n_starts
    binomial = (
        float(beta.ppf(_PROBABILITY, n_once + 1, n_starts - n_once)) if n_once < n_starts else 1.0
    )
    variance = (n_once * (1.0 - share) + 2.0 * n_twice) / n_starts**2
    return share, min(1.0, max(binomial, share + _QUANTILE * math.sqrt(variance)))
