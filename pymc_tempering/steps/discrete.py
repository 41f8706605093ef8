"""Parallel tempering by compiled Gibbs sweeps over discrete variables, as a PyMC step method."""

import logging
from collections.abc import Callable
from dataclasses import fields
from typing import Any

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
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.freeze import discrete_names, finite_supports, freeze
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.powered import check_likelihood
from pymc_tempering.options import check_choice
from pymc_tempering.references.prepared import NO_SEARCH, Report
from pymc_tempering.references.prior import PriorReference
from pymc_tempering.results.statistics import pack_search
from pymc_tempering.steps.compound import CompoundTempering
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.types import FloatArray

__all__ = ["DiscreteTempering", "discrete_step"]

PYMC = "pymc"
"""``explorer=`` for moves by PyMC's own step methods."""

_EXPLORERS = ("hamiltonian", "slice")
_MAX_START_DRAWS = 100

_log = logging.getLogger("pymc")


class DiscreteTempering(ParallelTempering):
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
    vars : list, optional
        All free variables of the model, the default; anything less is refused.
    n_levels : int, optional
        Upper bound on the number of levels; see :class:`ParallelTempering`. Default 24.
    betas : array_like, optional
        A fixed schedule, increasing from 0 to 1; it is then not adapted.
    scans_per_draw : int, optional
        Scans for each recorded draw; by default as many as log Z takes, see
        :class:`ParallelTempering`.
    explorer : {"hamiltonian", "slice"} or ExplorerSettings, optional
        How continuous variables move, default "slice" for up to ten values and "hamiltonian" for
        more, where there is a gradient.
    target_accept, trajectory_length, max_steps
        Of Hamiltonian moves; see :class:`ParallelTempering`.
    swap_scheme : {"deo", "seo", "sweep", "alternating_sweep"}
        Default "deo".
    model : pymc.Model, optional
        Default: the model of the context.
    rng : optional
        Seed or generator; ``pm.sample`` replaces it for every chain.

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
    searches = False
    _pools_fits = False  # units of the prior are no weight against draws

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

    def _compile(self, model: pm.Model, base: Any) -> None:  # noqa: ARG002  it is the prior
        check_likelihood(model)
        self._density = compile_density(model, discrete=True, backend=self.backend)
        self._supports = finite_supports(self._density.model, self._density.points)
        if not self._supports:
            raise ModelError(
                "The model has no discrete free variables, and no use for DiscreteTempering: "
                '`ParallelTempering(base="prior")` is the same path without sweeps.'
            )
        whole = tuple(place for place, _, _ in self._supports)
        self._settings = self._with_sweeps(n_others=self._density.dim - len(whole))
        self._prior = PriorReference(self._density)
        self._given_base, self._reference = None, self._prior
        self.adapt_base = len(whole) < self._density.dim

    def _with_sweeps(self, *, n_others: int) -> ExplorerSettings:
        """Explorer of the step, with Gibbs sweeps before its moves of `n_others` coordinates.

        Slices are the default for up to ten: from a wide prior on, scales change by orders of
        magnitude with beta and with other variables, which slices follow and one step size not.
        """
        settings: ExplorerSettings = self._settings
        follows = settings.needs_gradient and (
            n_others > 10 or (self._explorer_requested and n_others > 0)
        )
        if follows and self._density.no_gradient and self._explorer_requested:
            raise ModelError(
                f"The log density of this model has no gradient ({self._density.no_gradient}), "
                'which Hamiltonian moves follow: take explorer="slice", or leave it away.'
            )
        if settings.needs_gradient and (not follows or self._density.no_gradient):
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
        model, n_values = self._density.model, [n for _, _, n in self._supports]
        names = discrete_names(model)
        swept = (
            f"Gibbs sweeps ({', '.join(names)}: {sum(n_values)} values of {len(n_values)} entries)"
        )
        others = [rv.name for rv in model.free_RVs if rv.name not in names]
        if not others:
            return swept
        kind = "Hamiltonian moves" if self._settings.needs_gradient else "slices"
        return f"{swept} and {kind} ({', '.join(others)})"

    def _starts(self, rng: np.random.Generator, n: int) -> tuple[FloatArray, int]:
        """Up to `n` draws from the prior at which the model has a density, and how many it took."""
        found, n_tried = [], 0
        with density_guard():
            for z in self._prior.draw(_MAX_START_DRAWS, rng):
                n_tried += 1
                if np.isfinite(z).all() and np.isfinite(self._density.value_and_grad(z)[0]):
                    found.append(z)
                if len(found) == n:
                    break
        return np.reshape(found, (-1, self.dim)), n_tried

    def _first_base(
        self,
        report: Report | None = None,  # noqa: ARG002  nothing takes long
    ) -> tuple[GaussianBase, GaussianBase, FloatArray]:
        """Coordinates in units of the prior, and the one place known, which is the start."""
        self.searched = {"search": pack_search(NO_SEARCH.statistics())}
        draws = self._prior.draw(_MAX_START_DRAWS, np.random.default_rng(0))
        base = GaussianBase.from_draws(draws, full=False)
        return base, base, self._density.start[None, :]

    def _places(
        self,
        modes: FloatArray,  # noqa: ARG002  none are known
        point: dict[str, np.ndarray],
    ) -> FloatArray:
        """Draws from the prior, and a start that the user gave, or the model's."""
        starts, n_tried = self._starts(self.rng, 8)
        self._account.n_spent += n_tried
        return super()._places(starts if len(starts) else self._density.start[None, :], point)

    def _path(self, base: GaussianBase) -> TemperedPath:
        whole = tuple(place for place, _, _ in self._supports)
        path = TemperedPath(self._density, Coordinates.of(base), self._reference, whole)
        return path.moved(path.as_whole(base))


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
