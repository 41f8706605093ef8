"""What speaks against a result, as an object: kind, finding, remedy and what measured it.

Every kind is a :class:`pymc_tempering.evidence.checks.check.Check`, and explained in
``docs/howto/diagnostics.md``.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pymc_tempering.errors import TemperingWarning

if TYPE_CHECKING:
    from pymc_tempering.evidence.checks.check import Check


@cache
def kinds() -> Mapping[str, "Check"]:
    """Every kind by its code: the list of checks, which is above this module."""
    known: Mapping[str, Check] = resolve_name("pymc_tempering.evidence.checks:CODES")
    return known


def _flag(name: str, meaning: str) -> Any:
    """Property of a diagnostic that is that of its kind; False where it is of no check."""
    return property(lambda self: bool(getattr(kinds().get(self.code), name, False)), doc=meaning)


@dataclass(frozen=True)
class Diagnostic:
    """Something that speaks against a result.

    Its ``str`` is the sentence that is printed and warned with.

    Parameters
    ----------
    code : str
        Which kind: that of a check in :data:`pymc_tempering.evidence.checks.CODES`.
    text : str
        What was found, with figures.
    remedy : str
        What to do.
    measured : mapping of str to float, str, list or mapping of these
        What it was concluded from: names of statistics or estimators and their values. Names of
        the group ``tempering`` where it is there too; ``chain`` says which chains are meant. Where
        a check has several pieces of evidence, such a mapping for each that was found, by name.

    Examples
    --------
    >>> diagnostic = Diagnostic("no_overlap", "chains [2] share no draws.", "Raise `tune`.",
    ...                         {"chain": [2]})
    >>> print(diagnostic)
    no overlap: chains [2] share no draws. Raise `tune`.
    >>> diagnostic.measured["chain"], diagnostic.refuses
    ([2], True)
    """

    code: str
    text: str
    remedy: str
    # a mapping has no hash
    measured: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Which kind, in words; made from the code where it is of no check."""
        return getattr(kinds().get(self.code), "name", self.code.replace("_", " "))

    lasting = _flag("lasting", "Whether later estimates of the same draws repeat it.")
    is_cause = _flag("is_cause", "Whether other diagnostics of the same estimate follow from it.")
    mass_missing = _flag("mass_missing", "Whether log Z may lack the mass of a mode.")
    of_comparison = _flag("of_comparison", "Whether it speaks against comparisons alone.")
    refuses = _flag("refuses", "Whether it leaves nothing of the estimate.")

    def __str__(self) -> str:
        return f"{self.name}: {self.text} {self.remedy}"


def warn_of(diagnostics: Iterable[Diagnostic], *, outwards: int = 0) -> None:
    """Warn of each diagnostic, as if the caller of the caller did, or one `outwards` of that."""
    for diagnostic in diagnostics:
        warnings.warn(TemperingWarning(diagnostic), stacklevel=3 + outwards)
