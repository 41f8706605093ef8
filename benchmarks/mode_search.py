"""How often the search for modes finds a narrow mode beside a wide one.

Two modes of equal weight and standard deviations 1 and 0.3, six apart, no prior, started in the
wide one: searches that find both, with the default number of gradients and with ten times as many.

    python benchmarks/mode_search.py --searches 100
"""

import argparse
import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import table

from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.search import SEARCHES, find_modes

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


def searched(density, effort, n_searches):
    """Searches that end with both modes; gradients and CPU seconds of one."""
    started = time.process_time()
    n_found = n_gradients = 0
    for seed in range(n_searches):
        rng = np.random.default_rng(seed)
        found = find_modes(density, density.start, rng, effort=effort)
        first = found.modes[:, 0]
        n_found += any(abs(first) < 1.0) and any(abs(first - DISTANCE) < 1.0)
        n_gradients += found.search.n_gradients
    return n_found, n_gradients // n_searches, (time.process_time() - started) / n_searches


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=100)
    arguments = parser.parse_args()
    rows = []
    for dim in DIMENSIONS:
        density = problem(dim)
        for name in ("default", "thorough"):
            found, gradients, seconds = searched(density, SEARCHES[name], arguments.searches)
            rows.append([dim, name, found, gradients, f"{seconds:.3f}"])
    table(
        f"both modes found, of {arguments.searches} searches",
        ["dimensions", "search", "found", "gradients", "CPU s"],
        rows,
    )


if __name__ == "__main__":
    main()
