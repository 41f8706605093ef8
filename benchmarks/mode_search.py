"""How often the search for modes finds a narrow mode beside a wide one.

Two modes of equal weight and standard deviations 1 and 0.3, six apart, no prior, started in the
wide one: searches that find both, with particles annealed from afar and by dispersed starts alone.

    python benchmarks/mode_search.py --searches 100
"""

import argparse
import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import table

from pymc_tempering.model.compile import compile_density
from pymc_tempering.references import search

DIMENSIONS, NARROW, DISTANCE = (2, 4, 6, 8), 0.3, 6.0


def problem(dim):
    centre = np.zeros(dim)
    centre[0] = DISTANCE
    with pm.Model() as model:
        x = pm.Flat("x", shape=dim)
        wide = -0.5 * (x**2).sum()
        narrow = -0.5 * (((x - centre) / NARROW) ** 2).sum() - dim * np.log(NARROW)
        pm.Potential("target", pt.logaddexp(wide, narrow))
    return compile_density(model)


def n_found(density, n_searches):
    """Searches that end with both modes, and CPU seconds of one."""
    started = time.process_time()
    found = 0
    for seed in range(n_searches):
        rng = np.random.default_rng(seed)
        fits, _ = search.find_modes(density, density.start, rng)
        means = np.array([fit.mean[0] for fit in fits])
        found += any(abs(means) < 1.0) and any(abs(means - DISTANCE) < 1.0)
    return found, (time.process_time() - started) / n_searches


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=100)
    arguments = parser.parse_args()
    rows = []
    beyond = search.search_beyond
    for dim in DIMENSIONS:
        density = problem(dim)
        both, seconds = n_found(density, arguments.searches)
        search.search_beyond = lambda density, fits, anchor, rng: list(fits)
        starts, seconds_starts = n_found(density, arguments.searches)
        search.search_beyond = beyond
        rows.append([dim, both, starts, f"{seconds:.3f}", f"{seconds_starts:.3f}"])
    table(
        f"both modes found, of {arguments.searches} searches",
        ["dimensions", "with annealing", "starts alone", "CPU s", "CPU s, starts alone"],
        rows,
    )


if __name__ == "__main__":
    main()
