"""What every tempered step shares: the contract with PyMC, the compiled model, the base."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from time import perf_counter
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator
from rich.progress import ProgressColumn

from pymc_tempering.checkpoint.journal import Journal
from pymc_tempering.checkpoint.store import Kept
from pymc_tempering.engine.ensembles.ensemble import Ensemble
from pymc_tempering.engine.ensembles.ladder import LadderLike
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase, base_id
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.tally import counts_by_name, new_counts
from pymc_tempering.errors import ModelError
from pymc_tempering.model.at_draws import term_sizes
from pymc_tempering.model.compile import CompiledDensity, compile_density
from pymc_tempering.model.freeze import NO_FREE_VARIABLES
from pymc_tempering.model.identity import Identity, listed
from pymc_tempering.model.machine_code import BACKENDS
from pymc_tempering.options import check_choice, resolve_model
from pymc_tempering.private import ProgressHooks
from pymc_tempering.progress.board import Board, progress_columns, progress_update
from pymc_tempering.references.own import check_cover
from pymc_tempering.references.prepare import prepare, shared_generator
from pymc_tempering.references.prepared import Prepared, Report
from pymc_tempering.results.statistics import pack_search
from pymc_tempering.steps.arguments import all_value_vars, given_base, suited_explorer
from pymc_tempering.steps.budget import Account
from pymc_tempering.steps.recorder import Recorder
from pymc_tempering.steps.visits import MOST_TO_LOOK, Visits
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["TemperedStep", "TemperedStepState", "base_id"]


@dataclass_state
class TemperedStepState(StepMethodState):
    """State that all tempered steps share; ``chain`` holds everything that changes.

    ``searched`` says how far the modes were searched for; empty before the first draw. ``visits``
    are those of the known modes.
    """

    dim: int = field(metadata={"frozen": True})
    tune: bool
    searched: dict[str, Any]
    visits: dict[str, Any]
    chain: dict[str, Any] | None


class TemperedStep(ProgressHooks, BlockedStep):
    """Base class of the tempered step methods.

    A tempered step owns all free variables of the model: its stored densities would be stale if
    another step moved some of them. The constructor does nothing random; base fit and tuning
    happen per chain, from that chain's generator.
    """

    default_blocked = True
    _state_class = TemperedStepState
    _trips = "round_trips"
    _settings: ExplorerSettings = Hamiltonian()
    _explorer_requested = True
    """What moves the replicas where there is a gradient, and whether nothing else may."""
    _takes_maps = False  # whether chains can start from bent fits
    _looks_in_tuning = False  # for draws of the modes that no Gaussian fits
    method: str
    """Row of :data:`pymc_tempering.methods.METHODS`."""
    backend: str | None = None  # of PyTensor; None for that which suits
    _search = "default"
    _missing: int | None = None
    """Steps to the end of a chain of ``pm.sample``; None where something else runs the steps."""
    kept: Kept | None = None  # where chains are kept while they are sampled
    searches = True  # whether a run begins with a search for modes
    base_names: tuple[str, ...] = ()  # that `base` may have beside those that all steps know
    share: float = np.inf
    search_most: float = np.inf
    """Gradients that each chain may take, and that search."""
    _journal: Journal | None = None

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
        self,
        vars: Any,
        model: pm.Model | None,
        base: GaussianBase | xr.DataTree | str | None,
        rng: Any,
    ) -> None:
        """Check the arguments that all tempered steps share, and compile the model."""
        model = resolve_model(model, type(self).__name__)
        self.vars = all_value_vars(vars, model, type(self).__name__)
        self._source_model = model
        self.identity = Identity.of(model)
        self._compile(model, base)
        self.dim = self._density.dim
        self._board = Board()
        self._account = Account()
        self.rng = get_random_generator(rng)
        self.tune = True
        self._missing = None
        self._n_draws = 0
        self._fits: Prepared | None = None
        self._prepared_for: str | None = None
        self.searched: dict[str, Any] = {}
        self._visits = Visits()

    def _compile(self, model: pm.Model, base: GaussianBase | xr.DataTree | str | None) -> None:
        """Compile the model, and find what its path starts from."""
        self._density = compile_density(model, backend=self.backend)
        self._settings = suited_explorer(
            type(self).__name__, self._settings, self._density, requested=self._explorer_requested
        )
        self._given_base, self._reference = given_base(base, self._density, self.base_names)

    @property
    def density(self) -> CompiledDensity:
        """The model's compiled log density."""
        return self._density

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Reset everything that belongs to one chain; see :class:`pymc.step_methods.BlockedStep`.

        After a chain that was interrupted, of the same ``pm.sample``, this is a KeyboardInterrupt:
        PyMC would go on with the next chain, and one press is meant to end all.
        """
        if changes := self.identity.changes(Identity.of(self._source_model)):
            raise ModelError(
                f"The model changed after this {type(self).__name__} was built: "
                f"{listed(changes)}. Build the step again, so that it is compiled as it is now."
            )
        if self._missing is not None:
            if self._missing > 0:
                raise KeyboardInterrupt
            self._missing = int(tune) + int(draws)
        self.rng = get_random_generator(rng, copy=False)
        self._account = Account(self.share)
        self.tune = tune > 0
        self._n_tune, self._n_draws = int(tune), int(draws)
        self._board.start_chain()
        self._reset_chain()
        self._journal = None
        if self.kept is not None:
            self._journal = self.kept.journal(self.rng, self._n_tune + self._n_draws)
            self._n_draws = self.kept.n_draws

    def _reset_chain(self) -> None:
        raise NotImplementedError

    def _declare(self, **sizes: int) -> None:
        """Tell PyMC the statistics of the step, whose dimensions have these lengths."""
        self._recorder = Recorder(self.method, sizes)
        self.stats_dtypes_shapes = self._recorder.dtypes_shapes
        self.stats_dtypes = [{n: dtype for n, (dtype, _) in self.stats_dtypes_shapes.items()}]

    def _advance(self, point: dict[str, np.ndarray]) -> tuple[FloatArray, dict[str, Any]]:
        """Run ``scans_per_draw`` scans; position ``z`` at beta = 1, and values of statistics."""
        raise NotImplementedError

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict]]:
        """Run ``scans_per_draw`` scans and return the position at beta = 1 with statistics."""
        started = perf_counter()
        if self._missing is not None:
            self._missing -= 1
        journal = self._journal
        if journal is not None and (kept := journal.replay(self, point)) is not None:
            return kept
        with density_guard():
            target, values = self._advance(point)
            if not self.tune:
                self._visits.note(target)
                left = self._account.left - values["n_gradients"]
                values["n_gradients"] += self._visits.look(self._density, MOST_TO_LOOK * left)
        points = self._density.points
        position = points.unravel(target)
        # what PyMC calls the log density of the draw, in its own coordinates
        values["model_logp"] -= points.angles.log_jacobian(target)
        values |= self.searched | {
            "log_mass_unvisited": self._visits.log_mass_unvisited,
            "n_unreached_modes": self._visits.n_missed,
        }
        values["perf_counter_diff"] = perf_counter() - started
        values |= self._account.so_far(values, tuning=self.tune)
        # PyMC's trace reads the values by position, in the order of the point that it passes
        record = {name: position[name] for name in point}, [self._recorder.record(values)]
        if journal is not None:
            journal.record(self, record)
        return record

    @property
    def visits(self) -> dict[str, Any]:
        """Which of the known modes the chain had a draw in, as plain arrays."""
        return self._visits.state()

    @visits.setter
    def visits(self, state: dict[str, Any]) -> None:
        self._visits.set_state(state)

    @property
    def n_searched(self) -> int:
        """Gradients that the search for modes took; 0 before it."""
        return 0 if self._fits is None else self._fits.search.n_gradients

    @property
    def least_share(self) -> int:
        """Gradients that a chain cannot do without."""
        raise NotImplementedError

    def _idle(
        self, point: dict[str, np.ndarray], n_gradients: int = 0
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Make a draw without any scan: the position stays."""
        counts = counts_by_name(new_counts(1)) | {"n_gradients": n_gradients}
        values = self._recorder.blank() | self._recorder.counted(counts)
        return self._density.points.ravel(point), values

    def _charge_off_record(self, ensemble: LadderLike | Ensemble) -> None:
        """Count evaluations that no draw recorded, so that they are of the chain's share."""
        self._account.n_spent += ensemble.n_off_record
        ensemble.n_off_record = 0

    def prepare(self, random_seed: Any = None, report: Report | None = None) -> None:
        """Fit the modes of the model, once for all chains that are sampled with this step.

        Otherwise the first chain of a run does it, from the seed of the run; chains in other
        processes then have to do it again, with the same result. A path from the prior needs none.
        """
        if not self.searches:
            return
        rng = get_random_generator(random_seed)
        self._fits = None if self.kept is None else self.kept.fits()
        if self._fits is None:
            if self.kept is None:
                self._fits = self._prepare_from(self._density, rng, report)
            else:
                with self.kept.searching(self._density) as density:
                    self._fits = self._prepare_from(density, rng, report)
                self.kept.keep_fits(self._fits)
        self._prepared_for = None

    def log_density_of(self, point: Mapping[str, np.ndarray]) -> float:
        """Log density of the model in PyMC's coordinates, in nats, as recorded of every draw."""
        points = self._density.points
        z = points.ravel(point)
        with density_guard():
            return self._log_density(z) - float(points.angles.log_jacobian(z))

    def _log_density(self, z: FloatArray) -> float:
        return self._density.value_and_grad(z)[0]

    def sizes_at(self, points: Sequence[Mapping[str, Any]]) -> Callable[[IntArray], FloatArray]:
        """Give the function from positions to the magnitude of the density's terms there."""
        return lambda index: term_sizes(self._density.model, [points[i] for i in index])

    @property
    def moves(self) -> str:
        """What moves which variables, in words; empty where explorers of one kind move all."""
        return ""

    def _prepare_from(
        self, density: CompiledDensity, rng: np.random.Generator, report: Report | None = None
    ) -> Prepared:
        report = report or self._board.report
        start = density.start
        fits = prepare(
            density, start, shared_generator(rng), search=self._search,
            bend=self._takes_maps, most=self.search_most, report=report,
        )  # fmt: skip
        if self._reference is not None:
            check_cover(self._path(fits.pooled), np.vstack([start, fits.modes]))
        return fits

    def _first_base(
        self, report: Report | None = None
    ) -> tuple[GaussianBase, GaussianBase, FloatArray]:
        """Base to start from, the combined local fits, and their means, shape (n, D).

        Local fits are made also where a base was given: they show whether it leaves out a mode.
        """
        identity = repr(shared_generator(self.rng).bit_generator.state)
        if self._fits is None or self._prepared_for not in (None, identity):
            self._fits = self._prepare_from(self._density, self.rng, report)
            self._prepared_for = identity
        self.searched = {"search": pack_search(self._fits.search.statistics())}
        poorly_fitted = () if self._looks_in_tuning else self._fits.poorly_fitted
        self._visits = Visits(self._fits.well_fitted, poorly_fitted)
        return self._given_base or self._fits.pooled, self._fits.pooled, self._fits.modes

    def _places(self, modes: FloatArray, point: dict[str, np.ndarray]) -> FloatArray:
        """Where replicas start, shape (n, D): the modes, and last a start that the user gave."""
        start = self._density.points.ravel(point)
        given = not np.array_equal(start, self._density.start)
        if given and np.isfinite(self._density.value_and_grad(start)[0]):
            return np.vstack([modes, start])
        return modes

    def _path(self, base: GaussianBase) -> TemperedPath:
        """Path to the model from the step's reference, in the coordinates of a Gaussian."""
        return TemperedPath(self._density, Coordinates.of(base), self._reference)

    def _any_path(self) -> TemperedPath:
        """Path to the model in coordinates that a state will replace."""
        return self._path(GaussianBase(np.zeros(self.dim), np.ones(self.dim)))

    def progress_columns(self, n_chains: int) -> tuple[list[ProgressColumn], dict[str, list[Any]]]:
        """Columns of the progress bar, and what they show before the first draw."""
        # what PyMC asks first, once in every run and never in a worker
        self._missing = 0
        self._board.rewind()
        return progress_columns(n_chains, self._trips, self._board)

    def progress_update(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Give what PyMC calls in its own process with the statistics of a draw."""
        trips = self._trips
        return lambda statistics: progress_update(statistics, trips)

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Any:
        """Never chosen automatically."""
        from pymc.step_methods.compound import Competence

        return Competence.INCOMPATIBLE
