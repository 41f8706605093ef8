"""Directives for what is generated when a page is read: tables of results, entries of checks."""

from check_entries import markdown_entries
from docutils import nodes
from docutils.statemachine import StringList
from schema_rows import markdown_table
from sphinx.util.docutils import SphinxDirective

from pymc_tempering.evidence import checks
from pymc_tempering.results import schema, statistics


class SchemaTable(SphinxDirective):
    """Takes the name of a table of `pymc_tempering.results.schema`."""

    required_arguments = 1

    def run(self):
        for source in (schema, statistics):
            self.env.note_dependency(source.__file__)
        node = nodes.container(classes=["schema-table"])
        lines = markdown_table(self.arguments[0]).splitlines()
        self.state.nested_parse(StringList(lines, source=schema.__file__), 0, node)
        return [node]


class CheckEntries(SphinxDirective):
    """Every warning there is, with its meaning and its remedy."""

    def run(self):
        self.env.note_dependency(checks.__file__)
        node = nodes.container(classes=["check-entries"])
        lines = markdown_entries().splitlines()
        self.state.nested_parse(StringList(lines, source=checks.__file__), 0, node)
        return [node]


def setup(app):
    app.add_directive("schema-table", SchemaTable)
    app.add_directive("check-entries", CheckEntries)
    return {"parallel_read_safe": True}
