"""How far to search for modes, by the names that users give."""

import math
from typing import NamedTuple

__all__ = ["SEARCHES", "Effort"]

FOR_ONE_MODE, PER_DIMENSION = 6000.0, 1500.0
"""Gradients of starts and ascents, and more for each dimension, that a search with one mode takes
at most: in few dimensions every basin has a large share of the starts."""


class Effort(NamedTuple):
    """How far to search; gradients are those of starts, ascents, and telling apart where they end.

    Attributes
    ----------
    n_starts : int
        Unless the gradients are used up before.
    n_gradients : int
    n_for_one_mode : float
        Gradients after which a search ends that knows of one mode alone which may hold mass; in
        few dimensions :data:`FOR_ONE_MODE` and :data:`PER_DIMENSION` say less.
    most : float
        Gradients with those of all fits; the search ends with what it knows by then.
    n_for_seldom : float
        Gradients where few starts led to any of the highest modes: others as high may have none.
    """

    n_starts: int
    n_gradients: int
    n_for_one_mode: float = math.inf
    most: float = math.inf
    n_for_seldom: float = 0.0

    def within(self, most: float) -> "Effort":
        """Effort of no more gradients than these, half of them for starts and ascents."""
        return self._replace(
            n_gradients=int(min(self.n_gradients, most / 2)),
            most=most,
            n_for_seldom=min(self.n_for_seldom, most / 2),
        )

    def end(self, dim: int, n_modes: int, *, seldom: bool = False) -> float:
        """Gradients after which a search ends that knows of so many modes.

        ``seldom`` is whether few starts led to any of the highest.

        Examples
        --------
        >>> [SEARCHES["default"].end(dim, n_modes=1) for dim in (2, 6, 20)]
        [9000.0, 15000, 15000]
        """
        if seldom:
            return max(self.n_gradients, self.n_for_seldom)
        if n_modes > 1 or math.isinf(self.n_for_one_mode):
            return self.n_gradients
        few = FOR_ONE_MODE + PER_DIMENSION * dim
        return min(self.n_gradients, self.n_for_one_mode, few)


SEARCHES = {
    "none": Effort(1, 1000),
    "default": Effort(50_000, 50_000, 15_000, n_for_seldom=200_000),
    "thorough": Effort(500_000, 500_000),
}
"""Efforts by the names that users give."""
