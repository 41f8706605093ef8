"""Script of test_parallel_process.py: samples with one seed and prints digests of the draws."""

import hashlib
import json
import sys

import numpy as np
import pymc as pm

from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.testing import asymmetric_bimodal


def digest(cores, mp_ctx):
    with asymmetric_bimodal().model():
        step = ParallelTempering(scans_per_draw=4)
        idata = pm.sample(
            20, tune=30, step=step, chains=2, cores=cores, mp_ctx=mp_ctx, random_seed=11,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    stats = idata.sample_stats
    return [
        hashlib.sha256(
            idata.posterior["x"].values[chain].tobytes()
            + np.ascontiguousarray(stats["delta"].values[chain]).tobytes()
            + np.ascontiguousarray(stats["betas"].values[chain]).tobytes()
        ).hexdigest()
        for chain in range(2)
    ]


if __name__ == "__main__":
    runs = [run.split(":") for run in sys.argv[1:]]
    result = {f"{c}:{m}": digest(int(c), m if m != "none" else None) for c, m in runs}
    sys.stdout.write(json.dumps(result))
