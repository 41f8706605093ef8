"""Tempered samplers for PyMC: every mode of the posterior, and the evidence with its error.

Names are imported when they are first used, so that ``import pymc_tempering`` costs nothing and
optional packages are needed only by what uses them.
"""

import re
from importlib import import_module
from pkgutil import get_data
from typing import Any

# the list that type checkers read
_NAMES = get_data(__name__, "__init__.pyi") or b""
_HOMES = {n: home for home, n in re.findall(r"^from (\S+) import (\w+)", _NAMES.decode(), re.M)}
"""Module of each public name."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # of what is installed: pyproject.toml is the one place where it is written
        from importlib.metadata import version

        return version("pymc-tempering")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
