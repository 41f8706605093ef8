"""Models of many kinds, as people write them: small, with data typed in or of a fixed seed.

Every function writes one model into the context and returns its exact log Z in nats, or the name of
the method that has to give a second one (:mod:`corpus_models.entries`).
"""

from corpus_models import (  # noqa: F401  register
    black_boxes,
    constrained,
    discrete,
    edges,
    hierarchies,
    incomplete,
    mixtures,
    processes,
    regressions,
    time_series,
)
from corpus_models.entries import CORPUS, Entry

__all__ = ["CORPUS", "Entry"]
