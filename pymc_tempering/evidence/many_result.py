"""What comes out for many data sets, together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.evidence.many_data import DIM
from pymc_tempering.evidence.many_worker import Outcome


class Total(NamedTuple):
    """Sum of log Z over data sets, and its errors, in nats.

    ``se`` is that of the estimates. ``sampling_se`` is what the sum differs by between sets of as
    many data sets, their standard deviation times the root of their number; what the estimates'
    own errors add is taken off. nan for a single one.
    """

    log_z: float
    se: float
    sampling_se: float


@dataclass(frozen=True, eq=False, repr=False)
class ManyEvidences:
    """Result of :func:`pymc_tempering.estimate_many`.

    Attributes
    ----------
    dataset : xarray.Dataset
        Along the dimension ``dataset``: ``log_marginal_likelihood`` and its error ``se`` in nats;
        ``gradients``, evaluations of the density that it took; ``V``, the variance of the log
        weights of the Gaussian in squared nats, and ``pareto_k``, their tail index, nan where none
        was fitted; ``how``, "importance" or the method of the run; ``why``, what made a run
        necessary; and ``warnings`` of the run, one a line. Where there is no result, numbers are
        nan and texts empty.
    failed : dict of int to str
        What was in the way, by the number of the data set, counted from 0.
    """

    dataset: xr.Dataset
    failed: Mapping[int, str] = field(default_factory=dict)

    @property
    def total(self) -> Total:
        """Log marginal likelihood of all data sets together, with its standard errors.

        That is the sum over data sets, whose errors are independent; nan where one has failed.
        """
        log_z, se = (self.dataset[n].to_numpy() for n in ("log_marginal_likelihood", "se"))
        squares, n = float((se**2).sum()), len(log_z)
        known = n > 1 and not np.isnan(squares)
        spread = np.sqrt(max(n * log_z.var(ddof=1) - squares, 0.0)) if known else np.nan
        return Total(float(log_z.sum()), float(np.sqrt(squares)), float(spread))

    def to_datatree(self) -> xr.DataTree:
        """The same as the group ``tempering`` of a DataTree, with ``failure`` as a variable.

        It can be stored, by ``to_netcdf`` or ``to_zarr``.
        """
        texts = [self.failed.get(i, "") for i in range(self.dataset.sizes[DIM])]
        return xr.DataTree.from_dict(
            {"tempering": self.dataset.assign(failure=(DIM, np.array(texts, dtype=str)))}
        )

    def __repr__(self) -> str:
        n = self.dataset.sizes[DIM]
        how = self.dataset["how"].to_numpy()
        names, counts = np.unique(how[how != ""], return_counts=True)
        parts = [f"{count} by {name}" for name, count in zip(names, counts, strict=True)]
        warned = int((self.dataset["warnings"].to_numpy() != "").sum())
        if warned:
            parts.append(f"{warned} with a warning")
        if self.failed:
            numbers = sorted(self.failed)
            listed = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
            parts.append(f"{len(numbers)} failed ({listed})")
        total = self.total
        known = "" if self.failed else f"; total {total.log_z:.2f} ± {total.se:.2f} nats"
        return f"log Z of {n} data sets: {', '.join(parts)}{known}"


_NAMES = {"log_z": "log_marginal_likelihood", "variance": "V"}


def gathered(outcomes: Sequence[Outcome], coordinate: Any) -> ManyEvidences:
    """Put the outcomes of all data sets together."""
    rows = zip(*outcomes, strict=True)
    columns = dict(zip(Outcome._fields, map(np.array, rows), strict=True))
    failures = columns.pop("failure")
    failed = {int(i): str(failures[i]) for i in np.flatnonzero(failures != "")}
    variables = {_NAMES.get(name, name): (DIM, values) for name, values in columns.items()}
    return ManyEvidences(xr.Dataset(variables, coords={DIM: coordinate}), failed)


def posterior_of(
    model: pm.Model,
    blocks: Iterable[tuple[int, Mapping[str, np.ndarray]]],
    n: int,
    coordinate: Any,
    empty: Callable[[int, tuple[int, ...], np.dtype], np.ndarray],
) -> xr.Dataset:
    """Draws of all blocks, one of which is in memory at a time.

    `blocks` are the numbers of a block's first row and its draws, (row, draw, ...) by variable,
    none where all have failed. `empty` makes the array of the variable of that number.
    """
    arrays: dict[str, np.ndarray] = {}
    for first, draws in blocks:
        for name, rows in draws.items():
            if name not in arrays:
                # where all of one have failed there is nothing, which whole numbers cannot say
                dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
                arrays[name] = empty(len(arrays), (n, 1, *rows.shape[1:]), dtype)
                arrays[name][:] = np.nan
            arrays[name][first : first + len(rows), 0] = rows
    posterior = labelled_draws(model, arrays, (DIM, "chain", "draw"))
    posterior = posterior.assign_coords({DIM: coordinate})
    return posterior.transpose("chain", "draw", DIM, ...) if arrays else posterior


def labelled_draws(
    model: pm.Model, arrays: Mapping[str, np.ndarray], leading: tuple[str, ...]
) -> xr.Dataset:
    """Arrays of a model's variables, with its dims and coords after the leading ones."""
    variables = {}
    for name, array in arrays.items():
        given = model.named_vars_to_dims.get(name) or (None,) * (array.ndim - len(leading))
        dims = [d or f"{name}_dim_{i}" for i, d in enumerate(given)]
        variables[name] = ((*leading, *dims), array)
    used = {d: n for dims, of in variables.values() for d, n in zip(dims, of.shape, strict=True)}
    # none where there are more or fewer than the model has
    labels = {d: list(v) for d, v in model.coords.items() if v is not None}
    coords = {d: v for d, v in labels.items() if used.get(d) == len(v)}
    return xr.Dataset(variables, coords=coords)
