"""Log Z of the draws against the one that tuning began with."""

import numpy as np
import pytest

from pymc_tempering.evidence.legs import chain_values, legs_diagnostics

SE = np.array([0.02, 0.03, 0.02, 0.04])
SE_BEFORE = np.array([0.2, 0.1, 0.3, 0.15])


def test_a_lost_mode_is_seen(rng):
    """Five sixths of the mass are missing from one of them: 1.8 nats.

    Of 5000 seeds all raise it, with errors of at most 0.29.
    """
    before = -7.0 + SE_BEFORE * rng.standard_normal(4)
    now = -7.0 + np.log(1 / 6) + SE * rng.standard_normal(4)
    [diagnostic] = legs_diagnostics(now, SE, before, SE_BEFORE)
    assert diagnostic.code == "legs_disagree"
    assert 'base="gaussian"' in diagnostic.remedy
    assert diagnostic.measured["log_z_chain"] == now.mean()
    assert diagnostic.measured["log_z_before"] == before.mean()
    assert 0.0 < diagnostic.measured["error"] < 0.35
    # the chains that did not start from the Gaussian say nothing of it
    before[:3] = np.nan
    [diagnostic] = legs_diagnostics(now, SE, before, np.where(np.isnan(before), np.nan, 0.05))
    assert diagnostic.measured["log_z_before"] == before[3]


@pytest.mark.statistical
def test_a_thousand_runs_that_agree_raise_nothing(rng):
    """Beyond 5 errors and 0.1 nats: 6e-7 each, with errors that are right."""
    for _ in range(1000):
        before = 2.0 + SE_BEFORE * rng.standard_normal(4)
        now = 2.0 + SE * rng.standard_normal(4)
        assert legs_diagnostics(now, SE, before, SE_BEFORE) == []


def test_nothing_is_said_without_another_leg():
    nothing = np.full(4, np.nan)
    now = np.array([1.0, 2.0, 3.0, 4.0])
    assert legs_diagnostics(now, SE, nothing, nothing) == []
    assert legs_diagnostics(nothing, SE, now, SE_BEFORE) == []
    assert np.isnan(chain_values({}, "log_z_before", 3)).all()
    values = chain_values({"log_z_before": now[:, None] * np.ones(5)}, "log_z_before", 4)
    assert values.tolist() == now.tolist()
