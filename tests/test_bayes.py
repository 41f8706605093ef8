"""How a Bayes factor shows itself; its value is tested in test_comparison and test_published."""

import numpy as np
import pytest

from pymc_tempering.bayes import BayesFactor


@pytest.mark.parametrize(
    ("se", "shown"),
    [(0.3, "2.85 ± 0.30"), (0.0021, "2.848 ± 0.002"), (0.0, "2.85 ± 0.00"), (np.nan, "± nan")],
)
def test_small_errors_are_not_shown_as_zero(se, shown):
    assert shown in repr(BayesFactor(2.8483, se))
