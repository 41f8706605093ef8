"""Script of test_executors.py, for ``mpiexec -n 3 python -m mpi4py.futures``: one leads, two work.

Writes what came out to the file that is its argument.
"""

import pickle
import sys
import warnings
from pathlib import Path

from executor_runs import runs
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with MPIPoolExecutor() as executor:
        Path(sys.argv[1]).write_bytes(pickle.dumps(runs(executor)))
