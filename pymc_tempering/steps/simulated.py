"""Simulated tempering as a PyMC step method."""

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_tempering.engine.ensembles.pair import PairRecord, TemperedPair
from pymc_tempering.engine.ensembles.pair_scans import LEVEL_UPDATES, simulated_scans
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import OptionError
from pymc_tempering.options import as_numbers, check_choice, check_unknown
from pymc_tempering.schedule.adapt import n_levels_for
from pymc_tempering.schedule.grid import check_levels, make_schedule
from pymc_tempering.steps.arguments import explorer_settings
from pymc_tempering.steps.coupled import CoupledStep, PairRequested
from pymc_tempering.steps.tuning import FIRST_LEVELS, PilotResult
from pymc_tempering.types import FloatArray


class SimulatedTempering(CoupledStep):
    r"""Simulated tempering, with a coupled replica at the posterior.

    Position and level have the joint density

    .. math:: \log p(z, k) = \log b(z) + \beta_k \, \delta(z) + w_k + \text{const}, \qquad
              \delta = \log \pi - \log b

    between a base *b* (level 0) and the posterior :math:`\pi` (the last level), with log
    level weights w, the log of prior over guessed normaliser (Carlson et al. 2016, section 2.1).
    Each scan moves z at its level (an independent draw at the base) and a replica y at the
    posterior, proposes to exchange the two, and then draws the level given z. ``pm.sample`` records
    y: ordinary draws from the posterior. The recorded ``delta`` give log z of every level by
    Rao-Blackwellised tempered sampling (eq. 12): :func:`pymc_tempering.estimate_logz`.

    Tuning starts with a short parallel tempering run that finds the modes, chooses the base (one
    Gaussian, or a mixture), puts the levels at equal barrier and estimates their normalisers. The
    weights then adapt with a vanishing gain. With fixed `betas` and ``adapt_base=False`` there is
    no such run: the weights start from 0 and follow the initial iterations of section 2.4. All of
    it stops at the end of tuning, after which every scan leaves the target exactly invariant.

    Parameters
    ----------
    n_levels : int, optional
        Upper bound on the number of levels, base and target included; statistics of unused levels
        are nan. Default 32: room for a barrier of 15.
    level_update : {"independent", "neighbour"}
        "independent", the default, draws the level from its conditional given z; "neighbour" makes
        a Metropolis step up or down, to compare with: it cannot jump, and its exchanges with y are
        made given the level.
    log_level_weights : "adapt" or array_like of shape (n_levels,)
        Default "adapt". Fixed weights, in nats, need `betas`.
    scans_per_draw : int
        Scans for each recorded draw, default 32: enough that Python's share stays small.
    vars, betas, base, adapt_base, search, model, rng
    explorer, target_accept, trajectory_length, max_steps
        As for :class:`pymc_tempering.ParallelTempering`.

    Raises
    ------
    ModelError, BaseError, ScheduleError, OptionError
        Before any sampling; see :mod:`pymc_tempering.errors`.

    Notes
    -----
    ``n_tempered_restarts`` counts arrivals at y, by exchange, of a position that was drawn from the
    base since it last was y; ``n_round_trips`` those of them that came back to the base.

    References
    ----------
    .. [1] D. Carlson, P. Stinson, A. Pakman, L. Paninski (2016). Partition functions from
       Rao-Blackwellized tempered sampling. ICML.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_tempering.steps.simulated import SimulatedTempering
    >>> with pm.Model():
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    ...     step = SimulatedTempering(scans_per_draw=8)
    ...     idata = pm.sample(100, tune=50, step=step, chains=2, cores=1, random_seed=1,
    ...                       progressbar=False, quiet=True)
    >>> idata.posterior["x"].shape
    (2, 100)
    """

    name = "simulated_tempering"
    method = "st"
    _scans = staticmethod(simulated_scans)
    _has_knots = False

    def __init__(  # noqa: PLR0913 - every option by its name, as of PyMC's own steps
        self,
        vars: Any = None,
        *,
        n_levels: int | None = None,
        betas: ArrayLike | None = None,
        base: GaussianBase | xr.DataTree | str | None = None,
        level_update: str = "independent",
        log_level_weights: ArrayLike | str = "adapt",
        adapt_base: bool = True,
        search: str = "default",
        scans_per_draw: int = 32,
        explorer: str | ExplorerSettings | None = None,
        target_accept: float = 0.8,
        trajectory_length: float = 1.5,
        max_steps: int = 64,
        model: pm.Model | None = None,
        rng: Any = None,
        **kwargs: Any,
    ) -> None:
        check_unknown(type(self), kwargs)
        n_entries, betas = check_levels(n_levels, betas, 32)
        check_choice("level_update", level_update, LEVEL_UPDATES)
        requested = PairRequested(
            scans_per_draw=scans_per_draw, adapt_base=adapt_base, search=search,
            **explorer_settings(explorer, target_accept, trajectory_length, max_steps),
            uses_fits=base is None and adapt_base and betas is None,
            n_entries=n_entries, needs_pilot=betas is None or adapt_base, betas=betas,
            bias=_check_weights(log_level_weights, betas),
            level_update=LEVEL_UPDATES.index(level_update),
        )  # fmt: skip
        self._prepare(requested, vars, model, base, rng, level=n_entries)

    def _own_statistics(self, pair: TemperedPair, record: PairRecord) -> dict[str, Any]:
        return {
            "betas": pair.betas.copy(),
            "log_level_weights": -pair.bias,
            "acceptance_rate": record.acceptance_rate,
        }

    def _ladder(self, base: GaussianBase, pilot: PilotResult | None) -> tuple[FloatArray, ...]:
        asked = self._requested
        if asked.betas is not None:
            betas = asked.betas
            log_z = np.zeros(betas.size) if pilot is None else pilot.log_z
        elif pilot is None:
            betas = make_schedule("geometric", min(FIRST_LEVELS, asked.n_entries))
            log_z = betas * (base.log_zeta or 0.0)
        else:
            most = asked.n_entries
            barrier = float(pilot.rejection_rates.sum())
            betas, log_z = pilot.equal_barrier(n_levels_for(barrier, most, min(3, most)))
        return betas, log_z if asked.bias is None else asked.bias, betas


def _check_weights(
    log_level_weights: ArrayLike | str, betas: FloatArray | None
) -> FloatArray | None:
    if isinstance(log_level_weights, str):
        check_choice("log_level_weights", log_level_weights, ("adapt",))
        return None
    weights = as_numbers("log_level_weights", log_level_weights)
    if betas is None or weights.shape != betas.shape or not np.isfinite(weights).all():
        expected = "together with `betas`" if betas is None else f"{betas.size} finite numbers"
        raise OptionError(
            f"`log_level_weights` has shape {weights.shape}; expected {expected}, one weight per "
            "level, or 'adapt'."
        )
    return weights[0] - weights
