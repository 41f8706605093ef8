"""One entry for each check, as Markdown, from the registry that the estimate reads."""

from pymc_tempering.evidence.checks import CODES


def markdown_entries() -> str:
    """Write name, code, meaning and remedy of every check, in alphabetical order of the codes."""
    entries = (
        f"`{check.name}` (`{code}`)\n: {check.meaning}\n\n  *What to do:* {check.remedy}"
        for code, check in sorted(CODES.items())
    )
    return "\n\n".join(entries)
