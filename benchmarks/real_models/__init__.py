"""Models of the size that people have: 39 of 50 to 4000 values, most with data of a fixed seed.

See :mod:`real_models.entries` for how they are written.
"""

from real_models import counts, linear, processes, traits, wide  # noqa: F401  register
from real_models.entries import REAL, Real

__all__ = ["REAL", "Real"]
