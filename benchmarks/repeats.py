"""Repeated runs of cases with a known log Z, one line of JSON each, so that a study can go on.

A run that the record has is not made again. The record says nothing of the version that made it:
take another file, or delete it, after a change of the package.
"""

import json
import logging
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from multiprocessing import get_context

from bench import load_cases, model_and_log_z
from figures import QUIET, console

BLOCK = 10
LENGTHS = {"short": 60, "default": None}
"""Draws of a chain; None is the package's own default."""

# a draw of NUTS is one transition, not a block of scans; annealing has two directions
_DRAWS_PER_DRAW = {"joint_ct": 20, "hais": 2}


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@lru_cache(maxsize=1)
def _problem(name):
    return model_and_log_z(name, load_cases())


def one_run(name, method, length, chains, seed):
    """Result of one run, as a dictionary for one line of the record."""
    import pymc_tempering as pm_temper

    model, exact = _problem(name)
    draws = LENGTHS[length]
    options = {} if draws is None else {"draws": draws * _DRAWS_PER_DRAW.get(method, 1)}
    row = {"case": name, "method": method, "length": length, "chains": chains, "seed": seed}
    started = time.process_time()
    estimate = pm_temper.estimate_logz(
        model, method=method, chains=chains, random_seed=seed, **QUIET, **options
    )
    statistics = [
        estimate.idata[group].dataset
        for group in ("sample_stats", "warmup_sample_stats")
        if group in estimate.idata.children
    ]
    return row | {
        "error": float(estimate.log_z - exact),
        "se": float(estimate.se),
        "df": min(float(estimate.df), 1e6),
        "ess": float(estimate.ess),
        "warnings": [diagnostic.code for diagnostic in estimate.warnings],
        "gradients": sum(int(s["n_gradients"].sum()) for s in statistics if "n_gradients" in s),
        "seconds": time.process_time() - started,
    }


def _block(name, method, length, chains, seeds):
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    rows = []
    for seed in seeds:
        try:
            rows.append(one_run(name, method, length, chains, seed))
        except Exception as error:  # noqa: BLE001  a run that crashes is a finding
            rows.append({"case": name, "method": method, "length": length, "chains": chains,
                         "seed": seed, "crashed": repr(error)})  # fmt: skip
    return rows


def key(row):
    return row["case"], row["method"], row["length"], row["chains"]


def study(plan, record, n_jobs):
    """Make the runs that the record lacks.

    Parameters
    ----------
    plan : list of (case, method, length, chains, number of seeds)
    record : Path
        Gets a line for each run.
    n_jobs : int
        Processes; each compiles a case once and keeps it for the blocks of seeds that follow.
    """
    done = {(*key(row), row["seed"]) for row in read(record)}
    blocks = []
    for *what, n_seeds in plan:
        missing = [seed for seed in range(n_seeds) if (*what, seed) not in done]
        blocks += [(*what, missing[i : i + BLOCK]) for i in range(0, len(missing), BLOCK)]
    record.parent.mkdir(parents=True, exist_ok=True)
    with (
        ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as pool,
        record.open("a") as file,
    ):
        for job in as_completed([pool.submit(_block, *block) for block in blocks]):
            rows = job.result()
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
            console.print(" ".join(map(str, key(rows[0]))), f"{len(rows)} runs more")
