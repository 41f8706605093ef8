"""The list of checks: what each needs, and how findings become one diagnostic."""

import numpy as np

from pymc_tempering.evidence import checks
from pymc_tempering.evidence.checks import CHECKS, CODES, diagnose
from pymc_tempering.evidence.checks.check import Check, Finding
from pymc_tempering.evidence.run import Run


def test_each_code_is_of_one_check():
    assert len(CODES) == len(CHECKS)
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.meaning and check.remedy for check in CHECKS)


def test_what_a_check_needs_is_part_of_a_run():
    assert all(hasattr(Run(), part) for check in CHECKS for part in check.needs)


def test_without_anything_at_hand_nothing_is_found():
    assert diagnose(Run()) == ()


def test_a_module_of_the_folder_is_part_of_the_list(tmp_path, monkeypatch):
    """A new check is one file."""
    (tmp_path / "hasty.py").write_text(
        "from pymc_tempering.evidence.checks.check import Check\n"
        "CHECKS = (Check('hasty', 'It is.', 'Wait.'),)\n"
    )
    monkeypatch.setattr(checks, "__path__", [*checks.__path__, str(tmp_path)])
    assert {check.code for check in checks._listed()} == {*CODES, "hasty"}


def test_causes_come_first():
    order = [check.is_cause for check in CHECKS]
    assert order == sorted(order, reverse=True)


def test_a_check_runs_where_its_needs_are_there():
    check = Check("x", "x.", "Do.", lambda run: [Finding("y.", {"n": 1})], ("draws",))
    assert check.of(Run()) is None
    diagnostic = check.of(Run(draws={"x": np.zeros((2, 3))}))
    assert (diagnostic.text, diagnostic.remedy, diagnostic.measured) == ("y.", "Do.", {"n": 1})


def test_pieces_of_evidence_are_one_diagnostic_with_the_remedy_of_the_strongest():
    check = Check("x", "x.", "Do.")
    strong, weak = Finding("a.", {"n": 1}, "one", "Stop."), Finding("b.", {"n": 2}, "two")
    diagnostic = check.diagnostic([strong, weak])
    assert (diagnostic.text, diagnostic.remedy) == ("a. b.", "Stop.")
    assert diagnostic.measured == {"one": {"n": 1}, "two": {"n": 2}}
    assert check.diagnostic([weak]).remedy == "Do."
    assert check.diagnostic([]) is None
