"""What the corpus does with one model in one process: our log Z, nutpie's draws, a second log Z."""

import time
import traceback

import numpy as np
import pytensor
from corpus_models import CORPUS
from corpus_models.entries import BRIDGE, IMPROPER, QUADRATURE, REFUSED
from figures import QUIET
from startup import PhaseClock

OURS, NUTPIE, SECOND = "ours", "nutpie", "second"
ROLES = (OURS, NUTPIE, SECOND)
SEED = 1
COMPILING = ("graph", "density", "kernels")
_N_FRAMES = 4


def run(name, role):
    """Result of one role as a dictionary for one line of the record."""
    with pytensor.config.change_flags(**CORPUS[name].flags):
        model, second = CORPUS[name].build()
        row = {"name": name, "role": role, "n_values": n_values(model)}
        try:
            return row | {OURS: ours, NUTPIE: nutpie, SECOND: other}[role](model, second)
        except Exception as error:  # noqa: BLE001  a run that crashes is a finding
            return row | failure(error)


def failure(error):
    """Refusal of this package by name, or the end of a traceback."""
    from pymc_tempering.errors import TemperingError

    said = f"{type(error).__name__}: {error}"
    if isinstance(error, TemperingError):
        return {"refused": said}
    frames = traceback.extract_tb(error.__traceback__)[-_N_FRAMES:]
    where = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in frames]
    return {"crashed": said, "where": where}


def n_values(model):
    return sum(int(np.size(value)) for value in model.initial_point().values())


def clock():
    """Of CPU seconds, which tells compiling from the rest."""
    watch = PhaseClock()
    watch.listen()
    watch.phase, watch.last = "the rest", time.process_time()
    return watch


def seconds(watch):
    """CPU seconds of compiling and of everything else."""
    watch.turn_to("the rest")
    compiling = sum(watch.seconds[phase] for phase in COMPILING)
    return {"compiling": compiling, "running": sum(watch.seconds.values()) - compiling}


def ours(model, second):
    """`estimate_logz(model)` as it is, on one core; tuning is kept, so that it can be counted."""
    import pymc_tempering as pm_temper
    from pymc_tempering.steps import arguments, common

    searched, prepare = [0], common.prepare

    def counted(*args, **kwargs):
        found = prepare(*args, **kwargs)
        searched[0] += found.search.n_gradients
        return found

    common.prepare = counted
    watch = clock()
    try:
        with watch.within(arguments, "compile_density", "graph"):
            estimate = pm_temper.estimate_logz(
                model, random_seed=SEED, discard_tuned_samples=False, **QUIET
            )
    except Exception as error:  # noqa: BLE001  as in `run`, with what it took
        return failure(error) | seconds(watch)
    took = seconds(watch)
    groups = {"tuning": "warmup_sample_stats", "draws": "sample_stats"}
    gradients = {"search": searched[0]} | {
        phase: int(estimate.idata[group]["n_gradients"].sum())
        for phase, group in groups.items() if group in estimate.idata.children
    }  # fmt: skip
    return took | {
        "log_z": float(estimate.log_z), "se": float(estimate.se), "gradients": gradients,
        "warnings": [diagnostic.code for diagnostic in estimate.warnings],
        "said": [str(diagnostic) for diagnostic in estimate.warnings],
    }  # fmt: skip


def drawn_by_nutpie(model):
    """4 chains of 1000 + 1000 draws, and what they took; the compiled model for more of them."""
    import nutpie

    watch = clock()
    watch.turn_to("graph")
    compiled = nutpie.compile_pymc_model(model)
    watch.turn_to("the rest")
    idata = nutpie.sample(
        compiled, draws=1000, tune=1000, chains=4, cores=1, seed=SEED, progress_bar=False
    )
    took = seconds(watch)
    groups = ("warmup_sample_stats", "sample_stats")
    return compiled, idata, took | {
        "gradients": sum(int(idata[group]["n_steps"].sum()) for group in groups),
        "divergences": int(idata["sample_stats"]["diverging"].sum()),
    }  # fmt: skip


def nutpie(model, second):
    """Nutpie's default run, and log Z from its draws where that is the second method."""
    import nutpie

    compiled, idata, row = drawn_by_nutpie(model)
    if second != BRIDGE:
        return row
    found = bridged(idata, model)
    if found["warnings"]:
        # a doubtful answer to compare with is none
        idata = nutpie.sample(
            compiled, draws=10_000, tune=2000, chains=4, cores=1, seed=SEED, progress_bar=False,
            save_warmup=False,
        )  # fmt: skip
        found = bridged(idata, model)
    return row | found


def bridged(idata, model):
    """Bridge sampling of draws: log Z, its error, its warnings."""
    import pymc_tempering as pm_temper

    estimate = pm_temper.estimate_logz(idata, model=model, random_seed=SEED)
    codes = [diagnostic.code for diagnostic in estimate.warnings]
    return {"how": BRIDGE, "log_z": float(estimate.log_z), "se": float(estimate.se),
            "warnings": codes}  # fmt: skip


def other(model, second):
    """Log Z by what the model names, where that needs no draws of nutpie."""
    from corpus_second import quadrature

    if second in (BRIDGE, IMPROPER, REFUSED):
        return {"how": second}
    if second == QUADRATURE:
        log_z, se = quadrature(model)
        return {"how": second, "log_z": log_z, "se": se}
    return {"how": "exact", "log_z": float(second), "se": 0.0}
