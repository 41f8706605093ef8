"""Show that the wheel alone does what the README says.

Builds the wheel, installs it and nothing else into an empty environment in a temporary folder, and
runs there, away from the checkout: the README's example, a report of its result, and the command
line at tiny settings.

    python .ci/wheel.py
"""

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = re.compile(r"^## Example\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# pm.sample starts worker processes, which import the program that started them
PROGRAM = """
def main():
{example}
    print(f"log Z = {{estimate.log_z:.3f}}, error {{estimate.se:.3f}}")
    left = float((idata.posterior["position"] < 0).mean())
    print(f"share of draws on the left: {{left:.2f}}")
    assert 0.2 < left < 0.8, left  # one half; a chain in one mode would give 0 or 1
    assert 0 < estimate.se < 0.5, estimate.se
    page = pm_temper.report(estimate, "report.html")
    assert page.read_text(encoding="utf-8").count("data:image/png") >= 3
    print(f"report: {{page.stat().st_size}} bytes")


if __name__ == "__main__":
    main()
"""

MODEL = """
import pymc as pm

with pm.Model() as model:
    position = pm.Normal("position", 0, 5)
    pm.Normal("distance", pm.math.abs(position), 0.5, observed=2.0)
"""


def example(readme: str) -> str:
    """Code of the README's section "Example"."""
    found = EXAMPLE.search(readme)
    if found is None:
        raise SystemExit("The README has no section `## Example` that begins with Python code.")
    return found[1]


def program(code: str) -> str:
    """A program that runs the example, looks at its result and writes a report."""
    indented = "\n".join(f"    {line}" if line else "" for line in code.splitlines())
    return PROGRAM.format(example=indented)


def run(*command: str | Path, folder: Path) -> None:
    """Run a command in a folder, without the checkout on the path, and stop if it fails."""
    print("$", *(Path(part).name if os.sep in str(part) else part for part in command), flush=True)
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PYTHONUTF8"] = "1"  # tables have lines that Windows' own code page lacks
    subprocess.run(command, cwd=folder, env=environment, check=True)


def main() -> None:
    """Build, install, run."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pip = ("-m", "pip", "--disable-pip-version-check")
        quiet = ("--quiet", "--quiet")
        run(sys.executable, *pip, "wheel", *quiet, "--no-deps", "-w", folder, ROOT, folder=folder)
        (wheel,) = folder.glob("*.whl")
        venv.create(folder / "empty", with_pip=True)
        python = folder / "empty" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        run(python, *pip, "install", *quiet, wheel, folder=folder)
        run(python, *pip, "check", folder=folder)
        (folder / "example.py").write_text(program(example(readme)), encoding="utf-8")
        (folder / "my_model.py").write_text(MODEL, encoding="utf-8")
        run(python, "example.py", folder=folder)
        tiny = ("--draws", "20", "--tune", "50", "--chains", "2", "--seed", "1")
        tempering = ("-m", "pymc_tempering")
        run(python, *tempering, "my_model.py", *tiny, "--output", "run.nc", folder=folder)
        if not (folder / "run.nc").stat().st_size:
            raise SystemExit("run.nc is empty.")
    print("The wheel does what the README says.")


if __name__ == "__main__":
    main()
