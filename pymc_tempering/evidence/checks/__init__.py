"""All checks of a run. A module of this folder that has ``CHECKS`` is part of the list.

The estimate, the report, the page of diagnostics and the tests read them from here.
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.checks.check import Check, Finding
from pymc_tempering.evidence.run import Run

__all__ = ["CHECKS", "CODES", "diagnose", "found", "refusing"]


def _listed() -> tuple[Check, ...]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    checks = [check for module in modules for check in getattr(module, "CHECKS", ())]
    # what explains others first, and last what asks whether others have warned
    return tuple(
        sorted(checks, key=lambda c: ("warnings" in c.needs, not c.is_cause, not c.mass_missing))
    )


CHECKS: tuple[Check, ...] = _listed()

CODES: dict[str, Check] = {check.code: check for check in CHECKS}
"""Every kind of diagnostic there is, by its code."""


def diagnose(run: Run) -> tuple[Diagnostic, ...]:
    """Run every check whose needs are at hand."""
    diagnostics: list[Diagnostic] = []
    for check in CHECKS:
        if "warnings" in check.needs:
            run = replace(run, warnings=tuple(diagnostics) or None)
        if (diagnostic := check.of(run)) is not None:
            diagnostics.append(diagnostic)
    return tuple(diagnostics)


def refusing(run: Run) -> bool:
    """Whether a check of the model leaves nothing of the estimate."""
    return any(check.of(run) for check in CHECKS if check.refuses and "model" in check.needs)


def found(code: str, findings: Sequence[Finding]) -> list[Diagnostic]:
    """Diagnostic of a check that does not look by itself; empty without findings."""
    diagnostic = CODES[code].diagnostic(findings)
    return [] if diagnostic is None else [diagnostic]
