"""Calibration of the search for modes: does it find them as often as it says that it would.

    python benchmarks/search_calibration.py                 # 500 random targets, and the picture
    python benchmarks/search_calibration.py --narrow        # a narrow mode beside Student's t
    python benchmarks/search_calibration.py --scales        # Gaussians of scales 1e-3, 1 and 30

A random target has one or two wide modes, Gaussian, Student's t or a product of logistic densities,
in 2 to 8 dimensions. The search of these alone says with what probability it would have found one
mode more, by mass and width. Such a mode is planted where its statement says, and a search with
other random numbers finds it or not. `--record` keeps what was found; with the package of another
version on the path the same script makes the record that `--against` shows beside it.
"""

import argparse
import json
import math
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
from figures import SHORT_FOLDER, console, pyplot, save, table
from numba.extending import intrinsic
from scipy.special import gammaln
from scipy.stats import beta

from pymc_tempering.references.search import find_modes

KINDS = ("gaussian", "student", "logistic")
DOF = 4.0
MASSES, WIDTHS = (0.01, 0.05, 0.25), (1.0, 0.5, 0.25)
NEAREST, FURTHEST = 3.0, 10.0
BINS = (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0)
DIMENSIONS, RATIOS, DISTANCE = (3, 4, 5, 6, 7, 8), (0.4, 0.3, 0.15, 0.075), 6.0
# logarithm of ratios up to which what is said of a width is said of another
ALIKE = 0.3
SCALES, WEIGHTS = (1e-3, 1.0, 30.0), (0.2, 0.3, 0.5)
# of a logistic density of standard deviation 1
STEEP = math.pi / math.sqrt(3.0)

PARAMETERS = np.zeros(2048)
ADDRESS = PARAMETERS.ctypes.data


