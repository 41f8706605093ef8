"""How well a fit to few draws overlaps with curved targets: a Gaussian, and a bent one.

    python benchmarks/transport_maps.py
    python benchmarks/transport_maps.py --uses
    python benchmarks/transport_maps.py --without --names banana,cauchy_10 --seeds 3

The second says which shapes the searches of targets use, of those with a known log Z, of the corpus
and of real sizes. The third makes default runs with one of the shapes turned off at a time, of
those that were seen in use, and says what is used in its place. The rest is of the first.

Draws are exact. Each fit stands beside a multivariate t of weight 0.15, as in the mixture that
parallel tempering starts from; a rejection rate near 0.15 is all that this leaves. ``log Z`` is
from 1000 weighted draws of that mixture; exact is 0.
"""

import argparse
import logging
import warnings
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pytensor
from bench import load_cases, model_and_log_z
from corpus_models import CORPUS
from corpus_models.entries import IMPROPER, QUADRATURE, REFUSED
from corpus_second import quadrature
from figures import QUIET, console, rmse, table
from hard_targets import HARD
from real_models import REAL
from scipy.special import logsumexp
from scipy.stats import norm
from scipy.stats import t as student_t
from tailed import TAILED

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.transport import NOTHING, SCALE, SKEW, TAIL, TransportMap
from pymc_tempering.errors import TemperingError
from pymc_tempering.references import local_runs, mixture, transport_maps
from pymc_tempering.references import map_of_draws as of_draws
from pymc_tempering.references.hierarchy import Hierarchy
from pymc_tempering.references.local import Shape
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.mixture import swap_rejection
from pymc_tempering.references.quality import FAIR, N_MANY, evaluate_elbo
from pymc_tempering.steps.reference import ReferenceChoice
from pymc_tempering.testing import TARGETS as EXACT_TARGETS

N_SEEDS = 5
N_DRAWS = (300, 3000)


class Bananas:
    """Second halves around multiples of squares of the first."""

    def __init__(self, pairs, width, slope, sd):
        self.pairs, self.width, self.slope, self.sd = pairs, width, slope, sd

    def draw(self, rng, n):
        """Independent draws, shape (n, D)."""
        a = self.width * rng.normal(size=(n, self.pairs))
        return np.hstack([a, self.slope * a**2 + self.sd * rng.normal(size=(n, self.pairs))])

    def log_density(self, z):
        """Normalised log density of ``z`` (n, D) in nats, shape (n,)."""
        a, b = np.split(z, 2, axis=1)
        parts = norm(0.0, self.width).logpdf(a) + norm(self.slope * a**2, self.sd).logpdf(b)
        return parts.sum(axis=1)


class Funnel:
    """The logarithm of the variance is the last coordinate."""

    def __init__(self, dim):
        self.dim = dim

    def draw(self, rng, n):
        """Independent draws, shape (n, D)."""
        v = 3.0 * rng.normal(size=(n, 1))
        return np.hstack([np.exp(v / 2.0) * rng.normal(size=(n, self.dim - 1)), v])

    def log_density(self, z):
        """Normalised log density of ``z`` (n, D) in nats, shape (n,)."""
        x, v = z[:, :-1], z[:, -1:]
        return norm(0.0, 3.0).logpdf(v[:, 0]) + norm(0.0, np.exp(v / 2.0)).logpdf(x).sum(axis=1)


class Tails:
    """Independent Student t densities."""

    def __init__(self, dof, dim):
        self.law, self.dim = student_t(dof), dim

    def draw(self, rng, n):
        """Independent draws, shape (n, D)."""
        return self.law.rvs((n, self.dim), random_state=rng)

    def log_density(self, z):
        """Normalised log density of ``z`` (n, D) in nats, shape (n,)."""
        return self.law.logpdf(z).sum(axis=1)


TARGETS = {
    "a steep banana": Bananas(1, 2.0, 3.0, 0.1),
    "four of them": Bananas(4, 2.0, 3.0, 0.1),
    "twelve bananas": Bananas(12, 1.0, 2.0, 0.3),
    "funnel of 10": Funnel(10),
    "funnel of 30": Funnel(30),
    "ten Cauchy densities": Tails(1.0, 10),
    "ten of 3 degrees": Tails(3.0, 10),
}


def overlap(target, fit, coordinates, rng):
    """Rejection rate, and error of log Z from draws of the mixture."""
    mixture = Mixture((fit,), np.ones(1))
    z, _ = mixture.draw(1000, coordinates, rng)
    there = target.draw(rng, 1000)
    with np.errstate(all="ignore"):
        own, others = (
            target.log_density(x) - mixture.log_density(x, coordinates) for x in (z, there)
        )
    own = np.where(np.isnan(own), -np.inf, own)
    return swap_rejection(own, others), logsumexp(own) - np.log(own.size)


