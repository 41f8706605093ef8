"""The command line: what it passes on, what it writes, and how it refuses."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import pymc_tempering
from pymc_tempering import cli
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate

GOOD_MODEL = """
import pymc as pm
with pm.Model() as model:
    x = pm.Normal("x")
    pm.Normal("y", x, 2, observed=[1.0, 3.0])
"""


def stub_estimate(idata, warnings=()):
    spent = {"search": 50_000, "draws": 1_200}
    return LogZEstimate(
        -12.3456, 0.0789, "pt", np.array([-12.4, -12.2]), warnings, idata=idata, gradients=spent
    )


def draws(**shapes):
    """Return a DataTree with a posterior of the given shapes per draw, 2 chains x 50 draws."""
    rng = np.random.default_rng(3)
    variables = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(len(shape)))),
               np.abs(rng.normal(size=(2, 50, *shape))) + 0.1)
        for name, shape in shapes.items()
    }  # fmt: skip
    coords = {"chain": np.arange(2), "draw": np.arange(50)}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables, coords=coords)})


@pytest.fixture
def calls(monkeypatch):
    """Replace the sampler by a stub and record what it was called with."""
    recorded = []

    def estimate_logz(model, **options):
        recorded.append((model, options))
        return stub_estimate(draws(x=()))

    monkeypatch.setattr(pymc_tempering, "estimate_logz", estimate_logz, raising=False)
    return recorded


def write(folder, text, name="my_model.py"):
    path = folder / name
    path.write_text(text)
    return str(path)


class TestModelFile:
    def test_model_is_sampled_and_reported(self, tmp_path, calls, capsys):
        assert cli.main([write(tmp_path, GOOD_MODEL)]) == 0
        ((model, options),) = calls
        assert [v.name for v in model.free_RVs] == ["x"]
        assert options == {}
        shown = capsys.readouterr().out
        assert "log Z = -12.35 ± 0.08 nats (pt, 2 chains" in shown
        assert "51,200 (50,000 for search, 1,200 for draws)" in shown
        assert "--output" in shown

    def test_options_are_passed_on(self, tmp_path, calls):
        options = [
            "--method",
            "pt",
            "--draws",
            "70",
            "--tune",
            "0",
            "--chains",
            "3",
            "--cores",
            "1",
            "--seed",
            "9",
            "--max-gradients",
            "100000",
        ]
        assert cli.main([write(tmp_path, GOOD_MODEL), *options]) == 0
        assert calls[0][1] == {
            "method": "pt", "draws": 70, "tune": 0, "chains": 3, "cores": 1, "random_seed": 9,
            "max_gradients": 100_000,
        }  # fmt: skip

    def test_output_is_a_netcdf_file_with_the_draws(self, tmp_path, calls, capsys):
        target = tmp_path / "run.nc"
        assert cli.main([write(tmp_path, GOOD_MODEL), "--output", str(target)]) == 0
        with xr.open_datatree(target, engine="h5netcdf") as stored:
            np.testing.assert_array_equal(stored["posterior"]["x"], draws(x=())["posterior"]["x"])
        assert capsys.readouterr().out.strip().splitlines()[-1].endswith(str(target))

    def test_resume_is_a_folder_for_each_model(self, tmp_path, calls, capsys):
        one, other = write(tmp_path, GOOD_MODEL), write(tmp_path, GOOD_MODEL, "other.py")
        assert cli.main([one, "--resume", "kept"]) == 0
        cli.main([one, other, "--resume", "kept", "--seed", "1"])  # stubs cannot be compared
        assert [str(options["resume"]) for _, options in calls] == [
            "kept", str(Path("kept", "my_model")), str(Path("kept", "other")),
        ]  # fmt: skip
        assert cli.main([one, other, "--resume", "kept"]) == 2
        assert "--resume with several models needs --seed" in capsys.readouterr().err

    def test_resume_that_cannot_be_written_is_refused_before_sampling(self, tmp_path, capsys):
        model = write(tmp_path, GOOD_MODEL)
        for path, said in ((model, "which is a file"), (f"{model}/below", "cannot be written")):
            assert cli.main([model, "--resume", path]) == 2
            shown = capsys.readouterr().err
            assert said in shown
            assert "Traceback" not in shown
        assert Path(model).read_text() == GOOD_MODEL

    def test_build_model_is_called_and_imports_its_neighbours(self, tmp_path, calls):
        write(tmp_path, "SCALE = 3.0", "neighbour_of_model.py")
        text = (
            "import pymc as pm\nfrom neighbour_of_model import SCALE\n"
            "def build_model():\n    with pm.Model() as m:\n        pm.Normal('z', 0, SCALE)\n"
            "    return m\n"
        )
        before = list(sys.path)
        assert cli.main([write(tmp_path, text)]) == 0
        assert [v.name for v in calls[0][0].free_RVs] == ["z"]
        assert sys.path == before

    def test_warnings_are_printed_and_do_not_fail_the_run(self, tmp_path, monkeypatch, capsys):
        import warnings

        def estimate_logz(model, **options):
            diagnostic = Diagnostic("no_round_trips", "nothing moved.", "Raise `tune`.", {})
            warnings.warn(str(diagnostic), TemperingWarning, stacklevel=2)
            return stub_estimate(draws(x=()), warnings=(diagnostic,))

        monkeypatch.setattr(pymc_tempering, "estimate_logz", estimate_logz, raising=False)
        assert cli.main([write(tmp_path, GOOD_MODEL)]) == 0
        assert capsys.readouterr().out.count("no round trips: nothing moved") == 1

    def test_an_interrupted_run_ends_all_and_has_a_status_of_its_own(
        self, tmp_path, monkeypatch, capsys
    ):
        sampled = []

        def estimate_logz(model, **options):
            sampled.append(model)
            diagnostic = Diagnostic(
                "interrupted", "stopped after 1 of 4 chains.", "Run it again.", {}
            )
            return stub_estimate(draws(x=()), warnings=(diagnostic,))

        monkeypatch.setattr(pymc_tempering, "estimate_logz", estimate_logz, raising=False)
        first, second = tmp_path / "one", tmp_path / "two"
        first.mkdir()
        second.mkdir()
        assert cli.main([write(first, GOOD_MODEL), write(second, GOOD_MODEL)]) == 130
        assert len(sampled) == 1
        assert "stopped after 1 of 4 chains" in capsys.readouterr().out

    def test_long_posterior_is_cut_and_says_so(self, tmp_path, monkeypatch, capsys):
        long = stub_estimate(draws(x=(40,)))
        monkeypatch.setattr(pymc_tempering, "estimate_logz", lambda model, **options: long)
        assert cli.main([write(tmp_path, GOOD_MODEL)]) == 0
        shown = capsys.readouterr().out
        assert "first 30 of 40 rows" in shown
        assert "x[29]" in shown
        assert "x[30]" not in shown


class TestRefusals:
    """Each ends with code 2 and one message on stderr, before any sampling."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("model = 3\n", "`model` of .* is of type int"),
            ("def build_model():\n    return None\n", "`build_model()` of .* NoneType"),
            ("import no_such_package_at_all\n", "ModuleNotFoundError.*no_such_package_at_all"),
            ("def build_model():\n    return 1 / 0\n", "line 2: ZeroDivisionError"),
        ],
    )  # fmt: skip
    def test_model_file_that_gives_no_model(self, tmp_path, calls, capsys, text, message):
        assert cli.main([write(tmp_path, text)]) == cli.ExitCode.USAGE
        captured = capsys.readouterr()
        pattern = message.replace("()", r"\(\)")
        assert re.search(pattern, captured.err, re.DOTALL), captured.err
        assert "Traceback" not in captured.err
        assert captured.out == ""
        assert calls == []

    def test_interrupt(self, tmp_path, monkeypatch, capsys):
        def estimate_logz(model, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(pymc_tempering, "estimate_logz", estimate_logz, raising=False)
        assert cli.main([write(tmp_path, GOOD_MODEL)]) == cli.ExitCode.INTERRUPTED
        assert "Interrupted" in capsys.readouterr().err


class TestHelp:
    def test_names_every_option(self, capsys):
        with pytest.raises(SystemExit) as stop:
            cli.main(["--help"])
        assert stop.value.code == 0
        shown = capsys.readouterr().out
        for option in ["method", "draws", "tune", "chains", "cores", "seed", "output"]:
            assert f"--{option}" in shown
