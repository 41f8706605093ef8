"""Parallel tempering of models with discrete variables, from prior to posterior."""

import logging
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
import pymc as pm

from pymc_tempering.engine.explorers.gibbs import GibbsHamiltonian, GibbsSlice
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.model.compile import CompiledDensity, compile_density
from pymc_tempering.model.freeze import discrete_names, finite_supports, freeze
from pymc_tempering.model.identity import Identity
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.powered import PoweredModel, check_likelihood
from pymc_tempering.options import check_choice
from pymc_tempering.references.prepared import NO_SEARCH, Prepared, Report
from pymc_tempering.references.prior import PriorDraws, PriorReference
from pymc_tempering.steps.arguments import Source
from pymc_tempering.steps.compound_ladder import (
    MAX_START_DRAWS,
    CompoundLadder,
    PriorPath,
    PyMCMoves,
)
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.types import FloatArray

PYMC = "pymc"
"""``explorer=`` for moves by PyMC's own step methods."""

_EXPLORERS = ("hamiltonian", "slice")

_log = logging.getLogger("pymc")


class PriorTempering(ParallelTempering):
    """What the steps for discrete variables share: a path from the prior, and no search."""

    searches = False

    def _units(self) -> GaussianBase:
        """Gaussian whose coordinates the path has."""
        raise NotImplementedError

    def _prepare_from(
        self, density: CompiledDensity, rng: np.random.Generator, report: Report | None = None
    ) -> Prepared:
        """The one place known is the start."""
        units = self._units()
        return Prepared(units, (units,), NO_SEARCH, place=density.start)


