"""What holds for every plot_* function: axes, sizes, labels with units, legends and colours."""

import itertools
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

import pymc_tempering as pm_temper
from pymc_tempering.comparison.calibration import ModelCalibration
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.plots.common import CYCLE, GREY, INK, colour_of_chain, label_betas

# the run that each picture is drawn from, and its number of axes
PICTURES = {
    "plot_barrier": ("run", 2),
    "plot_beta_occupancy": ("simulated_run", 1),
    "plot_calibration": ("calibration", 1),
    "plot_evidence": ("models", 1),
    "plot_index_process": ("run", 1),
    "plot_log_weights": ("annealed_run", 1),
    "plot_logz_curve": ("run", 1),
    "plot_logz_trace": ("run", 1),
    "plot_modes": ("run", 2),
    "plot_prior_sensitivity": ("sensitivity", 2),
    "plot_report": ("run", 5),
    "plot_structure": ("hierarchy", 1),
}
WITH_AX = [name for name in PICTURES if name != "plot_report"]

# every label names a unit, or a quantity that has none
UNITS = re.compile(
    r"nats?\)|\(s\b|draws|draw\b|rate|pair of levels|level|share|inverse temperature|barrier"
    r"|scans|^model$|^factor|power|probability"
    r"|variable"
)


@pytest.fixture
def models(run):
    return {"one": run, "two": run}


@pytest.fixture
def calibration(rng):
    log_z = rng.normal(size=(300, 2))
    true = (rng.uniform(size=300) < 1 / (1 + np.exp(log_z[:, 0] - log_z[:, 1]))).astype(int)
    none = np.zeros((300, 2))
    return ModelCalibration(("one", "two"), np.full(2, 0.5), true, log_z, none, none[:, 0] > 0)


@pytest.fixture
def hierarchy():
    with pm.Model() as model:
        mean, tau = pm.Normal("mean", 0.0, 1.0), pm.HalfNormal("tau", 1.0)
        study = pm.Normal("study", mean, tau, shape=8)
        pm.Normal("y", study, 1.0, observed=np.arange(8.0))
    return model


@pytest.fixture
def sensitivity():
    columns = ["change", "name", "value", "log_bayes_factor", "log_bayes_factor_se", "warning"]
    rows = [
        ("original", "", 1.0, 0.0, 0.0, ""),
        ("prior scale", "tau", 4.0, -1.2, 0.2, "weights_collapse"),
        ("prior scale", "tau", 0.5, 0.4, 0.1, ""),
        ("likelihood power", "likelihood", 0.8, 6.0, 0.1, ""),
    ]
    return pd.DataFrame(rows, columns=columns)


@pytest.fixture
def drawn(request):
    def draw(name, **options):
        data = request.getfixturevalue(PICTURES[name][0])
        return getattr(pm_temper, name)(data, **options)

    return draw


def axes_of(result):
    return np.ravel(np.asarray(result, dtype=object)).tolist()


def test_every_picture_is_here():
    assert set(PICTURES) == {n for n in pm_temper.__all__ if n.startswith("plot_")}


@pytest.mark.parametrize("name", PICTURES)
def test_returns_axes(name, drawn):
    """As ArviZ's matplotlib functions did: one Axes, or an array of them."""
    result = drawn(name)
    n = PICTURES[name][1]
    assert isinstance(result, Axes if n == 1 else np.ndarray)
    axes = axes_of(result)
    assert len(axes) == n
    assert all(isinstance(ax, Axes) for ax in axes)
    assert len({ax.figure for ax in axes}) == 1


@pytest.mark.parametrize("name", PICTURES)
def test_figsize(name, drawn):
    figure = axes_of(drawn(name, figsize=(5.5, 8.5)))[0].figure
    assert figure.get_size_inches().tolist() == [5.5, 8.5]


@pytest.mark.parametrize("name", WITH_AX)
def test_given_axes(name, drawn):
    figure, given = plt.subplots(1, PICTURES[name][1])
    assert axes_of(drawn(name, ax=given)) == axes_of(given)
    assert figure.axes == axes_of(given)
    with pytest.raises(OptionError, match="figsize"):
        drawn(name, ax=given, figsize=(3, 3))
    with pytest.raises(OptionError, match="expected"):
        drawn(name, ax="here")


