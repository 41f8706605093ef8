"""What holds for every estimator of a ladder: right, calibrated, and sensitive to wrong deltas."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.estimators.stepping_stone import stepping_stone, stepping_stone_reverse
from pymc_tempering.estimators.thermodynamic import thermodynamic_integration

COARSE = np.array([0.0, 0.03, 0.12, 0.35, 1.0])
TWELVE = np.linspace(0.0, 1.0, 12) ** 3
FORTY = np.linspace(0.0, 1.0, 40) ** 3


class Case(NamedTuple):
    """How an estimator is tried, and the bounds: four or more of their own standard errors."""

    estimate: Any
    betas: np.ndarray
    n_scans: int = 20_000
    near: float = 0.2  # of every level
    most_se: float = 0.05
    wrong: tuple = (3, 20_000)  # the level whose deltas are wrong, and scans that show it
    # runs of four chains, their scans, and phi; the mean and the sd of z, and coverage at 95 %
    runs: tuple = (300, 250, 0.7)
    calibrated: tuple = (0.43, 0.80, 1.22, 0.90)


STONES = {"wrong": (8, 100_000), "runs": (200, 400, 0.5), "calibrated": (np.inf, 0.75, 1.3, 0.88)}
CASES = {
    "bar": Case(bar_ladder, COARSE, near=0.06),
    "mbar": Case(mbar, COARSE, near=0.05),
    "stepping stone": Case(stepping_stone, TWELVE, **STONES),
    "stepping stone, reverse": Case(stepping_stone_reverse, TWELVE, **STONES),
    "thermodynamic": Case(
        thermodynamic_integration, FORTY, 5000, most_se=0.02, wrong=(-2, 40_000),
        runs=(300, 200, 0.6), calibrated=(0.5, 0.8, 1.2, 0.9),
    ),
}  # fmt: skip
of_all = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def off(case, delta, ladder):
    """Error of log Z, and its standard error from independent scans."""
    estimate = case.estimate(delta, case.betas)
    return estimate.log_z[-1] - ladder.log_z(1.0), estimate.influence.std() / np.sqrt(len(delta))


@of_all
def test_every_level_is_right(case, rng, ladder):
    """Independent scans: 6 reported errors at the end, one seed in 10^8."""
    delta = ladder.draw(rng, case.n_scans, case.betas)
    error, se = off(case, delta, ladder)
    assert abs(error) < 6 * se
    assert 0.0 < se < case.most_se
    estimate = case.estimate(delta, case.betas)
    exact = [ladder.log_z(beta) for beta in case.betas]
    np.testing.assert_allclose(estimate.log_z, exact, atol=case.near)
    assert estimate.log_z[0] == 0.0
    assert estimate.influence.shape == (case.n_scans,)
    assert estimate.influence.mean() == pytest.approx(0.0, abs=1e-7)


@of_all
@pytest.mark.parametrize("factor", [-1.0, 1.05])
def test_wrong_delta_at_one_level_is_noticed(case, factor, rng, ladder):
    level, n_scans = case.wrong
    delta = ladder.draw(rng, n_scans, case.betas)
    delta[:, level] *= factor
    error, se = off(case, delta, ladder)
    assert not abs(error) < 6 * se


@of_all
def test_influence_is_the_derivative_of_the_estimate(case, rng, ladder):
    """Replacing one scan by another moves the estimate by the difference of influences over n."""
    delta = ladder.draw(rng, 4000, case.betas)
    estimate = case.estimate(delta, case.betas)
    best, worst = np.argmax(estimate.influence), np.argmin(estimate.influence)
    changed = delta.copy()
    changed[worst] = delta[best]
    moved = case.estimate(changed, case.betas).log_z[-1] - estimate.log_z[-1]
    assert moved == pytest.approx(np.ptp(estimate.influence) / 4000, rel=0.05)


@of_all
def test_reported_error_is_calibrated(case, rng, z_scores, ladder, monkeypatch):
    """The sd of z has an error of 0.045 or so and coverage one of 0.013: 4 of these, and bias."""
    # nine tenths of the time, for what neither log z nor its error depends on
    monkeypatch.setattr("pymc_tempering.estimators.stepping_stone.pareto_k", lambda column: 0.0)
    n_repeats, n_scans, phi = case.runs
    z, covered = z_scores(
        rng, lambda delta: case.estimate(delta, case.betas), ladder.log_z(1.0),
        lambda rng: ladder.draw(rng, n_scans, case.betas, phi=phi, shared=0.5),
        n_repeats=n_repeats, n_chains=4,
    )  # fmt: skip
    most_bias, least_sd, most_sd, coverage = case.calibrated
    assert abs(z.mean()) < most_bias
    assert least_sd < z.std() < most_sd
    assert covered.mean() > coverage


@pytest.mark.parametrize("name", [name for name in CASES if name != "thermodynamic"])
def test_target_on_half_of_the_base(name, rng):
    """Target 3 N(0, 1) on z > 0: log Z = log 1.5, levels above the base are half normal."""
    delta = np.where(rng.normal(size=(20_000, 3)) > 0, np.log(3.0), -np.inf)
    delta[:, 1:] = np.log(3.0)
    estimate = CASES[name].estimate(delta, [0.0, 0.4, 1.0])
    assert estimate.log_z[-1] == pytest.approx(np.log(1.5), abs=6 / np.sqrt(20_000))
    assert estimate.influence.std() == pytest.approx(1.0, rel=0.05)
