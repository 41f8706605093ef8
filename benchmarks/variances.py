"""V of one Gaussian and of what chains start from, for every target: one table.

    python benchmarks/variances.py
    python benchmarks/variances.py --sets real --only batters,irt_2

V is the variance of log weights at a density's own draws, without the lowest fiftieth
(:mod:`pymc_tempering.references.quality`). *A Gaussian* is the best fit of a search in the model's
own coordinates, by the ELBO, whose draws do not tell of the mass that it lacks; *of draws* is the
Gaussian with the moments of weighted draws of what is in use, diagonal above 200 values. *In use*
is what a chain starts from: the map of a hierarchy, with the number of its globals (V is by draws
or by a short run, whichever is larger), or the best fit with the shape that it was given. Of
several modes V is that of the best fit alone; how many fits there are is the last column. ``nan``
is of draws of which more than a fiftieth have no density.
"""

import argparse

import numpy as np
from figures import cases_or_none, console, table
from hard_targets import HARD
from real_models import REAL
from scipy.special import softmax

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.errors import TemperingError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.numerics import systematic_indices
from pymc_tempering.references.full_rank import MAX_FULL_RANK_DIM
from pymc_tempering.references.hierarchy import Hierarchy
from pymc_tempering.references.prepare import prepare
from pymc_tempering.references.quality import N_MANY, trimmed_variance


def models(sets):
    """Names of targets and functions that make their models, by set."""
    found = {"cases": cases_or_none() if "cases" in sets else None, "hard": HARD, "real": REAL}
    for of in sets:
        for name, make in (found[of] or {}).items():
            yield of, name, make


def model_of(of, make):
    made = make.build() if of == "real" else make()
    return getattr(made, "model", made)


def variance(density, fit):
    z = fit.from_base(np.random.default_rng(1).standard_normal((N_MANY, density.dim)))
    return trimmed_variance(density_at(density.address, z)[0] - fit.log_density(z))


def variance_of_draws(density, z, log_weights):
    """V of the Gaussian that has the moments of weighted draws (n, D)."""
    z = z[systematic_indices(softmax(log_weights), len(z), np.random.default_rng(1))]
    return variance(density, GaussianBase.from_draws(z, full=density.dim <= MAX_FULL_RANK_DIM))


@np.errstate(all="ignore")
def row_of(density):
    """One row of the table: D, V of two Gaussians, V in use, what is in use, number of fits."""
    rng, n = np.random.default_rng(1), max(4000, 20 * density.dim)
    found = prepare(density, density.start, rng)
    gaussian = variance(density, found.fits[0])
    hierarchy, _ = Hierarchy.of(density)
    if hierarchy is not None:
        # levels may be written another way for the map
        mapped, density = hierarchy.density, hierarchy.density.inner
        base = GaussianBase(np.zeros(density.dim), np.ones(density.dim))
        u = base.draw(rng, n)
        z, weights = hierarchy.map.from_base(u), density_at(mapped.address, u)[0]
        weights, now = weights - base.log_density(u), hierarchy.variance
        kind = f"map of {hierarchy.map.n_globals}"
    else:
        found = prepare(density, density.start, rng, bend=True)
        shape = found.shapes[0]
        z = shape.from_base(rng.standard_normal((n, density.dim)))
        weights = density_at(density.address, z)[0] - shape.log_density(z)
        now = variance(density, shape)
        kind = "the Gaussian" if isinstance(shape, GaussianBase) else "a bent Gaussian"
    of_draws = variance_of_draws(density, z, weights)
    numbers = [f"{v:.3g}" for v in (gaussian, of_draws, now)]
    return [density.dim, *numbers, kind, len(found.fits)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="cases,hard,real")
    parser.add_argument("--only", default="", help="targets, separated by commas")
    args = parser.parse_args()
    only, rows = set(filter(None, args.only.split(","))), []
    for of, name, make in models(args.sets.split(",")):
        if only and name not in only:
            continue
        try:
            density = compile_density(model_of(of, make))
            row = ["no gradient", *5 * [""]] if density.no_gradient else row_of(density)
        except TemperingError as error:
            row = [type(error).__name__, *5 * [""]]
        rows.append([of, name, *map(str, row)])
        console.print("| " + " | ".join(rows[-1]) + " |")
    table(
        "V of Gaussians, and of what chains start from",
        ["set", "target", "D", "a Gaussian", "of draws", "in use", "what", "fits"],
        rows,
    )


if __name__ == "__main__":
    main()
