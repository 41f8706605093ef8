"""Tables and the picture of the comparison with peers, from the rows of a record."""

import numpy as np
from figures import FOLDER, ROOT, console, plain_log, pyplot, rmse, save, table
from peer_methods import METHODS
from peer_models import AIM, CHECK, PROBLEMS
from scipy import stats

from pymc_tempering.plots.common import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILLION

OURS = "pymc_tempering"
COLUMNS = ["method", "runs", "RMSE", "bias", "se / RMSE", "cold CPU s", "warm CPU s",
           "s x (RMSE/0.1)^2", "warned"]  # fmt: skip
PAGE = FOLDER / "peers_table.txt"
_HONEST = 0.25
"""Reported error over RMSE below which no speed counts: the typical run is four errors off."""

STYLES = {
    "pymc_tempering": (BLUE, "o"), "nutpie_bridge": (VERMILLION, "s"),
    "nutpie_bridge_5": (ORANGE, "D"), "blackjax_smc": (GREEN, "^"),
    "blackjax_waste_free": (SKY, "v"), "sample_smc": (PURPLE, "P"),
}  # fmt: skip


def summarise(rows):
    """Figures of one method on one problem."""
    errors = np.array([row["error"] for row in rows])
    reported = [row["se"] for row in rows if row["se"] is not None]
    warm = [row["seconds"] for row in rows if not row["cold"]]
    cold = [row["seconds"] for row in rows if row["cold"]]
    error = float(rmse(errors))
    seconds = float(np.median(warm)) if warm else np.nan
    return {
        "runs": len(rows),
        "rmse": error,
        "bias": float(errors.mean()),
        "se_ratio": float(np.median(reported) / error) if reported else np.nan,
        "cold": float(np.median(cold)) if cold else np.nan,
        "warm": seconds,
        "measure": seconds * (error / 0.1) ** 2,
        "warned": sum(bool(row["warnings"]) for row in rows),
    }


def advantage(summaries):
    """Best peer, its measure over ours, and a 95 % interval of that; None without both.

    The interval is of the ratio of two variances on as many seeds, with the seconds taken as known
    and without regard to the choice of the best of several peers.
    """
    peers = {m: s for m, s in summaries.items() if m != OURS and np.isfinite(s["measure"])}
    if OURS not in summaries or not peers:
        return None
    best = min(peers, key=lambda method: peers[method]["measure"])
    ratio = peers[best]["measure"] / summaries[OURS]["measure"]
    spread = stats.f(peers[best]["runs"], summaries[OURS]["runs"]).ppf([0.025, 0.975])
    return best, ratio, *(ratio / spread[::-1])


def by_case(rows):
    """Summaries by problem and method, in the order of both lists."""
    found = {}
    for case in dict.fromkeys([*PROBLEMS, *(row["case"] for row in rows)]):
        for method in METHODS:
            own = [r for r in rows if (r["case"], r["method"]) == (case, method)]
            if own:
                found.setdefault(case, {})[method] = summarise(own)
    return found


def cells(method, s):
    return [method, s["runs"], f"{s['rmse']:.4f}", f"{s['bias']:+.4f}", _ratio(s["se_ratio"]),
            f"{s['cold']:.1f}", f"{s['warm']:.2f}", f"{s['measure']:.2g}", s["warned"]]  # fmt: skip


def _ratio(value):
    return f"{value:.2f}" if np.isfinite(value) else ""


def comparison(case, found, own):
    """Cells of the line that says how many times better than the best peer."""
    best, ratio, low, high = found
    aim = AIM.get(case)
    reached = "" if aim is None else ("yes" if ratio >= aim else "no")
    if own["se_ratio"] < _HONEST:
        reached = f"no: wrong, with an error that is {own['se_ratio']:.2f} of the RMSE"
    return [case, best, f"{ratio:.2g}", f"{low:.2g} to {high:.2g}", aim or "", reached]


COMPARED = ["problem", "best peer", "times better", "95 %", "aim", "reached"]


def report(rows, publish):
    """Print all tables; write them and the picture into the documentation if asked to."""
    summaries = by_case(rows)
    lines = []
    for case, methods in summaries.items():
        table(case, COLUMNS, [cells(*item) for item in methods.items()])
        if (found := advantage(methods)) is not None:
            lines.append(comparison(case, found, methods[OURS]))
    table("time to an error of 0.1 nats, best peer over this package", COMPARED, lines)
    for method, s in summaries.get(CHECK, {}).items():
        off = s["bias"] * np.sqrt(s["runs"]) / s["rmse"]
        console.print(f"check on {CHECK}, {method}: mean error {off:+.1f} standard errors")
    draw(summaries, publish)
    if publish:
        PAGE.write_text(page(rows, summaries, lines))
        console.print(f"table: {PAGE.relative_to(ROOT)}")


def markdown(columns, lines):
    heads = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*heads, *("| " + " | ".join(map(str, line)) + " |" for line in lines)])


def page(rows, summaries, lines):
    """Markdown that the documentation includes: both tables with their dates."""
    dates = sorted({row["date"] for row in rows})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    own = sorted({row["commit"] for row in rows if row["method"] == OURS})
    every = [[f"`{case}`", *cells(method, s)]
             for case, methods in summaries.items() for method, s in methods.items()]  # fmt: skip
    return "\n\n".join([
        f"Measured {when}; this package at {', '.join(own)}.",
        markdown(COMPARED, lines),
        markdown(["problem", *COLUMNS], every),
    ]) + "\n"  # fmt: skip


def draw(summaries, publish):
    """Time to an error of 0.1 nats by problem, a row each."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8.5, 0.42 * len(summaries) + 1.8), layout="constrained")
    names = list(summaries)[::-1]
    for y, case in enumerate(names):
        axis.axhline(y, color="0.9", lw=0.8, zorder=0)
        for method, s in summaries[case].items():
            colour, marker = STYLES[method]
            axis.plot(s["measure"], y, marker, color=colour, ms=7, mec=INK, mew=0.4)
    for method, (colour, marker) in STYLES.items():
        axis.plot([], [], marker, color=colour, mec=INK, mew=0.4, label=method)
    plain_log(axis, "x", subs=(1.0,))
    axis.set(yticks=range(len(names)), yticklabels=names,
             xlabel="CPU seconds to an RMSE of 0.1 nats, compiled")  # fmt: skip
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    save(figure, "peers", publish)
