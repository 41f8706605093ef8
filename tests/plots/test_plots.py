"""Each picture shows the arrays of the run, with labels, and refuses what it cannot show."""

import numpy as np
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.comparison.table import compare
from pymc_tempering.diagnostics.runs import levels_of_replicas, visible_round_trips
from pymc_tempering.errors import DataError
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.plots.common import CYCLE, GREY, INK

ON_RUNS = (
    pm_temper.plot_logz_trace,
    pm_temper.plot_barrier,
    pm_temper.plot_index_process,
    pm_temper.plot_logz_curve,
    pm_temper.plot_report,
)


def lines_of(ax, colour):
    return [line for line in ax.lines if line.get_color() == colour and len(line.get_xdata()) > 0]


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.fixture
def estimates():
    return {
        "poor": LogZEstimate(-14.0, 0.5, "pt, mbar", np.full(4, -14.0), df=3.0),
        "good": LogZEstimate(-11.0, 0.2, "pt, mbar", np.full(4, -11.0), df=30.0),
        "odd": LogZEstimate(
            -12.0,
            0.1,
            "pt, mbar",
            np.full(4, -12.0),
            warnings=(Diagnostic("no_round_trips", "none.", "Raise `tune`."),),
        ),
    }


def overlap(first, second):
    return not (
        first.x1 <= second.x0 or second.x1 <= first.x0
        or first.y1 <= second.y0 or second.y1 <= first.y0
    )  # fmt: skip


@pytest.mark.parametrize("plot", ON_RUNS)
def test_legends_are_off_the_data(plot, run):
    axes = np.ravel(np.asarray(plot(run), dtype=object))
    axes[0].figure.canvas.draw()
    renderer = axes[0].figure.canvas.get_renderer()
    boxes = [ax.get_window_extent(renderer) for ax in axes]
    for ax in axes:
        legend = ax.get_legend().get_window_extent(renderer)
        assert not any(overlap(legend, box) for box in boxes)
        label = ax.xaxis.label.get_window_extent(renderer)
        assert not overlap(legend, label)


@pytest.mark.parametrize("plot", ON_RUNS)
def test_stored_run_gives_the_same_picture(plot, run, stored):
    first, second = (np.ravel(np.asarray(plot(r), dtype=object)) for r in (run, stored))
    for one, two in zip(first, second, strict=True):
        for a, b in zip(one.lines, two.lines, strict=True):
            np.testing.assert_allclose(a.get_xydata(), b.get_xydata())


@pytest.mark.parametrize("plot", ON_RUNS)
def test_refuses_runs_without_tempering(plot, nuts_run):
    with pytest.raises(DataError, match=r"NUTS|swap_acceptance_rate|replica"):
        plot(nuts_run)
    with pytest.raises(DataError, match="expected the DataTree"):
        plot({"delta": np.zeros(3)})


class TestEvidence:
    def test_best_on_top_with_student_intervals(self, estimates):
        ax = pm_temper.plot_evidence(estimates)
        assert [label.get_text() for label in ax.get_yticklabels()] == ["good", "odd", "poor"]
        assert ax.yaxis_inverted()
        spans = {
            round(float(y), 6): (low, high)
            for lines in ax.collections
            for (low, y), (high, _) in lines.get_segments()
        }
        for row, name in enumerate(["good", "odd", "poor"]):
            np.testing.assert_allclose(spans[row], estimates[name].interval())
        hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
        assert [line.get_xdata().tolist() for line in hollow] == [[-12.0]]
        assert "nats" in ax.get_xlabel()

    def test_table_of_compare(self, estimates):
        ax = pm_temper.plot_evidence(compare(estimates), prob=0.5)
        lengths = [
            high[0] - low[0] for lines in ax.collections for low, high in lines.get_segments()
        ]
        np.testing.assert_allclose(sorted(lengths), 2 * 0.67449 * np.array([0.1, 0.2, 0.5]), 1e-4)

    def test_runs(self, run, stored):
        ax = pm_temper.plot_evidence({"run": run, "again": stored})
        log_z = float(run["tempering"]["log_marginal_likelihood"])
        points = np.concatenate([line.get_xdata() for line in ax.lines if line.get_marker() == "o"])
        np.testing.assert_allclose(points, log_z)


