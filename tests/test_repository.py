"""What stands beside the package agrees with it."""

import importlib.util
import re
import shutil
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# conda's names, where they differ; the smaller parts, without a C compiler or Qt
CONDA = {"pymc": "pymc-base", "matplotlib": "matplotlib-base"}
RELEASED = ("pyproject.toml", "CITATION.cff", "conda/recipe.yaml", "CHANGELOG.md")


def script(name):
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_recipe_requires_what_the_package_requires():
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    required = re.findall(r"- (\S+) >=(\S+)", run)
    ours = [re.fullmatch(r"([\w-]+)>=([\w.]+)", text).groups() for text in PROJECT["dependencies"]]
    python = PROJECT["requires-python"].removeprefix(">=")
    expected = [("python", python)] + [(CONDA.get(name, name), version) for name, version in ours]
    assert required == expected


@pytest.fixture
def released(tmp_path):
    """Copies of the files that name the version, ready for release."""
    for name in RELEASED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changelog = tmp_path / "CHANGELOG.md"
    version = PROJECT["version"]
    if "urls" not in PROJECT:
        with (tmp_path / "pyproject.toml").open("a") as file:
            file.write('[project.urls]\nRepository = "https://example.org/somewhere"\n')
    changelog.write_text(changelog.read_text("utf-8") + f"\n## [{version}] - 2026-11-21\n", "utf-8")
    return tmp_path


class TestRelease:
    def test_a_tag_that_agrees(self, released):
        assert script("release").faults(f"v{PROJECT['version']}", released) == []

    @pytest.mark.parametrize("tag", ["v9.9.9", PROJECT["version"], f"v{PROJECT['version']}rc1"])
    def test_another_tag(self, released, tag):
        (fault,) = script("release").faults(tag, released)
        assert tag in fault

    @pytest.mark.parametrize("name", RELEASED[1:])
    def test_a_file_with_another_version(self, released, name):
        text = (released / name).read_text("utf-8").replace(PROJECT["version"], "9.9.9")
        (released / name).write_text(text, "utf-8")
        (fault,) = script("release").faults(f"v{PROJECT['version']}", released)
        assert name in fault

    def test_a_package_without_an_address(self, released):
        text = (released / "pyproject.toml").read_text("utf-8").replace("Repository", "Elsewhere")
        (released / "pyproject.toml").write_text(text, "utf-8")
        (fault,) = script("release").faults(f"v{PROJECT['version']}", released)
        assert "[project.urls]" in fault

    def test_unreleased_changes_have_no_date(self, released):
        text = (released / "CHANGELOG.md").read_text("utf-8").replace(" - 2026-11-21", "")
        (released / "CHANGELOG.md").write_text(text, "utf-8")
        (fault,) = script("release").faults(f"v{PROJECT['version']}", released)
        assert "YYYY-MM-DD" in fault


def test_the_wheel_job_runs_the_example_of_the_readme():
    wheel = script("wheel")
    code = wheel.example((ROOT / "README.md").read_text(encoding="utf-8"))
    assert "pm_temper.estimate_logz(idata)" in code
    compile(wheel.program(code), "example.py", "exec")


def test_no_test_has_a_limit_of_wall_clock_time():
    """A busy machine is not an error."""
    limit = re.compile(r"\btimeout\s*=\s*[\d.A-Z]")
    found = [p.name for p in (ROOT / "tests").rglob("*.py") if limit.search(p.read_text("utf-8"))]
    assert found == []
