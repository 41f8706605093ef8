"""Statistics without unused room: the same values, whatever was used when."""

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.steps import run
from pymc_tempering.steps.trace import reused_trace
from pymc_tempering.steps.trimmed import Trimmed
from pymc_tempering.testing import asymmetric_bimodal
from tests.checkpoint.killed import different, sample


@pytest.mark.parametrize("n", [3, 256, 700])
def test_values_and_room_of_two_chains(n, rng):
    """Lengths that change from draw to draw, in blocks and beside them."""
    room = {}
    chains = [Trimmed(("scan", "level"), float, np.nan, room, n + 5) for _ in range(2)]
    expected = np.full((2, n + 5, 9, 6), np.nan)
    for chain, most in enumerate([(7, 3), (2, 5)]):
        for draw in range(5, n + 5):
            scans, levels = (int(rng.integers(1, size + 1)) for size in most)
            expected[chain, draw, :scans, :levels] = rng.normal(size=(scans, levels))
            chains[chain][draw] = expected[chain, draw]
    scans, levels = room["scan"], room["level"]
    assert (scans, levels) == tuple(
        int(np.isfinite(expected).any(axis=other).nonzero()[0].max()) + 1
        for other in ((0, 1, 3), (0, 1, 2))
    )
    for chain, values in enumerate(chains):
        trimmed = expected[chain, :, :scans, :levels]
        np.testing.assert_array_equal(np.asarray(values), trimmed)
        np.testing.assert_array_equal(np.asarray(values[5:][1::2]), trimmed[6::2])
        assert len(values[5:]) == n


def test_whole_numbers_keep_their_type():
    values = Trimmed(("level",), np.int32, -1, {}, 2)
    values[0] = np.array([3, 0, -1, -1], dtype=np.int32)
    values[1] = np.array([-1, -1, -1, -1], dtype=np.int32)
    assert np.asarray(values).dtype == np.int32
    assert np.asarray(values).tolist() == [[3, 0], [-1, -1]]


SHORT = {"draws": 30, "tune": 30, "chains": 2, "cores": 1, "random_seed": 5, "search": "none"}


@pytest.fixture(scope="module")
def model():
    return asymmetric_bimodal().model()


def test_a_run_is_what_it_was(model, monkeypatch):
    """Scans by default, of which few are run; beside PyMC's own record, cut afterwards."""
    options = SHORT | {"tune": 150, "target_se": 1.0}
    trimmed = sample(model, **options)
    monkeypatch.setattr(run, "reused_trace", lambda model, point, _: reused_trace(model, point))
    assert different(trimmed, sample(model, **options)) == []
    delta = trimmed["sample_stats"]["delta"]
    assert delta.sizes["scan"] < 50
    assert delta.notnull().any(["chain", "draw", "level"]).all()
    assert delta.notnull().any(["chain", "draw", "scan"]).all()


def test_draws_of_tuning_are_there_if_asked_for(model):
    kept = sample(model, discard_tuned_samples=False, **SHORT)
    assert kept["warmup_sample_stats"]["delta"].sizes["draw"] == SHORT["tune"]
    delta = kept["warmup_sample_stats"]["delta"]
    assert delta.notnull().any(["scan", "level"]).isel(draw=0).all()
    assert different(sample(model, **SHORT), kept) == []


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_runs_of_other_numbers_of_scans_are_put_together(model):
    few, many = (
        sample(model, **(SHORT | {"random_seed": seed, "scans_per_draw": n}))
        for seed, n in ((1, 4), (2, 6))
    )
    both = pm_temper.concat_chains([few, many])
    assert both["sample_stats"].sizes["scan"] == 6
    alone = [pm_temper.estimate_logz(one).per_chain for one in (few, many)]
    together = pm_temper.estimate_logz(both)
    np.testing.assert_allclose(together.per_chain, np.concatenate(alone), atol=1e-9)
