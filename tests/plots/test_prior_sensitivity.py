"""The picture of prior sensitivity shows the table, and shades what has warnings."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from pymc_tempering import plot_prior_sensitivity
from pymc_tempering.errors import DataError, OptionError

COLUMNS = ["change", "name", "value", "log_bayes_factor", "log_bayes_factor_se", "warning"]
ROWS = [
    ("original", "", 1.0, 0.0, 0.0, ""),
    ("prior scale", "tau", 4.0, -1.2, 0.2, "weights_collapse"),
    ("prior scale", "tau", 0.5, 0.4, 0.1, ""),
    ("prior scale", "tau", 2.0, -0.6, 0.1, ""),
    ("prior scale", "mu", 2.0, -0.1, 0.05, ""),
    ("likelihood power", "likelihood", 0.8, 6.0, 0.1, ""),
    ("alternative", "other", np.nan, 1.0, 0.1, ""),
]
TABLE = pd.DataFrame(ROWS, columns=COLUMNS)


def test_points_band_and_shade_are_those_of_the_table():
    [ax] = plot_prior_sensitivity(TABLE, name="tau")
    line = next(one for one in ax.lines if len(one.get_xdata()) == 4)
    assert line.get_xdata().tolist() == [0.5, 1.0, 2.0, 4.0]
    assert line.get_ydata().tolist() == [0.4, 0.0, -0.6, -1.2]
    hollow = [one for one in ax.lines if one.get_markerfacecolor() == "white"]
    assert [one.get_xdata().tolist() for one in hollow] == [[4.0]]
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(-1.2 - 1.959964 * 0.2)
    [shade] = ax.patches
    assert shade.get_x() == pytest.approx(8**0.5)
    assert shade.get_x() + shade.get_width() == pytest.approx(4 * 2**0.5)
    assert ax.get_xscale() == "log"
    assert "nats" in ax.get_ylabel()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"weights not to be trusted", "95 % interval"} <= set(texts)


def test_one_axes_for_each_name_and_one_scale_for_priors():
    axes = plot_prior_sensitivity(TABLE)
    assert [ax.get_xlabel().split()[-1] for ax in axes] == ["tau", "mu", "power"]
    assert axes[0].get_ylim() == axes[1].get_ylim() != axes[2].get_ylim()
    assert [ax.get_ylabel() != "" for ax in axes] == [True] * 3
    assert axes[2].get_xscale() == "linear"
    # nothing doubtful: neither shade nor hollow points, nor an entry that speaks of them
    assert not axes[1].patches
    assert len(axes[1].get_legend().get_texts()) == 2


def test_many_names_are_wrapped_in_rows_of_three():
    rows = [("prior scale", f"x{i}", s, -0.1 * s, 0.02, "") for i in range(7) for s in (0.5, 2.0)]
    axes = plot_prior_sensitivity(pd.DataFrame(rows, columns=COLUMNS))
    places = [ax.get_subplotspec() for ax in axes]
    assert [(p.rowspan.start, p.colspan.start) for p in places] == [divmod(i, 3) for i in range(7)]
    width, height = axes[0].figure.get_size_inches()
    assert width <= 12 < height + 1


def test_draws_on_given_axes():
    _, given = plt.subplots()
    assert plot_prior_sensitivity(TABLE, name="mu", ax=given).tolist() == [given]
    with pytest.raises(OptionError, match="expected 3 matplotlib Axes"):
        plot_prior_sensitivity(TABLE, ax=given)
    figure = plot_prior_sensitivity(TABLE, name="mu", figsize=(4, 3))[0].figure
    assert figure.get_size_inches().tolist() == [4, 3]


def test_a_single_unit_factor_is_drawn():
    row = pd.DataFrame([("prior scale", "tau", 1.0, 0.0, 0.0, "")], columns=COLUMNS)
    low, high = plot_prior_sensitivity(row)[0].get_xlim()
    assert low < 1.0 < high


def test_refuses():
    with pytest.raises(DataError, match="expected the table of `prior_sensitivity`"):
        plot_prior_sensitivity({"tau": 1})
    with pytest.raises(DataError, match="expected the table of `prior_sensitivity`"):
        plot_prior_sensitivity(pd.DataFrame({"x": [1]}))
    with pytest.raises(DataError, match=r"names \['tau', 'mu', 'likelihood'\], but not 'nu'"):
        plot_prior_sensitivity(TABLE, name="nu")
    with pytest.raises(DataError, match="no prior scales"):
        plot_prior_sensitivity(TABLE.iloc[[0, 6]])
    with pytest.raises(OptionError, match="`prob` is 2"):
        plot_prior_sensitivity(TABLE, prob=2)
