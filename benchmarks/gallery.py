"""Every picture of the package, drawn from real runs into a folder, to be looked at.

    python benchmarks/gallery.py [folder]

The runs are short: a posterior with two modes by every method, and three models to compare.
"""

import argparse
import logging
import warnings
from pathlib import Path

import pymc as pm
from rich.console import Console

import pymc_tempering as pm_temper
from pymc_tempering import testing

SETTINGS = {
    "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True,
    "compute_convergence_checks": False,
}  # fmt: skip
console = Console()


def pyplot():
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def regressions():
    """Three models of the same data, one of them without its slope."""
    times, values = [1.0, 2.0, 3.0, 4.0, 5.0], [1.1, 1.9, 3.2, 3.9, 5.1]
    for name, sd in (("no slope", 0.001), ("slope", 1.0), ("wide prior", 100.0)):
        with pm.Model() as model:
            slope = pm.Normal("slope", 0.0, sd)
            scale = pm.HalfNormal("scale", 1.0)
            pm.Normal("y", slope * times, scale, observed=values)
        yield name, model


def pictures():
    """Name and drawing function of every picture."""
    target = testing.asymmetric_bimodal()
    runs = {
        method: pm_temper.sample(target.model(), method=method, draws=300, **SETTINGS)
        for method in ("pt", "gibbs_ct", "st", "hais")
    }
    models = dict(regressions())
    estimates = {
        name: pm_temper.estimate_logz(model, chains=2, **SETTINGS) for name, model in models.items()
    }
    sensitivity = pm_temper.prior_sensitivity(estimates["slope"], models["slope"])
    exact = target.log_z
    pt = runs["pt"]
    yield "evidence", lambda **k: pm_temper.plot_evidence(estimates, **k)
    yield "evidence_table", lambda **k: pm_temper.plot_evidence(pm_temper.compare(estimates), **k)
    yield "logz_trace_pt", lambda **k: pm_temper.plot_logz_trace(pt, reference=exact, **k)
    yield "logz_trace_time", lambda **k: pm_temper.plot_logz_trace(pt, x="time", **k)
    yield (
        "logz_trace_hais",
        lambda **k: pm_temper.plot_logz_trace(
            runs["hais"], reference=exact, bounds=(exact - 0.2, exact + 0.2), **k
        ),
    )
    yield "barrier", lambda **k: pm_temper.plot_barrier(pt, **k)
    yield "index_process", lambda **k: pm_temper.plot_index_process(pt, **k)
    yield "logz_curve_pt", lambda **k: pm_temper.plot_logz_curve(pt, **k)
    yield "logz_curve_gibbs_ct", lambda **k: pm_temper.plot_logz_curve(runs["gibbs_ct"], **k)
    yield "beta_occupancy_st", lambda **k: pm_temper.plot_beta_occupancy(runs["st"], **k)
    yield (
        "beta_occupancy_gibbs_ct",
        lambda **k: pm_temper.plot_beta_occupancy(runs["gibbs_ct"], **k),
    )
    yield "modes", lambda **k: pm_temper.plot_modes(pt, **k)
    yield "structure", lambda **k: pm_temper.plot_structure(models["slope"], **k)
    yield "prior_sensitivity", lambda **k: pm_temper.plot_prior_sensitivity(sensitivity, **k)
    yield "log_weights", lambda **k: pm_temper.plot_log_weights(runs["hais"], **k)
    for method, idata in runs.items():
        yield f"report_{method}", lambda idata=idata, **k: pm_temper.plot_report(idata, **k)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="build/gallery", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    plt = pyplot()
    for name, draw in pictures():
        axes = draw()
        figure = getattr(axes, "figure", None) or axes[0].figure
        figure.savefig(folder / f"{name}.png", dpi=80)
        plt.close(figure)
        console.print(f"{folder / name}.png")


if __name__ == "__main__":
    main()
