"""Whether log Z is at least the mass of the modes that are known and well fitted."""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.types import FloatArray

__all__ = ["importance_diagnostics"]

MOST_ERRORS = 3.0
"""By how many errors of the difference log Z may fall short: right runs do once in 700."""

LEAST_NATS = 0.05
"""By which it matters."""


def importance_diagnostics(
    searched: Mapping[str, FloatArray], log_z: float, se: float
) -> list[Diagnostic]:
    """Warning about an estimate that lacks mass which fits alone have shown to be there.

    Draws may come from every mode, and from one of them far too seldom, in all chains alike.

    Parameters
    ----------
    searched : mapping of ndarray
        ``search_log_mass`` and ``search_log_mass_se`` (chain,), where they were recorded; of
        :func:`pymc_tempering.references.importance.importance_evidence`.
    log_z, se : float
        Of all chains, in nats.

    Returns
    -------
    list of Diagnostic
        One at most.

    Examples
    --------
    >>> searched = {"search_log_mass": np.array([0.0, 0.0]), "search_log_mass_se": np.full(2, 0.02)}
    >>> [diagnostic] = importance_diagnostics(searched, -0.3, 0.05)
    >>> diagnostic.code, round(diagnostic.measured["lacking"], 2)
    ('known_mass_missing', 0.3)
    >>> importance_diagnostics(searched, -0.3, 0.2), importance_diagnostics(searched, 2.0, 0.05)
    ([], [])
    """
    if "search_log_mass" not in searched:
        return []
    # where chains of several runs were put together, the one that knows most
    chain = int(np.argmax(searched["search_log_mass"]))
    log_mass = float(searched["search_log_mass"][chain])
    error = float(np.hypot(searched["search_log_mass_se"][chain], se))
    lacking = log_mass - log_z
    if not lacking > MOST_ERRORS * error + LEAST_NATS:
        return []
    return [
        Diagnostic(
            "known_mass_missing",
            f"the modes that the search found and that Gaussians fit well hold a log mass of "
            f"{log_mass:.2f} by draws of these fits, {lacking:.2g} nats more than log Z, an error "
            f"of {error:.2g}: draws come too seldom from some of them.",
            "Raise `tune` and `draws`, or sample with method='pt' and base='mixture'.",
            {"search_log_mass": log_mass, "lacking": lacking},
        )
    ]
