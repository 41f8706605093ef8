"""Points where the density of the model, or its gradient, is not a finite number."""

from collections.abc import Mapping

from pymc_tempering.evidence.checks.check import Check, Finding, Findings
from pymc_tempering.types import FloatArray


def density_findings(statistics: Mapping[str, FloatArray]) -> Findings:
    """Many points of infinite density, or of finite density without a finite gradient.

    Moves stay exact with both (:func:`pymc_tempering.engine.path.path.evaluate_target`). By a
    log density that is no number many models mean zero density; none means it by an infinity.
    """
    n = int(statistics["n_gradients"].sum()) if "n_gradients" in statistics else 0
    n_infinite, n_bad = (
        int(statistics[name].sum()) if n and name in statistics else 0
        for name in ("n_infinite_density", "n_bad_gradients")
    )
    # fewer are draws of a base with heavy tails, so far out that a density overflows, as that of an
    # LKJ distribution does at one of 8,000; moves climb to a pole, and meet it again and again
    if n_infinite > 1e-3 * n:
        yield Finding(
            f"at {n_infinite} of {n} points the log density is +inf. They count as points of zero "
            "density: draws stay away from them, and log Z leaves out the mass around them.",
            {"n_infinite_density": n_infinite, "n_gradients": n},
            "density",
            "Look for an overflow, as of `pt.exp` in a potential, or for a density with a pole, as "
            "of a scale that may be zero, and write it on the log scale or bound it.",
        )
    # fewer are single points on an edge
    if n_bad > 0.01 * n:
        yield Finding(
            f"{100 * n_bad / n:.2g} % of the points where moves asked for the gradient have a "
            "finite density and a gradient that is not finite. The missing slope counts as zero: "
            "log Z stays right, but moves have no direction there, and mix slowly in many "
            "dimensions.",
            {
                "n_bad_gradients / n_gradients": n_bad / n,
                "n_bad_gradients": n_bad,
                "n_gradients": n,
            },
            "gradient",
        )


CHECKS = (
    Check(
        "density_not_finite",
        "At more than one point in a thousand the log density is `+inf`, as after an overflow or "
        "at a pole (`density`): such points count as zero density, and log Z leaves out the mass "
        "around them. Or at more than 1 % the density is finite and its gradient is not "
        "(`gradient`), as of `pt.sqrt(pt.maximum(x, 0))` at negative `x`, where the slope is 0 / "
        "0: it counts as zero, which is exact, but moves are a random walk there.",
        "Take the branch last, as `pt.switch(x > 0, pt.sqrt(x), 0)` in place of "
        "`pt.sqrt(pt.maximum(x, 0))`; or pass explorer='slice', which needs no gradient.",
        lambda run: density_findings(run.statistics),
        words="density or gradient not finite",
    ),
)
