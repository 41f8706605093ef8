"""What depends on what, and bends with what, in models of `real_models`: table and figure.

    python benchmarks/structures.py --names intercepts_85,irt_2 --publish

``--publish`` draws into the documentation.
"""

import argparse
import logging

from figures import console, pyplot, save
from real_models import REAL

import pymc_tempering as pm_temper

TITLES = {"intercepts_85": "radon, 85 counties", "irt_2": "item response, two parameters"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default=",".join(TITLES))
    parser.add_argument("--publish", action="store_true", help="draw into the documentation")
    args = parser.parse_args()
    names = args.names.split(",")
    logging.getLogger("pymc").setLevel(logging.ERROR)
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
