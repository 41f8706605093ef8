"""Check that a tag names the version of pyproject.toml, CITATION.cff, the recipe and CHANGELOG.

python .ci/release.py v0.1.0
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def faults(tag: str, root: Path = ROOT) -> list[str]:
    """What has to be changed before this tag can be released; empty if nothing."""
    texts = {
        name: (root / name).read_text(encoding="utf-8")
        for name in ("pyproject.toml", "CITATION.cff", "conda/recipe.yaml", "CHANGELOG.md")
    }
    project = tomllib.loads(texts["pyproject.toml"])["project"]
    version = project["version"]
    found = []
    if "Repository" not in project.get("urls", {}):
        found.append(
            "pyproject.toml has no `Repository` in [project.urls]: add its public address."
        )
    if tag != f"v{version}":
        found.append(f"The tag is {tag}, pyproject.toml has the version {version}: tag v{version}.")
    if not re.search(rf"^version: {re.escape(version)}$", texts["CITATION.cff"], re.MULTILINE):
        found.append(f"CITATION.cff has no line `version: {version}`.")
    if f'version: "{version}"' not in texts["conda/recipe.yaml"]:
        found.append(f'conda/recipe.yaml has no line `version: "{version}"`.')
    heading = re.compile(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}$", re.MULTILINE)
    if not heading.search(texts["CHANGELOG.md"]):
        found.append(f"CHANGELOG.md has no heading `## [{version}] - YYYY-MM-DD`.")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python .ci/release.py TAG")
    sys.exit("\n".join(faults(sys.argv[1])) or None)
