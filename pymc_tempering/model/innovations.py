r"""Series, and normal values that would be globals, by the standard normals they are made from.

As its author would write a model non-centred,

.. math:: x_t = \rho x_{t-1} + m + s z_t, \qquad x_0 = m_0 + s_0 z_0,

where :math:`\rho` is 1 for a walk, and 0 for values that are normal each by itself. Where the
scale s goes to zero all x of a series hang on each other, and a map from the globals would have to
have that right to the width of s; the z are free. Values that are normal each by itself do not
hang on one another, and need none of it as locals; as globals, such as regions with towns or slopes
that abilities are multiplied by, they are a funnel with their scale. So are logarithms of lognormal
values, which are normal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from pymc_tempering.private.of_pymc import autoregression, is_log_transform, random_walk
from pymc_tempering.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Innovations:
    """Which value variables of a frozen model are such, and their coordinates.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     sd, first = pm.HalfNormal("sd"), pm.Normal.dist(1.0, 2.0)
    ...     level = pm.GaussianRandomWalk("level", sigma=sd, init_dist=first, shape=3)
    >>> made = Innovations.of(model, model.initial_point())
    >>> made.from_line(np.array([np.log(0.5), -0.5, 2.0, 1.0])).round(3).tolist()
    [-0.693, 0.0, 1.0, 1.5]
    """

    model: pm.Model
    shapes: tuple[tuple[int, ...], ...]  # of the value variables
    globals: frozenset[int] = frozenset()  # positions of those that would be

    @classmethod
    def of(
        cls, model: pm.Model, initial: dict[str, np.ndarray], hubs: IntArray | None = None
    ) -> "Innovations | None":
        """Find those of a model with this initial point, of which entries ``hubs`` are globals.

        None where there is none whose law has other free variables.
        """
        shapes = tuple(np.shape(initial[value.name]) for value in model.value_vars)
        made = cls(model, shapes)
        if hubs is not None:
            made = cls(model, shapes, frozenset(made._owner[hubs].tolist()))
        return made if made._laws else None

    @cached_property
    def _owner(self) -> IntArray:
        return np.repeat(np.arange(len(self.shapes)), [int(np.prod(of)) for of in self.shapes])

    @cached_property
    def _laws(self) -> list[tuple[int, Any, Any, Any]]:
        """Positions among the value variables, means and scales of steps, and coefficients.

        In an order in which each depends on those before it alone.
        """
        found, free = [], set(self.model.free_RVs)
        above = {rv: free.intersection(ancestors([rv])) - {rv} for rv in free}
        others = set[Any]().union(*above.values())
        for k, value in enumerate(self.model.value_vars):
            rv, law = self.model.values_to_rvs[value], None
            transform = self.model.rvs_to_transforms.get(rv)
            if not transform:
                law = _law(rv, self.shapes[k])
            if law is None and (rv in others or k in self.globals):
                law = _normal(rv, transform)
                # with means alone they are no funnel
                if law and rv not in others and free.isdisjoint(ancestors([law[1]])):
                    law = None
            n_before = 0 if law is None else len(free.intersection(ancestors(law)))
            if law is not None and n_before:
                found.append((n_before, (k, *self.model.replace_rvs_by_values(law))))
        return [law for _, law in sorted(found, key=lambda of: of[0])]

    @property
    def numbers(self) -> list[int]:
        """Positions of these among the value variables."""
        return [k for k, *_ in self._laws]

    @property
    def _levels(self) -> set[Any]:
        """Variables that are normal each by itself, and would be globals."""
        at = [k for k, *_, rho in self._laws if getattr(rho, "data", None) == 0.0]
        values = [self.model.value_vars[k] for k in at if k in self.globals]
        return {self.model.values_to_rvs[value] for value in values}

    @property
    def scales(self) -> IntArray:
        """Entries of all that scales of these levels depend on."""
        sds = [rv.owner.op.dist_params(rv.owner)[1] for rv in self._levels]
        above, values = set(ancestors(sds)), self.model.value_vars
        at = [k for k, of in enumerate(values) if self.model.values_to_rvs[of] in above]
        return np.flatnonzero(np.isin(self._owner, at))

    @property
    def are_nested(self) -> bool:
        """Whether others are spread around any of these levels."""
        levels = self._levels
        return any(levels.intersection(ancestors([rv])) - {rv} for rv in self.model.free_RVs)

    def graph(self, z: Any) -> tuple[Any, Any]:
        """Graphs of PyMC's values and of the log Jacobian, from that of the flat vector."""
        parts, log_det = self._parts(z), 0.0
        for k, *law in self._laws:
            now = dict(zip(self.model.value_vars, parts, strict=True))
            mean, sd, rho = graph_replace(law, now, strict=False)
            sd = pt.broadcast_to(sd, self.shapes[k])
            parts[k] = _summed(mean + sd * parts[k], rho, self.shapes[k])
            # where there is no such scale the density says so
            log_det += pt.log(pt.abs(sd)).sum()
        return pt.concatenate([part.ravel() for part in parts]), log_det

    def _inverse(self, values: Any) -> Any:
        parts = self._parts(values)
        now, normals = dict(zip(self.model.value_vars, parts, strict=True)), list(parts)
        for k, *law in self._laws:
            mean, sd, rho = graph_replace(law, now, strict=False)
            normals[k] = (_steps(parts[k], rho) - mean) / sd
        return pt.concatenate([part.ravel() for part in normals])

    def _parts(self, z: Any) -> list[Any]:
        begins = np.cumsum([0, *map(np.prod, self.shapes)]).astype(int)
        layout = zip(pairwise(begins), self.shapes, self.model.value_vars, strict=True)
        return [
            z[begin:end].reshape(shape).astype(value.dtype) for (begin, end), shape, value in layout
        ]

    @cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        z = pt.dvector("z")
        # no C++ compiler for what is called a few thousand times
        with pytensor.config.change_flags(cxx=""):
            there = pytensor.function([z], self.graph(z), mode="FAST_COMPILE")
            return there, pytensor.function([z], self._inverse(z), mode="FAST_COMPILE")

    def to_line(self, values: FloatArray) -> FloatArray:
        """Coordinates ``z`` of PyMC's values, both of shape (..., D)."""
        return _by_rows(self._compiled[1], values)

    def from_line(self, z: FloatArray) -> FloatArray:
        """PyMC's values of coordinates ``z``, both of shape (..., D)."""
        return _by_rows(lambda row: self._compiled[0](row)[0], z)

    def log_jacobian(self, z: FloatArray) -> FloatArray:
        """Log of the determinant of PyMC's values by ``z`` of shape (..., D), in nats."""
        flat = z.reshape(-1, z.shape[-1])
        found = [self._compiled[0](row)[1] for row in flat]
        return np.array(found, dtype=np.float64).reshape(z.shape[:-1])


