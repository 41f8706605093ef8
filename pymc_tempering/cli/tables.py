"""Tables for the terminal."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from pymc_tempering.estimators.result import LogZEstimate

__all__ = ["MAX_SUMMARY_ROWS", "comparison_table", "estimate_table", "posterior_table"]

MAX_SUMMARY_ROWS = 30
# Six columns fit a terminal of 80 characters.
_SUMMARY_COLUMNS = ("mean", "sd", "eti89_lb", "eti89_ub", "ess_bulk", "r_hat")


def estimate_table(estimate: "LogZEstimate", name: str, seconds: float) -> Table:
    """Log Z of one model, in nats, with its error."""
    from pymc_tempering.estimators.result import decimals_of_error, format_nats, with_error

    digits = max(3, decimals_of_error(estimate.se))
    table = Table(title=f"Evidence of {escape(name)}", title_justify="left", show_header=False)
    if estimate.mass_missing:
        value = with_error(estimate.log_z, estimate.se, mass_missing=True, unit=" nats")
        table.add_row("log marginal likelihood", f"{value}: a mode may be missing")
    else:
        log_z, se, low, high = (
            format_nats(v, digits) for v in (estimate.log_z, estimate.se, *estimate.interval(0.95))
        )
        table.add_row("log marginal likelihood", f"{log_z} nats")
        table.add_row("standard error", se if estimate.se >= 1e-8 else f"{estimate.se:.1g}")
        table.add_row("95 % interval", f"{low} to {high}")
        chains = ", ".join(format_nats(v, digits) for v in estimate.per_chain)
        table.add_row("each chain", chains)
    table.add_row("method", str(estimate.method))
    if estimate.gradients:
        parts = ", ".join(f"{n:,} for {part}" for part, n in estimate.gradients.items())
        table.add_row("gradients", parts)
    table.add_row("seconds", f"{seconds:.1f}, compilation included")
    return table


def posterior_table(idata: Any) -> Table:
    """Summary of the draws, cut to what can be read."""
    import arviz as az

    summary = az.summary(idata, group="posterior", round_to="none")
    summary = summary.drop(columns=[name for name in summary if name not in _SUMMARY_COLUMNS])
    table = Table(title="Posterior", title_justify="left")
    table.add_column("")
    for column in summary.columns:
        table.add_column(str(column), justify="right")
    for name, row in summary.head(MAX_SUMMARY_ROWS).iterrows():
        table.add_row(escape(str(name)), *(f"{value:.4g}" for value in row))
    if len(summary) > MAX_SUMMARY_ROWS:
        table.caption = f"The first {MAX_SUMMARY_ROWS} of {len(summary)} rows."
    return table


def comparison_table(comparison: pd.DataFrame) -> Table:
    """Show the table of ``compare`` within 80 columns; rows with a warning are marked."""
    from pymc_tempering.comparison.table import mass_missing
    from pymc_tempering.estimators.result import decimals_of_error, with_error

    table = Table(title="Comparison, best first", title_justify="left")
    table.add_column("model", overflow="fold")
    for heading in ("log Z", "se", "log BF", "P(model)", "95 % interval", "rank kept"):
        table.add_column(heading, justify="right")
    missing = mass_missing(comparison)
    for (name, row), lacks in zip(comparison.iterrows(), missing, strict=True):
        low, high = row["probability_low"], row["probability_high"]
        digits = min(max(3, decimals_of_error(row["se"])), 5)
        known = np.isfinite([low, high]).all() and not missing.any()
        table.add_row(
            escape(f"{name} (!)" if row["warning"] else str(name)),
            with_error(row["log_marginal_likelihood"], row["se"], mass_missing=True)
            if lacks
            else f"{row['log_marginal_likelihood']:.{digits}f}",
            "" if lacks else f"{row['se']:.{digits}f}",
            f"{row['log_bayes_factor']:.{1 if missing.any() else 2}f}",
            "unknown" if missing.any() else f"{row['probability']:.3f}",
            f"{low:.3f}-{high:.3f}" if known else "unknown",
            "unknown" if missing.any() else f"{row['rank_stability']:.2f}",
        )
    table.caption = "Nats; every model equally probable beforehand." + (
        " (!): see the warnings." if comparison["warning"].any() else ""
    )
    return table
