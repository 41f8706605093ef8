"""Whether an error rests on enough independent numbers to be trusted itself."""

import numpy as np

from pymc_tempering.estimators.controls import LEAST_DRAWS
from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings

MIN_ESS = 100.0
"""Effective scans below which an error of log Z is itself too uncertain: by 7 % at best."""

LEAST_CONTROLLED = 2 * MIN_ESS
"""Draws of all chains below which controls are given up where the error would rest on fewer than
`MIN_ESS` of them; without controls it rests on scans."""


def _few(run: AtHand) -> Findings:
    ess = run.estimate.ess
    # without an error there is no overlap, unless chains contradict each other
    known = np.isfinite(run.estimate.se) or (run.kept is not None and not run.kept.size)
    if ess < MIN_ESS and known:
        yield Finding(
            f"the error of log Z rests on {ess:.0f} independent scans, fewer than {MIN_ESS:.0f}.",
            {"log_marginal_likelihood_ess": float(ess)},
            "scans",
        )
    before = {} if run.before is None else run.before
    # one chain without controls makes the error of all as large as its own
    if "n_controls" in before and run.arrays["n_controls"].min() < before["n_controls"].min():
        error = float(before["log_marginal_likelihood_se"])
        yield Finding(
            "what is left of the run has too few draws for all control variates, with which the "
            f"error of log Z was {error:.2g}.",
            {"n_controls": run.arrays["n_controls"].tolist()},
            "controls",
            f"Keep {LEAST_DRAWS} draws of a chain, and {LEAST_CONTROLLED:.0f} of all.",
        )


CHECKS = (
    Check(
        "too_few_effective_draws",
        "The error rests on fewer than 100 independent scans (or draws, or weights), and is itself "
        "uncertain. Or part of a stored run has too few draws for the control variates of the "
        "whole: its error may be a hundred times as large.",
        "Raise `draws`, or pass `target_se`.",
        _few,
        ("estimate",),
    ),
)
