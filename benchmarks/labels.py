"""What labels that can be exchanged cost, in mixtures with free weights, means and scales.

    python benchmarks/labels.py --components 3 --seeds 6

Default runs of 75 data of three groups, of which the model does not know the number, with a
deterministic that changes nothing but the random numbers of the search. Gradients of search,
tuning and draws, and modes as `modes` counts them in draws, and with the model, which takes all
copies for one.
"""

import argparse
import warnings

import numpy as np
import pymc as pm
from figures import QUIET, table

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingWarning


def mixture(k, deterministic):
    """K Gaussians without an order."""
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.normal(*group) for group in ((-3, 0.6, 20), (0, 1, 30), (4, 0.8, 25))])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 4.0, shape=k)
        sigma = pm.HalfNormal("sigma", 2.0, shape=k)
        w = pm.Dirichlet("w", np.ones(k))
        pm.NormalMixture("y", w, mu, sigma, observed=y)
        if deterministic:
            pm.Deterministic("square", mu**2)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--components", type=int, nargs="+", default=[3, 4])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    rows = []
    for k in args.components:
        for deterministic in (False, True):
            model = mixture(k, deterministic)
            for seed in range(args.seeds):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", TemperingWarning)
                    found = pm_temper.estimate_logz(model, random_seed=seed, **QUIET)
                    n_modes = [len(pm_temper.modes(found, model=m)) for m in (None, model)]
                parts = [found.gradients[part] // 1000 for part in ("search", "tuning", "draws")]
                codes = ", ".join(diagnostic.code for diagnostic in found.warnings)
                given = [k, "yes" if deterministic else "no", seed]
                log_z = f"{found.log_z:.3f} ± {found.se:.3f}"
                rows.append([*given, log_z, *parts, *n_modes, codes])
    columns = ["components", "deterministic", "seed", "log Z", "10^3 gradients: search", "tuning",
               "draws", "modes", "with the model", "warnings"]  # fmt: skip
    table("exchangeable labels", columns, rows)


if __name__ == "__main__":
    main()
