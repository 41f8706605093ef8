"""What an estimate of log Z says of itself."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate


def make(**changes):
    values = {
        "log_z": -12.5,
        "se": 0.2,
        "method": "pt, mbar",
        "per_chain": np.array([-12.4, -12.6]),
    }
    return LogZEstimate(**(values | changes))


def diagnostic(text):
    return Diagnostic("divergences", text, "Raise `tune`.", {"n_divergences": float("nan")})


def test_interval_uses_student_quantiles():
    low, high = make(df=5.0).interval(0.9)
    half = 0.2 * stats.t.ppf(0.95, 5)
    assert (low, high) == pytest.approx((-12.5 - half, -12.5 + half))
    assert make().interval()[1] == pytest.approx(-12.5 + 0.2 * 1.959964)
    assert make(se=0.0, df=np.inf).interval() == (-12.5, -12.5)
    assert np.isnan(make(se=np.nan, df=np.nan).interval()).all()


@pytest.mark.parametrize("prob", [0.0, 1.0, 95])
def test_impossible_probability_is_refused(prob):
    with pytest.raises(OptionError, match="expected a number between 0 and 1"):
        make().interval(prob)


def test_repr_gives_value_error_interval_bounds_and_warnings():
    text = repr(make(lower=-13.0, upper=-12.0, warnings=(diagnostic("run longer"),)))
    assert text.splitlines() == [
        "log Z = -12.50 ± 0.20 nats (pt, mbar, 2 chains; 95 % interval [-12.89, -12.11])",
        "  bounds [-13.00, -12.00]",
        "  warning: divergences: run longer Raise `tune`.",
    ]
    assert "0.00031" in repr(make(se=3.1e-4))[:40] or "0.0003" in repr(make(se=3.1e-4))
    assert "1 chain)" in repr(make(per_chain=np.zeros(1), se=np.nan))
    assert "error unknown" in repr(make(se=np.nan))


def test_bounds_are_shown_to_the_precision_of_the_error():
    estimate = make(se=3e-4, lower=-12.50041, upper=-12.49958)
    assert "bounds [-12.5004, -12.4996]" in repr(estimate)
    assert "bounds [-12.5004, -12.4996]" in estimate._repr_html_()
    assert "bounds [-12.50, unknown]" in repr(make(lower=-12.5))


def test_html_escapes_what_others_wrote():
    page = make(warnings=(diagnostic("<script>"),))._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_equality_ignores_the_run_and_accepts_missing_values():
    assert make(idata=object()) == make(idata=None)
    assert make(se=np.nan) == make(se=np.nan)
    assert make(warnings=(diagnostic("a"),)) == make(warnings=(diagnostic("a"),)) != make()
    assert make() != make(log_z=-12.6)
    assert make() != make(per_chain=np.array([-12.4, -12.7]))
    assert make() != "log Z"
    assert len({make(), make(idata=1)}) == 1


def test_warnings_are_objects():
    with pytest.raises(OptionError, match="`warnings` has 'divergences'; expected objects of"):
        make(warnings=("divergences",))


def test_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().log_z = 0.0


def test_gradients_are_shown_where_they_are_known():
    spent = {"search": 50_000, "tuning": 1_234, "draws": 8}
    estimate = LogZEstimate(0.0, 1.0, "pt, mbar", np.zeros(4), gradients=spent)
    line = "gradients: 51,242 (50,000 for search, 1,234 for tuning, 8 for draws)"
    assert line in repr(estimate)
    assert line in estimate._repr_html_()
    assert "gradients" not in repr(LogZEstimate(0.0, 1.0, "pt, mbar", np.zeros(4)))
