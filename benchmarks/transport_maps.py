"""How well a fit to few draws overlaps with curved targets: a Gaussian, and a bent one.

    python benchmarks/transport_maps.py
    python benchmarks/transport_maps.py --runs
    python benchmarks/transport_maps.py --tails

The second prints what the short runs before the chains make of fits, and their gradients; the third
default runs on targets with heavy tails, with fits that may have such tails and without.

Draws are exact. Each fit stands beside a multivariate t of weight 0.15, as in the mixture that
parallel tempering starts from; a rejection rate near 0.15 is all that this leaves. ``log Z`` is
from 1000 weighted draws of that mixture; exact is 0.
"""

import argparse
from unittest.mock import patch

import numpy as np
from figures import QUIET, rmse, table
from hard_targets import HARD
from scipy.special import logsumexp
from scipy.stats import norm
from scipy.stats import t as student_t

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references import map_of_draws as of_draws
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.mixture import swap_rejection
from pymc_tempering.references.prepare import prepare
from pymc_tempering.references.transport_maps import fit_maps
from pymc_tempering.testing import banana, heavy_tail

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


def print_runs():
    """Print what becomes of the fits of some targets before any chain."""
    rows = []
    for name in ("banana", "funnel_30", "eight_schools_centred", "bananas_and_gaussian"):
        model = banana().model() if name == "banana" else HARD[name]().model
        density = compile_density(model)
        for seed in range(N_SEEDS):
            rng = np.random.default_rng(seed)
            found = prepare(density, density.start, rng)
            mapped = fit_maps(density, found, rng)
            n = mapped.search.n_gradients - found.search.n_gradients
            outcome = "levels" if mapped.needs_levels else "none"
            rows.append([name, seed, len(found.fits), outcome, f"{n:,}"])
    table("Runs before the chains",
                        ["target", "seed", "fits", "needs", "gradients"], rows)  # fmt: skip


def print_tails():
    """Print errors and gradients of default runs, as fits may have tails or not."""
    rows = []
    for name, n_seeds in (("heavy_tail", 20), ("cauchy_10", 10), ("horseshoe_prior", 4)):
        if name == "heavy_tail":
            model, exact = heavy_tail().model(), heavy_tail().log_z
        else:
            model, exact = HARD[name]().model, HARD[name]().log_z
        for which in ("normal", "t"):
            found, gradients = [], []
            tails = dict_of_none if which == "normal" else of_draws._tails
            with patch.object(of_draws, "_tails", tails):
                for seed in range(n_seeds):
                    estimate = pm_temper.estimate_logz(model, random_seed=seed, **QUIET)
                    found.append([estimate.log_z - exact, estimate.se])
                    gradients.append(sum(estimate.gradients.values()))
            error, se = np.array(found).T
            rows.append([name, which, n_seeds, f"{rmse(error):.3f}", f"{np.median(se):.3f}",
                         f"{rmse(error / se):.2f}", int(np.sum(np.abs(error) > 4.0 * se)),
                         f"{np.median(gradients):,.0f}"])  # fmt: skip
    columns = ["target", "fits", "runs", "RMSE", "median se", "RMS of error / se", "beyond 4 se",
               "gradients"]  # fmt: skip
    table("Default runs", columns, rows)


def dict_of_none(*_):
    """No tail of any coordinate."""
    return {}


def main():
    """Print a row for each target and number of draws."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--tails", action="store_true")
    arguments = parser.parse_args()
    if arguments.runs or arguments.tails:
        (print_runs if arguments.runs else print_tails)()
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
