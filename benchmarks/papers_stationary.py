"""Appendix G of Carlson et al. (2016): q(beta) as the stationary law of a transition matrix.

On the runs of figure 2 (:mod:`papers_rts`) and on a target of one mode: log Z from the stationary
distribution of the matrix of level transitions, counted (SD) and Rao-Blackwellised (RSD), against
RTS, MBAR and TI-RB on the same draws. The matrix is a Markov chain's where moves at a level draw
from its density afresh, as they nearly do on the Gaussian path of the regression. Else longer lags
come nearer to it: the matrix is also that of 5 and of 25 scans.
"""

import numpy as np
from figures import cases_or_none, console, finding, rmse, table
from papers_rts import SOURCE, Ladder, cell, main, simulate, without_bias

import pymc_tempering as pm_temper
from pymc_tempering.estimators.rts import level_log_probability

NAMES = ("RTS", "RSD", "SD", "MBAR", "TI-RB")
N_LEVELS, LAGS = 10, (1, 5, 25)


def stationary(counts):
    """Log probabilities of the stationary law of a matrix, from its rows' weights."""
    visited = counts.sum(axis=1) > 0.0
    matrix = counts[np.ix_(visited, visited)]
    matrix = matrix / matrix.sum(axis=1, keepdims=True)
    # the left null vector of P - 1, which sums up to one
    system = np.vstack([matrix.T - np.eye(len(matrix)), np.ones(len(matrix))])
    q = np.linalg.lstsq(system, np.append(np.zeros(len(matrix)), 1.0))[0]
    log_q = np.full(len(counts), -np.inf)
    log_q[visited] = np.log(np.maximum(q, 1e-300))
    return log_q


def by_transitions(delta, level, betas, weights, lag):
    """Log Z from the transitions from a level to that so many scans later."""
    n = betas.size
    before, probability = level[:-lag], np.exp(level_log_probability(delta, betas, weights)[lag:])
    blackwellised, counts = np.zeros((n, n)), np.zeros((n, n))
    np.add.at(blackwellised, before, probability)
    np.add.at(counts, (before, level[lag:]), 1.0)
    found = {}
    for name, matrix in (("RSD", blackwellised), ("SD", counts)):
        log_z = stationary(matrix) - weights
        found[name] = log_z[-1] - log_z[0]
    return found


def run(full=False, seed=1):
    cases = cases_or_none()
    if cases is None:
        return
    n_scans, n_repeats = (5000, 30) if full else (1000, 10)
    ratios, gains = {}, {}
    for name in ("bimodal_gmm", "conjugate_regression"):
        case = cases[name]()
        dim = sum(int(np.prod(rv.shape.eval())) for rv in case.model.free_RVs)
        scale = np.sqrt(30.0) if name == "bimodal_gmm" else 3.0
        base = pm_temper.GaussianBase(np.zeros(dim), np.full(dim, scale))
        betas, weights = Ladder(case, base)(N_LEVELS)
        errors = {(lag, key): [] for lag in LAGS for key in NAMES}
        for repeat in range(n_repeats):
            run_of = *simulate(case, base, (betas, weights), n_scans, seed + repeat), betas, weights
            others = without_bias(*run_of)
            for lag in LAGS:
                for key, value in (others | by_transitions(*run_of, lag)).items():
                    errors[lag, key].append(value - case.log_z)
        rows = []
        for lag in LAGS:
            values = [np.array(errors[lag, key]) for key in NAMES]
            ratios[name, lag] = float(rmse(values[1]) / rmse(values[0]))
            other = min(float(rmse(values[NAMES.index(key)])) for key in ("RTS", "MBAR"))
            gains[name, lag] = float(rmse(values[1])) / other
            rows.append([lag, *map(cell, values), f"{ratios[name, lag]:.2f}"])
        title = f"{name}: RMSE (bias) of log Z in nats, {N_LEVELS} levels, {n_scans:,} draws"
        table(f"{title}, {n_repeats} repeats", ["lag", *NAMES, "RSD / RTS"], rows)
    finding(
        SOURCE.replace("figures 2 and 4", "appendix G"),
        "the transition matrix improves on RTS where moves draw afresh, and not elsewhere",
        ratios["conjugate_regression", 1] < 1.0 and ratios["bimodal_gmm", 1] > 0.95,
        ", ".join(f"{name} lag {lag}: {value:.2f}" for (name, lag), value in ratios.items()),
    )
    best = min(gains.values())
    console.print(
        f"An estimator of its own: worth having: {'yes' if best < 0.9 else 'no'} (its RMSE over "
        f"the lower of RTS and MBAR is {best:.2f} at best)", soft_wrap=True,
    )  # fmt: skip


if __name__ == "__main__":
    main(__doc__, run)
