"""The report is one file that loads nothing, with warnings first and text escaped."""

import base64
import errno
import re
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib as mpl
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.errors import OptionError, OutputError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.stored import estimate_from_idata
from pymc_tempering.plots.report import _zero_density, report
from pymc_tempering.results.datatree import diagnostic_variables

mpl.use("Agg")


class Page(HTMLParser):
    """Tags with their attributes, and whether they are nested well."""

    void = frozenset({"meta", "img"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def run(seed):
    with pm.Model() as model:
        x = pm.Normal("<x> & y", 1.0, 2.0)
        pm.Normal("y", x, 0.5, observed=1.5)
    return pm_temper.sample(
        model, draws=12, tune=40, chains=2, cores=1, random_seed=seed, progressbar=False, quiet=True
    )


@pytest.fixture(scope="module")
def text(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert report(run, path, title="Fish & <chips>") == path
    return path.read_text(encoding="utf-8")


def test_is_self_contained(text):
    page = Page(text)
    assert page.open == []
    sources = [attrs["src"] for tag, attrs in page.tags if "src" in attrs]
    assert len(sources) >= 4
    for source in sources:
        assert source.startswith("data:image/png;base64,")
        assert base64.b64decode(source.split(",", 1)[1]).startswith(b"\x89PNG")
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "object"}
    assert not any("href" in attrs for _, attrs in page.tags)
    outside = re.sub(r'src="data:[^"]*"', "", text)
    assert not re.search(r"https?:|url\(|@import", outside)


def test_escapes(text):
    assert "<title>Fish &amp; &lt;chips&gt;</title>" in text
    assert "<h1>Fish &amp; &lt;chips&gt;</h1>" in text
    assert "<chips>" not in text
    assert "&lt;x&gt; &amp; y" in text
    assert "<x>" not in text


def test_pictures_name_what_they_show(text):
    images = [attrs for tag, attrs in Page(text).tags if tag == "img"]
    assert all(attrs["alt"].endswith("?") for attrs in images)


def test_shows_the_estimate(text, run):
    log_z = float(run["tempering"]["log_marginal_likelihood"])
    shown = f"{log_z:.3f}".replace("-", "\N{MINUS SIGN}")
    assert f"<td>{shown}</td>" in text
    for name in ("mbar", "bar", "stepping stone forward"):
        assert f"by {name}" in text
    assert text.count("round trips") >= 1


def test_warnings_come_first_and_escaped(run, tmp_path):
    estimate = estimate_from_idata(run)
    diagnostic = Diagnostic(
        "no_round_trips", "no <b>round</b> trips.", "Raise `tune`.", {"chain": [1]}
    )
    doubtful = replace(estimate, warnings=(diagnostic,))
    text = report(doubtful, tmp_path / "diagnostic.html").read_text(encoding="utf-8")
    warning = "no &lt;b&gt;round&lt;/b&gt; trips. Raise `tune`."
    assert warning in text
    assert "<code>no_round_trips</code>" in text
    assert text.index(warning) < text.index("Estimates of log Z") < text.index("<img")
    fine = report(replace(estimate, warnings=()), tmp_path / "fine.html").read_text("utf-8")
    assert "None of the checks" in fine


SCRIPT, IMAGE = "\"'><script>alert(1)", "<img src=x onerror=alert(2)> $\\frac{"


@pytest.fixture
def hostile(run):
    """Estimate of a run whose names, coordinates, attributes and warnings are markup."""
    draws = run["posterior"].dataset["<x> & y"]
    values = xr.concat([draws, -draws], dim=IMAGE).transpose("chain", "draw", IMAGE)
    values = values.drop_vars(IMAGE, errors="ignore").assign_coords({IMAGE: [SCRIPT, IMAGE]})
    estimate = estimate_from_idata(run)
    tree = estimate.idata.copy()
    tree["posterior"] = xr.DataTree(xr.Dataset({SCRIPT: values.rename(SCRIPT), IMAGE: draws}))
    statistics = tree["sample_stats"].to_dataset()
    tree["sample_stats"] = xr.DataTree(
        statistics.assign_attrs(created_at=SCRIPT, tuning_steps=IMAGE)
    )
    diagnostics = (Diagnostic(SCRIPT, IMAGE, SCRIPT, {SCRIPT: IMAGE}),)
    return replace(estimate, warnings=diagnostics, method=SCRIPT, idata=tree)


def test_nothing_of_a_model_or_a_file_becomes_markup(hostile, tmp_path):
    text = report(hostile, tmp_path / "a.html", title=SCRIPT).read_text("utf-8")
    tags = Page(text).tags
    assert "script" not in {tag for tag, _ in tags}
    assert all(attributes["src"].startswith("data:image/png;") for tag, attributes in tags
               if tag == "img")  # fmt: skip
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    assert text.count("&lt;script&gt;") >= 6
    assert text.count("&lt;img src=x onerror=") >= 3


def test_keeps_warnings_that_only_the_file_has(run, tmp_path):
    # as a model at hand would say, which estimates from statistics alone cannot
    diagnostic = Diagnostic("interrupted", "after 2 of 4 chains", "Run it again.", {"chains": 2})
    dataset = run["tempering"].to_dataset().drop_dims("warning")
    tree = run.copy()
    tree["tempering"] = xr.DataTree(dataset.assign(diagnostic_variables([diagnostic])))
    tree.to_netcdf(tmp_path / "run.nc")
    stored = xr.open_datatree(tmp_path / "run.nc")
    text = report(stored, tmp_path / "stored.html").read_text(encoding="utf-8")
    assert text.count("ended early: after 2 of 4 chains Run it again.") == 1


def test_zero_density_by_level_where_there_was_some(run, text):
    """Drawing pictures takes seconds, so the table is made alone."""
    assert "zero density" not in text
    assert _zero_density(run) == ""
    statistics = run["sample_stats"].to_dataset()
    counts = xr.zeros_like(statistics["n_zero_density_at"])
    counts[0, 0, 0], counts[:, 1:3, 1], counts[1, 2, 0] = 3, 2, -1
    rough = run.copy()
    rough["sample_stats"] = xr.DataTree(statistics.assign(n_zero_density_at=counts))
    cells = re.findall(r"<td>(.*?)</td>", _zero_density(rough))
    assert cells[:6] == ["0", "3", "0", "1", "4", "4"]


def test_reads_a_stored_run(run, tmp_path):
    run.to_netcdf(tmp_path / "run.nc")
    before = (tmp_path / "run.nc").read_bytes()
    text = report(str(tmp_path / "run.nc"), tmp_path / "new" / "stored.html").read_text("utf-8")
    log_z = float(run["tempering"]["log_marginal_likelihood"])
    assert f"<td>{log_z:.3f}</td>".replace("-", "\N{MINUS SIGN}") in text
    with pytest.raises(OptionError, match="is the file that is read"):
        report(tmp_path / "run.nc", tmp_path / "run.nc", overwrite=True)
    assert (tmp_path / "run.nc").read_bytes() == before


def test_keeps_what_exists_unless_asked(run, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("by someone else")
    with monkeypatch.context() as patch:
        patch.setattr(
            "pymc_tempering.plots.report.panels_for",
            lambda _: pytest.fail("drawn before the check"),
        )
        with pytest.raises(OptionError, match=r"report\.html exists.*`overwrite=True`"):
            report(run, path)
    assert path.read_text() == "by someone else"
    report(run, path, overwrite=True)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_full_disk_keeps_the_earlier_report(run, tmp_path, monkeypatch):
    path = report(run, tmp_path / "report.html")
    before, write_text = path.read_bytes(), type(path).write_text

    def half(self, text, **kwargs):
        write_text(self, text[:50], **kwargs)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(path), "write_text", half)
    with pytest.raises(OutputError, match="No space left"):
        report(run, path, overwrite=True)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
