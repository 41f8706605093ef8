"""The annealing kernels compiled anew from their source, some lines changed: planted bugs."""

import re
from pathlib import Path

from pymc_tempering import kernels

MODULES = ("annealing_moves", "annealing", "hais")

_ADD = "        log_weight += (betas[level] - betas[level - 1]) * (log_target - log_base(u))\n"
_DOWN = "    for level in range(betas.shape[0] - 1, 0, -1):\n"
_UP = "    for level in range(1, betas.shape[0]):\n"

MUTANTS = {
    "gamma for sqrt(gamma)": [
        ("np.sqrt(1.0 - gamma), np.sqrt(gamma)", "np.sqrt(1.0 - gamma), gamma"),
    ],
    "no flip on rejection": [("momentum[i] = -momentum[i]", "momentum[i] = momentum[i]")],
    "last transition not reversed": [
        (
            _DOWN,
            f"{_DOWN}        if level == betas.shape[0] - 1:\n    {_ADD}            continue\n",
        ),
    ],
    "leapfrog before refreshment in reverse": [
        ("if reverse:\n            refresh", "if False:\n            refresh"),
        ("if not reverse:\n            refresh", "if True:\n            refresh"),
    ],
    "reverse increments before the moves": [
        (_DOWN, _DOWN + _ADD),
        (f"{_ADD}    return log_weight\n", "    return log_weight\n"),
    ],
    "forward increments after the moves": [
        (_UP + _ADD, _UP),
        ("    return log_weight, log_target\n", f"{_ADD}    return log_weight, log_target\n"),
    ],
}

# exact draws of y in, y after some whole scans out, all in compiled code
LOOP = """
@numba.njit
def scan_all(states, target, moves, n_scans, target_step_size, rng):
    n, dim = states.shape
    grad, momentum, v, v_grad = np.empty(dim), np.empty(dim), np.empty(dim), np.empty(dim)
    buffers, work, rows = np.empty((8, dim)), np.empty((5, dim)), np.empty((0, 5))
    forward, reverse = np.empty(n_scans), np.empty(n_scans)
    accepted, unkept = np.empty(n_scans, np.bool_), np.empty((0, dim))
    logs = np.empty(2)
    tally = AnnealingTally(np.zeros(moves.betas.shape[0]), np.zeros(4, np.int64), rows, 0.8)
    for j in range(n):
        u = states[j]
        logs[0] = evaluate(target, u, grad, work)
        v[:], v_grad[:] = u, grad
        logs[1] = anneal_reverse(target, moves, v, v_grad, momentum, logs[0], work, tally, rng)
        hais_scans(
            target, moves, target_step_size, target_step_size, 1, u, grad, logs, buffers, forward,
            reverse, accepted, tally, unkept, rng)
"""


def compile_kernels(mutant=None):
    """Namespace with the functions of the annealing modules, those lines changed."""
    folder = Path(kernels.__file__).parent
    source = "\n".join((folder / f"{name}.py").read_text() for name in MODULES)
    pattern = r"^from pymc_tempering\.kernels\.annealing\w* import (\([^)]*\)|.*)$"
    source = re.sub(pattern, "", source, flags=re.M)
    # what is not in a file cannot be kept on disk
    source = source.replace("from pymc_tempering.jit import compiled", "compiled = numba.njit")
    source = "import numba\n" + source
    for old, new in MUTANTS.get(mutant, []):
        assert source.count(old) == 1, f"{mutant}: {old!r} is there {source.count(old)} times"
        source = source.replace(old, new)
    namespace = {"__name__": "mutated_annealing"}
    exec(compile(source + LOOP, f"<annealing: {mutant}>", "exec"), namespace)
    return namespace
