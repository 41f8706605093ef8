"""How large the package is, in lines and in concepts, now and at an earlier commit.

    python benchmarks/size.py --against 4b653ab
    python benchmarks/size.py --walk

Read from the source alone, so that any commit can be counted. With ``--walk`` also the longest
chain of modules and of folders that stand on the stack at once in ``estimate_logz(model)``.
"""

import argparse
import ast
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import ROOT, table

PACKAGE = "pymc_tempering"


def lines_of(files):
    return sum(len(file.read_text().splitlines()) for file in files)


def words_of(files):
    return sum(len(file.read_text().split()) for file in files)


def docstring_lines(tree):
    """Lines of docstrings, and of the strings beneath module-level names."""
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return sum(node.end_lineno - node.lineno + 1 for node in strings)


def is_number(node):
    """Whether an expression is made of numbers alone."""
    leaves = [leaf for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)]
    names = [leaf for leaf in ast.walk(node) if isinstance(leaf, ast.Name)]
    numbers = all(
        isinstance(leaf.value, int | float) and not isinstance(leaf.value, bool) for leaf in leaves
    )
    return bool(leaves) and numbers and all(name.id in ("np", "math", "int") for name in names)


def numbers_of(tree, source):
    """Module-level names that are numbers, and how many have a reason beside them."""
    n_numbers = n_reasons = 0
    lines = source.splitlines()
    for i, node in enumerate(tree.body):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        if not is_number(node.value):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        count = sum(len(t.elts) if isinstance(t, ast.Tuple) else 1 for t in targets)
        after = tree.body[i + 1] if i + 1 < len(tree.body) else None
        told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        above = lines[node.lineno - 2].lstrip().startswith("#") if node.lineno > 1 else False
        beside = "#" in lines[node.end_lineno - 1]
        n_numbers += count
        n_reasons += count * (told or above or beside)
    return n_numbers, n_reasons


def attributes_of(tree):
    """Names that each class sets on itself, by class."""
    found = {}
    for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        names = {
            node.attr
            for node in ast.walk(cls)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        }
        names |= {
            node.target.id
            for node in cls.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        found[cls.name] = len(names)
    return found


def keys_of(tree, name):
    """Keys of a dictionary that a module defines."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            value = getattr(node, "value", None)
            if isinstance(value, ast.Dict):
                return len(value.keys)
    return 0


def codes_of(trees):
    """Codes with which a diagnostic is made, under the old name of the class or the new one."""
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") in ("Doubt", "Diagnostic", "Check")
                and (node.args or node.keywords)
            ):
                first = [k.value for k in node.keywords if k.arg == "code"] + list(node.args)
                if first and isinstance(first[0], ast.Constant):
                    found.add(first[0].value)
    return len(found)


def figures(root):
    package = sorted(f for f in (root / PACKAGE).rglob("*") if f.suffix in (".py", ".pyi"))
    sources = [file.read_text() for file in package]
    trees = [ast.parse(source) for source in sources]
    numbers = [numbers_of(tree, text) for tree, text in zip(trees, sources, strict=True)]
    attributes = {}
    for tree in trees:
        attributes |= attributes_of(tree)
    classes = sorted(attributes.items(), key=lambda pair: pair[1], reverse=True)[:3]
    statistics = max(keys_of(tree, "STATISTICS") for tree in trees)
    docs = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "docs").glob("*/*.md")]
    return {
        "lines of the package": lines_of(package),
        "of these docstrings": sum(map(docstring_lines, trees)),
        "modules": len(package),
        "module-level numbers": sum(n for n, _ in numbers),
        "of these without a reason": sum(n - told for n, told in numbers),
        "codes of diagnostics": codes_of(trees),
        "statistics recorded with a draw": statistics,
        "attributes of the largest classes": ", ".join(f"{name} {n}" for name, n in classes),
        "modules over 400 lines": sum(len(s.splitlines()) > 400 for s in sources),
        "words of README and docs": words_of(docs),
        "words of benchmarks/README.md": words_of([root / "benchmarks" / "README.md"]),
        "lines of CHANGELOG.md": lines_of([root / "CHANGELOG.md"]),
        "lines of tests": lines_of(sorted((root / "tests").rglob("*.py"))),
    }


def longest_walk():
    """Longest chain of modules, and of folders, on the stack of a default run."""
    import pymc as pm

    import pymc_tempering as pm_temper

    deepest = {"modules": (), "folders": ()}

    def look(frame, event, _):
        if event != "call" or f"/{PACKAGE}/" not in frame.f_code.co_filename:
            return
        chain = []
        while frame is not None:
            name = frame.f_code.co_filename
            if f"/{PACKAGE}/" in name:
                chain.append(name.split(f"/{PACKAGE}/")[-1])
            frame = frame.f_back
        chain.reverse()
        for kind, names in (("modules", chain), ("folders", [n.split("/")[0] for n in chain])):
            distinct = tuple(dict.fromkeys(names))
            if len(distinct) > len(deepest[kind]):
                deepest[kind] = distinct

    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x, 0.5, observed=1.0)
    sys.setprofile(look)
    try:
        pm_temper.estimate_logz(
            model, draws=20, tune=20, chains=1, cores=1, random_seed=1, progressbar=False
        )
    finally:
        sys.setprofile(None)
    return deepest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", help="a commit to count as well")
    parser.add_argument("--walk", action="store_true", help="run a model and follow the calls")
    arguments = parser.parse_args()
    now, before = figures(ROOT), None
    if arguments.against:
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(
                ["git", "archive", arguments.against], cwd=ROOT, check=True, capture_output=True
            ).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
            before = figures(Path(folder))
    columns = ["", *([arguments.against] if before else []), "now"]
    rows = [[name, *([before[name]] if before else []), value] for name, value in now.items()]
    table("size", columns, [[str(cell) for cell in row] for row in rows])
    if arguments.walk:
        for kind, chain in longest_walk().items():
            print(f"longest chain of {kind}: {len(chain)}: {' > '.join(chain)}")


if __name__ == "__main__":
    main()
