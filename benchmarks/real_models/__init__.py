"""Models of the size that people have: 34 of 50 to 4000 values, most with data of a fixed seed.

See :mod:`real_models.entries` for how they are written.
"""

from real_models import (  # noqa: F401  register
    counts,
    fresh,
    fresh_published,
    linear,
    processes,
    traits,
    wide,
)
from real_models.entries import REAL, Real

__all__ = ["REAL", "Real"]
