"""Write the page of all public names that can be read in the repository, from `api.rst`.

python docs/_ext/api_page.py
"""

import inspect
import re
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
HEADER = """# Public names

Every public name with its signature and what it is. Written by `make api` from `api.rst` and the
docstrings; a test compares it with them. The built documentation has all parameters, returns,
errors and examples, and so has `help()`. `pm_temper` is `pymc_tempering`.
"""
_SECTION = re.compile(
    r"^(\S[^\n]*)\n-{3,}\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", re.MULTILINE | re.DOTALL
)
_ENTRY = re.compile(r"^   (pymc_tempering\.[\w.]+)$", re.MULTILINE)


def signature(value: Any) -> str:
    """Parameters and defaults, without annotations; nothing for exceptions and values."""
    if not callable(value) or (isinstance(value, type) and issubclass(value, BaseException)):
        return ""
    # PyMC's own `__new__` hides what a step takes
    if isinstance(value, type):
        parameters = list(inspect.signature(value.__init__).parameters.values())[1:]
        if {p.kind for p in parameters} == {inspect.Parameter.VAR_POSITIONAL,
                                            inspect.Parameter.VAR_KEYWORD}:  # fmt: skip
            parameters = list(inspect.signature(value).parameters.values())
    else:
        parameters = list(inspect.signature(value).parameters.values())
    shown = [p.replace(annotation=p.empty) for p in parameters]
    return str(inspect.Signature(shown))


def summary(value: Any) -> str:
    """First sentence of the docstring, on one line."""
    first = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    first = re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", first)
    return first.replace("``", "`")


def page(source: str) -> str:
    """Markdown of all entries of `api.rst`, section by section."""
    parts = [HEADER]
    for title, body in _SECTION.findall(source):
        parts.append(f"## {title}\n")
        for name in _ENTRY.findall(body):
            value = resolve_name(name)
            short = name.replace("pymc_tempering.", "pm_temper.", 1)
            parts.append(f"`{short}{signature(value)}`\\\n{summary(value)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    text = page((REFERENCE / "api.rst").read_text(encoding="utf-8"))
    (REFERENCE / "names.md").write_text(text, encoding="utf-8")