def _by_rows(function: Callable[[FloatArray], Any], rows: FloatArray) -> FloatArray:
    found = [function(row) for row in rows.reshape(-1, rows.shape[-1])]
    return np.array(found, dtype=np.float64).reshape(rows.shape)


def _law(rv: Any, shape: tuple[int, ...]) -> tuple[Any, Any, Any] | None:
    """Means and scales of the steps of a variable, and what of the one before each has; or None."""
    walk, autoregressive = random_walk(rv), autoregression(rv)
    if walk is not None:
        (first, steps), rho = walk, pt.constant(1.0)
    elif autoregressive is not None and len(shape) == 1:
        first, sd, rho = autoregressive
        steps = pm.Normal.dist(0.0, sd)
    else:
        return None
    if any(not isinstance(of.owner.op, type(pm.Normal.rv_op)) for of in (first, steps)):
        return None
    # the Op has laws of its steps with time first
    each = (1, *shape[:-1]), (shape[-1] - 1, *shape[:-1])
    means, sds = zip(*(of.owner.op.dist_params(of.owner) for of in (first, steps)), strict=True)
    made = [
        pt.moveaxis(
            pt.concatenate([pt.broadcast_to(of, n) for of, n in zip(ofs, each, strict=True)]), 0, -1
        )
        for ofs in (means, sds)
    ]
    return made[0], made[1], rho


def _normal(rv: Any, transform: Any) -> tuple[Any, Any, Any] | None:
    """The same of values that are normal each by itself."""
    # of lognormal ones the value is the logarithm
    law = pm.LogNormal if is_log_transform(transform) else None if transform else pm.Normal
    if law is None or not isinstance(rv.owner.op, type(law.rv_op)):
        return None
    return (*rv.owner.op.dist_params(rv.owner), pt.constant(0.0))


def _summed(steps: Any, rho: Any, shape: tuple[int, ...]) -> Any:
    """Sum steps, with a coefficient of what there was before each: twice as many in each turn."""
    if getattr(rho, "data", None) == 0.0:
        return steps
    if getattr(rho, "data", None) == 1.0:
        return pt.cumsum(steps, axis=-1)
    total, apart = steps, 1
    while apart < shape[-1]:
        before = pt.concatenate([pt.zeros_like(total[..., :apart]), total[..., :-apart]], axis=-1)
        total, rho, apart = total + rho * before, rho**2, 2 * apart
    return total


def _steps(values: Any, rho: Any) -> Any:
    if getattr(rho, "data", None) == 0.0:
        return values
    return pt.concatenate([values[..., :1], values[..., 1:] - rho * values[..., :-1]], axis=-1)
