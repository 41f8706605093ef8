"""The table of the corpus: what came out for every model, and what it cost beside nutpie."""

from collections import Counter

import numpy as np
from corpus_models import CORPUS
from corpus_models.entries import IMPROPER, REFUSED
from corpus_runs import NUTPIE, OURS, SECOND
from figures import FOLDER, ROOT, console, plain_log, pyplot, save, table
from peer_tables import markdown

from pymc_tempering.plots.common import BLUE, INK

PAGE = FOLDER / "corpus_table.txt"
MAX_DISTANCE = 3.0
MAX_SE = 0.2
MAX_RATIO = 3.0

AGREES, WARNED, SILENT = "agrees", "agrees, warned", "DISAGREES, silent"
NAMED, OFF = "named as improper", "disagrees, warned"
REFUSAL, CRASH, KILLED, LIMIT = "refused by name", "CRASHED", "KILLED", "TIME OUT"
GOOD = (AGREES, WARNED, NAMED, REFUSAL)
UNKNOWN = "no second log Z"
_SAY_IMPROPER = {"divergent_integral", "search_rise"}


def outcome(ours, second):
    """What became of one model: one of the words above."""
    for key, word in (("refused", REFUSAL), ("crashed", CRASH), ("killed", KILLED),
                      ("timeout", LIMIT)):  # fmt: skip
        if key in ours:
            return word
    warned = bool(ours["warnings"])
    if second is not None and second["how"] in (IMPROPER, REFUSED):
        named = second["how"] == IMPROPER and _SAY_IMPROPER & set(ours["warnings"])
        return NAMED if named else OFF if warned else SILENT
    if second is None or "log_z" not in second:
        return UNKNOWN
    off = abs(ours["log_z"] - second["log_z"])
    if off <= MAX_DISTANCE * np.hypot(ours["se"], second["se"]):
        return WARNED if warned else AGREES
    return OFF if warned else SILENT


def lines_of(rows):
    """One dictionary for each model that was run, in the order of the corpus."""
    by = {(row["name"], row["role"]): row for row in rows}
    lines = []
    for name, entry in CORPUS.items():
        ours, nutpie = by.get((name, OURS)), by.get((name, NUTPIE), {})
        if ours is None:
            continue
        beside = next((r for r in (by.get((name, SECOND)), nutpie) if r and "log_z" in r),
                      by.get((name, SECOND)))  # fmt: skip
        beside = beside if beside and "how" in beside else None
        lines.append({
            "name": name, "kind": entry.kind, "ours": ours, "nutpie": nutpie, "second": beside,
            "outcome": outcome(ours, beside),
            "gradients": ratio(total(ours), nutpie.get("gradients")),
            "seconds": ratio(ours.get("running"), nutpie.get("running")),
            "all seconds": ratio(spent(ours), spent(nutpie)),
        })  # fmt: skip
    return lines


def total(ours):
    return sum(ours["gradients"].values()) if "gradients" in ours else None


def spent(row):
    """CPU seconds with compiling, of a run that came to its end."""
    return row["running"] + row["compiling"] if "gradients" in row else None


def ratio(ours, theirs):
    return ours / theirs if ours and theirs else np.nan


COLUMNS = ["model", "kind", "D", "log Z", "se", "second", "by", "outcome", "10^3 gradients",
           "nutpie", "ratio", "CPU s: run + compile", "nutpie ", "ratio of runs"]  # fmt: skip


def cells(line):
    ours, nutpie, second = line["ours"], line["nutpie"], line["second"] or {}
    log_z = (number(ours["log_z"]), f"{ours['se']:.3f}") if "log_z" in ours else ("", "")
    other = ""
    if "log_z" in second:
        other = number(second["log_z"]) + (f" ± {second['se']:.3f}" if second["se"] else "")
    return [
        line["name"], line["kind"], ours.get("n_values", ""), *log_z, other, second.get("how", ""),
        line["outcome"], thousands(total(ours)), thousands(nutpie.get("gradients")),
        short(line["gradients"]), both(ours), both(nutpie), short(line["seconds"]),
    ]  # fmt: skip


