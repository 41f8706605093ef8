"""Data sets that are drawn from models, and the evidence of every model for each."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from pymc_tempering.errors import TemperingWarning
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks.requested import whole
from pymc_tempering.evidence.estimate import estimate_logz
from pymc_tempering.model.compile import keep_density
from pymc_tempering.model.freeze import discrete_names
from pymc_tempering.model.graph import interpreted
from pymc_tempering.model.open_data import OpenDensity, with_observed
from pymc_tempering.private.of_pymc import reseed
from pymc_tempering.types import FloatArray

type OfData = Callable[[Mapping[str, np.ndarray]], LogZEstimate | float]


class Replication(NamedTuple):
    """Which model made a data set; and of each model (K,) log Z and its error, in nats."""

    true: int
    log_z: FloatArray
    se: FloatArray
    warned: bool


class Replicator:
    """Draws data sets from models, and estimates; compiles each model once, where it is.

    ``functions`` give log Z of the data, one for each model; without, it is estimated with the
    ``options`` of :func:`pymc_tempering.estimate_logz`.
    """

    def __init__(
        self,
        models: Sequence[pm.Model],
        prior: FloatArray,
        functions: Sequence[OfData] | None,
        options: Mapping[str, Any],
    ) -> None:
        self._arguments = (models, prior, functions, options)
        self._makers = [_Conditioned(model) for model in models]

    def __reduce__(self) -> tuple[Any, ...]:
        return Replicator, self._arguments

    def replicate(self, rng: np.random.Generator) -> Replication:
        """Draw a model, parameters and data; estimate log Z of every model.

        What speaks against an estimate is in ``warned``, and not warned of.
        """
        _, prior, functions, options = self._arguments
        k = len(self._makers)
        true = int(rng.choice(k, p=prior))
        data_seed, *seeds = (int(s) for s in rng.integers(2**31, size=1 + k))
        data = self._makers[true].simulate(data_seed)
        log_z, se, warned = np.empty(k), np.full(k, np.nan), False
        for i, maker in enumerate(self._makers):
            if functions is not None:
                result = functions[i](data)
            else:
                with warnings.catch_warnings(action="ignore", category=TemperingWarning):
                    model = maker.observe(data)
                    result = whole(estimate_logz(model, random_seed=seeds[i], **options))
            if isinstance(result, LogZEstimate):
                log_z[i], se[i] = result.log_z, result.se
                warned |= bool(result.warnings)
            else:
                log_z[i] = float(result)
        return Replication(true, log_z, se, warned)


class _Conditioned:
    """A copy of a model whose observed values are exchanged in place: it stays one model."""

    def __init__(self, model: pm.Model) -> None:
        self._data: dict[str, Any] = {}

        def data(name: str, old: Any) -> Any:
            self._data[name] = pm.Data(f"simulated {name}", old.eval())
            # of the type of the distribution, which that of `pm.Data` need not be
            return self._data[name].astype(old.dtype)

        self.model = with_observed(model, data)
        self._draw = interpreted([], self.model.observed_RVs)
        self._density: OpenDensity | None = None

    def simulate(self, seed: int) -> dict[str, np.ndarray]:
        """Draw parameters and data; return the data by the name of the observed variable."""
        reseed(self._draw, seed)
        return dict(zip(self._data, map(np.asarray, self._draw()), strict=True))

    def observe(self, data: Mapping[str, np.ndarray]) -> pm.Model:
        """Give the model these data, and its density, which is compiled for the first only."""
        for name, values in data.items():
            self._data[name].set_value(values.astype(self._data[name].dtype))
        if not discrete_names(self.model):
            if self._density is None:
                self._density = OpenDensity(self.model)
            keep_density(self.model, self._density.at(self.model))
        return self.model
