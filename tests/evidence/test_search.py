"""What an estimate says of the search for modes."""

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import OptionError
from pymc_tempering.evidence.stored import search_line
from pymc_tempering.results.statistics import pack_search, read_search
from pymc_tempering.testing import asymmetric_bimodal


def statistics(**counts):
    known = {"starts": 1000, "modes": 2, "left_out": 0, "images": 0, "mass_once": 0.0}
    known |= {"start_counts": np.array([700, 300, -1]), "found_by": np.array([4, 4, -1])}
    known |= {"planted": np.repeat([1.0, 0.43, 0.0], 3)} | counts
    return {"search": np.tile(pack_search(known), (2, 5, 1))}


@pytest.fixture(scope="module")
def estimate(seed):
    return pm_temper.estimate_logz(
        asymmetric_bimodal().model(), draws=40, tune=40, chains=2, cores=1, random_seed=seed,
        scans_per_draw=8, progressbar=False, quiet=True, compute_convergence_checks=False,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_every_estimate_says_what_was_searched(estimate):
    stats, group = estimate.idata.sample_stats, estimate.idata["tempering"].dataset
    n_starts = int(stats["search"].sel(search_entry="starts")[0, 0])
    assert n_starts > 1000
    start_count = group["search_start_counts"].values[0]
    assert start_count[:2].sum() == n_starts
    assert (start_count[2:] == -1).all()
    assert (stats["search"].sel(search_entry="starts") == n_starts).all()
    assert group["search_starts"].values.tolist() == [n_starts] * 2
    assert group["search_found_by"].values[0, :3].tolist() == [4, 4, -1]
    planted = group["search_planted"].values[0]
    # in one dimension nothing is missed
    assert planted.shape == (9,)
    assert planted.min() > 0.9
    line = f"search: 2 modes from {n_starts:,} starts; a further mode with 5 % of the mass"
    assert line in repr(estimate)
    assert line in estimate._repr_html_()
    again = pm_temper.estimate_logz(estimate.idata.isel(draw=slice(20)))
    assert again.search == estimate.search


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_replicas_from_a_wide_gaussian_are_a_search_of_their_own(estimate):
    """Those from fits are not: whatever these left out is not among them."""
    for n_components, restarts, once, said in (
        (0, 2, 0.9, False), (2, 2, 0.9, True), (2, 2, 0.1, True), (0, 1, 0.9, True),
        (0, 1, 0.1, False),
    ):  # fmt: skip
        run = estimate.idata.copy()
        stats = run.sample_stats.to_dataset()
        stats["search"].loc[{"search_entry": "mass_once"}] = once
        stats["tuned"].loc[{"tuned_entry": "n_components"}] = n_components
        stats["n_tempered_restarts"][:] = restarts
        run["sample_stats"] = stats
        warnings = pm_temper.estimate_logz(run).warnings
        pieces = [d.measured for d in warnings if d.code == "mode_missing"]
        assert any("modes_unseen" in measured for measured in pieces) == said


def test_line():
    line = search_line(read_search(statistics()))
    assert line == (
        "2 modes from 1,000 starts; a further mode with 5 % of the mass and half their width would "
        "have been found with probability 0.4"
    )
    # of 30 places 20 are without mass, and 2 more are images
    line = search_line(read_search(statistics(modes=30, left_out=20, images=2)))
    assert line.startswith("12 modes from 1,000 starts;")
    # where nothing was asked of a further mode, and where nothing was searched
    line = search_line(read_search(statistics(planted=np.full(9, np.nan), starts=1, modes=1)))
    assert line == "1 mode from 1 start"
    assert search_line(read_search({"delta": np.zeros((2, 3))})) is None


@pytest.mark.parametrize("method", ["pt", "gibbs_ct", "st", "hais"])
def test_every_step_takes_how_far_to_search(method):
    with pytest.raises(OptionError, match="Unknown search 'far'"):
        pm_temper.sample(asymmetric_bimodal().model(), method=method, search="far")
