"""Gibbs continuous tempering as a PyMC step method."""

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.engine.ensembles.pair import PairRecord, TemperedPair
from pymc_tempering.engine.ensembles.pair_scans import continuous_scans
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import OptionError
from pymc_tempering.options import check_choice, check_nats, check_unknown, check_whole
from pymc_tempering.results.compact import round_delta
from pymc_tempering.schedule.grid import make_schedule
from pymc_tempering.schedule.weights import bias_for_equal_pieces
from pymc_tempering.steps.arguments import explorer_settings
from pymc_tempering.steps.coupled import CoupledStep, PairRequested
from pymc_tempering.steps.tuning import PilotResult
from pymc_tempering.types import FloatArray


class GibbsCT(CoupledStep):
    r"""Gibbs continuous tempering, with a coupled replica at the posterior.

    The inverse temperature is a random variable in [0, 1], with joint density

    .. math:: \log p(z, \beta) = \log b(z) + \beta \, \delta(z) - c(\beta) + \text{const}, \qquad
              \delta = \log \pi - \log b

    between a base *b* and the posterior :math:`\pi`; c is piecewise linear with
    :math:`c(0) = 0`. One piece, :math:`c = \beta \log \zeta`, is the method of Graham & Storkey
    (2017, section 5.1); more of them keep beta moving where one slope cannot. Each scan moves z
    given beta and a replica y at beta = 1, proposes to exchange the two with beta integrated out,
    proposes a fresh draw from the base for z in the same way, and then draws beta given z exactly
    (eq. 18). ``pm.sample`` records y: ordinary draws from the posterior. The recorded deltas
    of z, y and the draws of the base give the log marginal likelihood, by a bridge between the
    three, with eq. 21 beside it: :func:`pymc_tempering.estimate_logz`.

    Tuning starts with a short parallel tempering run that chooses the base (one Gaussian, or a
    mixture) and gives barrier, step sizes and log z(beta). Knots are put at equal barrier, and the
    bias adapts, with a vanishing gain, until beta spends the same time in every piece. All of it
    stops at the end of tuning, after which every scan leaves the target exactly invariant.

    Parameters
    ----------
    log_zeta : float or "adapt"
        A number of nats fixes the slope of the published method, for instance an ELBO. Default
        "adapt": an error of a few nats in one slope leaves beta at one end.
    n_knots : int, optional
        Number of pieces of the bias, with as many knots above 0. Default 16, room for a barrier of
        8 at half a unit per piece; 1 where `log_zeta` is a number.
    adapt_base : bool
        Refine the base from draws at beta = 1 during tuning. Default True. With a number as
        `log_zeta` and False there is no pilot run, only step sizes adapt.
    scans_per_draw : int
        Scans for each recorded draw, default 32: enough that Python's share stays small.
    vars, base, search, model, rng
    explorer, target_accept, trajectory_length, max_steps
        As for :class:`pymc_tempering.ParallelTempering`.

    Raises
    ------
    ModelError, BaseError, OptionError
        Before any sampling; see :mod:`pymc_tempering.errors`.

    Notes
    -----
    ``n_tempered_restarts`` counts arrivals at y, by exchange, of a position that was at the base
    end since it last was y; ``n_round_trips`` those of them that came back to the base end. A
    position is at the base end when it is a draw from the base, or when beta is drawn below the
    first point above 0 of the grid of step sizes: ``knots[1]``, or 0.02 with fewer than 8 knots.

    References
    ----------
    .. [1] M. Graham, A. Storkey (2017). Continuously tempered Hamiltonian Monte Carlo. UAI.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_tempering.steps.gibbs_continuous import GibbsCT
    >>> with pm.Model():
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    ...     step = GibbsCT(scans_per_draw=8)
    ...     idata = pm.sample(100, tune=50, step=step, chains=2, cores=1, random_seed=1,
    ...                       progressbar=False, quiet=True)
    >>> idata.posterior["x"].shape
    (2, 100)
    """

    name = method = "gibbs_ct"
    _scans = staticmethod(continuous_scans)
    _has_knots = True

    def __init__(  # noqa: PLR0913 - every option by its name, as of PyMC's own steps
        self,
        vars: Any = None,
        *,
        base: GaussianBase | xr.DataTree | str | None = None,
        log_zeta: float | str = "adapt",
        n_knots: int | None = None,
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
        slope = None
        if not isinstance(log_zeta, str):
            slope = check_nats("log_zeta", log_zeta, " or 'adapt'.")
        else:
            check_choice("log_zeta", log_zeta, ("adapt",))
        if n_knots is None:
            n_knots = 16 if slope is None else 1
        check_whole("n_knots", n_knots, 1)
        if slope is not None and n_knots != 1:
            raise OptionError(
                f"`n_knots` is {n_knots} and `log_zeta` is {log_zeta!r}, but a number fixes one "
                "slope. Leave `n_knots` away, or set log_zeta='adapt'."
            )
        requested = PairRequested(
            scans_per_draw=scans_per_draw, adapt_base=adapt_base, search=search,
            **explorer_settings(explorer, target_accept, trajectory_length, max_steps),
            uses_fits=base is None and adapt_base and slope is None,
            n_entries=int(n_knots) + 1, needs_pilot=slope is None or adapt_base,
            bias=None if slope is None else np.array([0.0, slope]),
        )  # fmt: skip
        self._prepare(
            requested, vars, model, base, rng, knot=requested.n_entries,
            level=len(_step_grid(np.zeros(requested.n_entries))),
        )  # fmt: skip

    def _own_statistics(self, pair: TemperedPair, record: PairRecord) -> dict[str, Any]:
        return {
            "knots": pair.betas.copy(),
            "bias": pair.bias.copy(),
            "base_delta": round_delta(record.base_delta),
            "acceptance_rate": float(record.acceptance_rate[0]),
        }

    def _ladder(self, base: GaussianBase, pilot: PilotResult | None) -> tuple[FloatArray, ...]:
        asked = self._requested
        if asked.bias is not None:
            knots, bias = np.array([0.0, 1.0]), asked.bias
        elif pilot is None:
            knots = make_schedule("geometric", asked.n_entries)
            bias = knots * (base.log_zeta or 0.0)
        else:
            knots, log_z = pilot.equal_barrier(asked.n_entries)
            bias = bias_for_equal_pieces(knots, log_z)
        return knots, bias, _step_grid(knots)


def _step_grid(knots: FloatArray) -> FloatArray:
    """Where step sizes are tuned: the knots, or a grid where eight pieces do not resolve them."""
    if knots.size > 8:
        return knots
    return np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0])
