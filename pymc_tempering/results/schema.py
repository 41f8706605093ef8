"""The table of what the package adds to a DataTree, in one place.

Storage, labels and the documentation of results are made from it.
"""

from typing import NamedTuple

from pymc_tempering.results.statistics import SEARCH, STATISTICS


class Entry(NamedTuple):
    """One variable of a result."""

    dims: tuple[str, ...]
    """After chain (and draw, in ``sample_stats``). A variable with fewer has the first of them, as
    ``delta`` of methods with one tempered replica has no levels."""
    unit: str
    meaning: str
    methods: tuple[str, ...] = ()
    """That record it; empty where that is not said."""


SAMPLE_STATS: dict[str, Entry] = {
    entry.stored or name: Entry(entry.dims, entry.unit, entry.meaning, tuple(entry.methods))
    for name, entry in STATISTICS.items()
} | {"log_marginal_likelihood": Entry((), "nats", "estimate of each chain; no draw dimension")}
"""Statistics of ``pm.sample`` with a tempered step; leading dimensions chain and draw."""

TEMPERING: dict[str, Entry] = {
    "log_marginal_likelihood": Entry((), "nats", "estimate, all chains together"),
    "log_marginal_likelihood_se": Entry((), "nats", "its standard error"),
    "log_marginal_likelihood_df": Entry((), "", "degrees of freedom of its interval"),
    "log_marginal_likelihood_ess": Entry((), "", "effective number of scans or draws"),
    "log_marginal_likelihood_lower": Entry((), "nats", "stochastic lower bound, nan if none"),
    "log_marginal_likelihood_upper": Entry((), "nats", "stochastic upper bound, nan if none"),
    "log_z_chain": Entry(("chain",), "nats", "estimate of each chain"),
    "log_z_levels": Entry(("chain", "level"), "nats", "log z(beta) at every level"),
    "betas": Entry(("chain", "level"), "", "schedule of each chain"),
    "swap_acceptance_rate": Entry(("chain", "pair"), "", "mean swap probability of neighbours"),
    "cumulative_barrier": Entry(("chain", "level"), "", "communication barrier from the base"),
    "global_barrier": Entry(("chain",), "", "communication barrier from base to target"),
    "pareto_k_forward": Entry(("chain", "pair"), "", "Pareto k of the forward weights"),
    "pareto_k_reverse": Entry(("chain", "pair"), "", "Pareto k of the reverse weights"),
    "support_mass": Entry(("chain",), "", "mass of the base where the target is positive"),
    "n_round_trips": Entry(("chain",), "", "round trips after tuning"),
    "n_tempered_restarts": Entry(("chain",), "", "tempered restarts after tuning"),
    **{
        f"search_{name}": Entry(
            ("chain", entry.dim) if entry.dim else ("chain",),
            entry.unit.removeprefix("count"),
            entry.meaning,
        )
        for name, entry in SEARCH.items()
    },
    "tuning_gradients": Entry(("chain",), "", "evaluations of tuning, or before the draws kept"),
    "draws_gradients": Entry(("chain",), "", "evaluations of the draws"),
    "n_components": Entry(("chain",), "", "local fits in the mixture that the path starts from"),
    "n_controls": Entry(("chain",), "", "control variates that log Z of the chain was freed of"),
    "component_arrivals": Entry(
        ("chain", "component"), "", "arrivals from each component of the base, the wide one first"
    ),
    "component_share": Entry(("chain", "component"), "", "share of the scans that these hold"),
    "log_z_before": Entry(("chain",), "nats", "rough log Z from the wide Gaussian of tuning"),
    "log_z_se_before": Entry(("chain",), "nats", "its error"),
    "n_unreached_modes": Entry(("chain",), "", "modes found from which no draw comes"),
    "log_mass_unvisited": Entry(
        ("chain", "well_fitted_mode"),
        "nats",
        "log mass of well fitted modes that no draw comes from",
    ),
    "exchange_rate": Entry(("chain",), "", "exchanges of the tempered and the recorded replica"),
    "log_level_weights": Entry(("chain", "level"), "nats", "log weights of the levels"),
    "level_probability": Entry(("chain", "level"), "", "share of time at each level, smoothed"),
    "log_z_bias": Entry(("chain", "level"), "nats", "first-order bias of log z"),
    "log_z_variance": Entry(("chain", "level"), "", "first-order variance of log z"),
    "knots": Entry(("chain", "knot"), "", "inverse temperatures between which the bias is linear"),
    "bias": Entry(("chain", "knot"), "nats", "bias of beta at the knots"),
    "lowest_occupancy": Entry(("chain",), "", "share of time in the least visited part of beta"),
    "n_levels": Entry(("chain",), "", "inverse temperatures of an annealing run"),
    "acceptance_rate_particles": Entry(("chain",), "", "share of new particles accepted"),
    "log_z_forward": Entry(("chain",), "nats", "forward annealing, the lower bound"),
    "log_z_reverse": Entry(("chain",), "nats", "reverse annealing, the upper bound"),
    "pareto_k_weights_forward": Entry(("chain",), "", "Pareto k of the forward weights"),
    "pareto_k_weights_reverse": Entry(("chain",), "", "Pareto k of the reverse weights"),
    "weight_ess": Entry(("chain",), "", "effective number of weights"),
    "base_weight_ess": Entry(("chain",), "", "effective number of weights for beta = 0"),
    "base_mean_error": Entry(("chain",), "", "largest z of the base's known mean (eq. 23)"),
    "n_divergences": Entry(("chain",), "", "divergences of NUTS in the tempered model"),
    "log_z_continuous": Entry(("chain",), "nats", "log Z by eq. 21, tempered draws alone"),
    "delta": Entry(("chain", "draw"), "nats", "log_target - log_base of every tempered draw"),
    "beta": Entry(("chain", "draw"), "", "inverse temperature of every tempered draw"),
    "diverging": Entry(("chain", "draw"), "", "whether NUTS diverged at the tempered draw"),
    "log_weights": Entry(("chain", "draw"), "nats", "log p(beta = 1 | z) of every tempered draw"),
    "tempered_draw": Entry(("chain", "draw"), "", "tempered draw that each posterior draw is"),
    "base_delta": Entry(("chain", "base_draw"), "nats", "delta at draws from the base"),
    "base_mean": Entry(("base_dim",), "", "mean of the base, unconstrained"),
    "base_scale": Entry(("base_dim", "base_dim_bis"), "", "sds or Cholesky factor of the base"),
    "warning_code": Entry(
        ("warning",), "", "which kind of diagnostic, as on the page of diagnostics"
    ),
    "warning_text": Entry(("warning",), "", "what was found"),
    "warning_remedy": Entry(("warning",), "", "what to do"),
    "warning_measured": Entry(("warning",), "", "what it was concluded from, as JSON"),
}
"""Variables of the group ``tempering``."""
