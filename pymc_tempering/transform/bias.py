"""The bias c(beta) of the joint density: a smooth function of beta with few numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from pymc_tempering.errors import OptionError
from pymc_tempering.options import check_betas
from pymc_tempering.types import FloatArray

__all__ = ["Bias"]


@dataclass(frozen=True, eq=False)
class Bias:
    r"""Smooth bias through given values: piecewise cubic, monotone between knots (PCHIP).

    With two knots it is linear: :math:`c(\beta) = \beta \log\zeta` is the published form of Graham
    & Storkey (2017, eq. 17). With more, :math:`c = \log z(\beta)` makes the marginal density of
    beta flat, and :math:`c = \log z(\beta) - \log\rho(\beta)` makes it proportional to rho.

    Parameters
    ----------
    knots : array_like of shape (n_knots,)
        Increasing from 0 to 1.
    values : array_like of shape (n_knots,)
        c at the knots, in nats; ``values[0]`` need not be 0.

    Raises
    ------
    ScheduleError
        If the knots are no schedule.
    OptionError
        If the values are not finite or not one per knot.

    Examples
    --------
    >>> bias = Bias([0.0, 0.5, 1.0], [0.0, -2.0, -3.0])
    >>> bias(np.array([0.0, 0.5, 1.0])).tolist()
    [0.0, -2.0, -3.0]
    """

    knots: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        knots = np.array(check_betas(self.knots))
        try:
            values = np.array(self.values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise OptionError(
                f"The values of a bias are {self.values!r}; expected real numbers, one per knot."
            ) from error
        if values.shape != knots.shape or not np.isfinite(values).all():
            raise OptionError(
                f"The values of a bias have shape {values.shape}, "
                f"{int((~np.isfinite(values)).sum())} of them not finite; expected {knots.size} "
                "finite numbers, one per knot, in nats."
            )
        knots.setflags(write=False)
        values.setflags(write=False)
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "values", values)

    @classmethod
    def linear(cls, log_zeta: float) -> "Bias":
        """Published form ``c = beta log_zeta``, one slope in nats."""
        return cls(np.array([0.0, 1.0]), np.array([0.0, float(log_zeta)]))

    @property
    def is_linear(self) -> bool:
        """Whether there is one slope only."""
        return self.knots.size == 2

    def _interpolant(self) -> PchipInterpolator:
        return PchipInterpolator(self.knots, self.values)

    def __call__(self, beta: ArrayLike) -> FloatArray:
        """Evaluate c at ``beta`` in [0, 1], any shape; nats."""
        return np.asarray(self._interpolant()(np.asarray(beta, dtype=np.float64)))

    def slope(self, beta: ArrayLike) -> FloatArray:
        """Evaluate the derivative of c at ``beta``, any shape; continuous."""
        return np.asarray(self._interpolant().derivative()(np.asarray(beta, dtype=np.float64)))

    def graph(self, beta: Any) -> Any:
        """Write c of a scalar PyTensor variable, differentiable in it."""
        if self.is_linear:
            return self.values[0] + beta * (self.values[1] - self.values[0])
        coefficients = self._interpolant().c
        # a count of knots passed has no gradient, and every backend can compile it
        piece = pt.ge(beta, pt.constant(self.knots[1:-1])).sum()
        x = beta - pt.constant(self.knots)[piece]
        c3, c2, c1, c0 = (pt.constant(np.ascontiguousarray(row))[piece] for row in coefficients)
        return ((c3 * x + c2) * x + c1) * x + c0

    def piecewise_linear(self, tolerance: float = 1e-5) -> tuple[FloatArray, FloatArray]:
        """Knots and values of a piecewise linear function within ``tolerance`` nats of c.

        For it the density of beta given a position has a closed form. The error of
        ``log p(beta | z)`` is at most twice the tolerance, at any position, since numerator and
        normaliser are each wrong by a factor of at most ``exp(tolerance)``.
        """
        if self.is_linear:
            return np.array(self.knots), np.array(self.values)
        curvature = self._interpolant().derivative(2)
        widths = np.diff(self.knots)
        # a cubic's second derivative is largest at the ends of its piece
        inside = 1e-9 * widths
        steepest = np.maximum(
            np.abs(curvature(self.knots[:-1] + inside)), np.abs(curvature(self.knots[1:] - inside))
        )
        splits = np.sqrt(steepest * widths**2 / (8.0 * tolerance)) + 1.0
        n_splits = np.clip(np.ceil(splits), 1, 4096).astype(int)
        pieces = zip(self.knots[:-1], self.knots[1:], n_splits, strict=True)
        inner = [np.linspace(left, right, n, endpoint=False) for left, right, n in pieces]
        knots = np.unique(np.concatenate([*inner, np.ones(1)]))
        return knots, self(knots)
