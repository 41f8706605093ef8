"""What depends on what, and bends with what, in models of `real_models`: table and figure.

    python benchmarks/structures.py --names intercepts_85,irt_2 --publish
    python benchmarks/structures.py --choices

``--publish`` draws into the documentation. ``--choices`` prints of every choice of globals how far
the locals are from a quadratic log density, and draws nothing.
"""

import argparse
import logging

import numpy as np
from figures import console, pyplot, save, table
from real_models import REAL

import pymc_tempering as pm_temper
from pymc_tempering.model import structure
from pymc_tempering.model.compile import compile_density

TITLES = {"intercepts_85": "radon, 85 counties", "irt_2": "item response, two parameters"}


def choices(names):
    """Table of all choices of globals, those that runs leave out too."""
    rows = []
    for name in names:
        density, rng = compile_density(REAL[name].build()), np.random.default_rng(0)
        neighbours, summed, _ = structure.neighbours_of(density, rng)
        found = structure._globals(density, neighbours, summed)
        shares = {len(hubs): structure._curved(density, hubs) for hubs in found}
        first = next(iter(structure.structures_of(density)[0]), None)
        rows.append([
            name, density.dim, "-" if first is None else len(first.globals),
            ", ".join(f"{k}: {share:.3f}" for k, share in sorted(shares.items())[:8]),
        ])  # fmt: skip
    table(
        "How far the locals are from a quadratic log density, by the number of globals",
        ["model", "D", "globals that come first", "choices, the smallest eight"],
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names")
    parser.add_argument("--choices", action="store_true", help="of globals; default: all models")
    parser.add_argument("--publish", action="store_true", help="draw into the documentation")
    args = parser.parse_args()
    names = args.names.split(",") if args.names else [*(REAL if args.choices else TITLES)]
    logging.getLogger("pymc").setLevel(logging.ERROR)
    if args.choices:
        choices(names)
        return
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(names), figsize=(5.6 * len(names), 4.9), layout="constrained", squeeze=False
    )
    for name, ax in zip(names, axes[0], strict=True):
        found = pm_temper.structure(REAL[name].build())
        console.print(f"{name}\n{found}\n")
        pm_temper.plot_structure(found, ax=ax)
        ax.set_title(TITLES.get(name, name))
    save(figure, "structures", args.publish)


if __name__ == "__main__":
    main()
