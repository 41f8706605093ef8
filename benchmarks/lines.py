"""How lines of starts find periods among thousands: their thresholds at 1, at half and twice.

    python benchmarks/lines.py --sets 6
    python benchmarks/lines.py --sets 6 --only "as it is"     # with the package of another version

One to three signals with a period, an amplitude and a second harmonic each, in 100 times of two
seasons with noise of known size: planets with small eccentricities, at a thousandth of the price of
Kepler's equation. Periods from 1.25 to 10,000 days are some 3000 that can be told apart.

Of each value of a threshold in turn: in how many searches the best fit is at least as high, less 3
nats, as what ascents from the true values lead to, and the median of gradients and of CPU seconds.
Searches are written to ``--record`` one by one, and are not made again.
"""

import argparse
import json
import math
import statistics
import time
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numba
import numpy as np
from figures import SHORT_FOLDER, console, table

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references import sources
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.search import find_modes

LOW, HIGH = math.log(1.25), math.log(1e4)
"""Of periods, days."""

SPREAD, SIZE = 0.2, 3.0
"""Scales of harmonics, as a share, and of amplitudes, in units of the noise."""

N_TIMES, N_PRIOR = 100, 512
NEAR = 3.0
"""Nats by which a search may be lower."""

EACH = 5
"""Coordinates of one signal: period, cosine and sine, and the two of the harmonic."""

COUNTS = {
    "MOST_ON_LINE": (8, 32), "N_HALVINGS": (1, 4, 16), "N_PROMISING": (16, 64),
    "N_IN_RACE": (1, 4, 16), "N_WINNERS": (1, 4, 16),
}  # fmt: skip
BOUNDS = ("MOST_OFF", "MOST_APART")


def variants():
    """What is changed in each row of the table; older packages lack some of the names."""
    found = {"as it is": {}}
    for name, values in COUNTS.items():
        found |= {f"{name} {value}": {name: value} for value in values}
    for name in BOUNDS:
        for times, factor in (("half", 0.5), ("twice", 2.0)):
            bounds = getattr(sources, name, ())
            found[f"{name} {times}"] = {name: tuple(factor * bound for bound in bounds)}
    return found


