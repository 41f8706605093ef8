import numpy as np
import pytest
from arviz_stats.base import array_stats

from pymc_tempering.references.fit import effective_sizes, n_independent
from tests.chains import autoregressive_chains


@pytest.mark.parametrize("n", [4, 5, 7, 10, 13, 20, 57, 400])
@pytest.mark.parametrize("correlation", [-0.4, 0.0, 0.5, 0.95])
def test_sizes_are_those_of_arviz(n, correlation, rng):
    columns = autoregressive_chains(rng, (1, n, 12), correlation)[0]
    columns[:, 3] = 1.5
    columns[:, 4] = np.round(columns[:, 4])
    wanted = [float(array_stats.ess(column[None], method="mean")) for column in columns.T]
    np.testing.assert_allclose(effective_sizes(columns), wanted, rtol=1e-9)


def test_draws_count_as_the_least_of_coordinates_and_squares(rng):
    n = 3000
    slow = autoregressive_chains(rng, (1, n, 1), 0.95)[0, :, 0]
    # of independent signs, and sizes that are not
    signs = rng.choice([-1.0, 1.0], n) * np.exp(slow)
    assert n_independent(signs[:, None]) < 0.3 * effective_sizes(signs[:, None])[0]
    columns = np.column_stack([slow, rng.normal(size=(n, 2))])
    assert n_independent(columns) > 0.8 * n
    assert n_independent(columns[:, [0, 0, 1]]) < 0.1 * n


def test_too_few_draws_and_infinite_ones_count_as_none(rng):
    draws = rng.normal(size=(50, 2))
    assert n_independent(draws[:3]) == 0.0
    draws[7] = np.nan
    assert n_independent(draws) == 0.0
