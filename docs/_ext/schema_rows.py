"""The tables of results, as Markdown, from the one table that storage is made from."""

from collections.abc import Mapping

from pymc_tempering.results import schema

LEADING = {"SAMPLE_STATS": ("chain", "draw"), "TEMPERING": ()}
"""Dimensions that come before those of the entry."""

# statistics without a draw dimension say so in their meaning
_NO_DRAW = "no draw dimension"


def markdown_table(name: str) -> str:
    """Write one table of `pymc_tempering.results.schema`, entries in alphabetical order."""
    table: Mapping[str, schema.Entry] = getattr(schema, name)
    lines = ["| name | dimensions | unit | meaning |", "|---|---|---|---|"]
    for variable, entry in sorted(table.items()):
        leading = ("chain",) if _NO_DRAW in entry.meaning else LEADING[name]
        dims = ", ".join((*leading, *entry.dims)) or "none"
        lines.append(f"| `{variable}` | {dims} | {entry.unit} | {entry.meaning} |")
    return "\n".join(lines)