class TestLogZTrace:
    def test_shows_bar_on_prefixes(self, run):
        ax = pm_temper.plot_logz_trace(run, n_points=7)
        betas = run["tempering"]["betas"].values[0]
        n = np.isfinite(betas).sum()
        chains = [lines_of(ax, colour)[0] for colour in CYCLE[:3]]
        for chain, line in enumerate(chains):
            draws, log_z = line.get_xdata(), line.get_ydata()
            assert draws[-1] == 40
            for k in (1, len(draws) - 1):
                delta = run["sample_stats"]["delta"].values[chain, : draws[k], :, :n]
                delta = delta.reshape(-1, n)
                # a chain runs as many scans for each draw as its error asks for
                delta = delta[np.isfinite(delta[:, -1])]
                expected = bar_ladder(delta, betas[:n]).log_z[-1]
                np.testing.assert_allclose(log_z[k], expected)
        (mean,) = lines_of(ax, INK)
        rows = [line.get_ydata() for line in chains]
        np.testing.assert_allclose(mean.get_ydata(), np.mean(rows, axis=0))
        assert len(ax.collections) == 1

    def test_reference_and_bounds(self, run):
        ax = pm_temper.plot_logz_trace(run, reference=-2.0, bounds=(-2.5, -1.5))
        levels = {line.get_ydata()[0] for line in ax.lines if len(set(line.get_ydata())) == 1}
        assert {-2.0, -2.5, -1.5} <= levels
        assert {"reference", "bounds"} <= set(legend_texts(ax))

    @pytest.mark.parametrize("name", ["simulated_run", "continuous_run"])
    def test_other_samplers(self, name, request):
        ax = pm_temper.plot_logz_trace(request.getfixturevalue(name), n_points=4)
        assert np.isfinite(lines_of(ax, INK)[0].get_ydata()).all()


class TestBarrier:
    def test_shows_rates_and_schedule(self, run):
        rates_ax, barrier_ax = pm_temper.plot_barrier(run)
        tempering = run["tempering"].dataset
        for chain in range(3):
            (line,) = lines_of(rates_ax, CYCLE[chain])
            rates = tempering["swap_acceptance_rate"].values[chain]
            np.testing.assert_allclose(line.get_ydata(), rates[np.isfinite(rates)])
            (line,) = lines_of(barrier_ax, CYCLE[chain])
            np.testing.assert_allclose(line.get_xdata(), [0.0, 0.005, 0.1, 0.4, 1.0])
            np.testing.assert_allclose(line.get_ydata()[1:], np.cumsum(1.0 - rates[:4]))

    def test_crowded_schedule_gets_room(self, run):
        assert pm_temper.plot_barrier(run)[1].get_xscale() == "symlog"


class TestIndexProcess:
    def test_shows_levels_and_colours_trips(self, run):
        ax = pm_temper.plot_index_process(run, chain=1, draws=None)
        levels = levels_of_replicas(run["sample_stats"]["replica"].values[1])
        shown = np.stack([line.get_ydata() for line in lines_of(ax, GREY)], axis=1)
        np.testing.assert_array_equal(shown, levels)
        for up, down in zip(lines_of(ax, CYCLE[1]), lines_of(ax, INK), strict=True):
            assert (up.get_ydata()[0], up.get_ydata()[-1]) == (0, 4)
            assert (down.get_ydata()[0], down.get_ydata()[-1]) == (4, 0)
        assert lines_of(ax, CYCLE[1])
        counted = int(run["sample_stats"]["n_round_trips"].values[1].sum())
        assert ax.get_legend().get_title().get_text().startswith(f"{counted} round trips counted")

    def test_window(self, run):
        ax = pm_temper.plot_index_process(run, draws=10)
        assert ax.get_xlim() == (0.0, 9.0)


