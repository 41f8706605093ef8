"""The table of `real_size.py`, and what it comes to."""

import numpy as np
from figures import console, table
from peer_tables import markdown
from real_models import REAL
from real_runs import EXACT, LONG, MAP, NUTPIE, OURS

RATIOS = (3.0, 10.0)
ERRORS = (0.05, 0.2)
MAX_DISTANCE = 3.0
COLUMNS = ["model", "D", "k", "V", "10^3 gradients", "CPU s", "nutpie's 10^3 gradients",
           "nutpie's CPU s", "ratio of CPU", "se", "error", "reference", "warnings", "ESS a second",
           "nutpie's ESS a second"]  # fmt: skip


def lines_of(rows):
    """One dictionary for each model that was run, in their order."""
    by = {(row["name"], row["role"]): row for row in rows}
    lines = []
    for name in REAL:
        found = {role: by.get((name, role), {}) for role in (MAP, OURS, NUTPIE, EXACT, LONG)}
        if not any(found.values()):
            continue
        said = [
            (kind, found[role])
            for kind, role in (("exact", EXACT), ("bridge", NUTPIE), ("long run", LONG))
            if "se" in found[role]
        ]
        kind, reference = min(said, key=lambda one: one[1]["se"], default=("", {}))
        mine, theirs = found[OURS], found[NUTPIE]
        line = {"name": name, "kind": kind, "reference": reference, **found}
        line["ratio"] = mine.get("running", np.nan) / theirs.get("running", np.nan)
        line["se"] = mine.get("se", np.nan)
        line["error"] = mine.get("log_z", np.nan) - reference.get("log_z", np.nan)
        line["wrong"] = abs(line["error"]) > MAX_DISTANCE * np.hypot(
            line["se"], reference.get("se", np.nan)
        )
        # what did not end has no log Z
        lines.append(line if "log_z" in mine else line | {"ratio": np.nan, "wrong": False})
    return lines


def cells(line):
    found, mine, theirs = line[MAP], line[OURS], line[NUTPIE]
    of = f"{line['kind']} ± {line['reference']['se']:.3f}" if line["reference"] else ""
    return [
        line["name"], found.get("n_values", ""), found.get("n_globals", "-"),
        number(found.get("variance"), ".2f", "-"), thousands(mine), ended(mine), thousands(theirs),
        ended(theirs), number(line["ratio"], ".2g"), number(line["se"], ".3f"),
        number(line["error"], "+.3f"), of, ", ".join(mine.get("warnings", [])),
        each_second(mine), each_second(theirs),
    ]  # fmt: skip


def number(value, form, without=""):
    return without if value is None or not np.isfinite(value) else format(value, form)


def thousands(row):
    return f"{row['gradients'] / 1e3:.0f}" if "gradients" in row else ""


def ended(row):
    """CPU seconds, or how it ended otherwise."""
    if "timeout" in row:
        return f"over {row['timeout']:.0f}"
    for end in ("refused", "crashed", "killed"):
        if end in row:
            return end
    return number(row.get("running"), ".1f")


def each_second(row):
    return number(row["ess"] / row["running"], ".3g") if "ess" in row else ""


def closing(lines):
    """What the table comes to, a sentence each."""
    n = len(lines)
    ratios, errors = (np.array([line[key] for line in lines]) for key in ("ratio", "se"))
    for most in RATIOS:
        yield f"CPU at most {most:g} times nutpie's: {(ratios <= most).sum()} of {n}."
    for most in ERRORS:
        yield f"se at most {most:g}: {(errors <= most).sum()} of {n}."
    wrong = [line for line in lines if line["wrong"]]
    silent = [line["name"] for line in wrong if not line[OURS]["warnings"]]
    known = sum(np.isfinite(line["error"]) for line in lines)
    yield f"More than {MAX_DISTANCE:g} errors off: {len(wrong)} of {known} with a reference."
    yield f"Wrong without a warning: {', '.join(silent) or 'none'}."
    for what, key in (("Not ended", "timeout"), ("Refused", "refused"), ("Crashed", "crashed")):
        if names := [line["name"] for line in lines if key in line[OURS]]:
            yield f"{what}: {', '.join(names)}."
    if names := [line["name"] for line in lines if line[MAP] and "variance" not in line[MAP]]:
        yield f"No map: {', '.join(names)}."


def report(rows):
    """Print the table, once more as Markdown, and what it comes to."""
    lines = lines_of(rows)
    body = [cells(line) for line in lines]
    table("default runs of models of real size", COLUMNS, body)
    written = markdown(COLUMNS, [[f"`{name}`", *rest] for name, *rest in body])
    console.print(written, soft_wrap=True, markup=False)
    for line in lines:
        for end in ("refused", "crashed"):
            if end in line[OURS]:
                console.print(f"{line['name']}: {line[OURS][end]}", soft_wrap=True, markup=False)
    for said in closing(lines):
        console.print(said, soft_wrap=True, markup=False)
