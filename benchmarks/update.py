"""Evidence and posterior of growing data: ten steps of 100 rows each, against one run on all.

    python benchmarks/update.py --seeds 10

The first step is a run, the others are updates of the one before, by tempering and with
``quick=True``. Log Z of all data after them is
compared with that of one run, in units of both errors; where log Z is known exactly, so are log Z
and increments after every step. Gradients of the ten steps over those of the one run; CPU seconds
of an update, those of compiling in the first alone.
"""

import argparse
import logging
import time
import warnings

import numpy as np
import pymc as pm
from figures import QUIET, console, table
from scipy import stats
from scipy.special import expit, logsumexp

import pymc_tempering as pm_temper

N_STEPS, N_ROWS, DIM = 10, 100, 8


class Logistic:
    """Logistic regression with eight coefficients."""

    def __init__(self, rng):
        self._slopes = rng.normal(size=DIM)

    def rows(self, rng):  # noqa: D102
        x = rng.normal(size=(N_ROWS, DIM))
        return {"x": x, "y": (rng.random(N_ROWS) < expit(x @ self._slopes)).astype(int)}

    def model(self, data):  # noqa: D102
        with pm.Model() as model:
            slopes = pm.Normal("slopes", 0.0, 1.0, shape=DIM)
            pm.Bernoulli("y", logit_p=pm.Data("x", data["x"]) @ slopes, observed=data["y"])
        return model

    def exact(self, data):  # noqa: D102
        return None


class TwoModes:
    """Two modes by the sign of `position`, whose weights follow the data; log Z on a grid."""

    _position = np.linspace(-3.0, 3.0, 1201)
    _log_scale = np.linspace(-1.5, 2.0, 601)

    def __init__(self, rng):
        pass

    def rows(self, rng):  # noqa: D102
        return {"y": rng.normal(1.05, 1.5, size=N_ROWS)}

    def model(self, data):  # noqa: D102
        with pm.Model() as model:
            position, scale = pm.Normal("position", 0.2, 1.5), pm.HalfNormal("scale", 2.0)
            pm.Normal("y", position**2 + 0.05 * position, scale, observed=data["y"])
        return model

    def exact(self, data):  # noqa: D102
        t, log_s, y = self._position, self._log_scale, data["y"]
        squares = ((y[:, None] - t**2 - 0.05 * t) ** 2).sum(axis=0)
        log_p = -0.5 * squares[:, None] / np.exp(2.0 * log_s) - len(y) * log_s
        log_p += stats.norm(0.2, 1.5).logpdf(t)[:, None] + log_s
        log_p += stats.halfnorm(scale=2.0).logpdf(np.exp(log_s))
        cell = (t[1] - t[0]) * (log_s[1] - log_s[0])
        return logsumexp(log_p) + np.log(cell) - 0.5 * len(y) * np.log(2.0 * np.pi)


CASES = {"logistic regression": Logistic, "two modes": TwoModes}


def evidence(idata):
    found = idata["tempering"].dataset
    return float(found["log_marginal_likelihood"]), float(found["log_marginal_likelihood_se"])


def gradients(idata):
    """Of the search, or what stands for it in an update, of tuning, and of draws."""
    if "sample_stats" in idata.children:
        return np.array([*pm_temper.estimate_logz(idata).gradients.values()])
    # by weights, whose search is not told apart here
    return np.array([0, 0, int(idata["updates"]["gradients"][-1])])


def one_seed(case, seed):
    """Figures of one seed by name, of updates by tempering and of quick ones."""
    rng = np.random.default_rng(seed)
    options = {"draws": 160, "random_seed": seed} | QUIET
    batches = [case.rows(rng) for _ in range(N_STEPS)]
    data = [
        {name: np.concatenate([b[name] for b in batches[: k + 1]]) for name in batches[0]}
        for k in range(N_STEPS)
    ]
    model = case.model(data[0])
    first = pm_temper.sample(model, **options)
    whole = pm_temper.sample(case.model(data[-1]), **options)
    exact = None
    if case.exact(data[0]) is not None:
        exact = np.array([case.exact(d) for d in data])
    return [updated(first, whole, batches, model, exact, q, options) for q in (False, True)]


def updated(first, whole, batches, model, exact, quick, options):
    """Figures of updates of a run by batches of data, beside the run on all data."""
    parts, seconds, runs = [gradients(first)], [], [first]
    for new in batches[1:]:
        began = time.process_time()
        runs.append(pm_temper.update(runs[-1], new, model, quick=quick, **options))
        seconds.append(time.process_time() - began)
        parts.append(gradients(runs[-1]))
    # of an update that turned out to need tempering, what was tried before is in here alone
    spent = runs[-1]["updates"]["gradients"].values
    of_whole = gradients(whole)
    (log_z, se), (one, one_se) = evidence(runs[-1]), evidence(whole)
    found = {
        "against one run": (log_z - one) / np.hypot(se, one_se),
        "se": se,
        "gradients": (parts[0].sum() + spent.sum()) / of_whole.sum(),
        "of an update": spent.mean() / of_whole.sum(),
        "parts of a run": of_whole,
        "parts of an update": np.mean(parts[1:], axis=0),
        "first seconds": seconds[0],
        "later seconds": float(np.median(seconds[1:])),
        "warned": sum(bool(r["tempering"]["warning_code"].size) for r in runs),
        "by weights": sum("sample_stats" not in r.children for r in runs[1:]),
    }
    if exact is not None:
        known = runs[-1]["updates"].dataset
        found["log Z against exact"] = (log_z - exact[-1]) / se
        found["increments against exact"] = np.sqrt(
            np.mean(((known["log_increment"] - np.diff(exact)) / known["log_increment_se"]) ** 2)
        ).item()
    return found


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def row(name, found):
    get = {key: np.array([f[key] for f in found]) for key in found[0]}
    scores = get["against one run"]
    known = "log Z against exact" in get
    return [
        name, f"{rms(scores):.2f}", f"{np.abs(scores).max():.2f}",
        f"{rms(get['log Z against exact']):.2f}" if known else "",
        f"{rms(get['increments against exact']):.2f}" if known else "",
        f"{np.median(get['se']):.4f}", f"{np.median(get['gradients']):.2f}",
        f"{np.median(get['of an update']):.2f}",
        *(
            ", ".join(f"{n:.0f}" for n in np.median(get[f"parts of {of}"], axis=0))
            for of in ("a run", "an update")
        ),
        f"{get['first seconds'][0]:.0f}, {np.median(get['later seconds']):.1f}",
        f"{get['by weights'].sum()} of {len(found) * (N_STEPS - 1)}",
        int(get["warned"].sum()),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", choices=list(CASES))
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    rows = []
    for name in [args.only] if args.only else CASES:
        case = CASES[name](np.random.default_rng(0))
        pairs = [one_seed(case, seed) for seed in range(1, args.seeds + 1)]
        for how, found in zip(("", ", quick"), zip(*pairs, strict=True), strict=True):
            rows.append(row(name + how, found))
    head = [
        "case", "RMS difference over errors", "largest", "log Z, RMS over se, exact",
        "increments, RMS over se, exact", "se", "gradients over one run", "of one update",
        "search, tuning, draws of a run", "of an update",
        "CPU seconds, first, later", "by weights", "runs with warnings",
    ]  # fmt: skip
    table(f"{N_STEPS} steps of {N_ROWS} rows, {args.seeds} seeds", head, rows)
    console.print("Differences and errors in nats.")


if __name__ == "__main__":
    main()
