"""One check of a run: what it reads, what it finds, and what to do about it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.run import Run

type AtHand = Any
"""A `Run` of which all that a check needs is there: types cannot say which parts."""


class Finding(NamedTuple):
    """One piece of evidence: a sentence, and what measured it.

    `piece` names it where a check has several; `remedy` replaces that of the check.
    """

    text: str
    measured: Mapping[str, object] = {}
    piece: str = ""
    remedy: str = ""


type Findings = Iterable[Finding]
"""What a check finds, the strongest first; mostly yielded."""


@dataclass(frozen=True)
class Check:
    """One kind of diagnostic, and how it is found."""

    code: str
    meaning: str
    """For the page of diagnostics: what it means and why it matters."""
    remedy: str
    run: Callable[[AtHand], Findings] | None = None
    """None where another function looks (`modes`, `compare`, `average`, `prior_sensitivity`)."""
    needs: tuple[str, ...] = ()
    """Attributes of the run that ``run`` reads. It runs where they are at hand."""
    lasting: bool = False
    """Whether every later estimate from the stored draws repeats it: what concerns the model, which
    is then no longer at hand, or what the draws do not show."""
    is_cause: bool = False
    """Whether other diagnostics follow from it: it comes first."""
    mass_missing: bool = False
    """Whether log Z may lack the mass of a mode, of which its standard error knows nothing."""
    of_comparison: bool = False
    """Whether it speaks against no result by itself, but against comparing it with others."""
    refuses: bool = False
    """Whether it leaves nothing of the estimate, which is then nan."""
    words: str = ""
    """Its name, where that is not the code in words."""

    @property
    def name(self) -> str:
        """As users read it, in front of what was found."""
        return self.words or self.code.replace("_", " ")

    def of(self, run: Run) -> Diagnostic | None:
        """Look at a run; None where what is needed is not at hand, or nothing was found."""
        if self.run is None or any(getattr(run, name) is None for name in self.needs):
            return None
        return self.diagnostic([*self.run(run)])

    def diagnostic(self, findings: Sequence[Finding]) -> Diagnostic | None:
        """Put findings into one diagnostic, with the remedy of the first; None without any."""
        if not findings:
            return None
        first = findings[0]
        return Diagnostic(
            self.code,
            " ".join(finding.text for finding in findings),
            first.remedy or self.remedy,
            {f.piece: dict(f.measured) for f in findings} if first.piece else first.measured,
        )
