"""Every sampler and explorer draws the same in workers that are forked, spawned or served."""

import json

import pytest

from tests.fresh import fresh_process
from tests.steps.reproduce_everywhere import RUNS, START_METHODS

CODE = "from tests.steps.reproduce_everywhere import main; main()"


def differences(*requested):
    return json.loads(fresh_process(CODE, *requested))


def test_a_worker_of_a_server_draws_what_the_caller_would():
    """The one of the start methods that test_parallel_process.py leaves out."""
    assert differences("gist:forkserver") == {"gist:forkserver": []}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_how_workers_are_started_decides_no_draw(name):
    requested = [f"{name}:{how}" for how in START_METHODS]
    assert differences(*requested) == {key: [] for key in requested}
