"""What is on the ways of ascents where these end outside of the mass.

    python benchmarks/ways.py --seeds 6

For each target, of that many searches: how far the ends of ascents are from the fits, in standard
deviations (the largest of a search; beyond 2 ways are looked at), in how many searches ways were
looked at, the variances of the log weights of fits on them (quartiles; below 1 a fit stands for
itself), and how many modes each search found.
"""

import argparse
from unittest.mock import patch

import numpy as np
from figures import table
from hard_targets import HARD

from pymc_tempering import testing
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references import paths
from pymc_tempering.references.prepare import prepare
from pymc_tempering.references.shapes import Shapes

TARGETS = ("groups_alike_12", "two_scales_10", "effects_together_8", "eight_schools_centred",
           "collapsed_hierarchy", "horseshoe_prior", "funnel_30", "steep_banana",
           "bananas_and_gaussian", "banana")  # fmt: skip


class Observed:
    """What a search did on ways, as it goes by."""

    def __init__(self):
        self.distances, self.variances, self.n_modes = [0.0], [], 0

    def ends_outside(self, found, i, basin):
        """Whether ascents end away from the mass; notes how far, where no Gaussian fits."""
        if not basin.is_gaussian:
            self.distances.append(np.abs(found.fits[i].base.to_base(basin.end[None])).max())
        return self._ends_outside(found, i, basin)

    def refine(self, *args):
        """A fit on a way; notes its variance."""
        fit, n_gradients = self._refine(*args)
        if fit is not None:
            self.variances.append(fit.variance)
        return fit, n_gradients

    def of_search(self, density, seed):
        """Search once, and return what was seen."""
        self._ends_outside, self._refine = Shapes._ends_outside, paths.refine
        with (
            patch.object(Shapes, "_ends_outside", lambda *args: self.ends_outside(*args)),
            patch.object(paths, "refine", self.refine),
        ):
            found = prepare(density, density.start, np.random.default_rng(seed))
        self.n_modes = len(found.fits)
        return self


def study(name, n_seeds):
    """Cells of one row."""
    model = HARD[name]().model if name in HARD else testing.TARGETS[name]().model()
    density = compile_density(model)
    seen = [Observed().of_search(density, seed) for seed in range(n_seeds)]
    farthest = [max(each.distances) for each in seen]
    variances = np.concatenate([each.variances for each in seen])
    known = variances[np.isfinite(variances)]
    quartiles = (
        ", ".join(f"{q:.2g}" for q in np.quantile(known, [0.25, 0.5, 0.75])) if len(known) else ""
    )
    return [
        name,
        f"{min(farthest):.1f} to {max(farthest):.1f}",
        sum(bool(each.variances) for each in seen),
        len(variances),
        quartiles,
        int((variances <= paths.FAIR).sum()),
        ", ".join(str(each.n_modes) for each in seen),
    ]


def main():
    """Print one row per target."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--seeds", type=int, default=6)
    args = parser.parse_args()
    rows = [study(name, args.seeds) for name in args.targets.split(",")]
    header = ["target", "ends outside by", "searches", "fits", "variance, quartiles", "below 1",
              "modes found"]  # fmt: skip
    table("Ways of ascents", header, rows)


if __name__ == "__main__":
    main()
