"""Log Z of data sets of one model, in whichever process and thread: compiled once, data swapped.

What comes out for a data set depends on the seed and its number alone, not on the block, nor on
what the process did before. With neighbours it depends on the data sets before it in a block too,
and blocks are of one size.
"""

import pickle
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import (
    BaseError,
    ModelError,
    OptionError,
    TemperingError,
    TemperingWarning,
)
from pymc_tempering.evidence.checks.requested import whole
from pymc_tempering.evidence.estimate import estimate_logz
from pymc_tempering.methods import resolve_method
from pymc_tempering.model.at_draws import constrained_draws
from pymc_tempering.model.compile import CompiledDensity, keep_density, prior_points
from pymc_tempering.model.freeze import discrete_names
from pymc_tempering.model.open_data import OpenDensity, Refillable
from pymc_tempering.model.point import PointMap
from pymc_tempering.references.importance import (
    N_DRAWS,
    QuickEvidence,
    evidence_at_mode,
    evidence_from,
    mode_near,
    one_mode,
)
from pymc_tempering.references.quality import FAIR
from pymc_tempering.types import FloatArray

IMPORTANCE = "importance"
"""How log Z was found where no run was needed."""

FIT, NEIGHBOUR = "fit", "neighbour"
"""Where the search begins: from the model's initial point and its prior, or from the mode of the
data set before."""

N_PRIOR_POINTS = 128
"""Draws of the prior that the starts of all data sets are taken from."""

_PRIOR, _QUICK, _RUN, _DRAWS = range(4)
"""What a generator is for: the draws of the prior; starts and weights of a data set; its run; which
of its weighted draws stay."""


@dataclass(frozen=True)
class Many:
    """What is the same for all data sets; sent to every process."""

    model: bytes  # pickled, whose data are shared variables
    inputs: dict[str, str]  # name of that shared variable, by the name of the data
    method: str
    options: dict[str, Any]  # of `estimate_logz`
    entropy: Any  # from which all generators come
    target_se: float
    max_gradients: int | None
    starts: int
    quick: bool
    lengths: tuple[str, ...] = ()  # names of data whose lengths differ
    # where searches begin; a function of the data gives a Gaussian, or mean and scale
    reference: Any = FIT
    draws: int = 0  # of the posterior, from each data set
    variables: tuple[str, ...] = ()  # names of which there are draws

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


class Quick(NamedTuple):
    """What a few hundred gradients say of a data set; None where they were not asked, or fail.

    ``z`` are draws (n, D) of equal weight, of a density with these ``points``, ``base`` the
    reference that was given.
    """

    found: QuickEvidence | None = None
    z: FloatArray = np.empty((0, 0))
    base: GaussianBase | None = None
    failure: str = ""
    points: PointMap | None = None


