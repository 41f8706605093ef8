"""How far the modes of a run were searched for, and whether more of them are likely."""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.references.coverage import MOST_ONCE, N_SEARCHES
from pymc_tempering.references.funnels import DEEP
from pymc_tempering.references.planted import MASSES
from pymc_tempering.types import FloatArray

__all__ = ["search_diagnostics", "search_line"]

MAX_MASS_ONCE = 0.5
"""Share of the fits' mass in modes that one search alone found, beyond which as much is likely to
lie in modes that none found. Half, since replicas from a wide Gaussian find what lies among
modes that are known: on Boltzmann machine relaxations with a quarter of it log Z was right."""

FEW_STARTS_TO_A_MODE = 2
"""Starts of one mode: one as likely has none in one case of seven."""

MANY_STARTS = 100
"""Fewer are none that were to find all modes."""


def search_line(arrays: Mapping[str, FloatArray]) -> str | None:
    r"""Say in one line what was searched; None where that is not known, or nothing was.

    Examples
    --------
    >>> counts = {"starts": 1000, "modes": 2, "left_out": 0, "images": 0, "mass_once": 0.0}
    >>> counts |= {"start_counts": np.array([700, 300]), "found_by": np.array([4, 3])}
    >>> counts |= {"planted": np.array([1.0, 1.0, 1.0, 0.5, 0.5, 0.6, 0.0, 0.0, 0.0])}
    >>> from pymc_tempering.results.statistics import pack_search, read_search
    >>> recorded = {"search": pack_search(counts)[None, None]}
    >>> line = search_line(read_search(recorded))
    >>> print(line.replace("; ", ";\n").replace(", would ", ",\nwould "))
    1000 starts of 4 searches led to 2 modes (700, 300 starts, of 4, 3 searches);
    one more of their shape, with 1, 5, 25 % of the mass, 3 to 10 standard deviations away,
    would have been found with probability 1.0, 1.0, 1.0;
    half as wide 0.5, 0.5, 0.6;
    a quarter 0.0, 0.0, 0.0
    """
    if "search_starts" not in arrays or not arrays["search_starts"].any():
        return None
    # where chains of several runs were put together, the search that went furthest
    chain = int(np.argmax(arrays["search_starts"]))
    get = {name.removeprefix("search_"): values[chain] for name, values in arrays.items()}
    n_modes, n_left_out = int(get["modes"]), int(get["left_out"])
    start_count = [str(int(n)) for n in get["start_counts"] if n >= 0]
    more = ", ..." if n_modes - n_left_out > len(start_count) else ""
    without = f"; {n_left_out} of them without mass" if n_left_out else ""
    modes = f"{n_modes} mode{'s' if n_modes != 1 else ''}"
    n_images = int(get.get("images", 0))
    found_by = [str(int(n)) for n in get.get("found_by", ()) if n >= 0]
    of = f", of {', '.join(found_by)}{more} searches" if found_by else ""
    times = f"{', '.join(start_count)}{more} starts{of}{without}"
    images = f" and images or surroundings of these to {n_images} more" if n_images else ""
    depth = float(get.get("funnel_depth", 0.0))
    funnel_depth = (
        f"; necks {np.exp(depth):.1f} times narrower than the rest" if depth >= DEEP else ""
    )
    searches = f" of {N_SEARCHES} searches" if found_by else ""
    return (
        f"{get['starts']:.0f} starts{searches} led to {modes} ({times}){images}{funnel_depth}"
        + _planted(get.get("planted"))
    )


def _planted(found: FloatArray | None) -> str:
    """With what probability one mode more would have been found, as a part of the line."""
    if found is None or not np.isfinite(found).all():
        return ""
    wide, half, quarter = (", ".join(f"{p:.1f}" for p in row) for row in found.reshape(3, -1))
    masses = ", ".join(f"{100 * mass:g}" for mass in MASSES)
    return (
        f"; one more of their shape, with {masses} % of the mass, 3 to 10 standard deviations "
        f"away, would have been found with probability {wide}; half as wide {half}; a quarter "
        f"{quarter}"
    )


def search_diagnostics(
    arrays: Mapping[str, FloatArray], n_arrivals: int | None = 0
) -> list[Diagnostic]:
    """Warning where the search says itself that it has missed modes that matter.

    Good and Turing's argument, for mass in place of starts: what was seen once stands for what was
    not seen. Replicas that come from a wide Gaussian are a search of their own, and a wider one.

    Parameters
    ----------
    arrays : mapping of ndarray
        From :func:`pymc_tempering.results.statistics.read_search`.
    n_arrivals : int or None
        Of such replicas, in all chains; None where replicas come from the fits of the search.

    Returns
    -------
    list of Diagnostic
        One at most.
    """
    if "search_starts" not in arrays or not (arrays["search_starts"] > 1).any():
        return []
    if n_arrivals is not None and n_arrivals >= MANY_STARTS:
        return []
    most_once = MOST_ONCE if n_arrivals is None else MAX_MASS_ONCE
    share = float(np.max(arrays["search_mass_once"]))
    most_starts = int(np.max(arrays["search_start_counts"]))
    if share > most_once:
        found = (
            f"{100 * share:.0f} % of the mass, as far as local fits tell, is in modes that one of "
            f"{N_SEARCHES} searches alone found, so others that none found are likely to matter."
        )
    elif most_starts <= FEW_STARTS_TO_A_MODE and arrays["search_starts"].max() > MANY_STARTS:
        found = (
            f"At most {most_starts} of {arrays['search_starts'].max():.0f} starts led to any mode "
            "that may hold mass, so others as likely may have none."
        )
    else:
        return []
    reach = (
        "Replicas come from the fits of known modes, and hardly reach others."
        if n_arrivals is None
        else "Tempering finds those that are not much narrower than the rest."
    )
    return [
        Diagnostic(
            "modes_unseen",
            f"{found} {reach}",
            "Pass search='thorough', and compare.",
            {
                "search_mass_once": share,
                "search_modes": int(np.max(arrays["search_modes"])),
            },
        )
    ]