def study(target, n):
    """Medians over seeds, of a Gaussian and of a bent fit."""
    found = []
    for seed in range(N_SEEDS):
        rng = np.random.default_rng(seed)
        draws = target.draw(rng, n)
        mean, cov = draws.mean(axis=0), np.cov(draws, rowvar=False)
        gaussian = GaussianBase.from_moments(mean, cov)
        wide = Coordinates.of(GaussianBase(mean, 1.2 * gaussian.scale))
        mapped = map_of_draws(draws, n / 2)
        found.append([overlap(target, fit, wide, rng) for fit in (gaussian, mapped)])
    return np.median(found, axis=0)


def no_run(density, fit, rng, left, *, is_heavy):
    """No short run; what needs a map begins with levels, and has one of a chain's own draws."""
    variance = evaluate_elbo(density, fit, rng, N_MANY).variance
    return Shape(None, variance, N_MANY, needs_levels=is_heavy or variance > FAIR)


def no_scales(*args):
    """A coordinate's fit whose scale depends on no other."""
    t, x, *_ = args
    found = FIT_COORDINATE(*args)
    bends = np.array([(a, b) for a, b, _ in found.mean]).T
    residual = t - x @ found.linear
    residual -= of_draws.products(x, *bends) @ np.array([c for *_, c in found.mean])
    return found._replace(scale=[], log_scale=float(np.log(residual.std())))


FIT_COORDINATE = of_draws._fit_coordinate
NO_HIERARCHY = ((Hierarchy, "of", lambda _: (None, 0)),)
NO_LOCAL_STEPS = ((local_runs, "depth_of_funnels", lambda *_: 0.0),)
OFF = {
    "none": (),
    "third order": ((transport_maps, "MOST_DIM_OF_THIRD_ORDER", 0),),
    "short runs": ((transport_maps, "map_by_run", no_run),),
    "tails": ((of_draws, "_tails", lambda *_: {}),),
    "scales": ((of_draws, "_fit_coordinate", no_scales),),
    "local steps": NO_LOCAL_STEPS,
    "maps while tuning": ((ReferenceChoice, "_maps", lambda *_: iter(())),),
    "maps of pieces": ((mixture, "map_of_draws", lambda *_: None),),
    "hierarchies": NO_HIERARCHY,
    "hierarchies and local steps": NO_HIERARCHY + NO_LOCAL_STEPS,
}
"""What is patched, and what with, for runs without a shape, or without maps of hierarchies."""

OFF_WHERE = {
    "third order": ("third order",), "short runs": ("run: ",), "tails": ("tails",),
    "scales": ("run: scales", "run: bends+scales", "draws: scales", "draws: bends+scales",
               "pieces: scales", "pieces: bends+scales"),
    "local steps": ("deep",), "maps while tuning": ("draws: ", "pieces: "),
    "maps of pieces": ("pieces: ",), "hierarchies": ("hierarchy",),
    "hierarchies and local steps": ("hierarchy",),
}  # fmt: skip
"""Parts of the names of what a run was seen to use, where turning a shape off changes it."""


def kinds(shape):
    """What is in a map beyond a Gaussian."""
    if not isinstance(shape, TransportMap):
        return "Gaussian"
    _, kind, a, b = shape.terms.what.T
    has = {
        "bends": (b != NOTHING).any(), "scales": ((kind == SCALE) & (a != NOTHING)).any(),
        "tails": (kind == TAIL).any(), "skews": (kind == SKEW).any(),
    }  # fmt: skip
    return "+".join(name for name, there in has.items() if there)


class Watched:
    """Shapes that searches and chains come to use, counted in ``seen``, as far as patched in."""

    def __init__(self, seen):
        self.seen, self.n_runs = seen, 0
        self.shape_of, self.by_run = transport_maps._shape_of, transport_maps.map_by_run
        self.end_of_round, self.hierarchy_of = ReferenceChoice.end_of_round, Hierarchy.of

    def count(self, name):
        """Take note of a use."""
        self.seen[name] = self.seen.get(name, 0) + 1

    def run(self, *args, **kwargs):
        """Make a short run."""
        found = self.by_run(*args, **kwargs)
        self.n_runs += 1
        if found.funnel_depth >= local_runs.DEEP:
            self.count("deep")
        return found

    def shape(self, *args, **kwargs):
        """Look for the shape of a fit, and say where it comes from."""
        n = self.n_runs
        found = self.shape_of(*args, **kwargs)
        if self.n_runs > n:
            self.count("run: " + ("no map" if found.shape is None else kinds(found.shape)))
        elif found.shape is not None:
            self.count("third order: " + kinds(found.shape))
        return found

    def hierarchy(self, density):
        """Look for a hierarchy."""
        found, n = self.hierarchy_of(density)
        if found is not None:
            self.count("hierarchy")
        return found, n

    def round(self, choice, ladder, ended, rng):
        """End a round of a chain, and say which map is new in its reference."""
        result = self.end_of_round(choice, ladder, ended, rng)
        fits = () if ladder.mixture is None else ladder.mixture.fits
        known = () if choice.first is None else [id(fit) for fit in choice.first.fits]
        new = [fit for fit in fits if isinstance(fit, TransportMap) and id(fit) not in known]
        if new:
            self.count(("pieces: " if len(fits) > 1 else "draws: ") + kinds(new[0]))
        return result

    def patches(self):
        """What has to be patched in for all of this."""
        end = self.round
        return (
            patch.object(transport_maps, "map_by_run", self.run),
            patch.object(transport_maps, "_shape_of", self.shape),
            patch.object(Hierarchy, "of", self.hierarchy),
            patch.object(ReferenceChoice, "end_of_round", lambda *args: end(*args)),
        )


