"""How a Bayes factor shows itself; its value is tested in test_comparison and test_published."""

import numpy as np
import pytest
from scipy import stats

from pymc_tempering import LogZEstimate
from pymc_tempering.comparison.bayes_factor import BayesFactor, bayes_factor, kass_raftery


@pytest.mark.parametrize(
    ("log10", "shown"),
    [(0.13, "BF = 1.3;"), (1.37, "BF = 23;"), (-1.37, "BF = 1/23;"), (2.5, "BF = 316;"),
     (5.25, "BF = 10^5.25;"), (-400.0, "BF = 1/10^400.00;")],
)  # fmt: skip
def test_a_moderate_ratio_is_shown_as_itself(log10, shown):
    assert shown in repr(BayesFactor(log10 * np.log(10.0), 0.1))


@pytest.mark.parametrize(
    ("se", "shown"),
    [
        (0.3, "2.85 ± 0.30"),
        (0.0021, "2.848 ± 0.002"),
        (0.0, "2.85 ± 0.00"),
        (np.nan, "2.85 nats, error unknown"),
    ],
)
def test_small_errors_are_not_shown_as_zero(se, shown):
    assert shown in repr(BayesFactor(2.8483, se))


def estimate(log_z, se, df=np.inf):
    return LogZEstimate(log_z, se, "pt, mbar", np.full(2, log_z), df=df)


def test_interval_knows_how_uncertain_the_errors_are():
    factor = bayes_factor(estimate(-10.0, 0.3, df=4.0), estimate(-12.0, 0.4, df=9.0))
    expected = 0.25**2 / (0.09**2 / 4.0 + 0.16**2 / 9.0)
    assert factor.df == pytest.approx(expected)
    low, high = factor.interval(0.95)
    assert high - low == pytest.approx(2 * 0.5 * stats.t.ppf(0.975, expected))


@pytest.mark.parametrize("se", [0.0, 0.2])
def test_known_errors_give_a_normal_interval(se):
    factor = bayes_factor(estimate(-1.0, 0.0), estimate(-3.0, se))
    low, high = factor.interval(0.9)
    assert high - low == pytest.approx(2 * se * stats.norm.ppf(0.95))
    assert low + high == pytest.approx(4.0)


def test_an_unknown_evidence_gives_no_words():
    unknown = BayesFactor(np.nan, np.nan)
    assert repr(unknown) == "log BF unknown: at least one of the two log Z is unknown"
    assert unknown.words == kass_raftery(np.nan) == "unknown"
    assert "infinite; very strong evidence for a" in repr(BayesFactor(np.inf, 0.1))
    assert "1/infinite; very strong evidence for b" in repr(BayesFactor(-np.inf, 0.1))
