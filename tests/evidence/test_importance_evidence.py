"""An estimate below the mass of the modes that are known."""

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.evidence.importance import importance_diagnostics
from pymc_tempering.results.statistics import pack_search


def searched(values, se=0.01):
    values = np.array(values, dtype=float)
    return {"search_log_mass": values, "search_log_mass_se": np.full(values.shape, se)}


@pytest.mark.parametrize(
    ("log_z", "se", "named"),
    [
        (-0.10, 0.01, True), (-0.08, 0.01, False), (-0.10, 0.02, False), (0.10, 0.01, False),
        (-9.0, 4.0, False), (-0.2, np.nan, False),
    ],
)  # fmt: skip
def test_by_three_errors_of_both_and_a_twentieth_of_a_nat(log_z, se, named):
    diagnostics = importance_diagnostics(searched([0.0]), log_z, se)
    assert [diagnostic.code for diagnostic in diagnostics] == ["known_mass_missing"] * named


def test_the_chain_that_knows_most_counts():
    [diagnostic] = importance_diagnostics(searched([-np.inf, 0.5, 2.0]), 1.0, 0.01)
    assert diagnostic.measured == {"search_log_mass": 2.0, "lacking": 1.0}
    assert "1 nats more than log Z" in str(diagnostic)
    assert importance_diagnostics(searched([-np.inf]), -9.0, 0.01) == []
    assert importance_diagnostics({}, -9.0, 0.01) == []


def test_a_run_below_what_its_search_knew_is_named(target, base, rng, make_statistics, make_tree):
    statistics = make_statistics(target, base, rng)
    known = {"starts": 9, "modes": 2, "left_out": 0, "mass_once": 0.0,
             "log_mass": target.log_z, "log_mass_se": 0.01, "start_counts": [5, 4]}  # fmt: skip
    statistics["search"] = np.tile(pack_search(known), (4, 40, 1))
    good = pm_temper.estimate_logz(make_tree(statistics))
    assert good.warnings == ()
    stored = good.idata["tempering"].dataset["search_log_mass"]
    assert stored.values.tolist() == [target.log_z] * 4
    assert stored.attrs["units"] == "nats"
    known["log_mass"] += 1.0
    statistics["search"] = np.tile(pack_search(known), (4, 40, 1))
    with pytest.warns(TemperingWarning, match="^known mass missing: "):
        low = pm_temper.estimate_logz(make_tree(statistics))
    [diagnostic] = low.warnings
    assert diagnostic.measured["lacking"] == pytest.approx(1.0 + target.log_z - low.log_z)
    # where draws come from none of a mode, that says as much
    statistics["log_mass_unvisited"] = np.full((4, 40, 1), target.log_z)
    with pytest.warns(TemperingWarning):
        named = pm_temper.estimate_logz(make_tree(statistics))
    assert [diagnostic.code for diagnostic in named.warnings] == ["mode_out_of_reach"]
