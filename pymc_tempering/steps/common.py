"""What every tempered step shares: the contract with PyMC, the compiled model, the base."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator
from rich.progress import ProgressColumn

from pymc_tempering.checkpoint.journal import Journal
from pymc_tempering.checkpoint.store import Kept
from pymc_tempering.engine.ensembles.ensemble import Ensemble
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.state import Stateful
from pymc_tempering.engine.tally import counts_by_name, new_counts
from pymc_tempering.errors import ModelError
from pymc_tempering.model.at_draws import term_sizes
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.freeze import NO_FREE_VARIABLES
from pymc_tempering.model.identity import Identity, listed
from pymc_tempering.model.machine_code import BACKENDS
from pymc_tempering.options import check_choice, resolve_model
from pymc_tempering.private.of_pymc import ProgressHooks
from pymc_tempering.progress import Board, is_diverging, progress_columns, progress_update
from pymc_tempering.references.own import check_cover
from pymc_tempering.references.posterior import PosteriorDraws
from pymc_tempering.references.prepare import prepare, shared_generator
from pymc_tempering.references.prepared import Prepared, Report
from pymc_tempering.results.statistics import pack_search
from pymc_tempering.steps.arguments import GivenBase, Requested, Source, all_value_vars
from pymc_tempering.steps.budget import Account
from pymc_tempering.steps.compound_ladder import CompoundLadder
from pymc_tempering.steps.recorder import Recorder
from pymc_tempering.steps.visits import Visits
from pymc_tempering.types import FloatArray, IntArray


class Found(NamedTuple):
    """What the search found for the chains of a generator in this state; for all, where None."""

    fits: Prepared
    rng_state: str | None = None


@dataclass
class CurrentChain(Stateful):
    """What a chain of any method has.

    ``n_missing`` are the steps to the end of a chain of ``pm.sample``; None where something else
    runs the steps. ``searched`` are statistics of the search, empty before the first draw.
    """

    _changing = ("n_tune", "n_draws", "account", "searched", "visits")

    account: Account
    n_tune: int
    n_draws: int = 0
    n_missing: int | None = None
    journal: Journal | None = None
    searched: dict[str, Any] = field(default_factory=dict)
    visits: Visits = field(default_factory=Visits)


@dataclass_state
class TemperedStepState(StepMethodState):
    """State that all tempered steps share; ``chain`` holds everything that changes."""

    name: str = field(metadata={"frozen": True})
    dim: int = field(metadata={"frozen": True})
    sizes: dict[str, int] = field(metadata={"frozen": True})
    tune: bool
    chain: dict[str, Any] | None


class TemperedStep(ProgressHooks, BlockedStep):
    """Base class of the tempered step methods.

    A tempered step owns all free variables of the model: its stored densities would be stale if
    another step moved some of them. The constructor does nothing random; base fit and tuning
    happen per chain, from that chain's generator.
    """

    default_tune_steps = 200
    _state_class = TemperedStepState
    _trips = "round_trips"
    _looks_in_tuning = False  # for draws of the modes that no Gaussian fits
    method: str
    """Row of :data:`pymc_tempering.methods.METHODS`."""
    backend: str | None = None  # of PyTensor; None for that which suits
    kept: Kept | None = None  # where chains are kept while they are sampled
    searches = True  # whether a run begins with a search for modes
    maps = True  # whether the path may be in coordinates of a map, whose code is numba's
    share_of_chain = share_of_search = np.inf  # gradients that each chain may take, and that search
    known_draws: PosteriorDraws | None = None  # of less data, which take the place of that search
    _requested: Requested

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Find the model before PyMC does, to say what to do where there is none."""
        model = resolve_model(kwargs.get("model"), cls.__name__)
        if not model.free_RVs:
            raise ModelError(NO_FREE_VARIABLES)
        all_value_vars(args[0] if args else kwargs.get("vars"), model, cls.__name__)
        step = super().__new__(cls, *args, **kwargs)
        if kwargs.get("backend") is not None:
            step.backend = check_choice("backend", kwargs["backend"], BACKENDS)
        return step

    def _prepare(
        self, requested: Requested, vars: Any, model: pm.Model | None, base: GivenBase, rng: Any,
        **sizes: int,
    ) -> None:  # fmt: skip
        """Compile the model, and tell PyMC the statistics, whose dimensions have these sizes."""
        self._requested = requested
        model = resolve_model(model, type(self).__name__)
        self.vars = all_value_vars(vars, model, type(self).__name__)
        self._source = self._compile(model, base)
        self._board = Board()
        self.rng = get_random_generator(rng)
        self.tune = True
        self._found: Found | None = None
        self._current = CurrentChain(Account(), self.default_tune_steps)
        self._reset_chain()
        self.sizes = {"scan": self.scans_per_draw, **sizes}
        self._recorder = Recorder(self.method, self.sizes)
        self.stats_dtypes_shapes = self._recorder.dtypes_shapes
        self.stats_dtypes = [{n: dtype for n, (dtype, _) in self.stats_dtypes_shapes.items()}]

    def _compile(self, model: pm.Model, base: GivenBase) -> Source:
        """Compile the model, and find what its path starts from."""
        looks = self.maps and self.searches and self.known_draws is None
        return Source.of(model, base, self._requested, step=self, backend=self.backend, looks=looks)

    @property
    def density(self) -> CompiledDensity:
        """The model's compiled log density."""
        return self._source.density

    @property
    def identity(self) -> Identity:
        """That of the model when it was compiled."""
        return self._source.identity

    @property
    def dim(self) -> int:
        """Number D of unconstrained values."""
        return self._source.density.dim

    @property
    def scans_per_draw(self) -> int:
        """Scans for each recorded draw, or where their number adapts, the most."""
        return self._requested.scans_per_draw

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Reset everything that belongs to one chain; see :class:`pymc.step_methods.BlockedStep`.

        After a chain that was interrupted, of the same ``pm.sample``, this is a KeyboardInterrupt:
        PyMC would go on with the next chain, and one press is meant to end all.
        """
        if changes := self.identity.changes(Identity.of(self._source.model)):
            raise ModelError(
                f"The model changed after this {type(self).__name__} was built: "
                f"{listed(changes)}. Build the step again, so that it is compiled as it is now."
            )
        n_missing = self._current.n_missing
        if n_missing is not None:
            if n_missing > 0:
                raise KeyboardInterrupt
            n_missing = int(tune) + int(draws)
        self.rng = get_random_generator(rng, copy=False)
        self.tune = tune > 0
        self._current = CurrentChain(Account(self.share_of_chain), int(tune), int(draws), n_missing)
        self._board.start_chain()
        self._reset_chain()
        if self.kept is not None:
            self._current.journal = self.kept.journal(self.rng, int(tune) + int(draws))
            self._current.n_draws = self.kept.n_draws

    def _reset_chain(self) -> None:
        raise NotImplementedError

    def _advance(self, point: dict[str, np.ndarray]) -> tuple[FloatArray, dict[str, Any]]:
        """Run ``scans_per_draw`` scans; position ``z`` at beta = 1, and values of statistics."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any] | None:
        """What changes during a chain of the method; None before its first step."""
        raise NotImplementedError

    def _restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`_state`, after a reset."""
        raise NotImplementedError

    @property
    def least_share(self) -> int:
        """Gradients that a chain cannot do without."""
        raise NotImplementedError

    @property
    def moves(self) -> str:
        """What moves which variables, in words; empty where explorers of one kind move all."""
        return ""

    @property
    def chain(self) -> dict[str, Any] | None:
        """Everything that changes during a chain; None before its first step."""
        state = self._state()
        return None if state is None else {"of_method": state} | self._current.state()

    @chain.setter
    def chain(self, state: dict[str, Any] | None) -> None:
        self._reset_chain()
        if state is not None:
            self._current.set_state(state)
            self._restore(state["of_method"])

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict]]:
        """Run ``scans_per_draw`` scans and return the position at beta = 1 with statistics."""
        started, current = perf_counter(), self._current
        if current.n_missing is not None:
            current.n_missing -= 1
        journal = current.journal
        if journal is not None and (kept := journal.replay(self, point)) is not None:
            return kept
        with density_guard():
            target, values = self._advance(point)
            visits = current.visits
            if not self.tune:
                visits.note(target)
                # a tenth of what is left, so that draws have the rest
                n_each = self.density.n_each
                left = 0.1 * (current.account.left - values["n_gradients"]) / n_each
                values["n_gradients"] += n_each * visits.look(self.density, left)
        points = self.density.points
        position = points.unravel(target)
        # what PyMC calls the log density of the draw, in its own coordinates
        if points.map is None or current.account.left <= values["n_gradients"]:
            values["model_logp"] -= points.log_jacobian(target[None])[0]
        else:
            # a map rounds as it was compiled: at the draw as recorded the density is another
            values["model_logp"] = self.log_density_of(position)
            values["n_gradients"] += 1
        values |= current.searched | {
            "log_mass_unvisited": visits.log_mass_unvisited,
            "n_unreached_modes": visits.n_missed,
        }
        values["perf_counter_diff"] = perf_counter() - started
        values |= current.account.so_far(values, tuning=self.tune)
        # PyMC's trace reads the values by position, in the order of the point that it passes
        record = {name: position[name] for name in point}, [self._recorder.record(values)]
        if journal is not None:
            journal.record(self, record)
        return record

    @property
    def n_searched(self) -> int:
        """Gradients that the search for modes took; 0 before it."""
        return 0 if self._found is None else self._found.fits.search.n_gradients

    def _idle(
        self, point: dict[str, np.ndarray], n_gradients: int = 0
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Make a draw without any scan: the position stays."""
        counts = counts_by_name(new_counts(1)) | {"n_gradients": n_gradients}
        values = self._recorder.blank() | self._recorder.counted(counts)
        return self.density.points.ravel(point), values

    def _of_ensemble(
        self, ensemble: CompoundLadder | Ensemble, counts: Mapping[str, int], n_scans: int
    ) -> dict[str, Any]:
        """Statistics that every draw has of what moved it."""
        return self._recorder.counted(counts) | {
            "diverging": is_diverging(counts["n_target_divergences"], n_scans),
            "base_id": ensemble.path.base_id,
            "model_logp": ensemble.target_log_density,
        }

    def _charge_off_record(self, ensemble: CompoundLadder | Ensemble) -> None:
        """Count evaluations that no draw recorded, so that they are of the chain's share."""
        self._current.account.n_spent += self.density.n_each * ensemble.n_off_record
        ensemble.n_off_record = 0

    def prepare(self, random_seed: Any = None, report: Report | None = None) -> None:
        """Fit the modes of the model, once for all chains that are sampled with this step.

        Otherwise the first chain of a run does it, from the seed of the run; chains in other
        processes then have to do it again, with the same result. A path from the prior needs none.
        """
        if not self.searches:
            return
        rng, kept = get_random_generator(random_seed), self.kept
        fits = None if kept is None else kept.fits()
        if kept is None:
            fits = self._prepare_from(self.density, rng, report)
        elif fits is None:
            with kept.searching(self.density) as density:
                fits = self._prepare_from(density, rng, report)
            kept.keep_fits(fits)
        self._found = Found(fits)

    def log_density_of(self, point: Mapping[str, np.ndarray]) -> float:
        """Log density of the model in PyMC's coordinates, in nats, as recorded of every draw."""
        z = (points := self.density.inner.points).ravel(point)
        with density_guard():
            return self._log_density(z) - float(points.log_jacobian(z[None])[0])

    def sizes_at(self, points: Sequence[Mapping[str, Any]]) -> Callable[[IntArray], FloatArray]:
        """Give the function from positions to the magnitude of the density's terms there."""
        return lambda index: term_sizes(self.density.model, [points[i] for i in index])

    def _log_density(self, z: FloatArray) -> float:
        return self.density.inner.value_and_grad(z)[0]

    def _prepare_from(
        self, density: CompiledDensity, rng: np.random.Generator, report: Report | None = None
    ) -> Prepared:
        n_looked = self._source.n_looked
        fits = prepare(
            density, density.start, shared_generator(rng), search=self._requested.search,
            bend=self._requested.uses_fits, most=self.share_of_search - n_looked,
            report=report or self._board.report, draws=self.known_draws,
            hierarchy=self._source.hierarchy, spent=n_looked,
        )  # fmt: skip
        if self._source.reference is not None:
            check_cover(self._path(fits.pooled), np.vstack([density.start, fits.modes]))
        return fits

    def _known(self, report: Report | None = None) -> Prepared:
        """Give what is known to the chain of the target, for which it searches if need be.

        Also where a base was given: local fits show whether it leaves out a mode.
        """
        rng_state = repr(shared_generator(self.rng).bit_generator.state)
        if self._found is None or self._found.rng_state not in (None, rng_state):
            self._found = Found(self._prepare_from(self.density, self.rng, report), rng_state)
        fits, current = self._found.fits, self._current
        current.searched = {"search": pack_search(fits.search.statistics())}
        current.visits = Visits(
            fits.well_fitted, () if self._looks_in_tuning else fits.poorly_fitted, fits.orbit
        )
        return fits

    def _places(self, modes: FloatArray, point: dict[str, np.ndarray]) -> FloatArray:
        """Where replicas start, shape (n, D): the modes, and last a start that the user gave."""
        start = self.density.points.ravel(point)
        given = not np.array_equal(start, self.density.start)
        if given and np.isfinite(self.density.value_and_grad(start)[0]):
            return np.vstack([modes, start])
        return modes

    def _path(self, base: GaussianBase) -> TemperedPath:
        """Path to the model from the step's reference, in the coordinates of a Gaussian."""
        return TemperedPath(self.density, Coordinates.of(base), self._source.reference)

    def _any_path(self) -> TemperedPath:
        """Path to the model in coordinates that a state will replace."""
        return self._path(GaussianBase(np.zeros(self.dim), np.ones(self.dim)))

    def progress_columns(self, n_chains: int) -> tuple[list[ProgressColumn], dict[str, list[Any]]]:
        """Columns of the progress bar, and what they show before the first draw."""
        # what PyMC asks first, once in every run and never in a worker
        self._current.n_missing = 0
        self._board.rewind()
        return progress_columns(n_chains, self._trips, self._board)

    def progress_update(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Give what PyMC calls in its own process with the statistics of a draw."""
        return partial(progress_update, trips=self._trips)
