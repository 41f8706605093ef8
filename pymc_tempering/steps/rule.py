"""By which rule a chain chooses its reference, once the search has said what there is."""

from collections.abc import Sequence

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.same_mode import one_place

__all__ = ["settled_rule"]


def settled_rule(rule: str, fits: Sequence[GaussianBase], *, needs_map: bool) -> str:
    """Rule of a chain, which is another where all fits are of one place and no Gaussian is good.

    As they are, the tails would be found by one chain and not by another, with errors that few
    scans do not show: of 20 runs on ``testing.banana`` 16 covered log Z, and 19 from the Gaussian.
    Of several that are nearly straight some are inside of another, where no Gaussian leads.

    Parameters
    ----------
    rule : {"gaussian", "mixture", "measured"}
    fits : sequence of GaussianBase
    needs_map : bool
        Whether one is a transport map, or should be.

    Returns
    -------
    {"gaussian", "mixture", "measured", "map"}
        With the last the reference is a bent one, from the start or when draws have bent it.
    """
    is_map = rule == "measured" and fits and needs_map and one_place(fits)
    return "map" if is_map else rule
