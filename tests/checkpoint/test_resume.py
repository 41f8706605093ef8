"""Runs that are killed and go on: the draws and log Z of a run that was not, to the last bit."""

import errno
import json
import multiprocessing
import os
import shutil
import signal
import zipfile
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from pymc_tempering import testing
from pymc_tempering.checkpoint import journal
from pymc_tempering.checkpoint.files import read_tree, write_tree
from pymc_tempering.checkpoint.journal import Journal, n_evaluated
from pymc_tempering.checkpoint.store import FORMAT, resumed
from pymc_tempering.errors import DataError, OptionError, OutputError, WorkerError
from pymc_tempering.methods import METHODS as ROWS
from pymc_tempering.results.files import probe, write_whole
from pymc_tempering.steps.parallel import ParallelTempering
from tests.checkpoint import killed
from tests.checkpoint.killed import (
    METHODS,
    Counter,
    different,
    model_of,
    run_and_die,
    sample,
    with_events,
)
from tests.identity.pairs import black_box

RUN = METHODS["pt"]
FOLDERS_OF_CHAINS = "chain-*"
FORKED = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(scope="module")
def model():
    return testing.asymmetric_bimodal().model()


@pytest.fixture(scope="module")
def whole(model):
    return sample(model, **RUN)


@pytest.fixture(scope="module")
def finished(model, tmp_path_factory):
    """Store of a run that ended, with a block for each draw, and how many events it had."""
    path, counter = tmp_path_factory.mktemp("finished") / "new" / "run", Counter()
    with_events(counter, model, RUN | {"resume": path})
    return path, counter.n


@pytest.fixture
def store(finished, tmp_path):
    return shutil.copytree(finished[0], tmp_path / "run")


def no_sampling(*_):
    raise AssertionError("sampled")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_run_that_is_kept_is_the_same(model, whole, finished):
    assert different(whole, sample(model, resume=finished[0], **RUN)) == []