@intrinsic
def pointer_to(typingctx, address):
    signature = numba.types.CPointer(numba.types.float64)(numba.types.int64)

    def codegen(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    return signature, codegen


@numba.cfunc("float64(CPointer(float64), CPointer(float64))")
def density(z_pointer, grad_pointer):  # noqa: C901
    """Mixture of the components that PARAMETERS holds: compiled once for all targets."""
    given = numba.carray(pointer_to(ADDRESS), (2048,))
    dim, n = int(given[0]), int(given[1])
    z, grad = numba.carray(z_pointer, (dim,)), numba.carray(grad_pointer, (dim,))
    size = 2 + dim + dim * dim
    for i in range(dim):
        grad[i] = 0.0
    top, total = -np.inf, 0.0
    for phase in range(2):
        for k in range(n):
            own = given[2 + k * size : 2 + (k + 1) * size]
            kind, value = own[0], own[1]
            mean, inverse = own[2 : 2 + dim], own[2 + dim :].reshape(dim, dim)
            squares = 0.0
            for i in range(dim):
                u = 0.0
                for j in range(dim):
                    u += inverse[i, j] * (z[j] - mean[j])
                squares += u * u
                if kind == 2.0:
                    value -= STEEP * abs(u) + 2.0 * math.log1p(math.exp(-STEEP * abs(u)))
            if kind == 0.0:
                value -= 0.5 * squares
            elif kind == 1.0:
                value -= 0.5 * (DOF + dim) * math.log1p(squares / DOF)
            if phase == 0:
                top = max(top, value)
                continue
            share = math.exp(value - top)
            total += share
            for i in range(dim):
                u = 0.0
                for j in range(dim):
                    u += inverse[i, j] * (z[j] - mean[j])
                slope = -u
                if kind == 1.0:
                    slope *= (DOF + dim) / (DOF + squares)
                elif kind == 2.0:
                    slope = -STEEP * math.tanh(0.5 * STEEP * u)
                for j in range(dim):
                    grad[j] += share * slope * inverse[i, j]
    for i in range(dim):
        grad[i] /= total
    return top + math.log(total)


def mixture(*parts):
    """Density with these components, each (weight, mean, root, kind); one at a time."""
    dim = len(parts[0][1])
    size = 2 + dim + dim * dim
    constants = {
        "gaussian": -0.5 * dim * math.log(2.0 * math.pi),
        "student": gammaln(0.5 * (DOF + dim)) - gammaln(0.5 * DOF)
        - 0.5 * dim * math.log(DOF * math.pi),
        "logistic": dim * math.log(STEEP),
    }  # fmt: skip
    PARAMETERS[:2] = dim, len(parts)
    for k, (weight, mean, root, kind) in enumerate(parts):
        constant = math.log(weight) - np.linalg.slogdet(root)[1] + constants[kind]
        own = [KINDS.index(kind), constant, *mean, *np.linalg.inv(root).ravel()]
        PARAMETERS[2 + k * size : 2 + (k + 1) * size] = own
    return SimpleNamespace(address=density.address, dim=dim)


def value_at(z):
    """Log density, with the parameters as they are."""
    z, grad = np.ascontiguousarray(z, dtype=np.float64), np.empty(len(z))
    as_pointer = np.ctypeslib.as_ctypes
    return density.ctypes(as_pointer(z), as_pointer(grad))


def wide_modes(rng):
    """One or two modes for the search to know."""
    dim, kind = int(rng.integers(2, 9)), str(rng.choice(KINDS))
    n = int(rng.integers(1, 3))
    weights = rng.dirichlet(np.full(n, 3.0))
    parts = []
    for weight in weights:
        turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
        root = turn * np.exp(rng.uniform(-0.7, 0.7, dim))
        mean = rng.normal(size=dim) * (0.0 if not parts else 12.0 / math.sqrt(dim))
        parts.append((float(weight), mean, root, kind))
    return parts


def planted(parts, fits, mass, width, rng):
    """A mode more, like one that a search fitted; None where it would be no mode."""
    masses = np.exp([fit.log_zeta for fit in fits])
    like = fits[int(rng.choice(len(fits), p=masses / masses.sum()))]
    at = rng.normal(size=like.dim)
    distance = math.exp(rng.uniform(math.log(NEAREST), math.log(FURTHEST)))
    at *= distance / np.linalg.norm(at)
    mean, root = like.from_base(at[None])[0], width * like.matrix
    mixture(*parts)
    height = math.log(mass / (1.0 - mass)) - np.linalg.slogdet(root)[1]
    height -= 0.5 * like.dim * math.log(2.0 * math.pi)
    valley = math.sqrt(2.0 * (1.0 + math.log(2.0))) * distance
    return (mass, mean, root, "gaussian") if height > value_at(mean) + valley else None


def holds(found, mean, root):
    """Whether a search has a mode at a place, within a standard deviation of each coordinate."""
    away = np.linalg.solve(root, (found.modes - mean).T)
    return bool((away**2).sum(axis=0).min() < len(mean))


def one_target(seed):
    """Row of the record: what was stated, and whether the planted mode was found."""
    rng = np.random.default_rng([31, seed])
    parts = wide_modes(rng)
    start = parts[0][1] + parts[0][2] @ rng.normal(size=len(parts[0][1]))
    i, j = rng.integers(3, size=2)
    wide = find_modes(mixture(*parts), start, rng)
    if not wide.search.planted:
        return None
    more = None
    for _ in range(50):
        more = more or planted(parts, wide.fits, MASSES[j], WIDTHS[i], rng)
    if more is None:
        return None
    scaled = [(weight * (1.0 - more[0]), *rest) for weight, *rest in parts]
    found = find_modes(mixture(*scaled, more), start, rng)
    return {
        "dim": len(start), "kind": parts[0][3], "wide": len(parts), "mass": MASSES[j],
        "width": WIDTHS[i], "stated": wide.search.planted[3 * i + j],
        "found": holds(found, more[1], more[2]), "by": list(found.search.found_by),
        "gradients": found.search.n_gradients,
    }  # fmt: skip


def kept_rows(record, wanted, row_of):
    """Rows of a record, made where they are not there yet."""
    rows = json.loads(record.read_text()) if record.exists() else []
    record.parent.mkdir(parents=True, exist_ok=True)
    for key in wanted[len(rows) :]:
        rows.append(row_of(key))
        record.write_text(json.dumps(rows))
    return rows[: len(wanted)]


def interval(n_found, n):
    """Ninety-five per cent of the frequency, by Clopper and Pearson."""
    low = beta.ppf(0.025, n_found, n - n_found + 1) if n_found else 0.0
    high = beta.ppf(0.975, n_found + 1, n - n_found) if n_found < n else 1.0
    return low, high


def by_bins(rows):
    """For each bin of what was stated: mean stated, number, found, interval."""
    stated = np.array([row["stated"] for row in rows])
    found = np.array([row["found"] for row in rows])
    where = np.clip(np.digitize(stated, BINS[1:-1], right=False), 0, len(BINS) - 2)
    for k in range(len(BINS) - 1):
        here = where == k
        if here.any():
            n, n_found = int(here.sum()), int(found[here].sum())
            yield stated[here].mean(), n, n_found, interval(n_found, n)


def report_calibration(rows, full):
    lines = [
        [f"{stated:.2f}", n, f"{n_found / n:.2f}", f"{low:.2f} to {high:.2f}",
         "yes" if low <= stated <= high else "no"]
        for stated, n, n_found, (low, high) in by_bins(rows)
    ]  # fmt: skip
    names = ["stated, mean", "targets", "found", "its 95 % interval", "holds the stated"]
    table("a planted mode: stated probability and frequency", names, lines)
    for name, values in (("kind", KINDS), ("width", WIDTHS), ("mass", MASSES)):
        for value in values:
            of = [row for row in rows if row[name] == value]
            if of:
                console.print(
                    f"{name} {value}: stated {np.mean([r['stated'] for r in of]):.2f}, found "
                    f"{np.mean([r['found'] for r in of]):.2f} of {len(of)}"
                )
    figure, axis = pyplot().subplots(figsize=(4.4, 4.2), layout="constrained")
    axis.plot([0, 1], [0, 1], color="grey", linewidth=1.0)
    for stated, n, n_found, (low, high) in by_bins(rows):
        axis.plot([stated, stated], [low, high], color="C0")
        axis.plot(stated, n_found / n, "o", color="C0", markersize=3.0 + 0.5 * math.sqrt(n))
    axis.set_xlabel("stated probability to find one mode more")
    axis.set_ylabel("share of the planted modes that was found")
    axis.set_title(f"{len(rows)} random targets", fontsize=10)
    save(figure, "search_calibration", full)


def one_narrow(key):
    """Whether a narrow mode of half the mass beside Student's t is found."""
    dim, ratio, seed = key
    rng = np.random.default_rng([dim, seed])
    at = rng.normal(size=dim)
    at *= DISTANCE / np.linalg.norm(at)
    wide = (0.5, np.zeros(dim), np.eye(dim), "student")
    target = mixture(wide, (0.5, at, ratio * np.eye(dim), "gaussian"))
    found = find_modes(target, np.zeros(dim), rng)
    # what the line of an estimate would say of a mode of a quarter of the mass
    said = getattr(found.search, "planted", ())
    off = np.abs(np.log(WIDTHS) - math.log(ratio))
    width = int(np.argmin(off))
    return {
        "dim": dim, "ratio": ratio, "found": holds(found, at, ratio * np.eye(dim)),
        "stated": said[3 * width + 2] if said and off[width] < ALIKE else None,
        "gradients": found.search.n_gradients,
    }  # fmt: skip


def report_narrow(columns):
    """One row for each dimension and ratio, found and gradients of each version."""
    lines = []
    for dim, ratio in product(DIMENSIONS, RATIOS):
        line = [dim, ratio]
        for _, rows in columns:
            of = [row for row in rows if (row["dim"], row["ratio"]) == (dim, ratio)]
            stated = [row["stated"] for row in of if row["stated"] is not None and not row["found"]]
            line += [
                f"{sum(row['found'] for row in of)} of {len(of)}",
                f"{np.mean(stated):.2f}" if stated else "",
                int(np.median([row["gradients"] for row in of])),
            ]
        lines.append(line)
    names = [f"{title}: {name}" for title, _ in columns
             for name in ("found", "stated where not", "gradients")]  # fmt: skip
    table(f"a narrow mode beside Student's t, {DISTANCE:g} away",
          ["dimensions", "ratio", *names], lines)  # fmt: skip


def one_of_scales(seed):
    """Whether all of three Gaussians are found, from the middle of the narrowest."""
    rng = np.random.default_rng([7, seed])
    places = [np.zeros(3), 2.5 * rng.normal(size=3), 60.0 * rng.normal(size=3)]
    parts = [(weight, place, scale * np.eye(3), "gaussian")
             for weight, place, scale in zip(WEIGHTS, places, SCALES, strict=True)]  # fmt: skip
    found = find_modes(mixture(*parts), np.zeros(3), rng)
    return {
        "found": [holds(found, place, root) for _, place, root, _ in parts],
        "modes": len(found.modes), "gradients": found.search.n_gradients,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=500)
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--scales", action="store_true")
    parser.add_argument("--searches", type=int, default=20, help="of each narrow target")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--against", type=Path, help="record of another version, for --narrow")
    args = parser.parse_args()
    name = "narrow" if args.narrow else "scales" if args.scales else "calibration"
    record = args.record or SHORT_FOLDER / f"search_{name}.json"
    if args.narrow:
        keys = list(product(DIMENSIONS, RATIOS, range(args.searches)))
        rows = kept_rows(record, keys, one_narrow)
        columns = [("now", rows)]
        if args.against is not None:
            columns.insert(0, ("before", json.loads(args.against.read_text())))
        report_narrow(columns)
    elif args.scales:
        rows = kept_rows(record, list(range(args.searches)), one_of_scales)
        n_all = sum(all(row["found"]) for row in rows)
        gradients = int(np.median([row["gradients"] for row in rows]))
        console.print(f"all three modes: {n_all} of {len(rows)} searches, {gradients} gradients")
    else:
        rows = kept_rows(record, list(range(args.targets)), one_target)
        report_calibration([row for row in rows if row], full=args.targets >= 500)


if __name__ == "__main__":
    main()
