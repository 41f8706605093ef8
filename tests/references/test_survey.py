"""Which modes keep a search going, and which places are worth a variational fit."""

import numpy as np
import pytest

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.basins import Basin
from pymc_tempering.references.local import LocalFit
from pymc_tempering.references.prepared import Effort, unwatched
from pymc_tempering.references.survey import Survey

UNITS = np.ones(2)
EFFORT = Effort(1000, 50_000)


def known(density, *modes):
    """Survey of modes that are given by place, log mass, starts, and spread."""
    survey = Survey(density, np.random.default_rng(1), EFFORT, unwatched)
    for x, log_mass, start_count, sd in modes:
        place = np.array([x, 0.0])
        base = GaussianBase(place, np.full(2, sd), log_mass)
        height = log_mass - base.log_det_scale - np.log(2.0 * np.pi)
        fit = LocalFit(base, 0.1, 0)
        survey.basins.known.append(
            Basin(place, place, height, True, start_count, curvature=fit, fit=fit)
        )
    return survey


@pytest.mark.parametrize(
    ("others", "n"),
    [
        ([], 1),
        ([(9.0, -9.0, 5, 1.0)], 2),
        ([(9.0, -11.0, 5, 1.0)], 1),
        # low and wide: what counts is the mass
        ([(90.0, -9.0, 5, 50.0)], 2),
        # within a standard deviation: two fits of one mode
        ([(0.5, -1.0, 5, 1.0)], 1),
        # so many starts lead to what holds nothing that what holds most may be missed
        ([(9.0, -11.0, 70, 1.0)], 2),
        ([(9.0, -11.0, 20, 1.0), (5.0, -12.0, 20, 1.0), (7.0, -1.0, 5, 1.0)], 2),
    ],
)
def test_modes_that_hold_nothing_do_not_matter_unless_they_are_many(bimodal, others, n):
    assert known(bimodal, (0.0, 0.0, 100, 1.0), *others).n_modes == n


def test_what_was_not_looked_at_may_matter(bimodal):
    survey = known(bimodal, (0.0, 0.0, 100, 1.0), (9.0, -50.0, 3, 1.0))
    basin = survey.basins.known[1]
    basin.fit = basin.curvature = None
    assert survey.n_modes == 2
    basin.is_saddle = True
    assert survey.n_modes == 1


@pytest.mark.parametrize(("fall", "is_fitted"), [(20.0, True), (30.0, False)])
def test_no_fit_of_a_place_that_is_too_low_to_hold_anything(bimodal, fall, is_fitted):
    """23.8 nats: negligible even if it were a thousand times as wide each way."""
    survey = known(bimodal, (bimodal.modes[0, 0], 0.0, 100, 1.0))
    place = bimodal.modes[1] + [0.3, 0.2]
    here = Basin(place, place, survey.basins.known[0].value - fall, converged=False)
    survey.basins.known.append(here)
    survey.fit_modes()
    assert (here.fit is not None) == is_fitted
    assert (survey.n_gradients > 0) == is_fitted


def test_the_mode_of_most_mass_by_its_height_is_fitted_first(bimodal, monkeypatch):
    """Under the curvature of a poor one, a mirror image of the first, there was next to nothing."""
    modes = [(x, log_mass, 5, 1.0) for x, log_mass in ((0.0, 0.0), (4.0, -6.0), (8.0, -1.0))]
    survey = known(bimodal, *modes)
    _first, second, third = survey.basins.known
    for basin, elbo in ((second, -30.0), (third, -90.0)):
        basin.fit = LocalFit(GaussianBase(basin.end, UNITS, elbo), 1e4, 5)
    for basin in survey.basins.known:
        basin.measured = True
    improved = []
    monkeypatch.setattr(survey, "improve", lambda basin: improved.append(basin.end[0]))
    survey.fit_modes()
    assert improved == [8.0, 4.0]


@pytest.mark.parametrize(
    ("variance", "better", "at", "stays"),
    [
        # more mass, less well: of another mode as well
        (0.4, (1.0, 0.9), (4.0, -2.0), True),
        # no dip away: of more of the same
        (0.4, (1.0, 0.9), (-2.8, 1.1), False),
        # nor is it any, if the mode has no fair fit
        (1.1, (1.0, 2.0), (4.0, -2.0), False),
        (0.4, (1.0, 0.3), (4.0, -2.0), False),
        (0.4, (-1.0, 0.3), (-2.8, 1.1), True),
    ],
)
def test_a_fair_fit_is_not_given_up_for_one_that_left(
    bimodal, monkeypatch, variance, better, at, stays
):
    """By the variances of log weights, and the other's ELBO in place of 0."""
    survey = known(bimodal, (0.0, 0.0, 100, 1.0))
    (basin,) = survey.basins.known
    first = LocalFit(GaussianBase(bimodal.modes[0], UNITS, 0.0), variance)
    basin.fit = first
    other = LocalFit(GaussianBase(np.array(at), UNITS, better[0]), better[1])
    monkeypatch.setattr(survey, "fit_from", lambda *_: other)
    survey.improve(basin)
    assert basin.fit == (first if stays else other)