def number(value):
    return f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}"


def thousands(count):
    return "" if count is None else f"{count / 1e3:.0f}"


def short(value):
    return f"{value:.2g}" if np.isfinite(value) else ""


def both(row):
    return f"{row['running']:.1f} + {row['compiling']:.0f}" if "gradients" in row else ""


def closing(lines):
    """What the table comes to, a sentence each."""
    counts = Counter(line["outcome"] for line in lines)
    listed = ", ".join(f"{word} {n}" for word, n in counts.most_common())
    good = sum(counts[word] for word in GOOD)
    errors = [line["ours"]["se"] for line in lines if "se" in line["ours"]]
    small = sum(se <= MAX_SE for se in errors)
    found = [
        f"{len(lines)} of {len(CORPUS)} models were run: {listed}.",
        f"Right, named or refused: {good} of {len(lines)}.",
        f"Errors of log Z up to {MAX_SE:g} nats: {small} of {len(errors)}.",
    ]
    for what, name in (("gradients", "gradients"), ("seconds", "CPU seconds without compiling"),
                       ("all seconds", "CPU seconds with it")):  # fmt: skip
        ratios = np.array([line[what] for line in lines])
        ratios = ratios[np.isfinite(ratios)]
        if ratios.size:
            found.append(
                f"Ours over nutpie's, {name}: median {np.median(ratios):.2f}, below {MAX_RATIO:g} "
                f"in {np.mean(ratios < MAX_RATIO):.0%} of {ratios.size} models."
            )
    return found


def details(lines):
    """Names of what did not come out, each with what was said."""
    for line in lines:
        if line["outcome"] not in GOOD or line["outcome"] == REFUSAL:
            ours = line["ours"]
            said = ours.get("refused") or ours.get("crashed") or ours.get("warnings", "")
            yield f"{line['name']}: {line['outcome']}: {said}"


def report(rows, publish):
    """Print the table; write it and the picture into the documentation if asked to."""
    lines = lines_of(rows)
    table("default runs of models of many kinds", COLUMNS, [cells(line) for line in lines])
    for said in (*details(lines), *closing(lines)):
        console.print(said, soft_wrap=True, markup=False)
    draw(lines, publish)
    if publish:
        PAGE.write_text(page(rows, lines), encoding="utf-8")
        console.print(f"table: {PAGE.relative_to(ROOT)}")


def page(rows, lines):
    """Markdown that the documentation includes."""
    dates, own = ({row[key] for row in rows if key in row} for key in ("date", "commit"))
    head = f"Measured {' to '.join(sorted(dates))} by `make corpus`, at {', '.join(sorted(own))}."
    body = [[f"`{name}`", *rest] for name, *rest in map(cells, lines)]
    said = closing(lines)
    if left := [f"`{name}`" for name in CORPUS if name not in {line["name"] for line in lines}]:
        said.append(f"Not run to an end: {', '.join(left)}.")
    return "\n\n".join([head, "\n".join(f"- {each}" for each in said),
                        markdown(COLUMNS, body)]) + "\n"  # fmt: skip


def draw(lines, publish):
    """Ratios of gradients and of CPU seconds, all models in order."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    for what, colour, label in (("gradients", BLUE, "gradients"),
                                ("seconds", INK, "CPU seconds, compiled")):  # fmt: skip
        ratios = np.sort([line[what] for line in lines if np.isfinite(line[what])])
        axis.plot(np.arange(1, ratios.size + 1), ratios, "o-", ms=3, color=colour, label=label)
    for at in (1.0, MAX_RATIO):
        axis.axhline(at, color="0.7", lw=0.8)
    plain_log(axis, "y", subs=(1.0,))
    axis.set(xlabel="models, in order", ylabel="this package / nutpie")
    axis.legend(frameon=False)
    save(figure, "corpus", publish)
