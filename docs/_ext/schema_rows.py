"""The tables of results, as Markdown, from the one table that storage is made from."""

from collections.abc import Mapping

from pymc_tempering.results import schema
from pymc_tempering.results.statistics import STEP_METHODS

LEADING = {"SAMPLE_STATS": ("chain", "draw"), "TEMPERING": ()}
"""Dimensions that come before those of the entry."""

# statistics without a draw dimension say so in their meaning
_NO_DRAW = "no draw dimension"


def markdown_table(name: str) -> str:
    """Write one table of `pymc_tempering.results.schema`, entries in alphabetical order."""
    table: Mapping[str, schema.Entry] = getattr(schema, name)
    with_methods = any(entry.methods for entry in table.values())
    titles = ["name", "dimensions", "unit", *(["methods"] if with_methods else []), "meaning"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for variable, entry in sorted(table.items()):
        leading = ("chain",) if _NO_DRAW in entry.meaning else LEADING[name]
        dims = ", ".join((*leading, *entry.dims)) or "none"
        methods = [_methods(entry)] if with_methods else []
        cells = [f"`{variable}`", dims, entry.unit, *methods, entry.meaning]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _methods(entry: schema.Entry) -> str:
    """Methods that record a statistic; those that have no step of PyMC keep theirs elsewhere."""
    if not entry.methods or set(entry.methods) >= set(STEP_METHODS):
        return "all"
    return ", ".join(entry.methods)
