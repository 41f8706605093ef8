"""How many clusters do the 82 galaxies form?

    python notebooks/galaxies.py [--components 4] [--output out]

Gaussian mixtures with one and more components are fitted to the velocities of Roeder (1990), and
compared by their evidence. Every galaxy's distance is proportional to its velocity, so clusters of
galaxies show as modes of the velocities' density.

The velocities are those of the paper's table, sorted. The 78th is 26960 as published; the copy that
is distributed with R (``MASS::galaxies``) has 26690 there, so evidences of that copy differ.

K. Roeder (1990), Density estimation with confidence sets exemplified by superclusters and voids in
the galaxies, Journal of the American Statistical Association 85, 617-624.
S. Chib (1995), Marginal likelihood from the Gibbs output, Journal of the American Statistical
Association 90, 1313-1321: the priors.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_tempering as pm_temper

# fmt: off
VELOCITIES_KM_S = (
    9172, 9350, 9483, 9558, 9775, 10227, 10406, 16084, 16170, 18419,
    18552, 18600, 18927, 19052, 19070, 19330, 19343, 19349, 19440, 19473,
    19529, 19541, 19547, 19663, 19846, 19856, 19863, 19914, 19918, 19973,
    19989, 20166, 20175, 20179, 20196, 20215, 20221, 20415, 20629, 20795,
    20821, 20846, 20875, 20986, 21137, 21492, 21701, 21814, 21921, 21960,
    22185, 22209, 22242, 22249, 22314, 22374, 22495, 22746, 22747, 22888,
    22914, 23206, 23241, 23263, 23484, 23538, 23542, 23666, 23706, 23711,
    24129, 24285, 24289, 24366, 24717, 24990, 25633, 26960, 26995, 32065,
    32789, 34279,
)
# fmt: on


def velocities():
    """Velocities in 1000 km/s, shape (82,); in km/s each log Z would be 82 log(1000) lower."""
    return np.array(VELOCITIES_KM_S) / 1000.0


def galaxy_mixture(k):
    """Mixture of k Gaussians in units of 1000 km/s, with the priors of Chib (1995, section 4.2).

    Means N(20, 10**2), variances InvGamma(3, 20), weights Dirichlet(1, ..., 1). The prior of the
    variances keeps a component from shrinking onto one galaxy, where the likelihood has no bound.
    Allocations are summed out. The components have no order: the posterior has k! images of each
    mode, and the evidence is that of the model as written.
    """
    coords = {"component": np.arange(k), "galaxy": np.arange(len(VELOCITIES_KM_S))}
    with pm.Model(coords=coords) as model:
        # PyTensor stores a Python float in single precision and would take its logarithm there
        mean = pm.Normal("mean", np.float64(20.0), np.float64(10.0), dims="component")
        shape, scale = np.float64(3.0), np.float64(20.0)
        variance = pm.InverseGamma("variance", shape, scale, dims="component")
        # a Dirichlet with one entry has no unconstrained value left to sample
        weight = pm.Dirichlet("weight", np.ones(k), dims="component") if k > 1 else np.ones(1)
        pm.NormalMixture(
            "velocity", weight, mean, sigma=pt.sqrt(variance), observed=velocities(), dims="galaxy"
        )
    return model


def predictive_density(posterior, grid):
    """Mean density of the mixture over all draws at `grid`, per 1000 km/s, shape (len(grid),)."""
    draws = posterior.dataset.stack(sample=("chain", "draw")).transpose("sample", ...)
    mean, variance = draws["mean"].values, draws["variance"].values
    weight = draws["weight"].values if "weight" in draws else np.ones_like(mean)
    density = np.zeros(len(grid))
    for j in range(mean.shape[1]):
        squares = (grid - mean[:, j, None]) ** 2 / variance[:, j, None]
        height = weight[:, j, None] / np.sqrt(2.0 * np.pi * variance[:, j, None])
        density += (height * np.exp(-0.5 * squares)).mean(axis=0)
    return density


def draw(estimates, table, path):
    """Predictive densities over the galaxies, and the evidence of each mixture."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    grid = np.linspace(5.0, 40.0, 701)
    left.hist(velocities(), bins=range(8, 37), density=True, color="0.87", label="82 galaxies")
    styles = ("-", "--", "-.", ":")
    for k, estimate in estimates.items():
        density = predictive_density(estimate.idata["posterior"], grid)
        left.plot(grid, density, styles[(k - 1) % len(styles)], label=f"K = {k}")
    left.set(xlabel="velocity (1000 km/s)", ylabel="density (per 1000 km/s)")
    left.legend(frameon=False)
    pm_temper.plot_evidence(table, ax=right)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(argv=None):
    """Fit, compare, print and draw."""
    parser = argparse.ArgumentParser(description="How many clusters do the 82 galaxies form?")
    parser.add_argument("--components", type=int, default=4, help="the largest number, at least 2")
    # enough for errors of log Z well below the differences between the mixtures
    parser.add_argument("--draws", type=int, default=160, help="per chain, and as many to tune")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--output", type=Path, default=Path("out"), help="folder")
    arguments = parser.parse_args(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    models = {k: galaxy_mixture(k) for k in range(1, arguments.components + 1)}
    estimates = {}
    for k, model in models.items():
        print(f"\nMixture of {k}")
        estimates[k] = pm_temper.estimate_logz(
            model, draws=arguments.draws, tune=arguments.draws,
            chains=arguments.chains, random_seed=arguments.seed,
        )  # fmt: skip
        print(estimates[k])
    table = pm_temper.compare({f"K = {k}": estimate for k, estimate in estimates.items()})
    print("\nBest first; every K equally probable beforehand\n", table.round(3).T.to_string())
    best = int(table.index[0].removeprefix("K = "))
    # the order of the components means nothing
    print(f"\nModes of K = {best}\n", pm_temper.modes(estimates[best], model=models[best]))
    picture, numbers = arguments.output / "galaxies.png", arguments.output / "galaxies.csv"
    draw(estimates, table, picture)
    table.to_csv(numbers)
    print(f"\nPicture and table: {picture} and {numbers}")


# worker processes import this file under another name and must not start again
if __name__ == "__main__":
    main()
