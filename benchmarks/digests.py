"""Compare seeded runs with those of an earlier commit, to the last bit.

For changes that only move code: ``python benchmarks/digests.py --write`` before, and without the
option after. Every method on six models, with short runs; a line for each that differs, and the
first statistics in which it does. Timings are left out. Last bits differ
between processors, so digests are kept in ``out/`` and not with the sources.
"""

import argparse
import hashlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_tempering as pm_temper

FILE = Path(__file__).resolve().parents[1] / "out" / "digests.json"
METHODS = {
    "pt": {"draws": 20, "tune": 40},
    "gibbs_ct": {"draws": 20, "tune": 60},
    "st": {"draws": 20, "tune": 60},
    "hais": {"draws": 20, "tune": 40},
    "joint_ct": {"draws": 100, "tune": 200},
}
TIMES = ("perf_counter_diff", "perf_counter_start", "process_time_diff", "sampling_time")


def two_modes():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 5.0, shape=2)
        pm.Potential(
            "two",
            pm.math.logaddexp(
                np.log(0.7) - 2.0 * ((x - 2.0) ** 2).sum(), np.log(0.3) - ((x + 2.0) ** 2).sum()
            ),
        )
    return model


def regression():
    x = np.linspace(-1.0, 2.0, 15)
    with pm.Model() as model:
        slope, sigma = pm.Normal("slope", 0.0, 2.0), pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", slope * x, sigma, observed=0.7 * x + 0.3 * np.cos(9.0 * x))
    return model


def groups():
    """Enough dimensions for a low-rank base."""
    group = np.arange(90) % 45
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
        a = pm.Normal("a", mu, tau, shape=45)
        pm.Normal("y", a[group], 0.7, observed=np.sin(np.arange(90.0)) + 0.5)
    return model


def hard_edge():
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 1.0, shape=3, initval=np.ones(3))
        # through a comparison alone x would have no gradient, and HAIS refuse it
        pm.Potential("edge", pm.math.switch(x[0] > 0.5, 0.1 * x[0], -np.inf))
    return model


def labels():
    y = np.array([-2.1, -1.8, -2.4, 0.1, 0.3, -0.2, 2.0, 2.6])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 4.0, shape=2)
        pm.NormalMixture("y", np.array([0.5, 0.5]), mu, 0.8, observed=y)
    return model


def heavy_tails():
    with pm.Model() as model:
        x = pm.StudentT("x", nu=3.0, mu=0.5, sigma=1.0, shape=4)
        pm.Normal("y", x.sum(), 1.0, observed=2.5)
    return model


MODELS = (two_modes, regression, groups, hard_edge, labels, heavy_tails)


def digest(array):
    array = np.ascontiguousarray(array)
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()[:16]


def run(make, method):
    """Digest of every recorded variable, and of log Z with its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimate = pm_temper.estimate_logz(
            make(), method=method, chains=2, cores=1, random_seed=11, progressbar=False,
            **METHODS[method],
        )  # fmt: skip
    digests = {"log_z": f"{estimate.log_z!r}", "se": f"{estimate.se!r}"}
    for group in ("posterior", "sample_stats"):
        if group in estimate.idata.children:
            for name, variable in estimate.idata[group].dataset.data_vars.items():
                if name not in TIMES:
                    digests[f"{group}/{name}"] = digest(variable.values)
    return digests


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep these digests to compare with")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    arguments = parser.parse_args()
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    n_different = 0
    for make in MODELS:
        for method in arguments.methods:
            key = f"{make.__name__}/{method}"
            found = run(make, method)
            if arguments.write:
                kept[key] = found
                print(f"{key:30s} kept", flush=True)
                continue
            before = kept.get(key, {})
            different = [name for name in sorted(before) if before[name] != found.get(name)]
            added = [f"+{name}" for name in sorted(found.keys() - before.keys())]
            n_different += bool(different) or not before
            verdict = "same" if before and not different else "DIFFERENT:"
            print(f"{key:30s} {verdict}", *different[:6], *added)
            sys.stdout.flush()
    if arguments.write:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(f"{n_different} of {len(MODELS) * len(arguments.methods)} runs differ")
    return int(n_different > 0)


if __name__ == "__main__":
    sys.exit(main())
