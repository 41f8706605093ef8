"""Script of test_start_methods.py: a run in one process, and in two started in a given way.

Arguments as ``gist:spawn``. Prints what differs between the two runs, for each: nothing is right.
"""

import json
import multiprocessing
import sys

from tests.checkpoint.killed import different, discrete_model, sample
from tests.steps.prior_model import skewed_model

SHORT = {"draws": 8, "tune": 20, "chains": 2, "random_seed": 7, "scans_per_draw": 4}
LADDER = SHORT | {"search": "none"}
RUNS = {
    "pt": LADDER,
    "slice": LADDER | {"explorer": "slice"},
    "gist": LADDER | {"explorer": "gist"},
    "prior": LADDER | {"base": "prior"},
    "mixture": LADDER | {"base": "mixture"},
    "gibbs_ct": LADDER | {"method": "gibbs_ct"},
    "st": LADDER | {"method": "st"},
    "hais": LADDER | {"method": "hais", "scans_per_draw": 1},
    "compound": SHORT,
}
START_METHODS = ("fork", "spawn", "forkserver")


def main():
    multiprocessing.set_forkserver_preload(["pymc_tempering.steps.parallel"])
    differ = {}
    for requested in sys.argv[1:]:
        name, how = requested.split(":")
        model = discrete_model() if name == "compound" else skewed_model()
        one, two = (
            sample(model, **RUNS[name], **processes)
            for processes in ({"cores": 1}, {"cores": 2, "mp_ctx": how})
        )
        differ[requested] = different(one, two)
    sys.stdout.write(json.dumps(differ))


if __name__ == "__main__":
    main()
