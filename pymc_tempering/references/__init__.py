"""References other than a Gaussian: what the path starts from, by the names that steps take."""

from collections.abc import Callable

from pymc_tempering.engine.path.tempered import Reference
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.references.prior import PriorReference

__all__ = ["REFERENCES"]

REFERENCES: dict[str, Callable[[CompiledDensity], Reference]] = {"prior": PriorReference}
"""Functions that make a reference for a compiled model; a new one is one file and a line here."""
