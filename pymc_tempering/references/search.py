"""The search for modes: start, ascend, fit, judge (V), merge.

A start leads to a mode only from within its basin, and an ascent costs a few dozen gradients where
a variational fit costs thousands. So breadth comes first, and depth is for what was found.

Four searches take turns, each from a place of its own. They share what is known of the modes, so
that they cost no more than one: how many of them found a mode tells what none may have found.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.divergent import Rise, first_rise
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.path import Density
from pymc_tempering.errors import BaseError
from pymc_tempering.references.basins import Basin
from pymc_tempering.references.diffuse import find_diffuse
from pymc_tempering.references.local import (
    LEAST_SHARE,
    LocalFit,
    combine_local_bases,
    comparable,
    holding,
    poorly_fitted_modes,
    well_fitted_modes,
    with_images,
)
from pymc_tempering.references.planted import N_PLACES, found_if_there
from pymc_tempering.references.prepared import (
    N_SEARCHES,
    SEARCHES,
    Effort,
    Prepared,
    Report,
    Search,
    mass_once,
    unwatched,
)
from pymc_tempering.references.quality import N_IMPORTANCE, importance_evidence
from pymc_tempering.references.same_mode import merge
from pymc_tempering.references.sources import (
    SOURCES,
    Images,
    StartSource,
    along_lines,
    around_known_modes,
    deflated_residual,
    images_of_modes,
    on_ascent_paths,
)
from pymc_tempering.references.starts import Surroundings, pulled_inside, start_inside
from pymc_tempering.references.survey import NEGLIGIBLE, Proposal, Survey
from pymc_tempering.types import FloatArray

__all__ = ["SEARCHES", "Effort", "find_modes"]

type Exchanges = Callable[[Density, FloatArray], Orbit | None]

_MOST_NUMBERS = 2**18
"""In the factors of the images of one Gaussian: two megabytes."""


# what is fitted far from any mode has squares beyond all numbers
@np.errstate(over="ignore", invalid="ignore")
@density_guard()
def find_modes(  # noqa: PLR0913 - what is known of a target, and how far to go
    density: Density, start: FloatArray, rng: np.random.Generator, *,
    prior_points: FloatArray | None = None, images: Images | None = None,
    exchanges: Exchanges | None = None,
    effort: Effort = SEARCHES["default"], report: Report = unwatched,
    sources: Sequence[str] = SOURCES, negligible: float = NEGLIGIBLE,
    known: GaussianBase | None = None, known_to: int = 0,
) -> Prepared:  # fmt: skip
    """Find modes by ascents from many starts, fit each, and combine the fits into one Gaussian.

    Every second start is one of ``prior_points`` (n, D), draws of the prior, as long as there are
    any. ``images`` leads from a place (D,) to those (P, D) where symmetries of the target would
    have its like. ``exchanges`` leads from draws of a mode's fit to a group of maps that leave the
    target as it is there, if there is one: of the modes that these make of one another one is
    searched for, and stands for all. ``sources`` are those of :data:`.sources.SOURCES` that are
    used. Fits with a mass that many nats below the best, ``negligible``, are left out. ``known`` is
    a fit of the mode at the start, and ``known_to`` are bits of the searches to which it is. Raises
    BaseError if no start has a finite density, or no fit succeeded.
    """
    start = start_inside(density, start, rng)
    survey = Survey(density, rng, effort, report)
    survey.begin(start, known, known_to)
    divide_out = _dividing_out(exchanges)
    divide_out(survey)
    around = None
    if effort.n_starts > 1:
        around = _look_around(survey, start, prior_points, images, divide_out, sources)
    survey.fit_modes()
    found = survey.fits
    if around is not None and "paths" in sources:
        found += on_ascent_paths(survey, found, around)
    if not found and survey.best is not None:
        # at an edge, both sides of which lead elsewhere, a place looks like a saddle
        found = [survey.best._replace(start_count=1)]
    if not found:
        raise BaseError(
            "None of the local fits succeeded: the density may be improper. Give a base explicitly."
        )
    found, n_merge = merge(density, found, rng, survey.orbit)
    survey.spent["fits"] += n_merge
    fits = found
    if around is not None and "diffuse" in sources:
        starts, left = GaussianBase(start, survey.units), effort.most - survey.n_gradients
        diffuse, n = find_diffuse(density, found, NEGLIGIBLE, survey.rng, left, starts)
        survey.spent["fits"] += n
        fits = sorted([*found, *diffuse], key=lambda fit: fit.elbo, reverse=True)
    return _summary(survey, found, fits, negligible)


def _look_around(
    survey: Survey, start: FloatArray, prior_points: FloatArray | None, images: Images | None,
    divide_out: Callable[[Survey], None], sources: Sequence[str],
) -> Surroundings:  # fmt: skip
    """Start in batches until the search ends; return where the first of the searches starts."""
    if "prior" not in sources:
        prior_points = None
    searches = _searches(survey, start, prior_points, jitter="jitter" in sources)
    residual = deflated_residual()
    later: list[tuple[str, StartSource]] = [
        ("residual", residual),
        ("scales", around_known_modes()),
        ("residual", residual),
    ]
    if prior_points is not None and len(prior_points):
        later.append(("lines", along_lines(prior_points)))
    if images is not None:
        later.append(("images", images_of_modes(images)))
    n_done, total, most = 1, survey.effort.n_starts, survey.end
    for search in itertools.cycle(range(N_SEARCHES)):
        # where all of them run away, where they began tells more than where they end
        all_ran_away = n_done > 1 and not survey.basins.modes
        if n_done >= total or survey.n_looked >= most or all_ran_away:
            break
        survey.basins.search = search
        survey.report("search for modes", survey.n_looked, int(most))
        # none goes far beyond what is left; small ones while a start is dear
        n = int((most - survey.n_looked) * n_done / (4 * survey.n_looked)) if n_done > 1 else 0
        n = min(max(n, 16), 512, total - n_done)
        n_done += n
        around, rng = searches[search]
        survey.follow(Proposal(*around.draw(n, rng), counted=True))
        divide_out(survey)
        for source in (source for name, source in later if name in sources):
            for proposal in source(survey, n):
                survey.follow(proposal)
                divide_out(survey)
        most = survey.end
    survey.report("search for modes", int(most), int(most))
    return searches[0][0]


def _dividing_out(exchanges: Exchanges | None) -> Callable[[Survey], None]:
    """Function that has a search look among copies for one.

    If the highest maximum known so far is not its own image, as the first may be: a start with the
    symmetry of the model leads to where labels are alike. The group is that of its mode: a wide one
    looks alike under exchanges that lead a narrow one to where nothing is. Ascents that halt on a
    ridge have images too, below its top.
    """
    tried: LocalFit | None = None

    def divide_out(survey: Survey) -> None:
        nonlocal tried
        modes = ((b.value, b.fit, b.end) for b in survey.basins.modes if b.fit is not None)
        best = max(modes, key=lambda mode: mode[0], default=None)
        if exchanges is None or best is None or survey.orbit is not None or best[1] is tried:
            return
        _, tried, end = best
        # a generator of its own leaves all other draws of the search as they are
        orbit = exchanges(survey.density, tried.base.draw(np.random.default_rng(0), 4))
        if orbit is not None and orbit.size * end.size**2 <= _MOST_NUMBERS:
            apart = tried.base.to_base(orbit.images(end)) - tried.base.to_base(end)
            survey.orbit = orbit if np.abs(apart).max() > 1.0 else None

    return divide_out


def _searches(
    survey: Survey, start: FloatArray, prior_points: FloatArray | None, *, jitter: bool
) -> list[tuple[Surroundings, np.random.Generator]]:
    """Where each search starts: around its own start, and around the mode that this led to."""
    searches: list[tuple[Surroundings, np.random.Generator]] = []
    basins, reached = survey.basins, [0]
    survey.know(0)
    for k, rng in enumerate(survey.rng.spawn(N_SEARCHES)):
        if k > 0:
            starts, n = pulled_inside(survey.density, *searches[0][0].draw(2, rng))
            survey.spent["ascents"] += n
            if len(starts.points):
                # the last one is of the prior, if there is one
                start = starts.points[-1]
                # one that runs away after others did leads to no place that is kept
                reached = survey.climb(start[None], counted=False) or reached
                for i in reached:
                    if not basins.known[i].measured:
                        survey.look_at(i)
        places, units = [start], [survey.units]
        if (fit := basins.known[reached[-1]].fit) is not None:
            places.append(fit.base.mean)
            units.append(fit.base.standard_deviation)
        own = None if prior_points is None else prior_points[k::N_SEARCHES]
        around = Surroundings(np.array(places), np.array(units), own, jitter=jitter)
        searches.append((around, rng))
    return searches


def _summary(
    survey: Survey, seen: list[LocalFit], fits: list[LocalFit], negligible: float
) -> Prepared:
    """Combine the fits, and say what the search did; ``seen`` are those that starts led to."""
    density, basins = survey.density, survey.basins
    kept = holding(fits, negligible)
    without_fit = [b for b in basins.known if b.fit is None and not b.is_saddle]
    left_out = [fit for fit in fits if fit not in kept]
    others: list[LocalFit | Basin] = [*left_out, *without_fit]
    counted = [(one.start_count, one.searches.bit_count()) for one in (*kept, *others)]
    counted = [pair for pair in counted if pair[0]]
    n_left_out = sum(one.start_count > 0 for one in others)
    # what is wide and unexplained may be modes that no start led to: it is nothing seen
    seen = [fit for fit in seen if fit in kept] or seen
    bases = comparable(kept, negligible)
    rise = _rise(survey, bases[0], without_fit)
    well_fitted = well_fitted_modes(kept, survey.orbit)
    # of one mode alone every method knows as much
    left = survey.effort.most - survey.n_gradients - rise.n_gradients
    weighted = well_fitted if len(kept) > 1 and left >= N_IMPORTANCE * len(well_fitted) else ()
    mass = importance_evidence(density, weighted, np.random.default_rng(0), orbit=survey.orbit)
    planted = found_if_there(
        density, survey.looked, [fit.weighted for fit in seen], np.random.default_rng(0)
    )
    n_gradients = survey.n_gradients + survey.known.n_gradients
    n_gradients += rise.n_gradients + mass.n_gradients
    if len(survey.looked.points):
        n_gradients += N_PLACES
    search = Search(
        start_count=tuple(n for n, _ in counted),
        found_by=tuple(n for _, n in counted),
        n_left_out=n_left_out,
        n_unfinished=basins.n_lost + sum(b.start_count for b in basins.known if b.is_saddle),
        n_gradients=n_gradients,
        mass_once=mass_once(
            [fit.mass for fit in seen], [fit.searches.bit_count() for fit in seen]
        ),
        planted=tuple(planted.ravel().tolist()),
        n_images=sum(not fit.start_count for fit in seen),
        rise_along=rise.coordinate,
        rise=rise.nats[0],
        rise_beyond=rise.nats[1],
        log_mass=mass.value,
        log_mass_se=mass.se,
    )  # fmt: skip
    return Prepared(
        combine_local_bases(with_images(bases, survey.orbit)),
        bases,
        search,
        poorly_fitted_modes(kept),
        well_fitted=well_fitted,
        orbit=survey.orbit,
        one_holds_all=len(holding(fits, -np.log(LEAST_SHARE))) == 1,
    )


def _rise(survey: Survey, fit: GaussianBase, without_fit: list[Basin]) -> Rise:
    """Look at the mass along the two highest ascents that found no end, away from the best fit."""
    runaways = [basin for basin in survey.basins.known if not basin.converged]
    runaways += [basin for basin in without_fit if basin.measured]
    highest = sorted(runaways, key=lambda basin: basin.value, reverse=True)[:2]
    base = GaussianBase(fit.mean, fit.standard_deviation)
    left = survey.effort.most - survey.n_gradients
    return first_rise(survey.density, base, [basin.end for basin in highest], left)