def reference_at(many: Many, data: Mapping[str, np.ndarray], dim: int) -> GaussianBase | None:
    """The Gaussian that the user's function gives for a data set; None where there is no function.

    BaseError where it gives something else, or raises.
    """
    if not callable(many.reference):
        return None
    try:
        # it may write into them, as to standardise
        given = many.reference({name: np.array(values) for name, values in data.items()})
    except Exception as error:
        raise BaseError(
            f"The function `reference` raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(given, GaussianBase):
        if not (isinstance(given, tuple | list) and len(given) == 2):
            raise BaseError(
                f"The function `reference` returned {given!r:.60}; expected a mean of shape (D,) "
                "and standard deviations (D,) or a lower Cholesky factor (D, D), or a GaussianBase."
            )
        given = GaussianBase(*given)
    if given.dim != dim:
        raise BaseError(
            f"The function `reference` returned a Gaussian in {given.dim} dimensions; the model "
            f"has {dim} unconstrained values."
        )
    return given


class Worker:
    """A model and its one compiled density, in one process."""

    def __init__(self, many: Many) -> None:
        self._many = many
        self._model = pickle.loads(many.model)
        self._inputs = {name: self._model[inside] for name, inside in many.inputs.items()}
        self._open: OpenDensity | None = None
        self._free: list[Refillable | None] = []
        self._prior: FloatArray | None = None
        self._values: Callable[[FloatArray], dict[str, np.ndarray]] | None = None
        self._lock = Lock()
        if not discrete_names(self._model):
            lengths = [many.inputs[name] for name in many.lengths]
            self._open = OpenDensity(self._model, list(many.inputs), lengths)
            self._free.append(self._open.refillable())
        self._one_at_a_time = self._free == [None]

    @contextmanager
    def _filled(self) -> Iterator[Refillable | None]:
        """A density for one thread; None where one is compiled for each data set."""
        with self._lock:
            filled = self._free.pop() if self._free else None
            if filled is None and self._open is not None:
                filled = self._open.refillable()
        try:
            yield filled
        finally:
            self._free.append(filled)

    def quick(self, first: int, rows: Sequence[Mapping[str, np.ndarray]]) -> Generator[Quick]:
        """Of rows of data in turn, the quick way; it may be taken by several threads at a time."""
        near: GaussianBase | None = None
        with self._filled() as filled, self._lock if self._one_at_a_time else nullcontext():
            for i, data in enumerate(rows, first):
                try:
                    quick = self._quick(i, data, filled, near)
                except TemperingError as error:
                    quick = Quick(failure=f"{type(error).__name__}: {error}")
                if quick.found is not None and not quick.found.doubt:
                    near = quick.found.base if self._many.reference == NEIGHBOUR else None
                yield quick

    def _quick(
        self,
        i: int,
        data: Mapping[str, np.ndarray],
        filled: Refillable | None,
        near: GaussianBase | None,
    ) -> Quick:
        many = self._many
        density = self._density(data, filled)
        if density is None:
            return Quick()
        given = reference_at(many, data, density.dim)
        if not many.quick or density.no_gradient:
            return Quick(base=given)
        found = self._found(i, density, given, near)
        z = np.empty((0, 0))
        if many.draws and not found.doubt:
            z = found.draws(many.draws, many.generator(_DRAWS, i))
        bare = found._replace(weighted=(np.empty((0, 0)), np.empty(0)))
        return Quick(bare, z, given, points=density.points)

    def _found(
        self,
        i: int,
        density: CompiledDensity,
        given: GaussianBase | None,
        near: GaussianBase | None,
    ) -> QuickEvidence:
        many, spent = self._many, 0
        rng = many.generator(_QUICK, i)
        most = np.inf if many.max_gradients is None else many.max_gradients
        options: dict[str, Any] = {
            "target_se": many.target_se, "n_draws": max(N_DRAWS, 2 * many.draws),
        }  # fmt: skip
        found = None
        if given is not None and most >= N_DRAWS:
            found = evidence_from(density, given, rng, most=most, **options)
        elif near is not None:
            mode = mode_near(density, near, most - N_DRAWS)
            found = evidence_at_mode(density, mode, rng, most=most, **options)
        if found is not None:
            if not found.doubt:
                return found
            spent = found.n_gradients
        if given is None:
            start, points = density.start, self._prior_points(density)
        else:
            start, points = np.array(given.mean), given.draw(rng, N_PRIOR_POINTS)
        left = most - spent
        mode = one_mode(density, start, points, rng, many.starts, left - N_DRAWS)
        found = evidence_at_mode(density, mode, rng, most=left, **options)
        return found._replace(n_gradients=found.n_gradients + spent)

    def _prior_points(self, density: CompiledDensity) -> FloatArray:
        # where one density is filled anew, its model is that of the call for all data sets
        if self._one_at_a_time:
            return prior_points(density, self._many.generator(_PRIOR), N_PRIOR_POINTS)
        with self._lock:
            if self._prior is None:
                rng = self._many.generator(_PRIOR)
                self._prior = prior_points(density, rng, N_PRIOR_POINTS)
            return self._prior

    def _density(
        self, data: Mapping[str, np.ndarray], filled: Refillable | None
    ) -> CompiledDensity | None:
        if filled is not None:
            filled.fill(data)
            return filled.density
        if self._open is not None:
            # it calls Python, and is compiled for each
            self._observe(data)
            with suppress(ModelError):
                return self._open.at(self._model)
        return None

    def _observe(self, data: Mapping[str, np.ndarray]) -> None:
        for name, values in data.items():
            self._inputs[name].set_value(values)

    def outcome(
        self, i: int, data: Mapping[str, np.ndarray], quick: Quick
    ) -> tuple[Outcome, dict[str, np.ndarray]]:
        """Log Z of the data set i, and draws; what is in the way of it becomes its failure."""
        if quick.failure:
            return Outcome(failure=quick.failure), {}
        found = quick.found
        try:
            if found is None or found.doubt:
                return self._run(i, data, quick)
            draws = self._constrained(data, quick) if self._many.draws else {}
        except OptionError as error:
            if self._many.max_gradients is None:
                # not of these data, but of the call
                raise
            return Outcome(failure=f"Too dear: {error}"), {}
        except TemperingError as error:
            return Outcome(failure=f"{type(error).__name__}: {error}"), {}
        numbers = found.log_z, found.se, found.n_gradients, found.variance, found.pareto_k
        return Outcome(*numbers, IMPORTANCE), draws

    def _constrained(self, data: Mapping[str, np.ndarray], quick: Quick) -> dict[str, np.ndarray]:
        self._observe(data)
        assert quick.points is not None
        # threads have densities of their own, of copies that keep the model's order
        if self._values is None:
            self._values = constrained_draws(self._model, self._many.variables, quick.points)
        return self._values(quick.z)

    def _run(
        self, i: int, data: Mapping[str, np.ndarray], quick: Quick
    ) -> tuple[Outcome, dict[str, np.ndarray]]:
        """A run of its own, with the gradients that are left."""
        many, found = self._many, quick.found
        spent = 0 if found is None else found.n_gradients
        self._observe(data)
        if self._open is not None and not many.lengths:
            # where it is not finite at any start, a run looks further
            with suppress(ModelError):
                keep_density(self._model, self._open.at(self._model))
        options = self._options(quick, spent)
        seed = int(many.sequence(_RUN, i).generate_state(1)[0])
        # they are kept with the result
        with warnings.catch_warnings(action="ignore", category=TemperingWarning):
            run = estimate_logz(self._model, method=many.method, random_seed=seed, **options)
        whole(run)
        outcome = Outcome(
            run.log_z, run.se, spent + sum(run.gradients.values()),
            np.nan if found is None else found.variance,
            np.nan if found is None else found.pareto_k, many.method,
            "" if found is None else found.doubt, "\n".join(map(str, run.warnings)),
        )  # fmt: skip
        return outcome, self._thinned(run.idata) if many.draws else {}

    def _options(self, quick: Quick, spent: int) -> dict[str, Any]:
        many = self._many
        row = resolve_method(many.method)
        options = {"cores": 1, "progressbar": False, "quiet": True} | many.options
        if row.step is not None:
            options["target_se"] = many.target_se
            found, asked = quick.found, {"base", "adapt_base"} & options.keys()
            if found is not None and found.variance <= FAIR and not asked:
                # what a run would look for: only the weights in its tails are in doubt
                options |= {"base": found.base, "adapt_base": False}
            elif quick.base is not None:
                options.setdefault("base", quick.base)
        if many.max_gradients is not None:
            options["max_gradients"] = max(many.max_gradients - spent, 1)
        if many.draws:
            # of the least number of chains
            options["draws"] = max(options.get("draws", row.draws), many.draws)
        return options

    def _thinned(self, idata: Any) -> dict[str, np.ndarray]:
        """As many draws as are asked for, evenly from all chains."""
        draws = {}
        for name in self._many.variables:
            values = idata["posterior"][name].transpose("chain", "draw", ...).to_numpy()
            flat = values.reshape(-1, *values.shape[2:])
            picked = np.linspace(0, len(flat) - 1, self._many.draws).round().astype(int)
            draws[name] = flat[picked]
        return draws
