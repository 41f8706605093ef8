"""No print of an estimate has digits that its own warnings contradict."""

from dataclasses import replace

import numpy as np
import pytest

from pymc_tempering.comparison.bayes_factor import bayes_factor
from pymc_tempering.comparison.table import compare
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks import CODES
from pymc_tempering.plots.report import _estimates


def estimate(log_z, *codes):
    """An estimate of four chains with an error of 0.0123 and warnings of these kinds."""
    diagnostics = tuple(Diagnostic(code, "it is so.", "Do something.") for code in codes)
    return LogZEstimate(log_z, 0.0123, "pt, mbar", np.full(4, log_z), diagnostics)


@pytest.mark.parametrize("code", CODES)
def test_first_line(code):
    line = repr(estimate(-204.3821, code)).split("\n")[0]
    if code == "mode_missing":
        assert line == ("log Z = -204.4 nats or more: a mode may be missing (pt, mbar, 4 chains)")
    else:
        assert "-204.38 ± 0.01" in line


def test_everywhere_else():
    one, other = estimate(-204.3821, "mode_missing"), estimate(-206.8765)
    printed = {
        "compare": repr(compare({"one": one, "other": other})),
        "Bayes factor": repr(bayes_factor(other, one)),
        "report": repr(_estimates(one)),
    }
    for text in printed.values():
        assert "204.3" not in text
        assert "0.01 " not in text.replace("-206.88 ± 0.01", "").replace("0.012", "")
    assert "-204.4 or more" in printed["compare"]
    assert "-2.5 ± ?" in printed["compare"]
    assert printed["Bayes factor"] == (
        "log BF = -2.5 nats, error unknown: a mode of b may be missing"
    )


def test_what_has_no_number_is_no_bound():
    none = replace(estimate(np.nan, "mode_missing"), se=np.nan)
    assert repr(none).split("\n")[0] == "log Z = nan, error unknown (pt, mbar, 4 chains)"
    assert _estimates(none)[0] == ("combined (pt, mbar)", "\N{EN DASH}", "\N{EN DASH}")
