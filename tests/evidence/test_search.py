"""What an estimate says of the search for modes."""

from types import SimpleNamespace

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import OptionError
from pymc_tempering.evidence.search import search_diagnostics, search_line
from pymc_tempering.references.search import Effort, find_modes
from pymc_tempering.results.statistics import pack_search, read_search
from pymc_tempering.testing import asymmetric_bimodal
from tests.references.test_search import waves


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
    line = f"search: {n_starts} starts of 4 searches led to 2 modes "
    line += f"({start_count[0]}, {start_count[1]} starts, "
    assert f"{line}of 4, 4 searches); one more" in repr(estimate)
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
        codes = {diagnostic.code for diagnostic in pm_temper.estimate_logz(run).warnings}
        assert ("modes_unseen" in codes) == said


def test_line():
    line = search_line(read_search(statistics()))
    assert line == (
        "1000 starts of 4 searches led to 2 modes (700, 300 starts, of 4, 4 searches); one more of "
        "their shape, with 1, 5, 25 % of the mass, 3 to 10 standard deviations away, would have "
        "been found with probability 1.0, 1.0, 1.0; half as wide 0.4, 0.4, 0.4; a quarter 0.0, "
        "0.0, 0.0"
    )
    few = {"start_counts": np.array([3, 2, 2]), "found_by": np.array([3, 1, 2])}
    line = search_line(read_search(statistics(modes=30, left_out=20, **few)))
    assert "to 30 modes (3, 2, 2, ... starts, of 3, 1, 2, ... searches; 20 of them without" in line
    assert "funnel_depth" not in search_line(read_search(statistics(funnel_depth=0.7)))
    line = search_line(read_search(statistics(funnel_depth=np.log(4.0))))
    assert "; necks 4.0 times narrower than the rest; one more" in line
    # what is not known
    unknown = statistics(planted=np.full(9, np.nan), found_by=np.full(8, np.nan))
    line = search_line(read_search(unknown))
    assert line == "1000 starts led to 2 modes (700, 300 starts)"
    assert search_line(read_search({"delta": np.zeros((2, 3))})) is None


def test_modes_seen_once_are_a_doubt_where_they_hold_mass():
    [diagnostic] = search_diagnostics(read_search(statistics(mass_once=0.6)))
    assert diagnostic.code == "modes_unseen"
    assert diagnostic.measured["search_mass_once"] == 0.6
    assert search_diagnostics(read_search(statistics(mass_once=0.5))) == []
    [diagnostic] = search_diagnostics(
        read_search(statistics(modes=9, start_counts=np.array([2, 1, -1])))
    )
    assert "At most 2 of 1000 starts" in diagnostic.text
    assert (
        search_diagnostics(read_search(statistics(modes=9, start_counts=np.array([3, 1, -1]))))
        == []
    )
    # a hundred replicas from a wide Gaussian have found what is not much narrower
    assert search_diagnostics(read_search(statistics(mass_once=0.6)), 100) == []
    assert len(search_diagnostics(read_search(statistics(mass_once=0.6)), 99)) == 1
    # those from fits hardly find what these left out
    [diagnostic] = search_diagnostics(read_search(statistics(mass_once=0.06)), None)
    assert "Replicas come from the fits" in diagnostic.text
    assert search_diagnostics(read_search(statistics(mass_once=0.05)), None) == []
    alone = statistics(starts=1, modes=1, mass_once=1.0)
    assert search_diagnostics(read_search(alone)) == []
    assert search_diagnostics({}) == []


def test_a_search_that_misses_modes_says_so_and_one_that_does_not_is_quiet(rng):
    """A hundred modes and more: 40 starts leave most unseen, thousands none that matters.

    Few starts may lead to the highest modes by chance: of 480 searches 0.77 warned, so that fewer
    than four of twelve do in one of 5000 seeds. Were chains to start from the fits, all would.
    """
    target = SimpleNamespace(address=waves.address, dim=2)
    searches = [find_modes(target, np.zeros(2), rng, effort=Effort(40, 40_000)).search
                for _ in range(12)]  # fmt: skip
    diagnostics = [search_diagnostics(read_search(as_recorded(few))) for few in searches]
    said = [diagnostic for [diagnostic] in filter(None, diagnostics)]
    assert len(said) >= 4
    assert all(search_diagnostics(read_search(as_recorded(few)), None) for few in searches)
    assert {diagnostic.code for diagnostic in said} == {"modes_unseen"}
    assert np.median([diagnostic.measured["search_mass_once"] for diagnostic in said]) > 0.2
    many = find_modes(target, np.zeros(2), rng).search
    assert len(many.start_count) > 2 * max(len(few.start_count) for few in searches)
    assert search_diagnostics(read_search(as_recorded(many))) == []


def as_recorded(search):
    return {"search": pack_search(search.statistics())[None, None]}


@pytest.mark.parametrize("method", ["pt", "gibbs_ct", "st", "hais"])
def test_every_step_takes_how_far_to_search(method):
    with pytest.raises(OptionError, match="Unknown search 'far'"):
        pm_temper.sample(asymmetric_bimodal().model(), method=method, search="far")
