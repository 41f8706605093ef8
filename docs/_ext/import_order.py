"""Draw which folder of the package imports which, from the source, into `docs/figures`.

python docs/_ext/import_order.py
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pymc_tempering"
PICTURE = ROOT / "docs" / "figures" / "import_order.svg"
# single modules that everything may import; they know nothing of tempering
FLOOR = ("errors", "types", "private", "jit", "numerics", "options", "methods")
# where across the picture, and what it is about
WHAT = {
    "engine": (0.95, "path, explorers, ensembles"),
    "estimators": (6.95, "log Z from arrays"),
    "schedule": (4.95, "levels, weights, bias"),
    "testing": (8.95, "exact targets"),
    "model": (0.95, "a PyMC model, compiled"),
    "results": (6.95, "names, files"),
    "references": (0.95, "fits, search, prior"),
    "checkpoint": (1.2, "runs that go on"),
    "steps": (2.95, "PyMC's step methods"),
    "progress": (2.95, "phases of a run"),
    "transform": (3.2, "the tempered model"),
    "evidence": (4.0, "log Z, checks"),
    "comparison": (7.4, "tables, weights"),
    "diagnostics": (5.3, "modes in draws"),
    "annealing": (1.2, "particles, bounds"),
    "updates": (3.2, "runs with more data"),
    "plots": (6.0, "pictures, report"),
    "cli": (8.95, "command line"),
}
COLOURS = {"engine": "#d8e6f3", "estimators": "#e3f0dc", "schedule": "#e3f0dc"}


def _imported(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("pymc_tempering."):
            yield str(child.module)
        yield from _imported(child)


def imports() -> dict[str, set[str]]:
    """Folders (or modules of the top level) of the package, and which others each imports."""
    found: dict[str, set[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        here = file.relative_to(PACKAGE).with_suffix("").parts[0]
        if here.startswith("__"):
            continue
        for module in _imported(ast.parse(file.read_text(encoding="utf-8"))):
            found.setdefault(here, set()).add(module.split(".")[1])
    there = set(found) | set().union(*found.values())
    unknown = there - set(WHAT) - set(FLOOR)
    assert not unknown, f"say in WHAT or FLOOR what {sorted(unknown)} are"
    return {n: found.get(n, set()) - {n} - set(FLOOR) for n in WHAT if n in there}


def groups(edges: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Folders one by one; those that import one another, however indirectly, together."""

    @cache
    def below(name: str) -> frozenset[str]:
        seen, waiting = set(), [name]
        while waiting:
            new = edges[waiting.pop()] - seen
            seen |= new
            waiting.extend(new)
        return frozenset(seen)

    found = {tuple(sorted({b for b in below(a) if a in below(b)} | {a})) for a in edges}
    return sorted(found)


def rows(edges: dict[str, set[str]]) -> list[list[tuple[str, ...]]]:
    """Groups by how far above the floor they are; each imports from rows below it only."""
    all_groups = groups(edges)

    def level(group: tuple[str, ...]) -> int:
        lower = set().union(*(edges[name] for name in group)) - set(group)
        return 1 + max((level(g) for g in all_groups if set(g) & lower), default=-1)

    levels = {group: level(group) for group in all_groups}
    return [[g for g in all_groups if levels[g] == i] for i in range(max(levels.values()) + 1)]


def description() -> str:
    """Everything that the picture shows, as text; part of the file."""
    edges = imports()
    lines = [f"{name}: {', '.join(sorted(lower))}" for name, lower in sorted(edges.items())]
    return "; ".join(lines)


def arrows(edges: dict[str, set[str]]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Pairs of groups of which the first imports the second, without what follows from others."""
    all_groups = groups(edges)
    of = {name: group for group in all_groups for name in group}
    direct = {g: {of[low] for name in g for low in edges[name]} - {g} for g in all_groups}

    @cache
    def reach(group: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
        return frozenset(direct[group]).union(*(reach(low) for low in direct[group]))

    return [
        (g, low) for g in all_groups for low in sorted(direct[g])
        if not any(low in reach(other) for other in direct[g])
    ]  # fmt: skip


def draw(path: Path) -> None:
    """Draw the picture."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    edges = imports()
    floor = "    ".join(name for name in FLOOR if (PACKAGE / f"{name}.py").is_file())
    plt.rcParams.update({"svg.hashsalt": "pymc_tempering", "font.size": 9})
    shown = rows(edges)
    fig, ax = plt.subplots(figsize=(9.5, 0.86 * (len(shown) + 1)))
    width, height, places = 1.72, 0.56, {}

    def box(x: float, y: float, w: float, title: str, text: str, colour: str) -> None:
        ax.add_patch(plt.Rectangle((x - w / 2, y - height / 2), w, height, fc=colour, ec="#667788",
                                   lw=0.8, zorder=2))  # fmt: skip
        ax.text(x, y + 0.12, title, ha="center", va="center", weight="bold", zorder=3)
        ax.text(x, y - 0.12, text, ha="center", va="center", size=7.5, zorder=3)

    for y, row in enumerate(shown, start=1):
        for group in row:
            middle = sum(WHAT[name][0] for name in group) / len(group)
            places[group] = (middle, y)
            for i, name in enumerate(sorted(group, key=lambda name: WHAT[name][0])):
                x = middle + (i - (len(group) - 1) / 2) * width
                box(x, y, width, name, WHAT[name][1], COLOURS.get(name, "#f6f3ea"))
    box(4.95, 0, 9.72, floor, "what everything else may import", "#eeeeee")
    for group, lower in arrows(edges):
        (x0, y0), (x1, y1) = places[group], places[lower]
        ax.annotate(
            "", (x1, y1 + height / 2), (x0, y0 - height / 2), zorder=1,
            arrowprops={"arrowstyle": "-|>", "color": "#667788", "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
    ax.set(xlim=(0, 9.9), ylim=(-0.45, len(shown) + 0.45))
    ax.axis("off")
    fig.tight_layout(pad=0.2)
    metadata = {"Date": None, "Description": description()} if path.suffix == ".svg" else None
    fig.savefig(path, metadata=metadata, dpi=110)
    plt.close(fig)


if __name__ == "__main__":
    draw(PICTURE)
