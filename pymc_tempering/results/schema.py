"""The table of what the package adds to a DataTree, in one place.

Storage, labels and the documentation of results are made from it.
"""

from typing import NamedTuple

__all__ = ["SAMPLE_STATS", "TEMPERING", "Entry"]


class Entry(NamedTuple):
    """One variable of a result.

    Attributes
    ----------
    dims : tuple of str
        Dimensions after chain (and draw, in ``sample_stats``). A variable with fewer has the first
        of them, as ``delta`` of methods with one tempered replica has no levels.
    unit : str
    meaning : str
    """

    dims: tuple[str, ...]
    unit: str
    meaning: str


SAMPLE_STATS: dict[str, Entry] = {
    "delta": Entry(("scan", "level"), "nats", "log_target - log_base of the replica at each level"),
    "betas": Entry(("level",), "", "inverse temperatures; nan beyond the levels in use"),
    "swap_acceptance_rate": Entry(("pair",), "", "mean swap probability of neighbouring levels"),
    "acceptance_rate": Entry(("level",), "", "mean acceptance probability of the moves"),
    "step_size": Entry(("level",), "base sd", "step size of the moves"),
    "replica": Entry(("level",), "", "replica at each level after the draw; -1 beyond"),
    "global_barrier": Entry((), "", "Lambda, the sum of the swap rejection rates"),
    "n_round_trips": Entry((), "", "journeys base to target and back completed in the draw"),
    "n_tempered_restarts": Entry((), "", "arrivals at the target from the base in the draw"),
    "round_trips_so_far": Entry((), "", "round trips since tuning ended"),
    "log_z_so_far": Entry((), "nats", "rough log Z since tuning ended, for the progress bar only"),
    "log_z_se_so_far": Entry((), "nats", "its error from batch means"),
    "divergences": Entry((), "", "draws with `diverging` since tuning ended"),
    "perf_counter_diff": Entry((), "s", "wall time of the draw"),
    "n_gradients": Entry((), "", "evaluations of the density and its gradient"),
    "n_divergences": Entry((), "", "trajectories with an energy error above 1000 nats"),
    "n_zero_density": Entry((), "", "trajectories that ran into zero density"),
    "n_bad_gradients": Entry((), "", "points of finite density whose gradient was not finite"),
    "n_target_divergences": Entry((), "", "divergences at beta = 1"),
    "diverging": Entry((), "", "whether over a tenth of the trajectories at beta = 1 diverged"),
    "n_unreached_modes": Entry((), "", "modes that local fits found beyond a base kept as given"),
    "base_id": Entry((), "", "identity of the base in use"),
    "lp": Entry((), "nats", "log density of the recorded draw, Jacobian included"),
    "log_marginal_likelihood": Entry((), "nats", "estimate of each chain; no draw dimension"),
    "target_delta": Entry(("scan",), "nats", "delta of the replica at beta = 1"),
    "beta": Entry(("scan",), "", "inverse temperature of the tempered replica after each scan"),
    "current_level": Entry(("scan",), "", "level of the tempered replica after each scan"),
    "log_level_weights": Entry(("level",), "nats", "log r_k - log of the assumed z(beta_k)"),
    "knots": Entry(("knot",), "", "inverse temperatures between which the bias is linear"),
    "bias": Entry(("knot",), "nats", "bias c(beta) at the knots"),
    "step_size_beta": Entry(("level",), "", "inverse temperatures of the tuned step sizes"),
    "target_acceptance_rate": Entry((), "", "mean acceptance probability of moves at beta = 1"),
    "base_acceptance_rate": Entry((), "", "acceptance rate of independent draws from the base"),
    "exchange_rate": Entry((), "", "acceptance rate of exchanges with the replica at beta = 1"),
    "restarts_so_far": Entry((), "", "tempered restarts since tuning ended"),
    "n_base_draws": Entry((), "", "draws from the base"),
    "n_base_support": Entry((), "", "of these, draws where the target is positive"),
    "log_weight_forward": Entry(("scan",), "nats", "log weight of a particle annealed to beta = 1"),
    "log_weight_reverse": Entry(("scan",), "nats", "log weight of the run back from the draw"),
    "accepted": Entry(("scan",), "", "whether the new particle replaced the draw"),
    "n_levels": Entry((), "", "intermediate distributions of an annealing run"),
}
"""Statistics of ``pm.sample`` with a tempered step; leading dimensions chain and draw.

Methods with one tempered replica have statistics per scan without levels: ``delta`` then has the
first dimension only.
"""

TEMPERING: dict[str, Entry] = {
    "log_marginal_likelihood": Entry((), "nats", "estimate, all chains together"),
    "log_marginal_likelihood_se": Entry((), "nats", "its standard error"),
    "log_marginal_likelihood_df": Entry((), "", "degrees of freedom of its interval"),
    "log_marginal_likelihood_ess": Entry((), "", "effective number of independent scans"),
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
    "n_unreached_modes": Entry(("chain",), "", "modes found beyond a base kept as given"),
    "exchange_rate": Entry(("chain",), "", "exchanges of the tempered and the recorded replica"),
    "log_level_weights": Entry(("chain", "level"), "nats", "log weights of the levels"),
    "level_probability": Entry(("chain", "level"), "", "share of time at each level, smoothed"),
    "log_z_bias": Entry(("chain", "level"), "nats", "first-order bias of log z"),
    "log_z_variance": Entry(("chain", "level"), "", "first-order variance of log z"),
    "knots": Entry(("chain", "knot"), "", "inverse temperatures between which the bias is linear"),
    "bias": Entry(("chain", "knot"), "nats", "bias of beta at the knots"),
    "lowest_occupancy": Entry(("chain",), "", "share of time in the least visited part of beta"),
    "pareto_k_base": Entry(("chain",), "", "Pareto k of the densities p(beta = 0 | z)"),
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
    "warning_code": Entry(("warning",), "", "which kind of doubt, as on the page of diagnostics"),
    "warning_text": Entry(("warning",), "", "what was found"),
    "warning_remedy": Entry(("warning",), "", "what to do"),
    "warning_measured": Entry(("warning",), "", "what it was concluded from, as JSON"),
}
"""Variables of the group ``tempering``."""
