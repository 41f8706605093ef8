"""What runs spend their gradients on: search, tuning and draws, and how much a scan takes.

    python benchmarks/spent.py
    python benchmarks/spent.py --methods pt --max-gradients 100000

Default runs on eight small models, those of ``digests.py`` and two targets with exact log Z. With
``--max-gradients`` one sees what error that gives.
"""

import argparse
import warnings

import numpy as np
from digests import MODELS

import pymc_tempering as pm_temper
from pymc_tempering import testing

TARGETS = ("asymmetric_bimodal", "banana")
METHODS = ("pt", "st", "gibbs_ct")
HEADS = ("D", "search", "tuning", "draws", "scans a draw", "a scan", "all", "error")


def models():
    """Names and makers of the eight models."""
    yield from ((make.__name__, make) for make in MODELS)
    yield from ((name, testing.TARGETS[name]().model) for name in TARGETS)


def row(make, method, chains, seed, max_gradients):
    """Dimension; gradients of search, tuning and draws of a chain; scans, and what one takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimate = pm_temper.estimate_logz(
            make(), method=method, chains=chains, cores=1, random_seed=seed, progressbar=False,
            quiet=True, compute_convergence_checks=False, max_gradients=max_gradients,
        )  # fmt: skip
    group, stats = estimate.idata["tempering"], estimate.idata["sample_stats"]
    delta = stats["delta"]
    first = delta.isel({dim: 0 for dim in delta.dims if dim not in ("chain", "draw", "scan")})
    scans = first.notnull().sum(("draw", "scan"))
    variables = estimate.idata["posterior"].data_vars.values()
    return (
        sum(int(np.prod(v.shape[2:])) for v in variables),
        int(group["search_gradients"].max()),
        float(group["tuning_gradients"].mean()),
        float(group["draws_gradients"].mean()),
        float(scans.mean()) / stats.sizes["draw"],
        float(group["draws_gradients"].sum() / scans.sum()),
        sum(estimate.gradients.values()),
        estimate.se,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-gradients", type=int)
    given = parser.parse_args()
    for method in given.methods:
        print(f"{method:20s}" + "".join(f"{head:>14s}" for head in HEADS), flush=True)
        rows = []
        for name, make in models():
            rows.append(row(make, method, given.chains, given.seed, given.max_gradients))
            print(f"{name:20s}" + "".join(f"{value:14,.4g}" for value in rows[-1]), flush=True)
        for word, reduce in (("least", np.min), ("median", np.median), ("most", np.max)):
            print(f"{word:20s}" + "".join(f"{v:14,.4g}" for v in reduce(rows, axis=0)))


if __name__ == "__main__":
    main()
