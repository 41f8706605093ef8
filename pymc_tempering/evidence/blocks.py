"""Log Z of a block of data sets of one model, in whichever process: compiled once, data swapped.

What comes out for a data set depends on the seed and its number alone, not on the block, nor on
what the process did before.
"""

import hashlib
import pickle
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from pymc_tempering.checkpoint.blocks import write_block
from pymc_tempering.errors import ModelError, OptionError, TemperingError, TemperingWarning
from pymc_tempering.evidence.checks.requested import whole
from pymc_tempering.evidence.estimate import estimate_logz
from pymc_tempering.model.compile import CompiledDensity, keep_density, prior_points
from pymc_tempering.model.freeze import discrete_names
from pymc_tempering.model.open_data import OpenDensity, Refillable
from pymc_tempering.numerics import one_blas_thread
from pymc_tempering.references.importance import QuickEvidence, quick_evidence
from pymc_tempering.types import FloatArray

__all__ = ["IMPORTANCE", "Many", "Outcome", "estimate_block"]

IMPORTANCE = "importance"
"""How log Z was found where no run was needed."""

N_PRIOR_POINTS = 128
"""Draws of the prior that the starts of all data sets are taken from."""

_PRIOR, _QUICK, _RUN = range(3)
"""What a generator is for: the draws of the prior; starts and weights of a data set; its run."""


@dataclass(frozen=True)
class Many:
    """What is the same for all data sets; sent to every process.

    Attributes
    ----------
    model : bytes
        A model, pickled, whose data are shared variables.
    inputs : dict of str to str
        Name of that shared variable, by the name of the data.
    method, options
        Of :func:`pymc_tempering.estimate_logz`.
    entropy : int or list of int
        From which all generators come.
    """

    model: bytes
    inputs: dict[str, str]
    method: str
    options: dict[str, Any]
    entropy: Any
    target_se: float
    max_gradients: int | None
    starts: int
    quick: bool

    def generator(self, purpose: int, i: int = 0) -> np.random.Generator:
        """A generator for one purpose, of the data set i."""
        return np.random.default_rng(self.sequence(purpose, i))

    def sequence(self, purpose: int, i: int) -> np.random.SeedSequence:
        """Where that generator comes from."""
        return np.random.SeedSequence(self.entropy, spawn_key=(i, purpose))


class Outcome(NamedTuple):
    """What came out for one data set; ``failure`` is why nothing did."""

    log_z: float = np.nan
    se: float = np.nan
    gradients: int = 0
    variance: float = np.nan
    pareto_k: float = np.nan
    how: str = ""
    why: str = ""
    warnings: str = ""
    failure: str = ""


