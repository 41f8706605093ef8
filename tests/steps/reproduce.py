"""Script of test_parallel_process.py: samples with one seed and prints digests of the draws."""

import hashlib
import json
import sys

import numpy as np
import pymc as pm
from prior_model import skewed_model

from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.testing import asymmetric_bimodal


def digest(cores, mp_ctx, base):
    with skewed_model() if base == "prior" else asymmetric_bimodal().model():
        step = ParallelTempering(scans_per_draw=4, base=base)
        if base == "prior" and cores > 1:
            # as `pymc_tempering.sample` does: the fits travel to the workers
            step.prepare(11)
        idata = pm.sample(
            20, tune=30, step=step, chains=2, cores=cores, mp_ctx=mp_ctx, random_seed=11,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    stats = idata.sample_stats
    draws = [*idata.posterior.values(), stats["delta"], stats["betas"]]
    return [
        hashlib.sha256(
            b"".join(np.ascontiguousarray(values.values[chain]).tobytes() for values in draws)
        ).hexdigest()
        for chain in range(2)
    ]


if __name__ == "__main__":
    runs = [run.split(":") for run in sys.argv[1:]]
    result = {f"{c}:{m}:{b}": digest(int(c), m if m != "none" else None, b) for c, m, b in runs}
    sys.stdout.write(json.dumps(result))
