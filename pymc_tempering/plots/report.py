"""The useful pictures of one run, on a page or in an HTML file that can be passed on."""

import base64
import html
import io
import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import xarray as xr

from pymc_tempering import __version__
from pymc_tempering.errors import DataError
from pymc_tempering.estimators.result import (
    LogZEstimate,
    decimals_of_error,
    format_nats,
    with_error,
)
from pymc_tempering.evidence.reading import check_tree, stored_estimate, with_estimate
from pymc_tempering.evidence.stored import estimate_from_idata, has_statistics
from pymc_tempering.plots.index_process import plot_index_process
from pymc_tempering.plots.log_weights import plot_log_weights
from pymc_tempering.plots.logz_trace import plot_logz_trace
from pymc_tempering.plots.schedule import plot_barrier, plot_beta_occupancy, plot_logz_curve
from pymc_tempering.results.files import as_run, check_output, write_output

REPORT_SUFFIXES = (".html", ".htm")

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.4rem; }
.result { font-size: 1.25rem; }
.quiet { color: #555; font-size: 0.9rem; }
.diagnostic, .fine { border-left: 6px solid; padding: 0.6rem 1rem; margin: 1rem 0; }
.diagnostic { border-color: #D55E00; background: #FDF1E9; }
.fine { border-color: #009E73; background: #EAF6F2; }
.diagnostic ul { margin: 0.3rem 0; padding-left: 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 0.5rem 0 0; }
img { max-width: 100%; height: auto; }
figcaption { max-width: 46rem; }
"""

# column, variable of the group `tempering`, digits
_PER_CHAIN = (
    ("log Z (nats)", "log_z_chain", 3),
    ("global barrier", "global_barrier", 2),
    ("lowest swap rate", "swap_acceptance_rate", 2),
    ("round trips", "n_round_trips", 0),
    ("tempered restarts", "n_tempered_restarts", 0),
    ("base's mass on the support", "support_mass", 3),
    ("weight ESS", "weight_ess", 0),
)


class Panel(NamedTuple):
    """One picture: its title, how to read it, the plot, and names of which a run needs any."""

    question: str
    answer: str
    draw: Callable[..., Any]
    needs: tuple[str, ...]
    n_axes: int = 1


PANELS: tuple[Panel, ...] = (
    Panel(
        "Has log Z settled?",
        "In a good run the thick line stops drifting and the chains end inside or near its band. "
        "Chains that settle apart have not found the same modes.",
        plot_logz_trace,
        ("base_id", "tempered_draw"),
    ),
    Panel(
        "Do replicas pass from level to level?",
        "In a good run the rates are about equal and far from zero, and all chains find the same "
        "barrier. A chain with a much lower barrier may have missed a mode.",
        plot_barrier,
        ("swap_acceptance_rate",),
        n_axes=2,
    ),
    Panel(
        "Do replicas make the whole journey?",
        "Each thick line is a way from base to target and back, which can carry a new mode to the "
        "posterior draws. Without any, nothing says that every mode was found. Shown is the chain "
        "with fewest round trips.",
        plot_index_process,
        ("replica",),
    ),
    Panel(
        "Is every temperature visited?",
        "In a good run chains stay near the dashed line, within a factor of two or so.",
        plot_beta_occupancy,
        ("beta",),
    ),
    Panel(
        "Do forward and reverse annealing overlap?",
        "In a good run the histograms overlap around log Z. Apart, they need more temperatures.",
        plot_log_weights,
        ("log_weight_forward",),
    ),
    Panel(
        "How does log z(β) run from base to target?",
        "In a good run the chains end at the same value. In between they may differ, since each "
        "adapts its own base.",
        plot_logz_curve,
        ("log_z_levels",),
    ),
)
"""All pictures of the report in their order."""


def plot_report(idata: xr.DataTree, *, figsize: tuple[float, float] | None = None) -> np.ndarray:
    """All pictures that a run has the data for, each under the question that it answers.

    Parameters
    ----------
    idata : xarray.DataTree
        A tempered run.
    figsize : tuple of float, optional
        In inches; by default 10 wide and as high as the pictures need.

    Returns
    -------
    ndarray of Axes
        In the order of the page; their figure is ``axes[0].figure``.

    Raises
    ------
    DataError
        If the run is not tempered.
    """
    import matplotlib.pyplot as plt

    tree = with_estimate(idata)
    panels = panels_for(tree)
    figure = plt.figure(figsize=figsize or (10.0, 4.0 * len(panels)), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.12)
    rows = figure.add_gridspec(len(panels), 1)
    axes: list[Any] = []
    for panel, place in zip(panels, rows, strict=True):
        cells = place.subgridspec(1, panel.n_axes)
        row = [figure.add_subplot(cells[0, i]) for i in range(panel.n_axes)]
        row[0].set_title(panel.question, loc="left", fontweight="bold", pad=12)
        panel.draw(tree, ax=row if panel.n_axes > 1 else row[0])
        axes.extend(row)
    return np.array(axes, dtype=object)


def panels_for(idata: xr.DataTree) -> list[Panel]:
    """Pictures that a run has the data for; a run that is not tempered is a DataError."""
    tree = with_estimate(idata)
    if "sample_stats" not in tree.children:
        raise DataError(
            f"The DataTree has the groups {sorted(map(str, tree.children))} but no `sample_stats`, "
            "which the pictures are made of. Pass the result of `sample`, whole."
        )
    known = {str(name) for group in ("sample_stats", "tempering") for name in tree[group].data_vars}
    return [panel for panel in PANELS if known & set(panel.needs)]


def report(
    idata: xr.DataTree | LogZEstimate | str | os.PathLike[str],
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str = "Tempered run",
    overwrite: bool = False,
) -> Path:
    """Write a report of a run: what is doubtful and what to do, the estimates, the pictures.

    The file holds its pictures and its style, and neither loads nor runs anything.

    Parameters
    ----------
    idata : xarray.DataTree, LogZEstimate or path-like
        A tempered run, or an estimate that carries its run, or the netCDF file or zarr store of
        a run.
    path : path-like, default "report.html"
        Ends in ``.html`` or ``.htm``. Its folder is made if it is missing.
    title : str
        Heading and title of the page, for instance the name of the model.
    overwrite : bool, default False
        Whether a file that exists may be replaced, for instance by an earlier report.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    DataError
        If the run is not tempered, or the estimate does not carry one, or there is no run in the
        file.
    OptionError
        If `path` exists, has another ending, or cannot be written; before anything is drawn.
    OutputError
        If writing failed afterwards. The report is kept under another name, which the error says.
    """
    stored = [Path(idata)] if isinstance(idata, str | os.PathLike) else []
    target = check_output(path, REPORT_SUFFIXES, overwrite=overwrite, inputs=stored)
    estimate = _estimate(as_run(idata))
    tree = estimate.idata
    figures = [_figure(panel, tree) for panel in panels_for(tree)]
    first_line = re.sub(r"-(?=\d)", "\N{MINUS SIGN}", repr(estimate).split("\n", 1)[0])
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="quiet">{html.escape(_description(tree, estimate))}</p>',
        f'<p class="result"><b>{html.escape(first_line)}</b></p>',
        _verdict(estimate),
        "<h2>Estimates of log Z</h2>",
        _table(("estimate", "log Z (nats)", "standard error (nats)"), _estimates(estimate)),
        "<h2>Chains</h2>",
        _chains(tree),
        _zero_density(tree),
        *figures,
        "<h2>Posterior</h2>",
        _posterior(tree),
    ]
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )
    write_output(target, lambda file: file.write_text(page, encoding="utf-8"), overwrite=overwrite)
    return Path(path)


def _estimate(source: Any) -> LogZEstimate:
    if isinstance(source, LogZEstimate):
        if source.idata is None:
            raise DataError(
                "The LogZEstimate carries no run, so there is nothing to report on. Pass the "
                "DataTree that it was made from."
            )
        return source
    stored = stored_estimate(check_tree(source))
    if not has_statistics(stored.idata):
        return stored
    # estimates by other methods are not stored; warnings about priors are only in what is stored
    fresh = estimate_from_idata(source)
    warnings = {str(warning): warning for warning in (*stored.warnings, *fresh.warnings)}
    return replace(fresh, warnings=tuple(warnings.values()))


def _description(tree: xr.DataTree, estimate: LogZEstimate) -> str:
    sizes = tree["sample_stats"].dataset.sizes
    attrs = tree["sample_stats"].dataset.attrs
    made = str(attrs.get("created_at", ""))[:16].replace("T", " ")
    parts = [f"{sizes['chain']} chains of {sizes['draw']} draws"]
    parts += [f"after {attrs['tuning_steps']} of tuning"] if "tuning_steps" in attrs else []
    parts += [f"sampled {made} UTC"] if made else []
    if estimate.gradients:
        parts += [f"{n:,} gradients for {part}" for part, n in estimate.gradients.items()]
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{', '.join(parts)}. Report of {now}, pymc-tempering {__version__}."


def _verdict(estimate: LogZEstimate) -> str:
    if not estimate.warnings:
        return '<div class="fine">None of the checks speaks against this result.</div>'
    items = "".join(
        f"<li>{html.escape(str(warning))} <code>{html.escape(warning.code)}</code></li>"
        for warning in estimate.warnings
    )
    return f'<div class="diagnostic"><b>What speaks against this result</b><ul>{items}</ul></div>'


def _number(value: float | None, digits: int) -> str:
    if value is None or np.isnan(value):
        return "\N{EN DASH}"
    return format_nats(value, digits).replace("-", "\N{MINUS SIGN}")


def _estimates(estimate: LogZEstimate) -> list[tuple[str, str, str]]:
    digits = max(3, decimals_of_error(estimate.se))
    low, high = (_number(end, digits) for end in estimate.interval())
    combined = f"combined ({estimate.method})"
    rows = [
        (combined, _number(estimate.log_z, digits), _number(estimate.se, digits)),
        ("95 % interval", f"{low} to {high}", ""),
    ]
    if estimate.mass_missing:
        value = with_error(estimate.log_z, estimate.se, mass_missing=True)
        rows = [(combined, value.replace("-", "\N{MINUS SIGN}"), "a mode may be missing")]
    others = {"stochastic lower bound": estimate.lower, "stochastic upper bound": estimate.upper}
    others |= {f"by {name}": value for name, value in estimate.per_method.items()}
    return rows + [(n, _number(v, 3), "") for n, v in others.items() if v is not None]


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    def line(cells: Any, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    inner = line(head, "th") + "".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table>{inner}</table></div>'


def _chains(tree: xr.DataTree) -> str:
    tempering, statistics = tree["tempering"].dataset, tree["sample_stats"].dataset
    names, columns = ["chain"], [[str(c) for c in tempering["chain"].values]]
    for name, variable, digits in _PER_CHAIN:
        if variable not in tempering:
            continue
        values = tempering[variable].transpose("chain", ...).values
        if values.ndim > 1:
            values = np.nanmin(values, axis=1)
        names.append(name)
        columns.append([_number(value, digits) for value in values])
    if "n_divergences" in statistics:
        names.append("divergences")
        columns.append([str(int(n)) for n in statistics["n_divergences"].sum("draw").values])
    return _table(tuple(names), list(zip(*columns, strict=True)))


def _zero_density(tree: xr.DataTree) -> str:
    """Moves of each level that ran into zero density, where any did."""
    statistics = tree["sample_stats"].dataset
    if "n_zero_density_at" not in statistics:
        return ""
    by_level = statistics["n_zero_density_at"].clip(min=0).sum("draw").transpose("level", "chain")
    if not by_level.any():
        return ""
    rows = [
        (str(level), *map(str, counts)) for level, counts in enumerate(by_level.values.tolist())
    ]
    note = (
        '<p class="quiet">Moves that ran into zero density, which is rejected; at level 0, draws '
        "from the base where the posterior is zero.</p>"
    )
    return note + _table(("level", *(f"chain {c}" for c in by_level["chain"].values)), rows)


def _figure(panel: Panel, tree: xr.DataTree) -> str:
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 11}):
        axes = np.ravel(np.asarray(panel.draw(tree), dtype=object))
    figure, buffer = axes[0].figure, io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    plt.close(figure)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    question, answer = html.escape(panel.question), html.escape(panel.answer)
    return (
        f'<h2>{question}</h2>\n<figure><figcaption class="quiet">{answer}</figcaption>'
        f'<img alt="{question}" src="data:image/png;base64,{data}"></figure>'
    )


def _posterior(tree: xr.DataTree) -> str:
    if "posterior" not in tree.children:
        return "<p>The run holds no posterior draws.</p>"
    table = az.summary(tree)
    rows = [
        (name, *(f"{float(value):.4g}".replace("-", "\N{MINUS SIGN}") for value in row))
        for name, *row in table.head(40).itertuples()
    ]
    note = ""
    if len(table) > 40:
        note = f'<p class="quiet">The first {40} of {len(table)} quantities.</p>'
    return _table(("", *map(str, table.columns)), rows) + note
