"""What the third derivatives of log weights make of Gaussian fits, on models of the corpus.

    python benchmarks/third_order.py
    python benchmarks/third_order.py --models logistic,batting --seeds 4
    python benchmarks/third_order.py --runs --seeds 12

Of each model of up to 50 parameters in which the search finds one mode: the variance of the log
weights of 4000 draws of its fit and of the shape of third order, without the lowest 2 %, in nats
squared; effective draws of these as a share; Pareto k of the shape's weights; whether chains would
start from the shape; gradients of the search, and of the shape. Medians over the seeds.

With ``--runs`` default runs of models whose log Z is known, where shapes are kept whatever their
tails, with the bound on these, and without any: RMSE of log Z, its bias, the mean reported error,
the root mean square of errors over reported errors, runs with a warning, and gradients.
"""

import argparse
import logging
import warnings
from unittest.mock import patch

import numpy as np
from bench import load_cases, model_and_log_z
from corpus_models import CORPUS
from corpus_models.entries import QUADRATURE
from corpus_second import quadrature
from figures import QUIET, rmse, table

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.numerics import pareto_k, weight_ess
from pymc_tempering.references import transport_maps
from pymc_tempering.references.prepare import prepare
from pymc_tempering.references.quality import (
    EXACT,
    GAIN,
    GOOD,
    evaluate_elbo,
    log_weights,
    trimmed_variance,
)
from pymc_tempering.references.third_order import MOST_DIM, third_order_fit
from pymc_tempering.references.transport_maps import MAX_TAIL_INDEX, falls_like_a_power

N_DRAWS = 4000
MODELS = (
    "failure_rates", "batting", "beta_binomial_pooled", "poisson_groups", "sites_centred",
    "sites_non_centred", "correlated_slopes", "crossed", "zero_sum_effects",
    "heavy_tailed_studies", "censored_readings", "truncated_readings", "rounded_readings",
    "weibull_survival", "piecewise_hazard", "missing_outcomes", "detection_limit", "tobit",
    "mixture_ordered", "poisson_mixture", "gp_marginal", "hsgp", "linear_unknown_noise",
    "logistic", "probit_dose", "poisson_exposure", "poisson_rate", "negative_binomial",
    "gamma_log_link", "beta_proportions", "robust_student", "quantile", "softmax_classes",
    "ordinal", "zero_inflated_poisson", "hurdle_gamma", "spline", "skew_normal",
    "errors_in_variables", "autoregression", "garch", "seasonal", "logistic_growth",
    "predator_and_prey", "banana", "funnel",
)  # fmt: skip

RUNS = ("sites_centred", "sites_non_centred", "weibull_survival", "skewed_gamma", "banana")


def problem(name):
    """Model and its log Z: exact, or from a grid."""
    if name not in CORPUS:
        return model_and_log_z(name, load_cases())
    model, second = CORPUS[name].build()
    return model, quadrature(model)[0] if second == QUADRATURE else float(np.ravel(second)[0])


def share_effective(of_shape):
    """Effective draws as a share of all."""
    finite = np.where(np.isfinite(of_shape), of_shape, -np.inf)
    return weight_ess(finite) / finite.size


def one_fit(density, seed):
    """Figures of one search and its shape; None where it finds several modes."""
    rng = np.random.default_rng(seed)
    found = prepare(density, density.start, rng)
    if len(found.fits) > 1:
        return None
    fit = found.fits[0]
    before = evaluate_elbo(density, fit, rng).variance
    shaped = third_order_fit(density, fit, rng)
    gaussian_fit, mapped = (
        log_weights(density, shape, rng, N_DRAWS) for shape in (fit, shaped.shape or fit)
    )
    good = shaped.variance <= min(GOOD, GAIN * before)
    k = pareto_k(mapped)
    kept = good and (shaped.variance <= EXACT or k <= MAX_TAIL_INDEX)
    return (
        trimmed_variance(gaussian_fit), trimmed_variance(mapped), share_effective(gaussian_fit),
        share_effective(mapped), k, kept and not falls_like_a_power(density, fit),
        found.search.n_gradients, shaped.n_gradients,
    )  # fmt: skip


def row(name, n_seeds):
    """Row of a model; None where there is nothing to say."""
    try:
        density = compile_density(CORPUS[name].build()[0])
    except TemperingError:
        return None
    if density.dim > MOST_DIM:
        return None
    found = [one_fit(density, seed) for seed in range(1, n_seeds + 1)]
    found = np.array([each for each in found if each is not None], dtype=float)
    if not len(found):
        return None
    before, after, share, of_map, k, _, search, own = np.median(found, axis=0)
    return (
        name, density.dim, f"{before:.4f}", f"{after:.4f}", f"{share:.2f}", f"{of_map:.3f}",
        f"{k:.1f}", f"{int(found[:, 5].sum())} of {len(found)}", f"{search:.0f}", f"{own:.0f}",
    )  # fmt: skip


def default_runs(name, n_seeds):
    """Rows of a model, one for each bound on tails."""
    model, exact = problem(name)
    for said, most_dim, bound in (
        ("whatever its tails", MOST_DIM, np.inf),
        (f"k at most {MAX_TAIL_INDEX}", MOST_DIM, MAX_TAIL_INDEX),
        ("without", 0, MAX_TAIL_INDEX),
    ):
        with (
            patch.object(transport_maps, "MAX_TAIL_INDEX", bound),
            patch.object(transport_maps, "MOST_DIM_OF_THIRD_ORDER", most_dim),
        ):
            found = [
                pm_temper.estimate_logz(model, random_seed=seed, **QUIET)
                for seed in range(1, n_seeds + 1)
            ]
        errors = np.array([each.log_z for each in found]) - exact
        reported = np.array([each.se for each in found])
        yield (
            name, said, f"{rmse(errors):.4f}", f"{errors.mean():+.4f}", f"{reported.mean():.4f}",
            f"{rmse(errors / reported):.2f}", sum(bool(each.warnings) for each in found),
            f"{np.median([sum(each.gradients.values()) for each in found]):.0f}",
        )  # fmt: skip


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", action="store_true")
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    names = (args.models or ",".join(RUNS if args.runs else MODELS)).split(",")
    if args.runs:
        head = ("model", "shapes", "RMSE", "bias", "se", "RMS of error / se", "warned", "gradients")
        rows = [row for name in names for row in default_runs(name, args.seeds)]
        table(f"default runs, {args.seeds} seeds", head, rows)
        return
    rows = [row(name, args.seeds) for name in names]
    head = ("model", "D", "variance of the fit", "of the shape", "effective", "of the shape", "k",
            "kept", "search", "gradients")  # fmt: skip
    table(f"shapes of third order, {args.seeds} seeds", head, filter(None, rows))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