def simulated(number, n):
    """Density of the n signals of a set, a start, and their true values as a place."""
    rng = np.random.default_rng((number, n))
    times = np.sort(
        np.concatenate([rng.uniform(0, 90, N_TIMES // 2), rng.uniform(300, 420, N_TIMES // 2)])
    )
    times -= times.mean()
    true = np.empty((n, EACH))
    true[:, 0] = rng.logistic(size=n)
    true[:, 1:3] = rng.normal(size=(n, 2))
    # from what 100 values with a noise of 1 hardly show to ten times that
    sizes = np.exp(rng.uniform(math.log(0.6), math.log(6.0), size=n)) / SIZE
    true[:, 1:3] *= (sizes / np.linalg.norm(true[:, 1:3], axis=1))[:, None]
    true[:, 3:] = SPREAD * rng.normal(size=(n, 2))
    data = rng.normal(size=N_TIMES)

    @numba.njit
    def of(z, grad, y, sign):
        """Log likelihood of ``y`` and what is left of it; with sign -1 signals are added to it."""
        total, residual = 0.0, y.copy()
        for phase in range(2):
            for t in range(N_TIMES):
                for i in range(n):
                    a, b, x, w = z[5 * i + 1], z[5 * i + 2], z[5 * i + 3], z[5 * i + 4]
                    share = 1.0 / (1.0 + math.exp(-z[5 * i]))
                    rate = 2.0 * math.pi * math.exp(-(LOW + (HIGH - LOW) * share))
                    c, s = math.cos(rate * times[t]), math.sin(rate * times[t])
                    c2, s2 = c * c - s * s, 2.0 * c * s
                    first = a * c + b * s
                    # the harmonic's complex amplitude is the product of both
                    p, q = a * x - b * w, a * w + b * x
                    if phase == 0:
                        residual[t] -= sign * SIZE * (first + p * c2 + q * s2)
                        continue
                    r = SIZE * residual[t]
                    grad[5 * i + 1] += r * (c + x * c2 + w * s2)
                    grad[5 * i + 2] += r * (s - w * c2 + x * s2)
                    grad[5 * i + 3] += r * (a * c2 + b * s2)
                    grad[5 * i + 4] += r * (a * s2 - b * c2)
                    turn = b * c - a * s + 2.0 * (q * c2 - p * s2)
                    slope = -(HIGH - LOW) * share * (1.0 - share)
                    grad[5 * i] += r * turn * rate * times[t] * slope
                if phase == 1:
                    total -= 0.5 * residual[t] ** 2
        return total, residual

    ignored = np.zeros(n * EACH)
    seen = of(true.ravel(), ignored, data, -1.0)[1]

    @numba.cfunc("float64(CPointer(float64), CPointer(float64))")
    def density(z_pointer, grad_pointer):
        z, grad = numba.carray(z_pointer, n * EACH), numba.carray(grad_pointer, n * EACH)
        grad[:] = 0.0
        total = of(z, grad, seen, 1.0)[0]
        for i in range(n * EACH):
            if i % EACH == 0:
                total -= abs(z[i]) + 2.0 * math.log1p(math.exp(-abs(z[i])))
                grad[i] -= math.tanh(0.5 * z[i])
            else:
                scale = 1.0 if i % EACH < 3 else SPREAD
                total -= 0.5 * (z[i] / scale) ** 2
                grad[i] -= z[i] / scale**2
        return total

    target = SimpleNamespace(address=density.address, dim=n * EACH, kept_alive=density)
    return target, np.full(n * EACH, 0.05), true.ravel()


def drawn(rng, n):
    """Draws of the prior."""
    points = rng.normal(size=(N_PRIOR, n, EACH))
    points[..., 0] = rng.logistic(size=(N_PRIOR, n))
    points[..., 3:] *= SPREAD
    return points.reshape(N_PRIOR, -1)


def images(n):
    """Signals in every order."""
    orders = np.array(list(permutations(range(n))))[1:]
    return lambda z: z.reshape(n, EACH)[orders].reshape(len(orders), -1)


def height_of_truth(target, true):
    """Log density at the highest end of ascents from the true values."""
    near = Coordinates.of(GaussianBase(true, np.full(true.size, 0.01)))
    aside = true + 0.01 * np.random.default_rng(0).normal(size=(20, true.size))
    return float(ascend(target, np.vstack([true, aside]), near).values.max())


def searched(target, start, seed, n):
    """Highest log density at the centre of a fit, gradients and CPU seconds."""
    rng = np.random.default_rng(seed)
    points, started = drawn(rng, n), time.process_time()
    found = find_modes(target, start, rng, prior_points=points, images=images(n) if n > 1 else None)
    seconds = time.process_time() - started
    near = Coordinates.of(GaussianBase(start, np.ones(start.size)))
    tops = ascend(target, np.array([fit.mean for fit in found.fits]), near)
    return {"value": float(tops.values.max()), "gradients": found.search.n_gradients,
            "seconds": seconds}  # fmt: skip


def study(names, sets, signals, record):
    """Rows of all searches; those that the record lacks are made."""
    rows = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    done = {(row["name"], row["set"], row["n"]) for row in rows}
    record.parent.mkdir(parents=True, exist_ok=True)
    for number in range(sets):
        for n in signals:
            missing = [name for name in names if (name, number, n) not in done]
            if not missing:
                continue
            target, start, true = simulated(number, n)
            truth = height_of_truth(target, true)
            for name in missing:
                with patch.dict(vars(sources), variants()[name]):
                    found = searched(target, start, number, n)
                rows.append({"name": name, "set": number, "n": n, "truth": truth} | found)
                with record.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
            console.print(f"set {number}, signals: {n}")
    return rows


def cell(rows):
    """Searches that found the signals, of all; thousands of gradients, and CPU seconds."""
    if not rows:
        return ""
    right = sum(row["value"] >= row["truth"] - NEAR for row in rows)
    gradients = statistics.median(row["gradients"] for row in rows) / 1e3
    seconds = statistics.median(row["seconds"] for row in rows)
    return f"{right} of {len(rows)}, {gradients:.0f}k, {seconds:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=6)
    parser.add_argument("--signals", default="1,2,3")
    parser.add_argument("--only", default=",".join(variants()))
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "lines.jsonl")
    args = parser.parse_args()
    names = args.only.split(",")
    signals = [int(n) for n in args.signals.split(",")]
    rows = study(names, args.sets, signals, args.record)
    lines = [
        [name, *(cell([r for r in rows if (r["name"], r["n"]) == (name, n)]) for n in signals)]
        for name in names
    ]
    columns = ["threshold", *(f"signals: {n}" for n in signals)]
    table("searches that found all signals, gradients and CPU seconds", columns, lines)


if __name__ == "__main__":
    main()
