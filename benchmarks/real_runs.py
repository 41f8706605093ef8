"""What `real_size.py` does with one model in one process: map, our log Z, nutpie, references."""

import time

import arviz as az
import numpy as np
from corpus_runs import SEED, bridged, clock, drawn_by_nutpie, failure, n_values, seconds
from figures import QUIET
from real_models import REAL
from real_reference import importance

MAP, OURS, NUTPIE, EXACT, LONG = "map", "ours", "nutpie", "exact", "long"
ROLES = (MAP, OURS, NUTPIE, EXACT, LONG)
LONG_DRAWS = 640
"""Four times those of a default run."""


def run(name, role):
    """Result of one role as a dictionary for one line of the record."""
    row = {"name": name, "role": role}
    try:
        return row | {MAP: mapped, OURS: ours, NUTPIE: nutpie, EXACT: exact, LONG: long}[role](name)
    except Exception as error:  # noqa: BLE001  a run that crashes is a finding
        return row | failure(error)


def mapped(name):
    """Numbers of values and of globals, and V of the map; none of these where there is no map."""
    from pymc_tempering.model.compile import compile_density
    from pymc_tempering.references.hierarchy import Hierarchy

    model = REAL[name].build()
    density = compile_density(model)
    watch = clock()
    found, n_gradients = Hierarchy.of(density)
    row = {"n_values": n_values(model), "gradients": n_gradients} | seconds(watch)
    if found is None:
        return row
    return row | {"n_globals": found.map.n_globals, "variance": float(found.variance)}


def estimate(name, **options):
    """`estimate_logz` on one core, with what it took."""
    import pymc_tempering as pm_temper
    from pymc_tempering.steps import arguments

    model = REAL[name].build()
    watch = clock()
    watch.turn_to("graph")
    # not all compiling is seen by the clock: a short run before the one that is timed
    pm_temper.estimate_logz(model, random_seed=0, **QUIET | {"draws": 2, "tune": 2, "chains": 1})
    watch.turn_to("the rest")
    with watch.within(arguments, "compile_density", "graph"):
        found = pm_temper.estimate_logz(model, **QUIET, **options)
    return model, found, seconds(watch) | {
        "log_z": float(found.log_z), "se": float(found.se),
        "gradients": sum(found.gradients.values()),
        "warnings": [diagnostic.code for diagnostic in found.warnings],
    }  # fmt: skip


def ours(name):
    """A default run."""
    model, found, row = estimate(name, random_seed=SEED)
    return row | {"ess": least_ess(found.idata, model)}


def long(name):
    """The same with another seed and more draws, for models without exact log Z."""
    if REAL[name].has_marginal:
        return {}
    return estimate(name, random_seed=SEED + 1, draws=LONG_DRAWS)[2]


def nutpie(name):
    """Nutpie's default run, with bridge sampling of its draws where nothing is exact."""
    model = REAL[name].build()
    _, idata, row = drawn_by_nutpie(model)
    row |= {"ess": least_ess(idata, model)}
    return row if REAL[name].has_marginal else row | bridged(idata, model)


def exact(name):
    """Log Z of the globals alone, with the locals integrated out by other means."""
    if not REAL[name].has_marginal:
        return {}
    started = time.process_time()
    log_z, se = importance(REAL[name].build(marginal=True))
    return {"log_z": log_z, "se": se, "running": time.process_time() - started}


def least_ess(idata, model):
    """Smallest bulk effective sample size of all entries of all free variables."""
    posterior = idata["posterior"]
    names = [rv.name for rv in model.free_RVs]
    found = az.ess(posterior.dataset if hasattr(posterior, "dataset") else posterior,
                   var_names=names, method="bulk")  # fmt: skip
    return float(min(np.nanmin(found[name].values) for name in names))