@contextmanager
def turned_off(name, which, seen):
    """Without a shape, and with all uses of the others in ``seen``."""
    with ExitStack() as stack:
        stack.enter_context(flags_of(name))
        for where, what, instead in OFF[which]:
            stack.enter_context(patch.object(where, what, instead))
        for each in Watched(seen).patches():
            stack.enter_context(each)
        yield


def names_known():
    """Targets whose log Z is known, then the rest of the corpus and of the real sizes."""
    cases = load_cases() or {}
    first = dict.fromkeys([*HARD, *EXACT_TARGETS, *TAILED, *cases])
    return [*first, *(name for name in [*CORPUS, *REAL] if name not in first)]


def problem(name):
    """Model, its log Z (nan where it is not known), and flags of PyTensor."""
    if name in HARD:
        return HARD[name]().model, HARD[name]().log_z
    if name in EXACT_TARGETS or name in TAILED or name not in {*CORPUS, *REAL}:
        return model_and_log_z(name, load_cases())
    if name in REAL:
        return REAL[name].build(), np.nan
    model, second = CORPUS[name].build()
    if second == QUADRATURE:
        return model, quadrature(model)[0]
    return model, np.nan if isinstance(second, str) else float(np.ravel(second)[0])


def flags_of(name):
    """Flags of PyTensor with which a model is run."""
    return pytensor.config.change_flags(**(CORPUS[name].flags if name in CORPUS else {}))


def print_uses(names, n_seeds):
    """Print which shapes the searches of targets use."""
    for name in names:
        if name in CORPUS and CORPUS[name].build()[1] in {IMPROPER, REFUSED}:
            continue
        for seed in range(n_seeds):
            seen = {}
            try:
                with turned_off(name, "none", seen):
                    step = pm_temper.ParallelTempering(model=problem_model(name))
                    step.prepare(seed)
                found = step._found.fits
                said = f"{len(found.fits)} fits, {found.search.n_gradients:,} gradients"
            except TemperingError as error:
                said = type(error).__name__
            console.print(f"{name} {seed}: {said}; {seen}", soft_wrap=True)


def problem_model(name):
    """Model alone, without a second log Z."""
    exact = name in HARD or name in EXACT_TARGETS or name in TAILED or name not in CORPUS
    return problem(name)[0] if exact else CORPUS[name].build()[0]


def print_without(names, seeds, off):
    """Print errors and gradients of default runs, one shape turned off at a time."""
    for name in names:
        model, exact = problem(name)
        used = {}
        for which in ["none", *(each for each in off if each != "none")]:
            parts = OFF_WHERE.get(which, ("",))
            if used and not any(part in use for part in parts for use in used):
                continue
            found, seen = [], {}
            for seed in seeds:
                with turned_off(name, which, seen):
                    estimate = pm_temper.estimate_logz(model, random_seed=seed, **QUIET)
                took = sum(estimate.gradients.values())
                found.append([estimate.log_z - exact, estimate.se, took, bool(estimate.warnings)])
            # what is used decides what else is turned off
            used = (seen or {"nothing": 0}) if which == "none" else used
            error, se, gradients, warned = np.array(found).T
            cells = [
                name, which, f"{rmse(error):.4f}", f"{np.sqrt(np.mean(se**2)):.4f}",
                f"{np.abs(error / se).max():.1f}", f"{np.mean(gradients):,.0f}",
                f"{np.mean(gradients * se**2):.3g}", int(warned.sum()),
                ", ".join(f"{key} {n}" for key, n in seen.items()),
            ]  # fmt: skip
            console.print(*cells, sep=" | ", soft_wrap=True)


def main():
    """Print a row for each target and number of draws."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--uses", action="store_true")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--names", type=lambda text: text.split(","))
    parser.add_argument("--off", type=lambda text: text.split(","), default=list(OFF))
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    names = arguments.names or names_known()
    if arguments.uses:
        print_uses(names, 1)
        return
    if arguments.without:
        console.print(
            "target | off | RMSE | se | most error / se | gradients | times se^2 | warned | used"
        )
        print_without(names, range(1, arguments.seeds + 1), arguments.off)
        return
    rows = []
    for name, target in TARGETS.items():
        for n in N_DRAWS:
            (gaussian_fit, z_gaussian), (mapped, z_map) = study(target, n)
            rows.append([name, n, f"{gaussian_fit:.4f}", f"{z_gaussian:.1f}", f"{mapped:.2f}",
                         f"{z_map:.3f}"])  # fmt: skip
    columns = ["target", "draws", "Gaussian rejects", "log Z", "bent one rejects", "log Z"]
    table(f"Medians of {N_SEEDS} seeds", columns, rows)


if __name__ == "__main__":
    main()