@pytest.mark.parametrize("name", PICTURES)
def test_labels_have_units(name, drawn):
    for ax in axes_of(drawn(name)):
        for label in (ax.get_xlabel(), ax.get_ylabel()):
            assert UNITS.search(label) or "log Z" in label, (name, label)
        if "log z" in ax.get_ylabel().lower():
            assert "nats" in ax.get_ylabel()


@pytest.mark.parametrize("name", PICTURES)
def test_legend_names_what_is_drawn(name, drawn):
    for ax in axes_of(drawn(name)):
        texts = [text.get_text() for text in ax.get_legend().get_texts()]
        assert texts
        assert len(set(texts)) == len(texts)
        assert not any(text.startswith("_") for text in texts)


@pytest.mark.parametrize("name", PICTURES)
def test_colours_are_told_apart_with_every_colour_vision(name, drawn):
    """Only those of Okabe & Ito, greys, white and black."""
    allowed = {to_hex(c) for c in (*CYCLE, GREY, INK, "white", "black")}
    for ax in axes_of(drawn(name)):
        used = [line.get_color() for line in ax.lines]
        used += [c for part in ax.collections for c in part.get_facecolor()]
        used += [c for part in ax.collections for c in part.get_edgecolor()]
        used += [c for patch in ax.patches for c in (patch.get_facecolor(), patch.get_edgecolor())]
        shown = {to_hex(c) for c in used if len(c) < 4 or isinstance(c, str) or c[3] > 0}
        assert shown
        assert shown <= allowed, (name, shown - allowed)


@pytest.mark.parametrize("name", PICTURES)
def test_text_fits_and_can_be_read(name, drawn):
    """At notebook size: no text below 7 points, none outside the figure, no ticks that overlap."""
    axes = axes_of(drawn(name))
    figure = axes[0].figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    page = figure.bbox
    for ax in axes:
        texts = [*ax.get_legend().get_texts(), ax.xaxis.label, ax.yaxis.label, *ax.texts]
        ticks = [ax.get_xticklabels(), ax.get_yticklabels()]
        for text in [*texts, *ticks[0], *ticks[1]]:
            if not text.get_text() or not text.get_visible():
                continue
            assert text.get_fontsize() >= 6.5, text
        for text in texts:
            box = text.get_window_extent(renderer)
            inside = box.x0 >= page.x0 - 2 and box.x1 <= page.x1 + 2 and box.y0 >= page.y0 - 2
            assert inside, (name, text.get_text())
        for labels, low, high in ((ticks[0], "x0", "x1"), (ticks[1], "y0", "y1")):
            boxes = [t.get_window_extent(renderer) for t in labels if t.get_text()]
            view = ax.get_window_extent(renderer)
            boxes = [
                b for b in boxes
                if getattr(view, low) - 2 <= (getattr(b, low) + getattr(b, high)) / 2
                <= getattr(view, high) + 2
            ]  # fmt: skip
            boxes.sort(key=lambda b: getattr(b, low))
            for one, two in itertools.pairwise(boxes):
                assert getattr(one, high) <= getattr(two, low) + 1, name


def test_a_chain_has_one_colour_in_all_pictures(run):
    """Also in those of part of the chains."""
    pictures = {
        "plot_barrier": run, "plot_logz_curve": run, "plot_logz_trace": run, "plot_modes": run,
    }  # fmt: skip
    for name, tree in pictures.items():
        for part, expected in ((tree, CYCLE[:3]), (tree.isel(chain=[1, 2]), CYCLE[1:3])):
            lines = [line for ax in axes_of(getattr(pm_temper, name)(part)) for line in ax.lines]
            used = {line.get_color() for line in lines} & set(CYCLE)
            assert used == set(expected), name
    ax = pm_temper.plot_index_process(run, chain=2)
    assert {line.get_color() for line in ax.lines} <= {CYCLE[2], INK, GREY}