class _Worker:
    """A model and its one compiled density, in one process."""

    def __init__(self, many: Many) -> None:
        self._many = many
        self._model = pickle.loads(many.model)
        self._inputs = {name: self._model[inside] for name, inside in many.inputs.items()}
        self._open: OpenDensity | None = None
        self._filled: Refillable | None = None
        self._prior: FloatArray | None = None
        if not discrete_names(self._model):
            self._open = OpenDensity(self._model, list(many.inputs))
            self._filled = self._open.refillable()

    def outcome(self, i: int, data: Mapping[str, np.ndarray]) -> Outcome:
        """Log Z of the data set i; what is in the way of it becomes its failure."""
        try:
            quick = self._quick(i, data)
            if quick is not None and not quick.doubt:
                return Outcome(
                    quick.log_z, quick.se, quick.n_gradients, quick.variance, quick.pareto_k,
                    IMPORTANCE,
                )  # fmt: skip
            return self._run(i, data, quick)
        except OptionError as error:
            if self._many.max_gradients is None:
                # not of these data, but of the call
                raise
            return Outcome(failure=f"Too dear: {error}")
        except TemperingError as error:
            return Outcome(failure=f"{type(error).__name__}: {error}")

    def _quick(self, i: int, data: Mapping[str, np.ndarray]) -> QuickEvidence | None:
        """What a few hundred gradients say; None where it is not asked, or there are none."""
        many = self._many
        if not many.quick or self._open is None:
            return None
        density = self._density(data)
        if density is None or density.no_gradient:
            return None
        # where one density is filled anew, its model is that of the call for all data sets
        if self._prior is None or self._filled is None:
            self._prior = prior_points(density, many.generator(_PRIOR), N_PRIOR_POINTS)
        rng = many.generator(_QUICK, i)
        most = np.inf if many.max_gradients is None else many.max_gradients
        with one_blas_thread():
            return quick_evidence(
                density, density.start, rng, prior_points=self._prior, n_starts=many.starts,
                target_se=many.target_se, most=most,
            )  # fmt: skip

    def _density(self, data: Mapping[str, np.ndarray]) -> CompiledDensity | None:
        if self._filled is not None:
            self._filled.fill(data)
            return self._filled.density
        # it calls Python, and is compiled for each
        self._observe(data)
        assert self._open is not None
        with suppress(ModelError):
            return self._open.at(self._model)
        return None

    def _observe(self, data: Mapping[str, np.ndarray]) -> None:
        for name, values in data.items():
            self._inputs[name].set_value(values)

    def _run(self, i: int, data: Mapping[str, np.ndarray], quick: QuickEvidence | None) -> Outcome:
        """A run of its own, with the gradients that are left."""
        many = self._many
        spent = 0 if quick is None else quick.n_gradients
        self._observe(data)
        if self._open is not None:
            # where it is not finite at any start, a run looks further
            with suppress(ModelError):
                keep_density(self._model, self._open.at(self._model))
        options = {"cores": 1, "progressbar": False, "quiet": True} | many.options
        if many.max_gradients is not None:
            options["max_gradients"] = max(many.max_gradients - spent, 1)
        seed = int(many.sequence(_RUN, i).generate_state(1)[0])
        with warnings.catch_warnings():
            # they are kept with the result
            warnings.simplefilter("ignore", TemperingWarning)
            found = estimate_logz(self._model, method=many.method, random_seed=seed, **options)
        whole(found)
        return Outcome(
            found.log_z,
            found.se,
            spent + sum(found.gradients.values()),
            np.nan if quick is None else quick.variance,
            np.nan if quick is None else quick.pareto_k,
            many.method,
            "" if quick is None else quick.doubt,
            "\n".join(map(str, found.warnings)),
        )


_latest: dict[str, _Worker] = {}
"""Of this process, by the digest of all that it was made from; no more than one is kept."""


def _worker(many: Many) -> _Worker:
    key = hashlib.sha256(cloudpickle.dumps(many)).hexdigest()
    if key not in _latest:
        made = _Worker(many)
        _latest.clear()
        _latest[key] = made
    return _latest[key]


def estimate_block(
    many: Many,
    data: Mapping[str, np.ndarray],
    first: int,
    number: int,
    before: Mapping[str, Any] | None,
    folder: Path | None,
    done: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Estimate log Z of the rows of data, of which `first` is the number of the first one.

    Returns :class:`Outcome` as columns, by name: fewer than rows after Ctrl-C, and `before` has
    those that there were. They are kept in the folder, where there is one, as those of the block
    `number`.
    """
    columns = {name: [] if before is None else list(before[name]) for name in Outcome._fields}
    n = len(next(iter(data.values())))
    with suppress(KeyboardInterrupt):
        worker = _worker(many)
        for row in range(len(columns["log_z"]), n):
            outcome = worker.outcome(first + row, {name: v[row] for name, v in data.items()})
            for name, value in outcome._asdict().items():
                columns[name].append(value)
            done()
    kept = {
        name: values if isinstance(getattr(Outcome(), name), str) else np.array(values)
        for name, values in columns.items()
    }
    if folder is not None and columns["log_z"]:
        write_block(folder, number, kept)
    return kept
