"""Tempered samplers for PyMC: every mode of the posterior, and the evidence with its error.

Names are imported when they are first used, so that ``import pymc_tempering`` costs nothing and
optional packages are needed only by what uses them.
"""

from typing import Any

import lazy_loader

_public_name, _public_names, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # of what is installed: pyproject.toml is the one place where it is written
        from importlib.metadata import version

        return version("pymc-tempering")
    return _public_name(name)


def __dir__() -> list[str]:
    return [*_public_names(), "__version__"]