class DiscreteTempering(PriorTempering):
    r"""Parallel tempering of models with discrete variables, by compiled Gibbs sweeps.

    Replicas at inverse temperatures :math:`0 = \beta_0 < \dots < \beta_N = 1` have the densities

    .. math:: \log \pi_k(x) = \log p(x) + \beta_k \log p(y \mid x) - \log z(\beta_k)

    between prior and posterior, potentials counting as likelihood. In each scan every entry of a
    discrete variable is drawn anew from its conditional distribution, for which the density is
    evaluated at all of its values; Hamiltonian moves or slices follow for the continuous variables.
    At beta = 0 every scan draws from the prior. Swaps, tuning, statistics and log Z are those of
    :class:`ParallelTempering`.

    Discrete variables have to have at most 500 values that their distributions tell: Bernoulli,
    Categorical, DiscreteUniform, Binomial, BetaBinomial and HyperGeometric with constant bounds.
    :class:`CompoundTempering` is for all others. ``sample`` and ``estimate_logz`` take one or the
    other by themselves.

    Parameters
    ----------
    explorer : {"hamiltonian", "slice"} or ExplorerSettings, optional
        How continuous variables move, default "slice" for up to ten values and "hamiltonian" for
        more, where there is a gradient.
    vars, n_levels, betas, scans_per_draw, swap_scheme, model, rng
    target_accept, trajectory_length, max_steps
        As for :class:`ParallelTempering`.

    Raises
    ------
    ModelError, BaseError, ScheduleError, OptionError
        Before any sampling; see :mod:`pymc_tempering.errors`. A discrete variable without known
        finite support is a ModelError; a prior that is improper or cannot be drawn from is a
        BaseError.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> with pm.Model():
    ...     heads = pm.Bernoulli("heads", 0.5)
    ...     y = pm.Normal("y", pm.math.switch(heads, 1.0, -1.0), 1.0, observed=0.3)
    ...     idata = pm.sample(40, tune=10, step=pm_temper.DiscreteTempering(), chains=1, cores=1,
    ...                       random_seed=1, progressbar=False, quiet=True)
    >>> idata.posterior["heads"].dtype.kind
    'i'
    """

    name = "discrete_tempering"

    def __init__(  # noqa: PLR0913 - every option by its name, as of PyMC's own steps
        self,
        vars: Any = None,
        *,
        n_levels: int | None = None,
        betas: Any = None,
        scans_per_draw: int | None = None,
        explorer: str | ExplorerSettings | None = None,
        target_accept: float = 0.8,
        trajectory_length: float = 1.5,
        max_steps: int = 64,
        swap_scheme: str = "deo",
        model: pm.Model | None = None,
        rng: Any = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(explorer, str):
            check_choice("explorer", explorer, _EXPLORERS)
        super().__init__(
            vars, n_levels=n_levels, betas=betas, base="prior", scans_per_draw=scans_per_draw,
            explorer=explorer, target_accept=target_accept, trajectory_length=trajectory_length,
            max_steps=max_steps, swap_scheme=swap_scheme, model=model, rng=rng, **kwargs,
        )  # fmt: skip

    def _compile(self, model: pm.Model, base: Any) -> Source:
        check_likelihood(model)
        density = compile_density(model, discrete=True, backend=self.backend)
        self._supports = finite_supports(density.model, density.points)
        if not self._supports:
            raise ModelError(
                "The model has no discrete free variables, and no use for DiscreteTempering: "
                '`ParallelTempering(base="prior")` is the same path without sweeps.'
            )
        n_others = density.dim - len(self._supports)
        self._requested = replace(self._requested, adapt_base=n_others > 0)
        explorer = self._with_sweeps(density, n_others)
        self._prior = PriorReference(density)
        return Source(model, Identity.of(model), density, explorer, reference=self._prior)

    def _with_sweeps(self, density: CompiledDensity, n_others: int) -> ExplorerSettings:
        """Explorer of the step, with Gibbs sweeps before its moves of `n_others` coordinates.

        Slices are the default for up to ten: from a wide prior on, scales change by orders of
        magnitude with beta and with other variables, which slices follow and one step size not.
        """
        settings, is_fixed = self._requested.explorer, self._requested.is_fixed
        follows = settings.needs_gradient and (n_others > 10 or (is_fixed and n_others > 0))
        if follows and density.no_gradient and is_fixed:
            raise ModelError(
                f"The log density of this model has no gradient ({density.no_gradient}), "
                'which Hamiltonian moves follow: take explorer="slice", or leave it away.'
            )
        if settings.needs_gradient and (not follows or density.no_gradient):
            settings = Slice()
        kinds = {Hamiltonian: GibbsHamiltonian, Slice: GibbsSlice}
        if type(settings) not in kinds:
            raise OptionError(
                f"`explorer` is {settings!r}; beside Gibbs sweeps there are Hamiltonian moves and "
                f"slices: expected one of {list(_EXPLORERS)}, or settings of either."
            )
        values = {setting.name: getattr(settings, setting.name) for setting in fields(settings)}
        kind: Callable[..., ExplorerSettings] = kinds[type(settings)]
        return kind(**values, supports=self._supports)

    @property
    def moves(self) -> str:
        """What moves which variables, in words."""
        model, n_values = self.density.model, [n for _, _, n in self._supports]
        names = discrete_names(model)
        swept = (
            f"Gibbs sweeps ({', '.join(names)}: {sum(n_values)} values of {len(n_values)} entries)"
        )
        others = [rv.name for rv in model.free_RVs if rv.name not in names]
        if not others:
            return swept
        kind = "Hamiltonian moves" if self._source.explorer.needs_gradient else "slices"
        return f"{swept} and {kind} ({', '.join(others)})"

    def _units(self) -> GaussianBase:
        draws = self._prior.draw(MAX_START_DRAWS, np.random.default_rng(0))
        return GaussianBase.from_draws(draws, full=False)

    def _places(self, modes: FloatArray, point: dict[str, np.ndarray]) -> FloatArray:
        """Eight draws from the prior with a density, and a start that the user gave."""
        found = []
        with density_guard():
            for z in self._prior.draw(MAX_START_DRAWS, self.rng):
                self._current.account.n_spent += 1
                if np.isfinite(z).all() and np.isfinite(self.density.value_and_grad(z)[0]):
                    found.append(z)
                if len(found) == 8:
                    break
        return super()._places(np.stack(found or [self.density.start]), point)

    def _path(self, base: GaussianBase) -> TemperedPath:
        whole = tuple(place for place, _, _ in self._supports)
        path = TemperedPath(self.density, Coordinates.of(base), self._source.reference, whole)
        return path.moved(path.as_whole(base))


class CompoundTempering(PriorTempering):
    """Parallel tempering of models with discrete variables, by PyMC's own step methods.

    Replicas have the densities of :class:`DiscreteTempering`, between prior and posterior. In each
    scan every one is moved by the step methods that ``pm.sample`` would take for the model, NUTS
    for continuous variables, Gibbs or Metropolis steps for discrete ones; the one at beta = 0 is a
    draw from the prior. Swaps, tuning of the schedule, statistics and log Z are those of
    :class:`ParallelTempering`. Moves are Python code, so that a scan takes milliseconds; where
    discrete variables can be summed out of the model, that is faster.

    Parameters
    ----------
    scans_per_draw : int
        Scans for each recorded draw, default 10.
    vars, n_levels, betas, swap_scheme, model, rng
        As for :class:`ParallelTempering`.

    Raises
    ------
    ModelError, BaseError, ScheduleError, OptionError
        Before any sampling; see :mod:`pymc_tempering.errors`. A prior that is improper or cannot be
        drawn from is a BaseError.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> with pm.Model():
    ...     heads = pm.Bernoulli("heads", 0.5)
    ...     y = pm.Normal("y", pm.math.switch(heads, 1.0, -1.0), 1.0, observed=0.3)
    ...     idata = pm.sample(40, tune=10, step=pm_temper.CompoundTempering(), chains=1, cores=1,
    ...                       random_seed=1, progressbar=False, quiet=True)
    >>> idata.posterior["heads"].dtype.kind
    'i'
    """

    name = "compound_tempering"

    def __init__(
        self,
        vars: Any = None,
        *,
        n_levels: int | None = None,
        betas: Any = None,
        scans_per_draw: int = 10,
        swap_scheme: str = "deo",
        model: pm.Model | None = None,
        rng: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            vars, n_levels=n_levels, betas=betas, scans_per_draw=scans_per_draw, adapt_base=False,
            swap_scheme=swap_scheme, model=model, rng=rng, **kwargs,
        )  # fmt: skip

    def _compile(self, model: pm.Model, base: Any) -> Source:
        if self.backend is not None:
            raise OptionError(
                f"`backend` is {self.backend!r}, and the step methods of PyMC compile for "
                "themselves. Leave `backend` away, or take `DiscreteTempering`."
            )
        powered = PoweredModel.of(model)
        self._prior_path = PriorPath(powered, PriorDraws(powered.model, powered.points))
        self._moves = PyMCMoves(powered)
        # it stands for a compiled density in all that steps have in common
        return Source(model, Identity.of(model), cast(Any, powered), self._requested.explorer)

    def _log_density(self, z: FloatArray) -> float:
        return float(np.sum(self._prior_path.target.log_densities(z)))

    @property
    def moves(self) -> str:
        """Which step method moves which variables, in words."""
        return f"PyMC's step methods: {self._moves.assignment}"

    @property
    def least_share(self) -> int:
        """Refuses to say: step methods of PyMC's have no longest scan."""
        raise OptionError(
            f"`max_gradients` is not available for {self._moves.assignment}: PyMC's step methods "
            "take numbers of evaluations that are not foreseen. Lower `draws`, `tune` or `chains` "
            "instead, or sum the discrete variables out of the model."
        )

    def _units(self) -> GaussianBase:
        return self._prior_path.base

    def _places(self, modes: FloatArray, point: dict[str, np.ndarray]) -> FloatArray:
        return self.density.points.ravel(point)[None, :]

    def _new_ladder(
        self, path: TemperedPath, betas: FloatArray, places: FloatArray
    ) -> CompoundLadder:
        return CompoundLadder(
            self._prior_path, self._moves, betas, places, self.rng,
            swap_scheme=self._requested.swap_scheme,
        )  # fmt: skip

    def _restored_ladder(self, state: dict[str, Any]) -> CompoundLadder:
        return CompoundLadder.restored(
            state, path=self._prior_path, moves=self._moves, swap_scheme=self._requested.swap_scheme
        )


def discrete_step(model: pm.Model, options: dict[str, Any]) -> type[ParallelTempering]:
    """Which step moves a model with discrete variables; the log says why where it is in Python."""
    requested = options.get("explorer")
    if isinstance(requested, str) and requested == PYMC:
        del options["explorer"]
        return CompoundTempering
    if requested is not None or options.get("backend") is not None:
        return DiscreteTempering
    try:
        frozen = freeze(model, discrete=True)
        finite_supports(frozen, PointMap.from_model(frozen))
        reason = compile_density(model, discrete=True).calls_python
    except ModelError as error:
        reason = str(error)
    if not reason:
        return DiscreteTempering
    _log.info("No compiled Gibbs sweeps, PyMC's own step methods move the replicas: %s", reason)
    return CompoundTempering
