"""Tasks and chains on executors: the same results anywhere, and lost workers done again."""

import functools
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from executor_runs import SHORT, runs, two_modes
from losing import Losing

import pymc_tempering as pm_temper
from pymc_tempering.errors import DataError, OptionError, TemperingWarning, WorkerError
from pymc_tempering.steps.executors import Lost, check_executor, run_tasks
from pymc_tempering.steps.spread import parent_of_chain

# short runs have few of everything
pytestmark = pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")


def power(a, b):
    if b < 0:
        raise DataError(f"{b} is negative")
    if b == 0:
        raise ZeroDivisionError("no power")
    return a**b


class UnsendableError(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def raises_unsendable():
    raise UnsendableError("holds a lock")


def dies_once(marker, value):
    """End the process at the first call; a file keeps that it was."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def dies_at(value, bad):
    if value == bad:
        os.kill(os.getpid(), signal.SIGKILL)
    return value


class Backwards(Executor):
    """Does the last task first, when the first result is asked for."""

    def __init__(self):
        self.waiting = []

    def submit(self, function, /, *arguments):
        future = Asked(self)
        self.waiting.append((future, function, arguments))
        if len(self.waiting) == 3:
            for waiting, call, values in reversed(self.waiting):
                waiting.set_result(call(*values))
        return future


class Asked(Future):
    def __init__(self, executor):
        super().__init__()
        self.executor = executor


@pytest.fixture
def pool():
    with ThreadPool(2) as pool:
        yield pool


def test_results_are_in_the_order_of_the_tasks():
    tasks = [(2, 3), (3, 2), (5, 1)]
    done = []
    assert run_tasks(Backwards(), power, tasks, done=lambda: done.append(1)) == [8, 9, 5]
    assert len(done) == 3


def test_pools_with_map_alone(pool):
    assert run_tasks(pool, power, [(2, 3), (3, 2)]) == [8, 9]
    with pytest.raises(DataError, match="-1 is negative"):
        run_tasks(pool, power, [(2, 3), (3, -1)])


def test_functions_of_a_notebook_are_sent_whole(pool):
    shift = 3
    assert run_tasks(pool, lambda x: x + shift, [(1,), (2,)]) == [4, 5]


@pytest.mark.parametrize("error", [DataError, ZeroDivisionError])
def test_what_a_task_raises_is_raised_here(error):
    with ThreadPoolExecutor(1) as executor, pytest.raises(error) as caught:
        run_tasks(executor, power, [(2, -1 if error is DataError else 0)])
    # of an error that is not ours the traceback in the worker tells where it was
    told = str(caught.value.__cause__)
    assert ("in power" in told) == (error is ZeroDivisionError)


def test_an_error_that_cannot_be_sent_is_told_in_words():
    with pytest.raises(RuntimeError, match="UnsendableError: holds a lock"):
        run_tasks(1, raises_unsendable, [()])


def test_a_lost_worker_costs_time_alone(tmp_path):
    marker = tmp_path / "died"
    assert run_tasks(2, dies_once, [(marker, k) for k in range(4)]) == [0, 1, 2, 3]


def presses(main, go_on, begun, k):
    """Ctrl-C of the process that waits, by the first task."""
    (begun / str(k)).touch()
    if k == 0:
        os.kill(main, signal.SIGINT)
        while not go_on.exists():
            time.sleep(0.01)


def test_after_ctrl_c_workers_begin_nothing(tmp_path):
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    begun.mkdir()
    with pytest.raises(KeyboardInterrupt):
        run_tasks(1, presses, [(os.getpid(), go_on, begun, k) for k in range(4)])
    go_on.touch()
    for child in multiprocessing.active_children():
        child.join()
    assert [path.name for path in begun.iterdir()] == ["0"]


def test_a_task_that_is_lost_twice_is_named():
    first, second, third = run_tasks(1, dies_at, [(0, 1), (1, 1), (2, 1)])
    assert isinstance(second, Lost)
    assert "BrokenProcessPool" in second.why
    # the pool is lost with the worker, and with it what had not ended
    assert (first, third) == (0, 2)


def dies_or_waits(dies, folder):
    (folder / f"{dies} {os.getpid()}").touch()
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1.0)
    return "whole"


def test_a_long_task_is_not_lost_with_another_twice(tmp_path):
    tasks = [(dies, tmp_path) for dies in (True, False)]
    first, second = run_tasks(2, dies_or_waits, tasks, apart=True)
    assert isinstance(first, Lost)
    assert second == "whole"
    begun = [path.name.split()[0] for path in tmp_path.iterdir()]
    assert begun.count("True") == 2
    assert 1 <= begun.count("False") <= 2


@pytest.mark.parametrize("executor", [0, -1, True, 1.5, "4", object()])
def test_what_is_no_executor_is_refused(executor):
    with pytest.raises(OptionError, match="expected a number of processes of at least 1"):
        check_executor(executor)


@pytest.mark.parametrize("seed", [5, np.random.default_rng(3), np.random.SeedSequence(4)])
def test_parents_of_chains(seed):
    parent = np.random.default_rng(seed)
    parents = [parent_of_chain(parent, k) for k in range(3)]
    local = parent.spawn(3)
    assert [p.spawn(1)[0].random() for p in parents] == [rng.random() for rng in local]


def test_a_generator_without_a_seed_sequence_is_refused():
    class Seeds(np.random.bit_generator.ISeedSequence):
        def generate_state(self, n_words, dtype=np.uint32):
            return np.arange(1, n_words + 1, dtype=dtype)

    generator = np.random.Generator(np.random.PCG64(Seeds()))
    with pytest.raises(OptionError, match="without a seed sequence"):
        parent_of_chain(generator, 0)


@pytest.fixture(scope="module")
def model():
    return two_modes()


@pytest.fixture(scope="module")
def local(model):
    return pm_temper.estimate_logz(model, chains=3, cores=1, **SHORT)


def assert_same(run, local, chains=slice(None)):
    for group in ("posterior", "sample_stats"):
        for name, expected in local.idata[group].isel(chain=chains).data_vars.items():
            if name != "perf_counter_diff":
                found = run.idata[group][name]
                # a chain that was left out may have had the most levels
                kept = expected.isel({dim: slice(size) for dim, size in found.sizes.items()})
                np.testing.assert_array_equal(found, kept, err_msg=name)
                assert expected.dtype.kind != "f" or kept.count() == expected.count()


def executors():
    context = multiprocessing.get_context("spawn")
    slow = pytest.mark.slow  # each process imports everything anew
    yield pytest.param(lambda: 2, id="two processes")
    yield pytest.param(functools.partial(ThreadPoolExecutor, 2), id="threads")
    yield pytest.param(functools.partial(ProcessPoolExecutor, 4, context), id="4", marks=slow)
    yield pytest.param(functools.partial(context.Pool, 2), id="a pool with map", marks=slow)


@pytest.mark.parametrize("make", executors())
def test_draws_and_log_z_are_those_of_the_local_run(model, local, make):
    executor = make()
    if isinstance(executor, int):
        run = pm_temper.estimate_logz(model, chains=3, executor=executor, **SHORT)
    else:
        with executor:
            run = pm_temper.estimate_logz(model, chains=3, executor=executor, **SHORT)
    assert run.log_z == local.log_z
    assert run.se == local.se
    assert_same(run, local)
    assert list(run.idata["posterior"]["item"].values) == ["a", "b"]


@pytest.fixture(scope="module")
def expected():
    return runs(None)


def assert_same_runs(found, expected):
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_number_of_workers_changes_nothing(n, expected):
    assert_same_runs(runs(n), expected)


@pytest.mark.parametrize(
    "workers",
    [
        {"n_workers": 1, "threads_per_worker": 2, "processes": False},
        pytest.param({"n_workers": 2, "threads_per_worker": 1}, marks=pytest.mark.slow),
    ],
)
def test_dask(workers, expected):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    cluster = distributed.LocalCluster(dashboard_address=None, **workers)
    with cluster, distributed.Client(cluster) as client:
        assert_same_runs(runs(client.get_executor()), expected)


@pytest.mark.slow
def test_mpi(expected, tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    mpiexec = shutil.which("mpiexec", path=path)
    if mpiexec is None:
        pytest.skip("there is no mpiexec")
    script, out = Path(__file__).with_name("mpi_run.py"), tmp_path / "out"
    call = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script), str(out)]
    paths = [str(script.parents[1]), str(script.parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same_runs(pickle.loads(out.read_bytes()), expected)


@pytest.mark.parametrize("method", ["gibbs_ct", "st", "hais"])
def test_every_method_that_samples_chains_one_by_one(model, method):
    options = {name: value for name, value in SHORT.items() if name != "scans_per_draw"}
    local, spread = (
        pm_temper.estimate_logz(model, method=method, chains=2, **options, **where)
        for where in ({"cores": 1}, {"executor": ThreadPoolExecutor(1)})
    )
    assert spread.log_z == local.log_z
    assert_same(spread, local)


def test_methods_with_one_model_for_all_chains_are_refused(model):
    with pytest.raises(OptionError, match="`executor` is not available for joint_ct"):
        pm_temper.sample(model, method="joint_ct", executor=2)


def test_starts_of_each_chain(model):
    starts = [{"x": np.array([1.0, k])} for k in range(2)]
    local, spread = (
        pm_temper.estimate_logz(model, chains=2, initvals=starts, **SHORT, **where)
        for where in ({"cores": 1}, {"executor": ThreadPoolExecutor(1)})
    )
    assert_same(spread, local)


def test_a_chain_that_is_lost_once_is_sampled_again(model, local):
    run = pm_temper.estimate_logz(model, chains=3, executor=Losing({1}), **SHORT)
    assert_same(run, local)


def test_a_chain_that_is_lost_twice_is_left_out(model, local):
    with pytest.warns(TemperingWarning, match="2 of 3 chains"):
        run = pm_temper.estimate_logz(model, chains=3, executor=Losing({1, 3}), **SHORT)
    assert_same(run, local, [0, 2])


def test_all_chains_lost(model):
    with pytest.raises(WorkerError, match="chain 1: ConnectionError: the machine was switched off"):
        pm_temper.estimate_logz(model, chains=2, executor=Losing({0, 1, 2, 3}), **SHORT)


def test_a_run_goes_on_from_its_folder(model, local, tmp_path):
    first = {"executor": Losing({1, 3}), "resume": tmp_path / "run"}
    with pytest.warns(TemperingWarning, match="2 of 3 chains"):
        pm_temper.estimate_logz(model, chains=3, **first, **SHORT)
    again = Losing(set())
    run = pm_temper.estimate_logz(model, chains=3, executor=again, resume=tmp_path / "run", **SHORT)
    assert again.n_tasks == 3
    assert_same(run, local)


def test_a_trace_of_the_users_own_is_refused(model):
    trace = pm.backends.NDArray(model=model)
    with pytest.raises(OptionError, match="`trace` is one place"):
        pm_temper.sample(model, executor=1, trace=trace, **SHORT)
