"""Programs whose processes cannot start are refused before sampling; a lost process is named."""

import multiprocessing
import os
import runpy
import signal
import sys
import threading

import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import OptionError, WorkerError
from pymc_tempering.testing import asymmetric_bimodal
from tests.checkpoint.killed import SHORT, different, sample

MODEL = "import pymc as pm\nwith pm.Model() as model:\n    pm.Normal('x')\n"
SAMPLE = (
    "import pymc_tempering as pm_temper\n"
    "pm_temper.{call}(model, chains=2, cores={cores}, mp_ctx='{how}')\n"
)
RUN = SHORT | {"scans_per_draw": 4, "cores": 2}
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class SampledError(Exception):
    pass


@pytest.fixture
def nothing_compiled(monkeypatch):
    """Raise where a run would begin: nothing may be compiled before a refusal."""

    def sampled(*_, **__):
        raise SampledError

    monkeypatch.setattr("pymc_tempering.steps.run.build_step", sampled)


@pytest.fixture
def script(tmp_path, nothing_compiled):
    def write(call="sample", cores=2, how="spawn", before="", after=""):
        path = tmp_path / "script.py"
        lines = SAMPLE.format(call=call, cores=cores, how=how).splitlines()
        path.write_text("\n".join([MODEL + lines[0], f"{before}{lines[1]}{after}"]))
        return path

    return write


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
@pytest.mark.parametrize("call", ["sample", "estimate_logz"])
def test_a_script_without_a_guard(script, call, how):
    said = rf"started by '{how}' .* line 5 of script.py .* under `if __name__ == \"__main__\":`"
    with pytest.raises(OptionError, match=said):
        runpy.run_path(str(script(call, how=how)), run_name="__main__")


@pytest.mark.parametrize("before", ["def main():\n  ", "for _ in range(2):\n  "])
def test_indirect_calls_without_a_guard(script, before):
    with pytest.raises(OptionError, match="samples without a condition"):
        runpy.run_path(str(script(before=before, after="\nmain()")), run_name="__main__")


@pytest.mark.parametrize(
    "options",
    [
        {"before": "if __name__ == '__main__':\n  "},
        {"before": "def main():\n  ", "after": "\nif __name__ == '__main__':\n  main()"},
        {"before": "__name__ == '__main__' and "},
        {"how": "fork"},
        {"cores": 1},
    ],
)
def test_scripts_whose_processes_start(script, options):
    with pytest.raises(SampledError):
        runpy.run_path(str(script(**options)), run_name="__main__")


@pytest.mark.parametrize("edited", ["x = 1\n" * 9, "x = (\n"])
def test_a_file_that_was_edited_while_it_runs(script, edited):
    """Lines of the run that is under way are no longer those of the file."""
    edit = f"import pathlib; p = pathlib.Path(__file__); p.write_text({edited!r} + p.read_text())"
    with pytest.raises(SampledError):
        runpy.run_path(str(script(before=f"{edit}\nif True:\n  ")), run_name="__main__")


@pytest.mark.parametrize("n_default", [0, 1, 2])
def test_cores_by_default(script, monkeypatch, n_default):
    monkeypatch.setattr("pymc_tempering.steps.workers.default_cores", lambda: n_default)
    with pytest.raises(SampledError if n_default < 2 else OptionError):
        runpy.run_path(str(script(cores=None)), run_name="__main__")


def test_a_module_that_is_imported_is_not_run_again(script):
    with pytest.raises(SampledError):
        runpy.run_path(str(script()), run_name="imported")


def as_program(text, file):
    """Run a text as the program, from a file or without one, as in a notebook."""
    program = type(sys)("__main__")
    program.__dict__.update({"__spec__": None} | ({} if file is None else {"__file__": file}))
    before = sys.modules["__main__"]
    sys.modules["__main__"] = program
    try:
        exec(compile(text, file or "<cell>", "exec"), program.__dict__)
    finally:
        sys.modules["__main__"] = before


def test_a_program_from_standard_input(script):
    with pytest.raises(OptionError, match="<stdin> is no file"):
        as_program(script().read_text(), "<stdin>")


def test_a_notebook(script):
    with pytest.raises(SampledError):
        as_program(script().read_text(), None)


def test_a_process_that_samples_while_it_starts(script):
    with pytest.raises(OptionError, match="began a run of its own"):
        runpy.run_path(str(script(cores=1)), run_name="__mp_main__")


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("mp_ctx", ["sprawn", 3])
def test_an_unknown_context(mp_ctx):
    with pytest.raises(OptionError, match="mp_ctx"):
        pm_temper.sample(asymmetric_bimodal().model(), mp_ctx=mp_ctx)


@pytest.fixture(scope="module")
def model():
    return asymmetric_bimodal().model()


@needs_fork
def test_a_process_that_is_lost(model):
    def kill(**_):
        for process in multiprocessing.active_children():
            os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(WorkerError, match="ended without an answer"):
        sample(model, **RUN, mp_ctx="fork", callback=kill)


@needs_fork
def test_runs_that_are_started_in_a_thread(model):
    runs = []

    def work():
        runs.append(sample(model, **(RUN | {"cores": 1})))
        runs.append(sample(model, **RUN, mp_ctx="fork"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    here = sample(model, **(RUN | {"cores": 1}))
    assert [different(here, run) for run in runs] == [[], []]
