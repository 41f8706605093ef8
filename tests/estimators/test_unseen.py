"""The share of starts with an unknown mode: its bound holds as often as it says."""

import numpy as np
import pytest

from pymc_tempering.estimators.unseen import unseen_share


def test_shares_by_hand():
    assert unseen_share(0, 0, 0) == (1.0, 1.0)
    assert unseen_share(1, 1, 0) == (1.0, 1.0)
    share, upper = unseen_share(100, 7, 3)
    assert share == 0.07
    # Clopper-Pearson for 7 of 100: 0.1285 (Beta(8, 93) at 0.95)
    assert 0.128 < upper < 0.129
    share, upper = unseen_share(10_000, 0, 0)
    assert (share, upper) == (0.0, pytest.approx(1.0 - 0.05**1e-4))
    assert unseen_share(100, 7, 40)[1] > 0.2


@pytest.mark.statistical
@pytest.mark.parametrize("decay", [0.5, 0.9, 0.99])
def test_bound_covers(rng, decay):
    """Geometric basins, 200 starts, 400 searches: 95 % at least, less five standard errors (89 %),
    is a false alarm in 1e6.
    """
    shares = decay ** np.arange(2000)
    shares /= shares.sum()
    covered = 0
    for _ in range(400):
        counts = rng.multinomial(200, shares)
        _, upper = unseen_share(200, int((counts == 1).sum()), int((counts == 2).sum()))
        covered += shares[counts == 0].sum() <= upper
    assert covered >= 0.89 * 400