def test_colours_of_chains():
    assert [colour_of_chain(np.array([4, 2]), i) for i in (0, 1)] == [CYCLE[4], CYCLE[2]]
    assert colour_of_chain(np.array([11, 12]), 1) == CYCLE[1]
    assert colour_of_chain(np.arange(7), 1) == GREY


def test_report_shows_the_chain_with_fewest_round_trips(run):
    tree = run.copy()
    trips = np.array([5, 3, 4])[:, None] * np.ones((3, 40), dtype=int)
    statistics = tree["sample_stats"].to_dataset()
    tree["sample_stats"] = statistics.assign(n_round_trips=(("chain", "draw"), trips))
    assert "chain 1, with fewest" in pm_temper.plot_index_process(tree).get_xlabel()
    labels = [ax.get_xlabel() for ax in pm_temper.plot_report(tree)]
    assert "recorded draw of chain 1, with fewest round trips" in labels
    assert pm_temper.plot_index_process(tree, chain=2).get_xlabel() == "recorded draw of chain 2"


def test_long_legends_do_not_narrow_the_picture(annealed_run, run):
    """Bounds, a reference and chains are eight entries."""
    tree = annealed_run.copy()
    shape = tree["sample_stats"]["log_weight_forward"].shape
    statistics = tree["sample_stats"].to_dataset()
    statistics["base_id"] = (("chain", "draw"), np.ones(shape[:2], dtype=int))
    statistics[METHOD_CODE] = (("chain", "draw"), np.full(shape[:2], METHODS["hais"].code))
    statistics["accepted"] = (("chain", "draw", "scan"), np.ones(shape, dtype=bool))
    statistics["n_levels"] = (("chain", "draw"), np.full(shape[:2], 100))
    statistics["betas"] = (
        ("chain", "draw", "level"), np.broadcast_to([0.0, 0.5, 1.0], (*shape[:2], 3)),
    )  # fmt: skip
    tree["sample_stats"] = statistics
    ax = pm_temper.plot_logz_trace(tree, reference=-3.0, bounds=(-3.2, -2.8))
    ax.figure.canvas.draw()
    assert len(ax.get_legend().get_texts()) == 8
    assert ax.get_window_extent().width > 0.75 * ax.figure.bbox.width
    assert ax.get_legend().get_window_extent().x1 <= ax.figure.bbox.x1 + 2


@pytest.mark.parametrize("second", [0.009, 0.001, 1e-5, 3e-9])
def test_crowded_betas_have_ticks_that_can_be_read(second):
    _, ax = plt.subplots(figsize=(5, 3))
    label_betas(ax, np.array([0.0, second, 0.3, 1.0]))
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels()]
    assert [text.get_text() for text in ax.get_xticklabels()][-1] == "1"
    for one, two in itertools.pairwise(boxes):
        assert one.x1 < two.x0


class TestTime:
    def test_is_the_time_of_the_chain(self, run):
        ax = pm_temper.plot_logz_trace(run, x="time", n_points=5)
        seconds = run["sample_stats"]["perf_counter_diff"].values.sum(axis=1)
        chains = [line for line in ax.lines if line.get_color() in CYCLE]
        np.testing.assert_allclose([line.get_xdata()[-1] for line in chains], seconds)
        (middle,) = [line for line in ax.lines if line.get_color() == INK]
        np.testing.assert_allclose(middle.get_xdata()[-1], seconds.mean())
        assert "(s" in ax.get_xlabel()
        by_draws = pm_temper.plot_logz_trace(run, n_points=5)
        for one, two in zip(ax.lines, by_draws.lines, strict=True):
            np.testing.assert_array_equal(one.get_ydata(), two.get_ydata())

    def test_must_have_been_recorded(self, run):
        tree = run.copy()
        tree["sample_stats"] = tree["sample_stats"].to_dataset().drop_vars("perf_counter_diff")
        with pytest.raises(DataError, match="perf_counter_diff"):
            pm_temper.plot_logz_trace(tree, x="time")
        pm_temper.plot_logz_trace(tree)
