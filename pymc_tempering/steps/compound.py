"""Parallel tempering by PyMC's own step methods, as a PyMC step method."""

from typing import Any, cast

import numpy as np
import pymc as pm

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import OptionError
from pymc_tempering.model.powered import PoweredModel
from pymc_tempering.references.prepared import NO_SEARCH, Report
from pymc_tempering.references.prior import PriorDraws
from pymc_tempering.results.statistics import pack_search
from pymc_tempering.steps.compound_ladder import CompoundLadder, PriorPath, PyMCMoves
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.types import FloatArray

__all__ = ["CompoundTempering"]


class CompoundTempering(ParallelTempering):
    r"""Parallel tempering of models with discrete variables, by PyMC's own step methods.

    Replicas at inverse temperatures :math:`0 = \beta_0 < \dots < \beta_N = 1` have the densities

    .. math:: \log \pi_k(x) = \log p(x) + \beta_k \log p(y \mid x) - \log z(\beta_k)

    between prior and posterior, potentials counting as likelihood. In each scan every replica is
    moved by the step methods that ``pm.sample`` would take for the model, NUTS for continuous
    variables, Gibbs or Metropolis steps for discrete ones; the one at beta = 0 is a draw from the
    prior. Swaps, tuning of the schedule, statistics and log Z are those of
    :class:`ParallelTempering`. Moves are Python code, so that a scan takes milliseconds; where
    discrete variables can be summed out of the model, that is faster.

    ``sample`` and ``estimate_logz`` take it by themselves for models with discrete free variables.

    Parameters
    ----------
    vars : list, optional
        All free variables of the model, the default; anything less is refused.
    n_levels : int, optional
        Upper bound on the number of levels; see :class:`ParallelTempering`. Default 24.
    betas : array_like, optional
        A fixed schedule, increasing from 0 to 1; it is then not adapted.
    scans_per_draw : int
        Scans for each recorded draw, default 10.
    swap_scheme : {"deo", "seo", "sweep", "alternating_sweep"}
        Default "deo".
    model : pymc.Model, optional
        Default: the model of the context.
    rng : optional
        Seed or generator; ``pm.sample`` replaces it for every chain.

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
    searches = False

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

    def _compile(self, model: pm.Model, base: Any) -> None:  # noqa: ARG002  it is the prior
        if self.backend is not None:
            raise OptionError(
                f"`backend` is {self.backend!r}, and the step methods of PyMC compile for "
                "themselves. Leave `backend` away, or take `DiscreteTempering`."
            )
        powered = PoweredModel.of(model)
        # it stands for a compiled density in all that steps have in common
        self._density = cast(Any, powered)
        self._given_base = self._reference = None
        self._prior_path = PriorPath(powered, PriorDraws(powered.model, powered.points))
        self._moves = PyMCMoves(powered)

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

    def _first_base(
        self,
        report: Report | None = None,  # noqa: ARG002  nothing takes long
    ) -> tuple[GaussianBase, GaussianBase, FloatArray]:
        """Coordinates are the values themselves, and the one place known is the starting point."""
        self.searched = {"search": pack_search(NO_SEARCH.statistics())}
        unit = GaussianBase(np.zeros(self.dim), np.ones(self.dim))
        return unit, unit, self._density.start[None, :]

    def _places(
        self,
        modes: FloatArray,  # noqa: ARG002  none are known
        point: dict[str, np.ndarray],
    ) -> FloatArray:
        return self._density.points.ravel(point)[None, :]

    def _new_ladder(
        self,
        path: TemperedPath,  # noqa: ARG002  it is from the prior
        betas: FloatArray,
        places: FloatArray,
    ) -> CompoundLadder:
        return CompoundLadder(
            self._prior_path, self._moves, betas, places, self.rng,
            swap_scheme=self._options.swap_scheme,
        )  # fmt: skip

    def _restored_ladder(self, state: dict[str, Any]) -> CompoundLadder:
        return CompoundLadder.restored(
            state,
            path=self._prior_path,
            moves=self._moves,
            swap_scheme=self._options.swap_scheme,
        )
