"""Which sources of a search which targets need: searches alone, with each source left out.

    python benchmarks/sources.py --seeds 3
    python benchmarks/sources.py --names two_widths_4_0.3,beside_4 --without scales,residual

A search is compared with the exact log Z by importance-sampled evidence of its fits: draws of all
of them, weighted against their mixture. Where a mode is missed, that lacks its mass; printed is
the median over seeds of what is lacking in nats, how many seeds lack more than 0.1, and the
gradients. No chain is run. Runs are written to ``--record`` one by one, and are not made again.
"""

import argparse
import json
import math
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
from figures import SHORT_FOLDER, console, table
from hard_targets import HARD

from pymc_tempering.model.compile import compile_density, prior_points
from pymc_tempering.model.symmetries import Symmetries
from pymc_tempering.references.quality import importance_evidence
from pymc_tempering.references.search import find_modes
from pymc_tempering.references.sources import SOURCES

N_PRIOR, N_DRAWS, LACKING = 512, 1000, 0.1


def beside(dim, distance, width):
    """A narrow mode beside the second of two wide ones; no prior, log Z = 0."""
    from mode_search import beside as three

    target, _ = three(dim, distance, width)
    return SimpleNamespace(density=target, start=np.zeros(dim), log_z=0.0)


def signs(dim, away):
    """Unit Gaussians at the points ``away`` from zero with any signs; no prior, log Z = 0."""

    @numba.cfunc("float64(CPointer(float64), CPointer(float64))")
    def density(z_pointer, grad_pointer):
        z, grad = numba.carray(z_pointer, dim), numba.carray(grad_pointer, dim)
        total = -0.5 * dim * math.log(2.0 * math.pi)
        for i in range(dim):
            near = abs(z[i]) - away
            total -= 0.5 * near**2 + math.log(2.0) - math.log1p(math.exp(-2.0 * away * abs(z[i])))
            grad[i] = away * math.tanh(away * z[i]) - z[i]
        return total

    target = SimpleNamespace(address=density.address, dim=dim, kept_alive=density)
    target.images = lambda z: z * (1.0 - 2.0 * np.eye(dim))
    return SimpleNamespace(density=target, start=np.full(dim, away), log_z=0.0)


PLAIN = {
    "signs_3": lambda: signs(3, 60.0),
    "beside_2": lambda: beside(2, 4.0, 0.02),
    "beside_4": lambda: beside(4, 4.0, 0.15),
    "beside_6": lambda: beside(6, 4.5, 0.3),
}


def build(name):
    """Density, start, exact log Z, symmetries, and whether the prior can be drawn from."""
    if name in PLAIN:
        target = PLAIN[name]()
        return target.density, target.start, target.log_z
    target = HARD[name]()
    density = compile_density(target.model)
    return density, density.start, target.log_z


def searched(density, start, seed, sources):
    """What one search found, as a part of a line of the record."""
    rng = np.random.default_rng(seed)
    options = {}
    if hasattr(density, "images"):
        options["images"] = density.images
    if hasattr(density, "model"):
        options["prior_points"] = prior_points(density, rng, N_PRIOR)
        options["images"] = Symmetries.of(density.points, density.model).images
    started = time.process_time()
    found = find_modes(density, start, rng, sources=sources, **options)
    seconds = time.process_time() - started
    mass = importance_evidence(density, found.fits, np.random.default_rng(0), N_DRAWS)
    return {
        "value": mass.value, "se": mass.se, "fits": len(found.fits),
        "gradients": found.search.n_gradients, "seconds": seconds,
    }  # fmt: skip


def study(names, without, seeds, record):
    """Make the searches that the record lacks."""
    rows = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    done = {(row["name"], row["without"], row["seed"]) for row in rows}
    record.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        missing = [(w, s) for w in without for s in range(seeds) if (name, w, s) not in done]
        if not missing:
            continue
        density, start, log_z = build(name)
        for left_out, seed in missing:
            sources = [source for source in SOURCES if source != left_out]
            row = {"name": name, "without": left_out, "seed": seed, "log_z": log_z}
            rows.append(row | searched(density, start, seed, sources))
            with record.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
        console.print(name)
    return rows


def cell(rows):
    """Median lacking, seeds that lack much, and thousands of gradients."""
    if not rows:
        return ""
    lacking = [row["log_z"] - row["value"] for row in rows]
    many = sum(gap > LACKING for gap in lacking)
    thousands = statistics.median(row["gradients"] for row in rows) / 1e3
    return f"{statistics.median(lacking):.2f} ({many}) {thousands:.0f}k"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default=",".join([*PLAIN, *HARD]))
    parser.add_argument("--without", default=",".join(SOURCES), help="sources to leave out, each")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "sources.jsonl")
    args = parser.parse_args()
    without = ["", *[w for w in args.without.split(",") if w]]
    names = args.names.split(",")
    rows = study(names, without, args.seeds, args.record)
    lines = [
        [
            name,
            *(cell([r for r in rows if (r["name"], r["without"]) == (name, w)]) for w in without),
        ]
        for name in names
    ]
    columns = ["target", *(f"without {source}" if source else "all" for source in without)]
    table("nats lacking (seeds that lack 0.1) and gradients of a search", columns, lines)


if __name__ == "__main__":
    main()
