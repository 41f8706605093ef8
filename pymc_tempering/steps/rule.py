"""By which rule a chain chooses its reference, once the search has said what there is."""

from collections.abc import Sequence

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.prepared import GAUSSIAN_FITS, NEARLY_GAUSSIAN
from pymc_tempering.references.same_mode import one_place

__all__ = ["settled_rule"]


def settled_rule(rule: str, fits: Sequence[GaussianBase], kind: int) -> str:
    """Rule of a chain, which is another where all fits are of one place and no Gaussian is good.

    As they are, the tails would be found by one chain and not by another, with errors that few
    scans do not show: of 20 runs on ``testing.banana`` 16 covered log Z, and 19 from the Gaussian.
    Of several that are nearly straight some are inside of another, where no Gaussian leads.

    Parameters
    ----------
    rule : {"gaussian", "mixture", "measured"}
    fits : sequence of GaussianBase
    kind : int
        How good they are, as in :class:`pymc_tempering.references.prepared.Prepared`.

    Returns
    -------
    {"gaussian", "mixture", "measured", "map"}
        With the last the reference is a bent one, from the start or when draws have bent it.
    """
    if rule != "measured" or not fits or kind == GAUSSIAN_FITS or not one_place(fits):
        return rule
    if kind == NEARLY_GAUSSIAN:
        return "gaussian" if len(fits) == 1 else rule
    return "map"
