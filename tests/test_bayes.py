"""How a Bayes factor shows itself; its value is tested in test_comparison and test_published."""

import numpy as np
import pytest

from pymc_tempering.bayes import BayesFactor


@pytest.mark.parametrize(
    ("log10", "shown"),
    [(0.13, "BF = 1.3;"), (1.37, "BF = 23;"), (-1.37, "BF = 1/23;"), (2.5, "BF = 316;"),
     (5.25, "BF = 10^5.25;"), (-400.0, "BF = 1/10^400.00;")],
)  # fmt: skip
def test_a_moderate_ratio_is_shown_as_itself(log10, shown):
    assert shown in repr(BayesFactor(log10 * np.log(10.0), 0.1))


@pytest.mark.parametrize(
    ("se", "shown"),
    [(0.3, "2.85 ± 0.30"), (0.0021, "2.848 ± 0.002"), (0.0, "2.85 ± 0.00"), (np.nan, "± nan")],
)
def test_small_errors_are_not_shown_as_zero(se, shown):
    assert shown in repr(BayesFactor(2.8483, se))
