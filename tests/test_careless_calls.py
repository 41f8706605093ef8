"""Careless and hostile calls of the command line.

Each ends in a named error, a warning or a right answer: no traceback, no sampling before a
refusal, and every file that was there has the bytes that it had.
"""

import errno
import hashlib
import os
import re
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering import cli
from pymc_tempering.errors import OptionError, OutputError, TemperingWarning
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate

MODEL = """
import pymc as pm
with pm.Model() as model:
    x = pm.Normal("x", 0, {sd})
    pm.Normal("y", x, 2, observed={y})
"""
MODELS = {
    "model.py": MODEL.format(sd=1, y=[1.0, 3.0]),
    "wide.py": MODEL.format(sd=9, y=[1.0, 3.0]),
    "other_data.py": MODEL.format(sd=1, y=[1.0, 3.1]),
    "sub/model.py": MODEL.format(sd=2, y=[1.0, 3.0]),
    "exits.py": "import sys\nsys.exit('bye')\n",
    "raises.py": "x = 1\nraise OSError('[no] data')\n",
    "syntax.py": "x = = 1\n",
    "empty.py": "",
    "guarded.py": "if __name__ == '__main__':\n    model = None\n",
    "binary.py": "\x00",
    "wanders.py": "import os\nos.chdir('/')\n" + MODEL.format(sd=1, y=[1.0, 3.0]),
    "left/model_a.py": "from helper_of_both import SD\n" + MODEL.format(sd="SD", y=[1.0]),
    "left/helper_of_both.py": "SD = 1.0",
    "right/model_b.py": "from helper_of_both import SD\n" + MODEL.format(sd="SD", y=[1.0]),
    "right/helper_of_both.py": "SD = 7.0",
}
TEXTS = {
    "old.nc": "an earlier result",
    "old.html": "an earlier report",
    "notes.txt": "notes",
    "thesis.zarr/thesis.tex": "three years of work",
    "pictures/view.png": "an earlier picture",
    "runs/wide.nc": "an earlier result",
    "garbage.nc": "not a run",
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Bytes of stored runs: two of the same data, one of other data, one of NUTS."""
    folder = tmp_path_factory.mktemp("stored")
    options = {"draws": 12, "tune": 30, "chains": 2, "cores": 1, "random_seed": 4, "quiet": True,
               "progressbar": False, "scans_per_draw": 4}  # fmt: skip
    for name, sd, y in (("a", 1.0, [1.0]), ("b", 3.0, [1.0]), ("c", 1.0, [2.0])):
        with pm.Model() as model:
            x = pm.Normal("x", 0.0, sd)
            pm.Normal("y", x, 2.0, observed=y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TemperingWarning)
            run = pm_temper.sample(model, **options)
        run.to_netcdf(folder / f"{name}.nc", engine="h5netcdf")
    statistics = xr.Dataset({"tree_depth": (("chain", "draw"), np.ones((2, 5)))})
    posterior = xr.Dataset({"x": (("chain", "draw"), np.ones((2, 5)))})
    nuts = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": statistics})
    nuts.to_netcdf(folder / "nuts.nc", engine="h5netcdf")
    (folder / "cut.nc").write_bytes((folder / "a.nc").read_bytes()[:5000])
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@dataclass
class Place:
    """A user's folder, the folder for what cannot be written there, and what was sampled."""

    folder: Path
    elsewhere: Path
    sampled: list

    def digests(self):
        """Digest of every file, and '' for every folder, by relative path."""
        return {
            path.relative_to(self.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            if path.is_file()
            else ""
            for path in self.folder.rglob("*")
        }

    def kept(self):
        """What could not be written where it should be."""
        return sorted(self.elsewhere.glob("*-kept-*"))


@pytest.fixture
def place(tmp_path, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    monkeypatch.chdir(tmp_path)
    for name, text in (MODELS | TEXTS).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.link("model.py", "hard.nc")
    Path("soft.nc").symlink_to("model.py")
    Path("far.nc").symlink_to("notes.txt")
    sampled = []

    def estimate_logz(model, **options):
        if options.get("method", "pt") != "pt":
            raise OptionError(f"method={options['method']!r} is unknown; choose 'pt'.")
        sampled.append((model, options))
        rng = np.random.default_rng(3)
        y = model.rvs_to_values[model["y"]].eval()
        groups = {
            "posterior": {"x": (("chain", "draw"), rng.normal(size=(2, 50)))},
            "observed_data": {"y": ("i", y)},
        }
        tree = xr.DataTree.from_dict({k: xr.Dataset(v) for k, v in groups.items()})
        diagnostics = (Diagnostic("no_round_trips", "in chains [0].", "Raise `tune`.", {}),)
        return LogZEstimate(-3.0 - len(sampled), 0.1, "pt, mbar", np.full(2, -4.0), diagnostics,
                            np.inf, np.inf, idata=tree)  # fmt: skip

    monkeypatch.setattr(pm_temper, "estimate_logz", estimate_logz, raising=False)
    return Place(tmp_path, elsewhere, sampled)


def call(arguments):
    """Return the exit code of the program."""
    try:
        return cli.main(arguments.split())
    except SystemExit as stop:  # argparse's own messages
        return stop.code


# the call, what it must say; refused with code 2 before any sampling
REFUSED = [
    # output that would destroy something
    ("model.py --output model.py", "model.py is the file that is read"),
    ("model.py --output model.py --force", "model.py is the file that is read"),
    ("model.py --output ./sub/../model.py --force", "is the file that is read"),
    ("model.py --output hard.nc --force", "hard.nc is the file that is read"),
    ("model.py --output soft.nc --force", "soft.nc is the file that is read"),
    ("model.py --output wide.py", "does not end in .nc or .zarr"),
    ("model.py --output wide.py --force", "does not end in .nc or .zarr"),
    ("model.py --output old.nc", "old.nc exists and would be lost.*--force"),
    ("model.py --output far.nc", "far.nc exists"),
    ("model.py --output thesis.zarr", "thesis.zarr exists"),
    ("model.py --output thesis.zarr --force", "not a zarr store"),
    ("model.py --output pictures --force", "does not end in"),
    ("model.py wide.py --output runs", "wide.nc exists"),
    ("model.py wide.py --output model.py --force", "looks like a file"),
    # output that cannot be
    ("model.py --output run", "does not end in"),
    ("model.py --output run.pkl", "does not end in"),
    ("model.py --output .", "does not end in"),
    ("model.py --output -", "does not end in"),
    ("model.py --output notes.txt/run.nc", "cannot be written"),
    ("model.py --output /dev/full", "does not end in"),
    ("model.py --output " + "x" * 300 + ".nc", "cannot be written"),
    ("model.py wide.py --output run.nc", "is the folder"),
    ("model.py wide.py --output notes.txt", "cannot be written"),
    ("model.py sub/model.py --output both", "would have one name there"),
    ("model.py --output", "--output: expected one argument"),
    ("--output run.nc", "MODEL_FILE"),
    # files that give no model
    ("absent.py", "There is no file absent.py"),
    ("model.py absent.py", "There is no file absent.py"),
    ("sub", "There is no file sub"),
    ("notes.txt", "notes.txt is not a Python file"),
    ("a.nc", "a.nc is a stored run.*`report a.nc`"),
    ("model.py a.nc", "a.nc is a stored run"),
    ("exits.py", "exits.py failed in line 2: SystemExit: bye"),
    ("raises.py", "line 2: OSError: [no] data"),
    ("syntax.py", "line 1: SyntaxError"),
    ("binary.py", "Running binary.py failed"),
    ("empty.py", "defines neither `model` nor"),
    ("guarded.py", "defines neither `model` nor"),
    ("model.py raises.py --output fresh", "line 2: OSError"),
    # requests that make no sense
    ("model.py model.py", "given twice"),
    ("model.py ./sub/../model.py", "given twice"),
    ("model.py other_data.py", "fitted to different data"),
    ("model.py --method nuts", "method='nuts' is unknown"),
    ("model.py --seed -1", "--seed: '-1' is not a whole number from 0 up"),
    ("model.py --seed 1.5", "--seed: '1.5' is not a whole number"),
    ("model.py --draws 0", "--draws: '0' is not a whole number from 1"),
    ("model.py --draws many", "--draws: 'many' is not"),
    ("model.py --draws 1e3", "--draws: '1e3' is not"),
    ("model.py --draws 99999999999999999999", "is not a whole number from 1 to"),
    ("model.py --tune -5", "--tune: '-5' is not a whole number from 0"),
    ("model.py --chains 0", "--chains: '0' is not"),
    ("model.py --cores nan", "--cores: 'nan' is not"),
    ("model.py --drwas 3", "--drwas"),
    ("--force compare a.nc b.nc", "There is no file compare"),
    # stored runs
    ("compare", "RUN"),
    ("compare a.nc", "compare needs two"),
    ("compare a.nc a.nc", "given twice"),
    ("compare a.nc absent.nc", "There is no file absent.nc"),
    ("compare a.nc c.nc", "fitted to different data"),
    ("compare a.nc garbage.nc", "garbage.nc cannot be read"),
    ("compare a.nc cut.nc", "cut.nc cannot be read"),
    ("compare a.nc thesis.zarr", "thesis.zarr cannot be read"),
    ("compare a.nc nuts.nc", "'nuts': These draws come from NUTS"),
    ("compare a.nc model.py", "model.py is a model file.*leave `compare` out"),
    ("compare a.nc b.nc --draws 5", "--draws"),
    ("report", "RUN"),
    ("report absent.nc", "There is no file absent.nc"),
    ("report model.py", "model.py is a model file"),
    ("report garbage.nc", "garbage.nc cannot be read"),
    ("report nuts.nc", "These draws come from NUTS"),
    ("report a.nc b.nc", "unrecognized arguments: b.nc"),
    ("report a.nc --output a.nc --force", "a.nc is the file that is read"),
    ("report a.nc --output b.nc --force", "does not end in .html"),
    ("report a.nc --output old.html", "old.html exists.*--force"),
    ("report a.nc --output pictures", "does not end in"),
    ("report a.nc --output notes.txt/a.html", "cannot be written"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[row[0][:60] for row in REFUSED])
def test_refused(place, stored, capsys, arguments, message):
    for name, content in stored.items():
        (place.folder / name).write_bytes(content)
    before = place.digests()
    assert call(arguments) == cli.ExitCode.USAGE
    shown = capsys.readouterr()
    assert re.search(re.escape(message).replace(r"\.\*", ".*"), shown.err, re.DOTALL), shown.err
    assert "Traceback" not in shown.err + shown.out
    assert place.sampled == []
    # a folder for output may have been made
    assert {name: digest for name, digest in place.digests().items() if digest} == {
        name: digest for name, digest in before.items() if digest
    }


# the call, what it must say, the files that it may write or replace
DONE = [
    ("model.py", "Nothing was written", []),
    ("model.py --output new/deep/run.nc", "run.nc", ["new/deep/run.nc"]),
    ("model.py --output RUN.NC", "RUN.NC", ["RUN.NC"]),
    ("model.py --output old.nc --force", "old.nc", ["old.nc"]),
    ("model.py --output far.nc --force", "far.nc", ["far.nc"]),
    ("model.py --draws 1_0 --draws 7", "-4.00 ± 0.10 nats", []),
    ("--seed 99999999999999999999999 model.py", "-4.00 ± 0.10 nats", []),
    ("wanders.py --output run.nc", "run.nc", ["run.nc"]),
    ("model.py --draws 5 wide.py", "log Bayes factor", []),
    ("model.py sub/model.py", "log Bayes factor", []),
    ("model.py wide.py --output runs --force", "wide.nc", ["runs/model.nc", "runs/wide.nc"]),
    ("model.py wide.py --output made", "wide.nc", ["made/model.nc", "made/wide.nc"]),
    ("compare a.nc b.nc", "b: too few effective draws", []),
    ("compare b.nc ./sub/../a.nc", "log Bayes factor", []),
    ("report a.nc", "a.html", ["a.html"]),
    ("report a.nc --output old.html --force", "old.html", ["old.html"]),
    ("report a.nc --output made/b.htm --title <b>", "b.htm", ["made/b.htm"]),
    ("--version", pm_temper.__version__, []),
    ("--help", "Run only files that you trust", []),
    ("compare --help", "RUN", []),
    ("report --help", "RUN", []),
]


@pytest.mark.parametrize(("arguments", "message", "written"), DONE, ids=[r[0][:60] for r in DONE])
def test_done(place, stored, capsys, arguments, message, written):
    for name, content in stored.items():
        (place.folder / name).write_bytes(content)
    before = place.digests()
    assert call(arguments) == 0
    shown = capsys.readouterr()
    assert message in re.sub(r"\s+", " ", shown.out), shown.out
    assert shown.err == ""
    after = place.digests()
    changed = {name for name in after if after[name] and after[name] != before.get(name)}
    assert changed == set(written)
    assert set(before) <= set(after)
    for name in written:
        if name.lower().endswith(".nc"):
            assert xr.load_datatree(place.folder / name)["posterior"]["x"].shape == (2, 50)
    assert place.kept() == []


def test_models_with_helpers_of_one_name_get_their_own(place):
    assert call("left/model_a.py right/model_b.py --seed 3") == 0
    sds = [model["x"].owner.inputs[-1].eval().item() for model, _ in place.sampled]
    assert sds == [1.0, 7.0]


def test_several_models_get_the_seeds_of_compare(place, monkeypatch):
    assert call("model.py wide.py --seed 3") == 0
    seeds = [options["random_seed"] for _, options in place.sampled]
    assert seeds == [int(s) for s in np.random.SeedSequence(3).generate_state(2)]
    assert call("model.py --seed 3") == 0
    assert place.sampled[-1][1] == {"random_seed": 3}


def test_comparison_fits_80_columns(place, capsys):
    assert call("left/model_a.py right/model_b.py") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[: len(lines) - 1])) <= 80
    [row] = [line for line in lines if line.startswith("model_b  ")]
    assert re.search(r"-5\.00 ± 0\.10 +-1\.00 ± 0\.14 +0\.27 .*yes$", row)
    assert "model_b: no_round_trips" in lines


@pytest.fixture
def meanwhile(place, monkeypatch):
    """Let something happen in every sampling, before it returns."""

    def let(happen):
        stub = pm_temper.estimate_logz

        def estimate_logz(model, **options):
            happen()
            return stub(model, **options)

        monkeypatch.setattr(pm_temper, "estimate_logz", estimate_logz)

    return let


class TestFailureAfterSampling:
    """The run is there, its place is not: it is kept, and the exit code says so."""

    @pytest.fixture
    def full(self, place, monkeypatch):
        """Fill the disk at the moment when sampling ends."""
        fsync = os.fsync

        def full(descriptor):
            if place.sampled:
                inodes = {path.stat().st_ino for path in place.folder.rglob("*")}
                if os.fstat(descriptor).st_ino in inodes:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", full)

    @pytest.mark.parametrize("options", ["--output run.nc", "--output old.nc --force"])
    def test_full_disk(self, place, full, capsys, options):
        before = place.digests()
        assert call(f"model.py {options}") == cli.ExitCode.NOT_WRITTEN
        shown = capsys.readouterr()
        assert "No space left on device" in shown.err
        assert "-4.00 ± 0.10 nats" in shown.out
        assert place.digests() == before
        (kept,) = place.kept()
        assert str(kept) in shown.err
        assert xr.load_datatree(kept)["posterior"]["x"].shape == (2, 50)

    def test_full_disk_with_several_models(self, place, full, capsys):
        assert call("model.py wide.py --output made") == cli.ExitCode.NOT_WRITTEN
        shown = capsys.readouterr()
        assert "log Bayes factor" in shown.out
        kept = place.kept()
        assert [path.name.split("-")[0] for path in kept] == ["model", "wide"]
        assert all(str(path) in shown.err for path in kept)

    def test_folder_that_disappears(self, place, capsys, meanwhile):
        meanwhile((place.folder / "made").rmdir)
        assert call("model.py --output made/run.nc") == cli.ExitCode.NOT_WRITTEN
        (kept,) = place.kept()
        assert str(kept) in capsys.readouterr().err

    def test_file_that_appears_while_sampling(self, place, capsys, meanwhile):
        meanwhile(lambda: (place.folder / "run.nc").write_text("of another run"))
        assert call("model.py --output run.nc") == cli.ExitCode.NOT_WRITTEN
        assert (place.folder / "run.nc").read_text() == "of another run"
        (kept,) = place.folder.glob("run-kept-*.nc")
        assert str(kept) in capsys.readouterr().err

    def test_second_model_that_fails_leaves_the_run_of_the_first(self, place, capsys, meanwhile):
        def fail():
            if place.sampled:
                raise RuntimeError("[chain 0] failed\nin a long story")

        meanwhile(fail)
        assert call("model.py wide.py --output made") == 1
        assert xr.load_datatree("made/model.nc")["posterior"]["x"].shape == (2, 50)
        shown = capsys.readouterr().err
        assert "Sampling wide.py failed: RuntimeError: [chain 0] failed\n" in shown
        assert "Traceback" not in shown
        assert call("wide.py --full-errors") == 1
        assert "Traceback" in capsys.readouterr().err

    def test_place_of_the_first_run_is_told_where_the_second_fails(
        self, place, full, capsys, meanwhile
    ):
        def fail():
            if place.sampled:
                raise RuntimeError("out of luck")

        meanwhile(fail)
        assert call("model.py wide.py --output made") == 1
        (kept,) = place.kept()
        shown = capsys.readouterr().err
        assert str(kept) in shown
        assert "out of luck" in shown

    def test_full_disk_on_the_way(self, place, capsys, meanwhile):
        """As with --resume, whose error says where the draws are that were made."""

        def fail():
            raise OutputError("The chain in kept could not be written")

        meanwhile(fail)
        assert call("model.py --resume kept") == cli.ExitCode.NOT_WRITTEN
        shown = capsys.readouterr().err
        assert "The chain in kept" in shown
        assert "Traceback" not in shown

    def test_terminal_that_has_gone(self, place, monkeypatch):
        """As in ``... | head -0``: the run is stored before anything is printed."""
        from pymc_tempering.cli import commands

        def gone(*_):
            raise BrokenPipeError

        monkeypatch.setattr(commands, "_show", gone)
        with pytest.raises(BrokenPipeError):
            cli.main(["model.py", "--output", "run.nc"])
        assert xr.load_datatree("run.nc")["posterior"]["x"].shape == (2, 50)


def test_open_file_is_not_cut(place):
    """Somebody reads the earlier result while the new one is written."""
    assert call("model.py --output run.nc") == 0
    with xr.open_datatree("run.nc", engine="h5netcdf") as opened:
        assert call("wide.py --output run.nc --force") == 0
        assert opened["posterior"]["x"].shape == (2, 50)
        assert np.isfinite(opened["posterior"]["x"].values).all()
    assert not list(place.folder.glob("*kept*"))
