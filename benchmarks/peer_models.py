"""The problems on which this package is compared with its peers, and what the peers are told.

Annealed particles begin with draws of a prior. Where a problem has none (``pm.Flat``), the peers
are given a start that no user would have: Student's t with the exact centre and 1.5 times the exact
scale of every coordinate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from bench import load_cases
from hard_targets import HARD
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import graph_inputs

from pymc_tempering.testing import TARGETS

MULTIMODAL = ("bimodal_gmm", "label_switching", "phase_transition_10",
              *(f"bmr_{i}" for i in range(5)))  # fmt: skip
UNIMODAL = ("linear_gaussian", "conjugate_regression", "poe_student", "radon")
CHECK = "correlated_gaussian"
"""Every method is right on it: what is checked here is the study's own use of each."""

AIM = {**dict.fromkeys(MULTIMODAL, 10.0), **dict.fromkeys(UNIMODAL, 2.0)}
"""How many times better than the best peer this package is meant to be."""

PROBLEMS = (CHECK, "conjugate_regression", "bimodal_gmm", "phase_transition_10", "linear_gaussian",
            "label_switching", "poe_student", *(f"bmr_{i}" for i in range(5)), "radon")  # fmt: skip
"""From the cheapest to the dearest."""

_WIDER = 1.5
_N_EXACT_DRAWS = 20_000


@dataclass
class Problem:
    """A model and its exact log Z in nats; mean and scale of its only variable where it is flat."""

    name: str
    model: pm.Model
    log_z: float
    mean: Any = None
    scale: Any = None


def available():
    """Names of problems that this checkout has, and of those for which a file is missing."""
    cases = load_cases()
    have = [n for n in PROBLEMS if n in TARGETS or n in HARD or (cases and n in cases)]
    return have, [name for name in PROBLEMS if name not in have]


def problem(name):
    """Build a problem of the package, or one of the reference problems beside the checkout."""
    if name in TARGETS:
        target = TARGETS[name]()
        return Problem(name, target.model(), target.log_z, *_centre_and_scale(target))
    if name in HARD:
        target = HARD[name]()
        return Problem(name, target.model, target.log_z)
    cases = load_cases()
    if cases is None or name not in cases:
        known = [*PROBLEMS, *TARGETS, *HARD]
        raise SystemExit(f"{name!r} is no problem of this checkout; there are {sorted(set(known))}")
    case = cases[name]()
    if name == "poe_student":
        return Problem(name, case.model, case.log_z, 0.0, _scale_of_experts(case.model))
    sd = None if case.cov is None else np.sqrt(np.diagonal(case.cov))
    return Problem(name, case.model, case.log_z, case.mean, sd)


def _centre_and_scale(target):
    draws = target.draw(np.random.default_rng(0), _N_EXACT_DRAWS)
    low, middle, high = np.quantile(draws, [0.25, 0.5, 0.75], axis=0)
    return middle, (high - low) / 1.35


def _scale_of_experts(model):
    """Of x, where ``phi x`` has independent Student's t coordinates, some without a variance.

    Their directions and exponents are the only constants of the model's graph that have 36 columns,
    and 36 entries above 1.
    """
    constants = [np.asarray(v.data) for v in graph_inputs([model.logp()]) if hasattr(v, "data")]
    (phi,) = [c for c in constants if c.ndim == 2 and min(c.shape) > 1]
    (exponents,) = [c for c in constants if c.ndim < 3 and c.size == len(phi) and (c > 1).all()]
    dof = 2.0 * exponents.ravel() - 1.0
    rng = np.random.default_rng(0)
    u = rng.standard_t(dof, (_N_EXACT_DRAWS, dof.size)) / np.sqrt(dof)
    low, high = np.quantile(np.linalg.solve(phi, u.T), [0.25, 0.75], axis=1)
    return (high - low) / 1.35


def with_prior(given):
    """Model whose prior can be drawn from, and whose posterior and log Z are those of the problem.

    The model itself unless its variable is flat.
    """
    if not any(isinstance(rv.owner.op, pm.Flat.rv_type) for rv in given.model.free_RVs):
        return given.model
    (variable,) = given.model.free_RVs
    shape = given.model.initial_point()[variable.name].shape
    value = given.model.rvs_to_values[variable]
    with pm.Model() as model:
        # tails at least as heavy as those of the targets, so that weights stay bounded
        x = pm.StudentT(variable.name, 3.0, mu=given.mean, sigma=_WIDER * given.scale, shape=shape)
        # flat variables are their own values: no transform stands between
        (log_target,) = graph_replace([given.model.logp()], {value: x})
        pm.Potential("tempered", log_target - pm.logp(x, x).sum())
    return model