class TestLogZCurve:
    def test_shows_levels(self, run):
        ax = pm_temper.plot_logz_curve(run)
        for chain in range(3):
            (line,) = lines_of(ax, CYCLE[chain])
            expected = run["tempering"]["log_z_levels"].values[chain]
            np.testing.assert_allclose(line.get_ydata(), expected[np.isfinite(expected)])

    def test_refuses_methods_without_levels(self, annealed_run):
        with pytest.raises(DataError, match="hais"):
            pm_temper.plot_logz_curve(annealed_run)


class TestBetaOccupancy:
    def test_simulated_tempering_by_level(self, simulated_run):
        ax = pm_temper.plot_beta_occupancy(simulated_run)
        statistics = simulated_run["sample_stats"]
        for chain in range(2):
            (line,) = lines_of(ax, CYCLE[chain])
            beta = statistics["beta"].values[chain].ravel()
            shares = [np.mean(beta == level) * len(line.get_xdata()) for level in line.get_xdata()]
            np.testing.assert_allclose(line.get_ydata(), shares)

    def test_continuous_tempering_by_piece(self, continuous_run):
        ax = pm_temper.plot_beta_occupancy(continuous_run)
        for chain, stairs in enumerate(ax.patches):
            values, edges, _ = stairs.get_data()
            knots = continuous_run["sample_stats"]["knots"].values[chain, 0]
            np.testing.assert_allclose(edges, knots[np.isfinite(knots)])
            np.testing.assert_allclose(values.mean(), 1.0)

    def test_refuses_others(self, nuts_run):
        with pytest.raises(DataError, match="`beta`"):
            pm_temper.plot_beta_occupancy(nuts_run)


class TestLogWeights:
    def test_shows_both_directions(self, annealed_run):
        ax = pm_temper.plot_log_weights(annealed_run)
        forward = annealed_run["sample_stats"]["log_weight_forward"].values.ravel()
        values, edges, _ = ax.patches[0].get_data()
        inside = (forward >= edges[0]) & (forward <= edges[-1])
        np.testing.assert_allclose((values * np.diff(edges)).sum(), inside.mean())
        assert 0.98 < inside.mean() < 1.0
        assert lines_of(ax, "#333333")[0].get_xdata() == [-3.0, -3.0]
        assert any("beyond the axis" in text for text in legend_texts(ax))

    def test_forward_only(self, annealed_run):
        tree = annealed_run.copy()
        statistics = tree["sample_stats"].to_dataset().drop_vars("log_weight_reverse")
        tree["sample_stats"] = xr.DataTree(statistics)
        assert not any("reverse" in text for text in legend_texts(pm_temper.plot_log_weights(tree)))

    def test_refuses_zero_weights_alone(self, annealed_run):
        tree = annealed_run.copy(deep=True)
        for name in ("log_weight_forward", "log_weight_reverse"):
            tree["sample_stats"][name] = tree["sample_stats"][name] * 0 - np.inf
        with pytest.raises(DataError, match="All annealing weights are zero"):
            pm_temper.plot_log_weights(tree)


def test_report_holds_what_the_run_has(run, simulated_run, annealed_run):
    assert len(pm_temper.plot_report(run)) == 5
    assert len(pm_temper.plot_report(simulated_run)) == 3
    [ax] = pm_temper.plot_report(annealed_run)
    assert ax.get_xlabel() == "log weight (nats)"


def test_trips_need_the_target():
    levels = np.array([[0, 1, 2], [1, 0, 2], [0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]])
    trips = visible_round_trips(levels)
    assert [(t.replica, t.start, t.target, t.end) for t in trips] == [(0, 2, 3, 5)]
