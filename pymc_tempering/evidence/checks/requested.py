"""Whether a run has what was requested: its draws, its chains, its error."""

import math
from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings
from pymc_tempering.steps.budget import CHAIN_ERROR, MOST_CHAIN_ERROR
from pymc_tempering.types import FloatArray


def interrupted(run: AtHand) -> list[Finding]:
    """A run with fewer draws or chains than were requested, as PyMC returns it after Ctrl-C."""
    draws, chains, budget = run.request.draws, run.request.chains, run.request.budget
    if budget is not None and budget.n_draws is not None:
        draws = min(draws, budget.n_draws)
    sizes = run.idata["sample_stats"].sizes
    if sizes["chain"] >= chains and sizes["draw"] >= draws:
        return []
    return [
        Finding(
            f"the run was stopped after {sizes['chain']} of {chains} chains with {sizes['draw']} "
            f"of {draws} draws, and log Z is from these alone.",
            {"chains": sizes["chain"], "draws": sizes["draw"]},
            "stopped",
        )
    ]


def whole(estimate: LogZEstimate) -> LogZEstimate:
    """Give back what no Ctrl-C has cut short; for one of many runs, that is a KeyboardInterrupt."""
    for diagnostic in estimate.warnings:
        if diagnostic.code == "interrupted" and "stopped" in diagnostic.measured:
            raise KeyboardInterrupt(diagnostic.text)
    return estimate


def _max_gradients(run: AtHand) -> Findings:
    request, estimate, budget = run.request, run.estimate, run.request.budget
    if budget is None:
        return
    made, wanted = _scans(run.statistics)
    # what the scans that were requested would have reached
    reached = estimate.se * (made / wanted) ** 0.5
    bounds = np.array([CHAIN_ERROR, MOST_CHAIN_ERROR]) / estimate.per_chain.size**0.5
    aim = request.target_se or float(np.clip(reached, *bounds))
    n_draws = run.idata["sample_stats"].sizes["draw"]
    missed = not estimate.se <= aim
    short = []
    if budget.n_draws is not None:
        short.append(f"{n_draws} of {request.draws} draws of each chain")
    if missed and made < wanted:
        short.append(
            f"{made:.3g} of the {wanted:.3g} scans a draw that an error of {aim:.2g} takes"
        )
    if missed and budget.refused_chains:
        short.append(f"{estimate.per_chain.size} chains, and no more")
    if not short:
        return
    factor = request.draws / n_draws * wanted / made
    if missed:
        factor = max(factor, (estimate.se / aim) ** 2)
    # chains have equal shares, so that the dearest one counts; a fifth to spare
    of_chain = run.arrays["tuning_gradients"] + factor * run.arrays["draws_gradients"]
    enough = estimate.gradients["search"] + 1.2 * of_chain.size * float(of_chain.max())
    enough = max(enough, 1.2 * budget.most)
    unit = 10 ** (int(math.log10(enough)) - 1)
    in_two_digits = math.ceil(enough / unit) * unit
    yield Finding(
        f"{budget.n_spent:,} gradients, of the {budget.most:,} that were allowed, were enough for "
        f"{' with '.join(short)}; the error of log Z is {estimate.se:.2g}.",
        {
            "max_gradients": budget.most,
            "gradients": budget.n_spent,
            "draws": n_draws,
            "scans": made,
            "log_marginal_likelihood_se": float(estimate.se),
        },
        "max_gradients",
        f"Raise `max_gradients`; about {in_two_digits:,} would do.",
    )


def _scans(statistics: Mapping[str, FloatArray]) -> tuple[float, float]:
    """Scans of a draw, and those that were requested; the same where that is not known."""
    delta = statistics["delta"]
    first = delta[..., 0] if delta.ndim > 3 else delta
    made = float((~np.isnan(first)).sum(axis=2).mean())
    wanted = statistics.get("scans_requested")
    return made, made if wanted is None else float(np.mean(wanted))


def _look(run: AtHand) -> Findings:
    yield from interrupted(run)
    yield from _max_gradients(run)


def _target_se(run: AtHand) -> Findings:
    request, estimate = run.request, run.estimate
    target_se, most, budget = request.target_se, request.max_chains, request.budget
    if target_se is None or estimate.se <= target_se or interrupted(run):
        return
    # that gradients were not enough is said by another check
    if budget is not None and budget.refused_chains:
        return
    n_chains = estimate.per_chain.size
    yield Finding(
        f"the error is {estimate.se:.3g} after {n_chains} chains, more than {target_se:g}.",
        {"log_marginal_likelihood_se": float(estimate.se), "chains": int(n_chains)},
        remedy=f"Raise `max_chains` (now {most}) or `draws`." if most is not None else "",
    )


CHECKS = (
    Check(
        "interrupted",
        "The run ended before it had the draws, scans or chains that were requested, and the "
        "estimate is from what there is: it was stopped (`stopped`), or `max_gradients` were not "
        "enough (`max_gradients`). The error says how sure it is.",
        "Run it again for the rest.",
        _look,
        ("request", "estimate", "idata"),
        lasting=True,
        words="ended early",
    ),
    Check(
        "target_se_not_reached",
        "The error is larger than the `target_se` that was requested, after `max_chains` chains, "
        "or from a stored run, to which none are added without its model.",
        "Pass the model, as in `estimate_logz(idata, model=model, target_se=...)`, so that chains "
        "are added; or raise `max_chains` or `draws`.",
        _target_se,
        ("request", "estimate", "idata"),
        words="target_se not reached",
    ),
)