@FORKED
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_killed_twice_and_continued(model, whole, finished, tmp_path, seed, share):
    """Once in tuning and once in sampling at least: half of the events are of each chain."""
    path, n_events = tmp_path / "run", finished[1]
    at = int(share * n_events) + seed % 7
    assert run_and_die(model, RUN | {"resume": path}, at)
    assert run_and_die(model, RUN | {"resume": path}, (n_events - at) // 2)
    assert different(whole, sample(model, resume=path, **RUN)) == []


@FORKED
def test_what_was_spent_is_remembered(model, finished, tmp_path):
    """A chain that goes on has no more gradients left than the one that was killed."""
    options = METHODS["pt, max_gradients"]
    limited = sample(model, **options)
    assert run_and_die(model, options | {"resume": tmp_path / "run"}, finished[1] // 3)
    assert different(limited, sample(model, resume=tmp_path / "run", **options)) == []


@FORKED
@pytest.mark.parametrize("name", ["pt, two processes", "pt, executor"])
def test_two_processes_end_with_the_one_that_is_killed(name, model, whole, finished, tmp_path):
    """Otherwise they would hold their chains for ever."""
    options = METHODS[name] | {"resume": tmp_path / "run"}
    assert run_and_die(model, options, finished[1] // 5)
    assert different(whole, sample(model, **options)) == []


@FORKED
def test_a_process_that_was_lost(model, whole, tmp_path, monkeypatch):
    """Not the whole run: it ends with an error, and the same call goes on."""
    monkeypatch.setattr(journal, "EVERY", 0.0)

    def kill(draw, **_):
        if draw.draw_idx == 20:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    options = METHODS["pt, two processes"] | {"resume": tmp_path}
    with pytest.raises(WorkerError, match="the same call goes on"):
        sample(model, callback=kill, **options)
    assert sum(journal.n_kept(chain) for chain in tmp_path.glob(FOLDERS_OF_CHAINS)) >= 20
    assert different(whole, sample(model, **options)) == []


def test_blocks_of_draws(model, whole, tmp_path, monkeypatch):
    """However many draws are in memory, no more than that: 36 are seven blocks of five and one."""
    monkeypatch.setattr(journal, "_MOST_DRAWS", 5)
    assert different(whole, sample(model, resume=tmp_path, **RUN)) == []
    for chain in tmp_path.glob(FOLDERS_OF_CHAINS):
        assert len(list(chain.glob("draws-*"))) == 8
        assert len(list(chain.glob("state-*"))) == 2
        sorted(chain.glob("state-*"))[-1].unlink()
    assert different(whole, sample(model, resume=tmp_path, **RUN)) == []


@pytest.mark.parametrize("n_draws", [1, 6])
def test_a_run_that_was_interrupted_goes_on(model, whole, tmp_path, monkeypatch, n_draws):
    """As after Ctrl-C: what there is is returned, and the same call returns all.

    After one draw the other mode has none: which modes had some is remembered.
    """
    assert np.isfinite(whole.sample_stats["log_mass_unvisited"][0, 0]).any()
    advance, steps = ParallelTempering._advance, iter(range(100))

    def interrupted(self, point):
        if next(steps) == 24 + n_draws:
            raise KeyboardInterrupt
        return advance(self, point)

    with monkeypatch.context() as patch:
        patch.setattr(ParallelTempering, "_advance", interrupted)
        patch.setattr(journal, "EVERY", 0.0)
        part = sample(model, resume=tmp_path, **RUN)
    assert dict(part.posterior.sizes)["draw"] == n_draws
    assert "interrupted" in part["tempering"]["warning_code"].values
    assert different(whole, sample(model, resume=tmp_path, **RUN)) == []


def test_a_finished_run_is_returned(model, whole, store, monkeypatch, capsys):
    monkeypatch.setattr(ParallelTempering, "_advance", no_sampling)
    options = RUN | {"progressbar": True, "quiet": False}
    assert different(whole, sample(model, resume=str(store), **options)) == []
    assert "has this run whole; nothing is sampled" in capsys.readouterr().out


def test_a_partial_run_says_so(model, store, capsys):
    shutil.rmtree(sorted(store.glob(FOLDERS_OF_CHAINS))[0])
    sample(model, resume=store, **(RUN | {"progressbar": True, "quiet": False}))
    assert "it goes on from them" in capsys.readouterr().out


def test_fits_are_not_made_again(model, whole, store, monkeypatch):
    for chain in store.glob(FOLDERS_OF_CHAINS):
        shutil.rmtree(chain)
    monkeypatch.setattr(ParallelTempering, "_prepare_from", no_sampling)
    assert different(whole, sample(model, resume=store, **RUN)) == []


# --- a search that was killed -------------------------------------------------------------------

SEARCHED = RUN | {"search": "default", "chains": 1, "draws": 2, "tune": 0}
BLOCK = 700


@pytest.fixture(scope="module")
def searched(model):
    return sample(model, **SEARCHED)


@pytest.fixture(scope="module")
def n_evaluations(model, tmp_path_factory):
    """Of a search that was not killed; a few are counted as none of its gradients."""
    requested = []
    note = journal.Evaluations._note
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            journal.Evaluations, "_note", lambda *of: requested.append(of[1]) or note(*of)
        )
        sample(model, resume=tmp_path_factory.mktemp("searched") / "run", **SEARCHED)
    return len(requested)


def as_it_is(path):
    pass


def answered_elsewhere(path):
    """As where the last bits of places differ from the 300th on."""
    block = read_tree(path)
    block["marks"][300:] ^= 1
    write_tree(path, block)


@FORKED
@pytest.mark.parametrize("damage", [as_it_is, answered_elsewhere, cut])
def test_a_search_goes_on(model, searched, n_evaluations, tmp_path, monkeypatch, capsys, damage):
    """Killed twice while a third block is written; it asks the density for nothing again."""
    monkeypatch.setattr(journal, "_MOST_ROWS", BLOCK)
    counter = Counter()
    with monkeypatch.context() as patch:
        patch.setattr(journal.Evaluations, "_note", stop_after(2 * BLOCK))
        with pytest.raises(KeyboardInterrupt):
            with_events(counter, model, SEARCHED | {"resume": tmp_path / "counted"})
    options = SEARCHED | {"resume": tmp_path / "run"}
    assert run_and_die(model, options, counter.n + 3)
    assert n_evaluated(tmp_path / "run") == 2 * BLOCK
    assert not list((tmp_path / "run").glob(FOLDERS_OF_CHAINS))
    damage(sorted((tmp_path / "run").glob("search-*"))[0])
    kept = {as_it_is: 2 * BLOCK, answered_elsewhere: 300, cut: 0}[damage]
    assert run_and_die(model, options, counter.n + 3)
    assert n_evaluated(tmp_path / "run") == kept + 2 * BLOCK
    # of what was kept, nothing that had been asked for after the damage
    begins = [int(path.name.split("-")[1]) for path in (tmp_path / "run").glob("search-*")]
    before = [start for start in (0, BLOCK) if start < kept]
    assert sorted(begins) == [*before, kept, kept + BLOCK]
    requested = []
    note = journal.Evaluations._note
    monkeypatch.setattr(
        journal.Evaluations, "_note", lambda *of: requested.append(of[1]) or note(*of)
    )
    found = sample(model, **(options | {"progressbar": True, "quiet": False}))
    assert different(searched, found) == []
    assert f"has {kept + 2 * BLOCK:,} gradients of the search" in capsys.readouterr().out
    assert len(requested) == n_evaluations - kept - 2 * BLOCK
    assert n_evaluated(tmp_path / "run") == 0


def stop_after(n):
    """Ctrl-C in an evaluation of the search."""
    note, calls = journal.Evaluations._note, iter(range(n + 1))

    def stopping(*of):
        if next(calls) == n:
            raise KeyboardInterrupt
        note(*of)

    return stopping


def test_a_search_that_was_interrupted_is_kept(model, searched, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(journal.Evaluations, "_note", stop_after(900))
        with pytest.raises(KeyboardInterrupt):
            sample(model, resume=tmp_path, **SEARCHED)
    assert n_evaluated(tmp_path) == 900
    # of another run, none of it is of use
    changed = SEARCHED | {"random_seed": 5}
    with monkeypatch.context() as patch:
        patch.setattr(journal.Evaluations, "_note", stop_after(500))
        with pytest.raises(KeyboardInterrupt):
            sample(model, resume=tmp_path, **changed)
    assert n_evaluated(tmp_path) == 500
    # more draws are no other run
    with monkeypatch.context() as patch:
        patch.setattr(journal.Evaluations, "_note", stop_after(1))
        with pytest.raises(KeyboardInterrupt):
            sample(model, resume=tmp_path, **(changed | {"draws": 3}))
    assert n_evaluated(tmp_path) == 501


def test_a_full_disk_does_not_end_a_search(model, searched, tmp_path, monkeypatch):
    def full(path, tree):
        if "marks" in tree:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_tree(path, tree)

    monkeypatch.setattr(journal, "_MOST_ROWS", BLOCK)
    monkeypatch.setattr(journal, "write_tree", full)
    assert different(searched, sample(model, resume=tmp_path, **SEARCHED)) == []


# --- without a seed -----------------------------------------------------------------------------


def test_without_a_seed_the_drawn_one_is_kept(model, tmp_path):
    options = RUN | {"random_seed": None, "chains": 1, "draws": 4, "tune": 0}
    first = sample(model, resume=tmp_path, **options)
    for chain in tmp_path.glob(FOLDERS_OF_CHAINS):
        shutil.rmtree(chain)
    assert different(first, sample(model, resume=tmp_path, **options)) == []


def test_a_generator_is_known_again(model, tmp_path):
    options = RUN | {"chains": 1, "draws": 4, "tune": 0}
    options["random_seed"] = np.random.default_rng(3)
    first = sample(model, resume=tmp_path, **options)
    assert different(first, sample(model, resume=tmp_path, **options)) == []
    options["random_seed"] = np.random.default_rng(4)
    with pytest.raises(DataError, match="random_seed is 'Generator in the state"):
        sample(model, resume=tmp_path, **options)


# --- more draws, and fewer ----------------------------------------------------------------------

LONGER = RUN | {"draws": 19}


@pytest.fixture(scope="module")
def longer(model):
    return sample(model, **LONGER)


def test_a_run_is_made_longer(model, whole, longer, store, monkeypatch, capsys):
    """What comes of twelve draws and then nineteen is what comes of nineteen at once."""
    loud = {"resume": store, "progressbar": True, "quiet": False}
    assert different(longer, sample(model, **(LONGER | loud))) == []
    assert "has 72 draws of this run, tuning included, in 2 chains" in capsys.readouterr().out
    monkeypatch.setattr(ParallelTempering, "_advance", no_sampling)
    assert different(longer, sample(model, **(LONGER | loud))) == []
    # fewer draws are the first of them, and take none away
    assert different(whole, sample(model, **(RUN | loud))) == []
    assert "has more draws of this run; the first of them" in capsys.readouterr().out
    assert different(longer, sample(model, **(LONGER | loud))) == []


@FORKED
def test_killed_while_it_is_made_longer(model, longer, store, tmp_path):
    """The first chain has new draws by then, the second not one more than it had."""
    counter, copy = Counter(), shutil.copytree(store, tmp_path / "copy")
    with_events(counter, model, LONGER | {"resume": copy})
    assert run_and_die(model, LONGER | {"resume": store}, int(0.4 * counter.n))
    counts = sorted(journal.n_kept(chain) for chain in store.glob(FOLDERS_OF_CHAINS))
    assert counts[0] == 36 < counts[1] < 43
    assert different(longer, sample(model, resume=store, **LONGER)) == []


def test_chains_added_for_an_error_are_made_longer(model, tmp_path):
    options = METHODS["pt, target_se"]
    sample(model, resume=tmp_path, **options)
    again = options | {"draws": 19}
    assert different(sample(model, **again), sample(model, resume=tmp_path, **again)) == []


def test_scans_of_a_longer_run_are_those_planned_at_first(model, tmp_path):
    """Where tuning chooses them: of every chain, also of one that the first call did not come to.

    Otherwise draws of one chain would say more than those of another.
    """
    options = {name: value for name, value in RUN.items() if name != "scans_per_draw"}
    first = sample(model, resume=tmp_path / "a", **options)
    for i, name in enumerate("bc"):
        shutil.copytree(tmp_path / "a", tmp_path / name)
        shutil.rmtree(sorted((tmp_path / name).glob(FOLDERS_OF_CHAINS))[i])
    options |= {"draws": 40}
    a, b, c = (sample(model, resume=tmp_path / name, **options) for name in "abc")
    assert different(a, b) == different(a, c) == []
    n_scans, planned = (np.isfinite(run.sample_stats["delta"]).any("level") for run in (a, first))
    assert (n_scans.sum("scan").max("draw") == planned.sum("scan").max("draw")).all()
    # planned for forty draws they would be fewer
    at_once = np.isfinite(sample(model, **options).sample_stats["delta"]).any("level")
    assert int(at_once.sum()) < 0.8 * int(n_scans.sum())


# --- another run --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tune": 25}, "settings: tune is 25, was 24"),
        ({"chains": 3}, "settings: chains is 3, was 2"),
        ({"random_seed": 5}, "settings: random_seed is 5, was 4"),
        ({"scans_per_draw": 5}, "options: scans_per_draw is 5, was 4"),
        ({"initvals": {"x": [1.0, 2.0]}}, "options: initvals: x is .*, was not given"),
        ({"method": "hais"}, "step is 'HAIS', was 'ParallelTempering'"),
    ],
)
def test_other_settings_are_named(model, store, monkeypatch, changed, said):
    monkeypatch.setattr(ParallelTempering, "_advance", no_sampling)
    options = RUN | changed
    if "method" in changed:
        del options["scans_per_draw"]
    with pytest.raises(DataError, match=said):
        sample(model, resume=store, **options)


def other_model(sd=1.0, observed=0.5, name="x"):
    with pm.Model() as model:
        x = pm.Normal(name, 0.0, sd, shape=2)
        pm.Normal("y", x.sum(), 1.0, observed=observed)
    return model


def test_other_models_and_data_are_named(tmp_path, monkeypatch):
    options = RUN | {"chains": 1, "draws": 2, "tune": 0}
    sample(other_model(), resume=tmp_path, **options)
    monkeypatch.setattr(ParallelTempering, "_advance", no_sampling)
    sample(other_model(), resume=tmp_path, **options)  # built again, the same
    for changed, said in (
        (other_model(sd=1.1), "the prior of 'x' changed"),
        (other_model(observed=0.6), "the data of 'y' changed"),
        (other_model(name="z"), "model: variables"),
    ):
        with pytest.raises(DataError, match=said):
            sample(changed, resume=tmp_path, **options)


def test_functions_with_a_state_are_compared_at_all_draws(tmp_path, monkeypatch):
    """A list that a function appends to is no part of an identity."""
    options = RUN | {"chains": 1, "draws": 30, "tune": 0}
    sample(black_box(2.0, hidden=[]), resume=tmp_path, **options)
    monkeypatch.setattr(ParallelTempering, "_advance", no_sampling)
    sample(black_box(2.0, hidden=[1]), resume=tmp_path, **options)
    with pytest.raises(DataError, match=r"another one at [1-9]\d* of the 30 draws"):
        sample(black_box(1.9, hidden=[]), resume=tmp_path, **options)


def test_another_version_is_named(model, store):
    about = json.loads((store / "run.json").read_text())
    about["run"]["versions"]["numba"] = "0.1"
    (store / "run.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match=r"versions: numba is .*, was '0\.1'"):
        sample(model, resume=store, **RUN)


NO_NUMBER = '{"kind": "x", "format": 1, "run": {"settings": {"random_seed": 1, "draws": "a"}}}'


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "x", "format": 1}', "", NO_NUMBER])
def test_a_damaged_description(model, store, text):
    (store / "run.json").write_text(text)
    with pytest.raises(DataError, match=r"run\.json cannot be read"):
        sample(model, resume=store, **RUN)


@pytest.mark.parametrize("other", [FORMAT - 1, FORMAT + 1])
def test_another_format(model, store, other):
    about = json.loads((store / "run.json").read_text())
    (store / "run.json").write_text(json.dumps(about | {"format": other}))
    with pytest.raises(DataError, match=f"format {other}; this version reads .* format {FORMAT}"):
        sample(model, resume=store, **RUN)


# --- damaged and hostile files ------------------------------------------------------------------


def flip(path):
    """Change bits here and there; single ones may be of what means nothing, such as dates."""
    content = bytearray(path.read_bytes())
    for i in range(len(content) // 3, 2 * len(content) // 3, 11):
        content[i] ^= 16
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


# each kind and each damage once in every run of the tests, the other pairs among the slow ones
OFTEN = (("draws", cut), ("state", flip), ("fits", empty))
PAIRS = [
    pytest.param(damage, kind, marks=() if (kind, damage) in OFTEN else pytest.mark.slow)
    for damage in (cut, flip, empty)
    for kind in ("draws", "state", "fits")
]


@pytest.mark.parametrize(("damage", "kind"), PAIRS)
def test_damaged_files_are_made_again(model, whole, store, damage, kind):
    if kind == "fits":
        damage(store / "fits.npz")
    else:
        for chain in store.glob(FOLDERS_OF_CHAINS):
            damage(sorted(chain.glob(f"{kind}-*"))[-1])
    assert different(whole, sample(model, resume=store, **RUN)) == []
    assert different(whole, sample(model, resume=store, **RUN)) == []


class Malice:
    def __reduce__(self):
        return Path.touch, (Path(os.environ["MALICE"]),)


@pytest.mark.parametrize("kind", ["draws", "state", "fits"])
def test_pickled_objects_are_refused(model, store, tmp_path, monkeypatch, kind):
    monkeypatch.setenv("MALICE", str(tmp_path / "touched"))
    path = sorted(store.rglob(f"{kind}*.npz"))[-1]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("skeleton.json", json.dumps({"array": 0}))
        with archive.open("0.npy", "w") as file:
            np.lib.format.write_array(file, np.array([Malice()], dtype=object))
    with pytest.raises(DataError, match="pickled Python objects in it, which are never loaded"):
        sample(model, resume=store, **RUN)
    assert not (tmp_path / "touched").exists()


# --- paths --------------------------------------------------------------------------------------


def paths(folder):
    (folder / "file").write_text("mine")
    (folder / "full").mkdir()
    (folder / "full" / "thesis.txt").write_text("mine")
    (folder / "loop").symlink_to(folder / "loop")
    return {
        "file": "which is a file", "file/below": "cannot be written", "full": "other things in it",
        "loop": "cannot be written", "\0": "is no path", "x" * 300: "cannot be written",
    }  # fmt: skip


@pytest.mark.parametrize("options", [RUN, METHODS["pt, target_se"]], ids=["draws", "log_z"])
@pytest.mark.parametrize("i", range(6))
def test_paths_that_cannot_be(model, tmp_path, i, options):
    given, said = list(paths(tmp_path).items())[i]
    with pytest.raises(OptionError, match=said):
        sample(model, resume=tmp_path / given, **options)
    assert (tmp_path / "file").read_text() == "mine"
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("path", ["", 3, b"run", ["run"]])
def test_what_is_no_path(model, path):
    with pytest.raises(OptionError, match="expected the path of a folder"):
        sample(model, resume=path, **RUN)


def test_a_full_disk_before(model, tmp_path, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pymc_tempering.checkpoint.store.probe", full)
    with pytest.raises(OptionError, match="No space left"):
        sample(model, resume=tmp_path, **RUN)


@pytest.mark.parametrize("options", [RUN, pytest.param(METHODS["pt, two processes"], marks=FORKED)])
def test_a_full_disk_on_the_way(model, whole, tmp_path, monkeypatch, options):
    """What was written is whole, and the same call goes on from it, in any number of processes."""
    written = []

    def filling(path, tree):
        if len(written) == 41:
            path.write_bytes(b"part")
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        write_tree(path, tree)

    write_tree = journal.write_tree
    with monkeypatch.context() as patch:
        patch.setattr(journal, "EVERY", 0.0)
        patch.setattr(journal, "write_tree", filling)
        with pytest.raises(OutputError, match=r"No space left.*the same `resume`"):
            sample(model, resume=tmp_path, **options)
    assert max(journal.n_kept(chain) for chain in tmp_path.glob(FOLDERS_OF_CHAINS)) == 20
    assert different(whole, sample(model, resume=tmp_path, **options)) == []


@pytest.mark.parametrize("name", ["lock", "chain-*/lock", "chain-*/draws-*", "chain-*/state-*"])
def test_what_cannot_be_read_is_left_as_it_is(model, store, name):
    """A disk or network that is away for a while, or another user's file: nothing is made again."""
    path = sorted(store.glob(name))[-1]
    path.unlink()
    path.mkdir()  # which nobody can read as a file, root included
    kept = sorted(store.rglob("*"))
    with pytest.raises((OptionError, OutputError), match=r"cannot be written|be read or written"):
        sample(model, resume=store, **RUN)
    assert sorted(store.rglob("*")) == kept


@pytest.mark.parametrize("damage", [Path.unlink, empty])
def test_draws_that_are_lost_while_they_are_read(store, damage):
    chain = sorted(store.glob(FOLDERS_OF_CHAINS))[0]
    of_chain = Journal(chain, 36)
    damage(sorted(chain.glob("draws-*"))[0])
    with pytest.raises(OutputError, match="could not be read or written"):
        of_chain.replay(None, {"x": np.zeros(2)})


def test_files_that_were_not_finished_are_removed(model, store):
    """The first that is written, to see whether there is room, is of a MiB."""
    names = []
    write_whole(store / "probe.npz", lambda path: names.append(path) or probe(path), publish=False)
    names[0].write_bytes(b"part")
    (store / ".mine.partial").write_text("mine")
    sample(model, resume=store, **RUN)
    assert [path.name for path in store.rglob("*.partial*")] == [".mine.partial"]


@FORKED
def test_one_process_at_a_time(model, store):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with resumed(store, ROWS["pt"], 3):
            os.write(write, b"!")
            os.read(os.pipe()[0], 1)
    try:
        os.read(read, 1)
        with pytest.raises(OptionError, match="Another process is sampling"):
            sample(model, resume=store, **RUN)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_what_cannot_be_resumed(model, whole, tmp_path):
    with pytest.raises(OptionError, match="`resume` is not available for joint_ct"):
        sample(model, resume=tmp_path / "run", method="joint_ct")
    with pytest.raises(OptionError, match="the first argument is a stored run"):
        sample(whole, resume=tmp_path / "run", target_se=0.01)
    assert not (tmp_path / "run").exists()


# --- every method -------------------------------------------------------------------------------


@pytest.mark.slow
@FORKED
@pytest.mark.parametrize("name", METHODS)
def test_ten_kills(name, seed):
    kills = list(killed.study(name, 10, seed))
    assert [found for *_, found in kills if found] == []
    assert all(died for _, _, died, _ in kills[1:])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gibbs_ct", "st", "hais", "discrete", "compound"])
def test_every_method_is_made_longer(name, tmp_path):
    options = METHODS[name]
    sample(model_of(name), resume=tmp_path, **options)
    again = options | {"draws": 19}
    whole = sample(model_of(name), **again)
    assert different(whole, sample(model_of(name), resume=tmp_path, **again)) == []
