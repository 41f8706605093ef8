"""What the numbers of maps of hierarchies do: V, error of log Z, gradients.

    make hierarchies
    python benchmarks/hierarchies.py --names poisson_200,batters

First each model with the settings as they are: V of the map, and where log Z is known the error of
that by importance sampling from the map, which lacks what the map has no draws of. Then all models
with one setting changed at a time.
"""

import argparse
from contextlib import contextmanager

import numpy as np
from figures import table
from hard_targets import HARD
from real_models import REAL
from real_reference import importance
from scipy.special import logsumexp

from pymc_tempering.model import structure
from pymc_tempering.model.compile import compile_density
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references import conditional, hierarchy, interpolated, nodes
from pymc_tempering.references.prepared import SEARCHES

MODELS = ("eight_schools_centred", "collapsed_hierarchy", "funnel_30", "poisson_200", "batters",
          "occupancy", "meta_analysis", "intercepts_85", "slopes_85", "t_errors",
          "capture_recapture", "gp_counts", "bym2_12x12", "pupils_in_schools",
          "slopes_386_non_centred")  # fmt: skip


def second_pass_within(most):
    """Efforts with which a second pass for a good map takes so many gradients at most."""
    return SEARCHES | {"default": SEARCHES["default"]._replace(n_for_one_mode=most)}


SETTINGS = {
    "as it is": {},
    "half of the nodes": {(nodes, "N_NODES"): 64},
    "twice the nodes": {(nodes, "N_NODES"): 256},
    "nodes not wider": {(nodes, "_WIDER"): 1.0},
    "nodes wider by 1.6": {(nodes, "_WIDER"): 1.6},
    "nodes along globals to 3": {(nodes, "FARTHEST"): 3},
    "one pass": {(conditional, "_PASSES"): 1},
    "three passes": {(conditional, "_PASSES"): 3},
    "one pass for good maps": {(conditional, "SEARCHES"): second_pass_within(0.0)},
    "two passes however dear": {(conditional, "SEARCHES"): second_pass_within(np.inf)},
    "passes whatever V": {(conditional, "LADDER"): np.inf},
    "no longer tails": {(nodes, "_TAILS"): np.zeros(1)},
    "10 times less explained": {(interpolated, "_UNEXPLAINED"): (1e-3, 1e-1)},
    "no rounds but the first": {(conditional, "_ROUNDS"): 1},
    "twice the rounds": {(conditional, "_ROUNDS"): 12},
    "neighbours half as far": {(structure, "_FAR"): 0.5 * structure._FAR},
    "neighbours a fifth as far": {(structure, "_FAR"): 0.2 * structure._FAR},
    "neighbours twice as far": {(structure, "_FAR"): 2.0 * structure._FAR},
    "common values within 1e-3": {(structure, "_ALIKE"): 1e-3},
    "common values within 1e-7": {(structure, "_ALIKE"): 1e-7},
    "sums of 3 values": {(structure, "_LEAST_SUMMED"): 3},
    "no sums": {(structure, "_LEAST_SUMMED"): 10**6},
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


def fitted(density):
    """The fit of lowest V or that a run would use, of which density, whether it would, gradients.

    Where a run would use normal locals, or none, it is the map of lowest V.
    """
    fits = []

    def noted(own):
        return lambda *of: fits.append(own(*of)) or fits[-1]

    makers = ("conditional_fit", "continued")
    with changed({(hierarchy, name): noted(getattr(hierarchy, name)) for name in makers}):
        found, n = hierarchy.Hierarchy.of(density)
    used = [fit for fit in fits if found is not None and fit.map is found.map]
    if not used:
        return min(fits, key=lambda fit: fit.variance), density, False, n
    return used[0], found.density.inner, True, n


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
    if not REAL[name].has_marginal:
        return REAL[name].build(), np.nan, np.nan
    return REAL[name].build(), *importance(REAL[name].build(marginal=True))


def study(names, labels):
    """Print both tables, the second of these settings."""
    known, rows = [], []
    for name in names:
        model, exact, exact_se = reference(name)
        density = compile_density(model)
        known.append(density)
        fit, inner, _, n = fitted(density)
        log_z, se = log_z_of(inner, fit.map)
        rows.append([
            name, density.dim, fit.map.n_globals, f"{fit.variance:.4f}",
            f"{log_z - exact:+.4f}", f"{np.hypot(se, exact_se):.4f}", f"{n / 1e3:.1f}",
        ])  # fmt: skip
    table(
        "Maps as they are",
        ["model", "D", "k", "V", "error of log Z", "its error", "10^3 gradients"],
        rows,
    )
    rows = []
    for label in labels:
        with changed(SETTINGS[label]):
            found = [fitted(density) for density in known]
        variances = [fit.variance for fit, *_ in found]
        rows.append([
            label, f"{np.median(variances):.4f}", f"{max(variances):.2f}",
            sum(in_use for *_, in_use, _ in found),
            f"{sum(n for *_, n in found) / 1e3:.0f}",
        ])  # fmt: skip
    table(
        "One setting changed",
        ["setting", "median V", "largest V", "maps in use", "10^3 gradients"],
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default=",".join(MODELS))
    parser.add_argument("--settings", default=",".join(SETTINGS))
    args = parser.parse_args()
    study(args.names.split(","), args.settings.split(","))
