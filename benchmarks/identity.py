"""Time of a model's identity: what is looked at before anything that is kept is used again.

    make identity
    python benchmarks/identity.py --repeats 200

Models of 10, 100 and 1000 variables: half of them means, half of these of a vector; a quarter
scales; a quarter observed, with ten values each. The median CPU time of an identity, of what the
cache of compiled densities is looked up by, and of `Model.logp`, which only writes the graph down.
And of one variable with data of up to 80 MB, all of which are read.
"""

import argparse
import sys
from time import process_time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import table

from pymc_tempering.model.identity import Identity, recipe

VARIABLES = (10, 100, 1000)
VALUES = (10**3, 10**5, 10**7)
TITLE = "median CPU time"
HEADS = ("model", "identity (ms)", "key of the cache (ms)", "Model.logp (ms)")


def of_variables(n):
    rng, quarter = np.random.default_rng(n), n // 4
    with pm.Model(coords={"group": range(3)}) as model:
        means = [
            pm.Normal(f"mean_{i}", 0.1 * i, 2.0, dims="group" if i % 2 else None)
            for i in range(n - 2 * quarter)
        ]
        scales = [pm.HalfNormal(f"scale_{i}", 1.0 + i) for i in range(quarter)]
        for i, scale in enumerate(scales):
            mean = pt.sum(means[2 * i]) + pt.sum(means[2 * i + 1]) ** 2
            pm.Normal(f"y_{i}", mean, scale, observed=rng.normal(size=10))
    return model


def of_values(n):
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x, 1.0, observed=np.random.default_rng(n).normal(size=n))
    return model


def milliseconds(call, repeats):
    """Median CPU time."""
    spent = []
    for _ in range(repeats):
        started = process_time()
        call()
        spent.append(process_time() - started)
    return 1e3 * float(np.median(spent))


def row(label, model, repeats):
    calls = (lambda: Identity.of(model), lambda: recipe(model))
    times = [milliseconds(call, repeats) for call in calls]
    # a graph is written anew each time, in a thousand times as long
    times.append(milliseconds(model.logp, 1))
    return (label, *(f"{time:.2f}" for time in times))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=50, help="of each, default 50")
    parser.add_argument("--largest", type=int, default=1000, help="variables, default 1000")
    parser.add_argument("--values", type=int, default=10**7, help="most data, default 10 million")
    given = parser.parse_args(arguments)
    rows = [
        row(f"{n} variables", of_variables(n), given.repeats)
        for n in VARIABLES if n <= given.largest
    ]  # fmt: skip
    rows += [
        row(f"{n} data", of_values(n), given.repeats)
        for n in VALUES if n <= given.values
    ]  # fmt: skip
    table(TITLE, HEADS, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
