"""What the numbers of maps of hierarchies do: V, mass lost, error of log Z, gradients.

    make hierarchies
    python benchmarks/hierarchies.py --names poisson_200,batters

First each model with the settings as they are: V of the map, the share of the mass that it is said
to lose (``lost``), and the error of log Z by importance sampling from it, which loses the same.
Then all models with one setting changed at a time.
"""

import argparse
from contextlib import contextmanager

import numpy as np
from figures import table
from hard_targets import HARD
from real_models import REAL
from real_reference import importance
from scipy.special import logsumexp

from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.structure import structures_of
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references import conditional, hierarchy, interpolated

MODELS = ("eight_schools_centred", "collapsed_hierarchy", "funnel_30", "poisson_200", "batters",
          "occupancy", "meta_analysis", "intercepts_85", "slopes_85", "t_errors")  # fmt: skip
SETTINGS = {
    "as it is": {},
    "half of the nodes": {(conditional, "N_NODES"): 64},
    "twice the nodes": {(conditional, "N_NODES"): 256},
    "nodes not wider": {(conditional, "_WIDER"): 1.0},
    "nodes wider, 1.6": {(conditional, "_WIDER"): 1.6},
    "nodes along globals to 3": {
        (conditional, "_ALONG"): np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
    },
    "one pass": {(conditional, "_PASSES"): 1},
    "two passes": {(conditional, "_PASSES"): 2},
    "no longer tails": {(conditional, "_TAILS"): np.zeros(1)},
    "10 times less explained": {(interpolated, "_UNEXPLAINED"): 1e-3},
    "no rounds but the first": {(conditional, "_ROUNDS"): 1},
    "twice the rounds": {(conditional, "_ROUNDS"): 12},
}
N_DRAWS = 20_000


@contextmanager
def changed(settings):
    """Set module-level numbers for a while."""
    before = {(module, name): getattr(module, name) for module, name in settings}
    try:
        for (module, name), value in settings.items():
            setattr(module, name, value)
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)


def fitted(density, structures):
    """The fit that a run would use, else that which loses least; and the gradients of all tried."""
    fits, n = [], 0
    for structure in structures[: hierarchy.MOST_TRIED]:
        fits.append(
            conditional.conditional_fit(density, structure, density.start, np.random.default_rng(0))
        )
        n += fits[-1].n_gradients
        if fits[-1].variance <= hierarchy.LADDER and fits[-1].lost <= hierarchy.MOST_LOST:
            break
    return min(fits, key=lambda fit: fit.lost), n


def log_z_of(density, made):
    """Log Z from draws of a map, and its error."""
    u = np.random.default_rng(1).standard_normal((N_DRAWS, density.dim))
    values, _ = made.pulled_back(density.address, u)
    logs = values + 0.5 * (u * u).sum(axis=1) + 0.5 * density.dim * LOG_2PI
    log_z = float(logsumexp(logs) - np.log(N_DRAWS))
    return log_z, float(np.exp(logs - log_z).std() / np.sqrt(N_DRAWS))


def reference(name):
    """Model, log Z, and its error."""
    if name in HARD:
        target = HARD[name]()
        return target.model, target.log_z, 0.0
    return REAL[name].build(), *importance(REAL[name].build(marginal=True))


def study(names):
    """Print both tables."""
    known, rows = [], []
    for name in names:
        model, exact, exact_se = reference(name)
        density = compile_density(model)
        structures = structures_of(density)[0]
        known.append((density, structures))
        fit, n = fitted(density, structures)
        log_z, se = log_z_of(density, fit.map)
        rows.append([
            name, density.dim, fit.map.n_globals, f"{fit.variance:.4f}", f"{fit.lost:.5f}",
            f"{log_z - exact:+.4f}", f"{np.hypot(se, exact_se):.4f}", f"{n / 1e3:.1f}",
        ])  # fmt: skip
    table(
        "Maps as they are",
        ["model", "D", "k", "V", "lost", "error of log Z", "its error", "10^3 gradients"],
        rows,
    )
    rows = []
    for label, settings in SETTINGS.items():
        with changed(settings):
            found = [fitted(*of_model) for of_model in known]
        variances = [fit.variance for fit, _ in found]
        rows.append([
            label, f"{np.median(variances):.4f}", f"{max(variances):.2f}",
            sum(fit.lost <= hierarchy.MOST_LOST for fit, _ in found),
            f"{sum(n for _, n in found) / 1e3:.0f}",
        ])  # fmt: skip
    table(
        "One setting changed",
        ["setting", "median V", "largest V", "maps in use", "10^3 gradients"],
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default=",".join(MODELS))
    study(parser.parse_args().names.split(","))
