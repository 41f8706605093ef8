"""Whether annealed particles bound log Z, and how many of them an estimate rests on."""

import numpy as np
from scipy.stats import t as student_t

from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings
from pymc_tempering.numerics import MAX_PARETO_K

MIN_STARTS = 20
"""Draws of the target below which they may well have missed a mode of some weight: 20 draws miss
one of 0.2 with probability 0.01."""


def _bounds(run: AtHand) -> Findings:
    gap, error = run.annealed.gap, run.annealed.gap_error
    # with few starting draws the error itself is uncertain
    allowed = max(4.0, float(student_t.isf(0.02, error.df)))
    if -gap > allowed * error.se:
        yield Finding(
            f"the lower bound exceeds the upper by {-gap:.2g} nats, more than the error of their "
            f"difference, {error.se:.2g}, explains. The reverse particles did not start from draws "
            "of the whole posterior.",
            {"upper - lower": float(gap), "its standard error": float(error.se)},
            "crossed",
            "Start them from more draws, of every mode, or raise `n_levels`.",
        )
    if abs(gap) > 3.0:
        yield Finding(
            f"forward and reverse annealing differ by {gap:.1f} nats, so one of them has not seen "
            "what the other has.",
            {"upper - lower": float(gap)},
            "far_apart",
        )


def _particles(run: AtHand) -> Findings:
    annealed = run.annealed
    if annealed.weight_ess < 20.0:
        yield Finding(
            f"the effective number of forward particles is {annealed.weight_ess:.1f}.",
            {"weight_ess": float(annealed.weight_ess)},
            "weight",
        )
    # the fewest that a tail is fitted to
    if annealed.n_particles < 25:
        yield Finding(
            f"there are {annealed.n_particles} annealing weights in a direction, fewer than 25, so "
            "nothing is known of their tail.",
            {"number of weights": annealed.n_particles},
            "number",
            "Raise the number of draws or particles.",
        )
    idle = np.flatnonzero(annealed.acceptance_rates < 0.02).tolist()
    if idle:
        yield Finding(
            f"in chains {idle} fewer than 2 % of the new particles replaced the current one, so "
            "draws and upper bound rest on few of them.",
            {"acceptance_rate_particles": annealed.acceptance_rates[idle].tolist(), "chain": idle},
            "accepted",
            "Raise `n_levels` or `tune`.",
        )
    if annealed.n_starts is not None and annealed.n_starts < MIN_STARTS:
        yield Finding(
            f"reverse particles descend from {annealed.n_starts} draws of the posterior, fewer "
            f"than {MIN_STARTS}. They share the modes of these, and the error cannot know what the "
            "draws left out.",
            {"starting draws": annealed.n_starts},
            "starts",
            "Pass more `draws`, or none, so that a pilot run makes them.",
        )


def _tails(run: AtHand) -> Findings:
    k = run.annealed.pareto_k
    if k > MAX_PARETO_K:
        yield Finding(
            f"Pareto k of the annealing weights is {k:.2f}: the error of log Z may be too small.",
            {"largest pareto_k_weights": float(k)},
        )


CHECKS = (
    Check(
        "bounds_disagree",
        "Forward and reverse annealing bound log Z from below and from above, on average. Here the "
        "bounds are crossed by more than their error (`crossed`), so that reverse particles missed "
        "part of the posterior; or more than 3 nats apart (`far_apart`), so that one direction has "
        "not seen what the other has.",
        "Raise `n_levels` or `tune`.",
        _bounds,
        ("annealed",),
    ),
    Check(
        "few_particles",
        "The estimate of annealing rests on few particles: few hold the weight (`weight`), there "
        "are too few to judge the tail of their weights (`number`), new ones hardly replace the "
        "current one (`accepted`), or reverse ones descend from few draws (`starts`).",
        "Raise `n_levels`, or the number of draws or particles.",
        _particles,
        ("annealed",),
    ),
    Check(
        "heavy_tailed_weights",
        "Importance weights have a heavy tail: Pareto k is above 0.7 (annealing, bridge sampling) "
        "or 0.5 (`prior_sensitivity`), where they have no variance. The error may be too small. Of "
        "annealing runs the forward particles decide: few of them reach what most miss, as the "
        "narrow part of a funnel, and reverse ones that began in the bulk look sound all the same. "
        "Weights of MBAR are bounded, so parallel tempering has no such warning.",
        "Raise `n_levels`; in `prior_sensitivity`, change less.",
        _tails,
        ("annealed",),
        words="heavy-tailed weights",
    ),
)
