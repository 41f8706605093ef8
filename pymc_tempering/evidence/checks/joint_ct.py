"""Joint continuous tempering: NUTS in the tempered model, and draws picked by weight."""

import numpy as np

from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings
from pymc_tempering.evidence.checks.few_draws import MIN_ESS
from pymc_tempering.evidence.run import FULL_SUPPORT


def _weights(run: AtHand) -> Findings:
    if "base_weight_ess" not in run.arrays:
        return
    ess = float(run.arrays["weight_ess"].sum())
    # below, posterior draws repeat a few tempered ones
    if ess < MIN_ESS:
        yield Finding(
            f"posterior draws rest on {ess:.0f} effective weights, fewer than {MIN_ESS:.0f}.",
            {"weight_ess": ess},
        )


def _full(run: AtHand) -> bool:
    """Whether the target has no edge inside the base: there NUTS diverges, and moments are cut."""
    return "base_weight_ess" in run.arrays and run.support_mass > FULL_SUPPORT


def _divergences(run: AtHand) -> Findings:
    if not _full(run):
        return
    diverging = run.arrays["n_divergences"]
    n_diverging, n_transitions = int(np.nansum(diverging)), run.arrays["beta"].size
    if n_diverging > 0.1 * n_transitions:
        yield Finding(
            f"{n_diverging} of {n_transitions} transitions diverged.",
            {"n_divergences": n_diverging, "transitions": n_transitions},
        )


def _base(run: AtHand) -> Findings:
    if not _full(run):
        return
    worst = np.nan_to_num(run.arrays["base_mean_error"])
    # standard errors that the largest of a hundred coordinates exceeds once in 10^6 runs
    if worst.max(initial=0.0) > 6.0:
        yield Finding(
            f"draws weighted to beta = 0 miss the known mean of the base by {worst.max():.1f} "
            f"standard errors in chain {int(worst.argmax())} (eq. 23): the chain has not "
            "converged.",
            {"base_mean_error": float(worst.max()), "chain": [int(worst.argmax())]},
        )


CHECKS = (
    Check(
        "weights_collapse",
        "Few draws hold all the weight: posterior draws of joint continuous tempering rest on few "
        "tempered ones; or, in `prior_sensitivity`, few draws of the run lie where the changed "
        "posterior is, and such a row means nothing.",
        "Raise `draws`, or give a bias that lets beta spend more time near 1; in "
        "`prior_sensitivity`, sample the changed model, or change less.",
        _weights,
        ("parts",),
    ),
    Check(
        "divergences",
        "NUTS diverged in more than a tenth of its transitions in the tempered model.",
        "Raise `target_accept`, or use a method whose moves do not need gradients.",
        _divergences,
        ("parts",),
    ),
    Check(
        "base_not_recovered",
        "Draws weighted to beta = 0 miss the known mean of the base (eq. 23 of Graham & Storkey "
        "2017): the chain has not converged.",
        "Raise `tune` and `draws`.",
        _base,
        ("parts",),
    ),
)
