"""Modes that are none: of several pieces, or fewer than exchangeable entries have orders."""

from collections.abc import Iterator, Mapping
from math import factorial

import numpy as np

from pymc_tempering.evidence.checks.check import Check, Finding
from pymc_tempering.types import FloatArray

WIDE = 4.0
"""Width of a gap over the standard deviations of its sides together. Of normal, exponential and
Cauchy draws none in ten thousand sets has such a gap (tests/diagnostics/test_pieces.py)."""


def pieces(entries: Mapping[str, FloatArray], labels: np.ndarray) -> Iterator[Finding]:
    """Each mode whose draws leave a gap that is wide beside both of its sides.

    With few draws on a side it is no evidence of two modes that chance could not explain; but no
    draw is where the mean of such a mode is. `entries` are real scalars (chain, draw) by name,
    `labels` the modes from 0.
    """
    for mode in range(int(labels.max()) + 1):
        gaps = {name: widest_gap(np.sort(x[labels == mode])) for name, x in entries.items()}
        found = {name: gap for name, gap in gaps.items() if gap is not None and gap[0] > WIDE}
        if not found:
            continue
        name = max(found, key=lambda name: found[name][0])
        ratio, low, high, n_low, n_high = found[name]
        yield Finding(
            f"the draws of mode {mode + 1} are not of one piece: {n_low} have {name} up to "
            f"{low:.4g}, {n_high} from {high:.4g} on, and none lies between. Its mean and sd "
            "describe nothing. One side has too few draws to count as a mode.",
            {"mode": float(mode + 1), "variable": name, "gap over sd of its sides": float(ratio)},
            f"mode_{mode + 1}_in_pieces",
            "Sample more draws, or part them with `by=`.",
        )


def widest_gap(x: FloatArray) -> tuple[float, float, float, int, int] | None:
    """Width over spread of the widest gap of sorted values, its ends, and draws on its sides."""
    least = 8  # on each side, to have a spread
    if x.size < 2 * least:
        return None
    i = least + int(np.argmax(np.diff(x)[least - 1 : x.size - least]))
    spread = x[:i].std() + x[i:].std()
    # equal values are those of a discrete variable
    if min(x[:i].std(), x[i:].std()) <= 1e-12 * np.ptp(x):
        return None
    return float((x[i] - x[i - 1]) / spread), float(x[i - 1]), float(x[i]), i, x.size - i


def exchangeable(draws: Mapping[str, FloatArray], n_modes: int) -> Iterator[Finding]:
    """Entries of a vector that exchange their values, where modes are fewer than orders.

    Components without an order have K! modes of equal mass. Their entries have one mean, and
    correlations near -1 / (K - 1), since what one has the others have not.
    """
    if n_modes < 2:
        return
    for name, values in draws.items():
        # five entries have 120 orders
        if values.ndim != 3 or not 2 <= values.shape[2] <= 4:
            continue
        k = values.shape[2]
        x = values.reshape(-1, k)
        if n_modes % factorial(k) == 0 or not (x.std(axis=0) > 0.0).all():
            continue
        # of chain means: chains that never exchange labels do not look exchangeable
        error = values.mean(axis=1).std(axis=0) / np.sqrt(max(len(values) - 1, 1))
        error = np.maximum(error, x.std(axis=0) / np.sqrt(len(x)))
        alike = np.ptp(x.mean(axis=0)) <= 5.0 * error.max()
        correlation = np.asarray(np.corrcoef(x.T))[~np.tri(k, dtype=bool)]
        if alike and (correlation < -0.5 / (k - 1)).all():
            yield Finding(
                f"the {k} entries of {name} look exchangeable, which makes {factorial(k)} modes of "
                f"equal mass, and {n_modes} were told apart: some of these are several orders of "
                "the labels, which overlap.",
                {"variable": name, "orders": float(factorial(k)), "modes": float(n_modes)},
                "exchangeable_entries",
                "Pass `model=`, which takes all orders for one. Or look at a function of "
                f"{name} that does not depend on the order, or label the draws by `by=`.",
            )
            return


def unseen_by_chains(by_chain: FloatArray, chains: np.ndarray) -> list[Finding]:
    """Modes in which some chain has no draw; `by_chain` are shares (mode, chain)."""
    unseen = {
        k: chains[row == 0.0].tolist() for k, row in enumerate(by_chain, start=1) if not row.all()
    }
    if not unseen:
        return []
    listed = "; ".join(f"mode {k} has no draws of chain {str(c)[1:-1]}" for k, c in unseen.items())
    return [
        Finding(
            f"{listed}. Where chains do not pass from mode to mode, shares say where they started, "
            "not how probable a mode is.",
            {f"chains without mode {k}": c for k, c in unseen.items()},
            "modes",
            "Sample with more `tune` and `draws`, or a wider `base=`; draws of NUTS, with a "
            "tempered step.",
        )
    ]


CHECKS = (
    Check(
        "modes_not_parted",
        "A mode of `modes` stands for several. Its draws leave a gap that is wide beside both of "
        "its sides, one of them with too few draws to count (`mode_1_in_pieces`): nothing lies "
        "where its mean is. Or K entries of a vector exchange their values, as components without "
        "an order do, which makes K! modes of equal mass, and fewer were told apart "
        "(`exchangeable_entries`).",
        "Sample more draws, or part them with `by=`.",
    ),
)
