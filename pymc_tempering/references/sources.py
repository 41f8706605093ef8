"""Sources of starts and of fits for a search, each of which can be left out.

A source of starts is given what is known, and yields :class:`.survey.Proposal`. The last two give
Gaussians at the end of a search, for places that no ascent ends in:

=========  ========================================================================
prior      draws of the prior, and the same with some coordinates of a known place
jitter     around the start and the first mode, 0.5 to 15 standard deviations away
scales     the same around every known mode, in the standard deviations of each
images     of known modes under symmetries that the target may have
residual   uphill in the deflated residual of modes that are Gaussian themselves
lines      along one coordinate through a known mode, as fine as the density asks for
paths      what ascents pass by on their way to a maximum that holds little mass
diffuse    wide components around or beside narrow ones (:mod:`.diffuse`)
=========  ========================================================================

``benchmarks/sources.py`` tells which targets need which source.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.basins import Basin
from pymc_tempering.references.local import LocalFit
from pymc_tempering.references.prepared import N_SEARCHES
from pymc_tempering.references.quality import FAIR
from pymc_tempering.references.same_mode import which_mode
from pymc_tempering.references.starts import Starts, Surroundings, evaluated, pulled_inside
from pymc_tempering.references.survey import NEGLIGIBLE, Proposal, Survey
from pymc_tempering.types import BoolArray, FloatArray

SOURCES = ("prior", "jitter", "scales", "images", "residual", "lines", "paths", "diffuse")
"""Names of all of them."""

MOST_ON_LINE, N_HALVINGS, N_PROMISING, N_IN_RACE, N_WINNERS = 16, 8, 32, 8, 8
"""Points on a line for each draw of the prior; how often those are halved that are too far apart;
tops that promise most, and as many that are highest; gradients for each; and how many are ascended
from as they are highest then. See "Thresholds of lines" in benchmarks/README.md."""

MOST_OFF, MOST_APART = (0.5, 0.25), (0.01, 0.5)
"""Nats, and share of what slopes promise along a line, by which values may differ from it, and the
same of the rises across the line, by which those of two neighbours may."""

ONE_IN_NEAR = 5
"""For so many starts and gradients there is one more around a known mode as soon as there are two:
a narrow mode next to another is nearer in scales of that one than in those of the first."""

MOST_IMAGED = 24
"""Modes beyond which there are enough: those of five labels are 120, alike in all but the order."""

N_PATHS = 6
"""Starts of which the path is looked at: what each second one passes by is missed in two of a
hundred searches."""

type Images = Callable[[FloatArray], FloatArray]
"""From a place of shape (D,) to those of shape (P, D) where symmetries would have its like."""


type StartSource = Callable[[Survey, int], Iterator[Proposal]]
"""Yields starts, given what is known and how many starts the batch has."""


def around_known_modes() -> StartSource:
    """Around the known modes, where there are two that matter, in a fifth of the gradients."""
    n_spent = 0

    def starts(survey: Survey, n: int) -> Iterator[Proposal]:
        nonlocal n_spent
        places = survey.known.places
        before = survey.n_looked
        if min(survey.n_modes, len(places)) > 1 and ONE_IN_NEAR * n_spent <= before:
            near = Surroundings(places, survey.known.units, None, own_units=True)
            yield Proposal(*near.draw(n // ONE_IN_NEAR, survey.rng))
            n_spent += survey.n_looked - before

    return starts


def deflated_residual() -> StartSource:
    """Where the residual rises to from the flanks of two starts of a batch.

    Until eight in a row have led nowhere.
    """
    n_in_vain = 0

    def starts(survey: Survey, _: int) -> Iterator[Proposal]:
        nonlocal n_in_vain
        flanks, survey.flanks = survey.flanks, survey.flanks.at(np.zeros(0, dtype=np.int64))
        if not len(flanks.points) or n_in_vain >= 8:
            return
        flanks = flanks.at(np.arange(len(flanks.points))[-2:])
        n_known = len(survey.basins.known)
        points = survey.known.follow_residual(flanks)
        if len(points):
            yield Proposal.at(points, counted=survey.flanks_are_counted)
        n_in_vain = 0 if len(survey.basins.known) > n_known else n_in_vain + len(flanks.points)

    return starts


def along_lines(prior_points: FloatArray) -> StartSource:
    """Where lines through known modes rise, or promise to.

    A line is along one coordinate, from a mode through all values that ``prior_points`` (m, D) have
    there. Of thousands of periods each has a basin of a thousandth of the starts, and most of these
    lose it on the way up; on a line the right one stands out, though all else is as in the mode, by
    what the gradient promises with the mode's curvature. Ascents move as little along the line as
    its points are apart. The highest mode is next, and in turn with it the highest that a counted
    start led to, since what lines lead to may be one family. What makes all before negligible is
    followed by its own lines at once. What brings less takes a fifth of the gradients, or half if
    no counted start led to the highest mode.
    """
    n_spent, n_lines = 0, prior_points.shape[1]
    seen = set[int]()

    def starts(survey: Survey, _: int) -> Iterator[Proposal]:
        nonlocal n_spent
        while survey.n_modes > 1 and survey.n_looked < survey.effort.most:
            before, known = survey.n_looked, survey.basins.known
            left = [i for i, basin in enumerate(known) if basin.is_mode and i not in seen]
            best = max(survey.basins.modes, key=lambda mode: mode.value)
            one_in = ONE_IN_NEAR if best.start_count else 2
            if not left or one_in * (n_spent + prior_points.size) > before:
                return
            of_starts = len(seen) % 2 == 1
            i = max(left, key=lambda i: (of_starts and known[i].start_count > 0, known[i].value))
            seen.add(i)
            mode = known[i]
            if not mode.measured:
                survey.measure(mode)
            for k in range(n_lines if mode.curvature else 0):
                line, promised = _line(survey, mode, k, prior_points[:, k])
                yield from _tops(survey, line, promised, mode, k)
            if survey.basins.highest <= best.value + NEGLIGIBLE:
                n_spent += survey.n_looked - before

    return starts


def _line(survey: Survey, mode: Basin, k: int, values: FloatArray) -> tuple[Starts, FloatArray]:
    """Points on a line along coordinate k through a mode, and what the density may rise to there.

    That is by a quadratic of the mode's curvature, with coordinate k as it is. Points are at
    ``values``, and between two where values differ by something else than slopes say, or slopes
    along all else have little in common.
    """
    assert mode.curvature is not None
    root = mode.curvature.base.matrix
    own = root[k] / np.linalg.norm(root[k])
    root = root - np.outer(root @ own, own)
    parts, x = list[Starts](), np.unique(np.append(values, mode.end[k]))
    for _ in range(N_HALVINGS):
        points = np.repeat(mode.end[None], x.size, axis=0)
        points[:, k] = x
        survey.spent["ascents"] += x.size
        parts.append(evaluated(survey.density, points))
        found = Starts(*map(np.concatenate, zip(*parts, strict=True)))
        found = found.at(np.argsort(found.points[:, k]))
        x, slopes, across = found.points[:, k], found.grads[:, k], found.grads @ root
        gains, apart = (0.5 * (a**2).sum(axis=1) for a in (across, np.diff(across, axis=0)))
        rises = 0.5 * np.diff(x) * np.array([slopes[:-1], slopes[1:]])
        off = np.abs(np.diff(found.values) - rises.sum(axis=0))
        too_few = off > MOST_OFF[0] + MOST_OFF[1] * np.abs(rises).sum(axis=0)
        too_few |= apart > MOST_APART[0] + MOST_APART[1] * (gains[1:] + gains[:-1])
        x = 0.5 * (x[1:] + x[:-1])[too_few]
        if not 0 < x.size <= MOST_ON_LINE * values.size - len(found.points):
            break
    return found, found.values + gains


def _tops(
    survey: Survey, line: Starts, promised: FloatArray, mode: Basin, k: int
) -> Iterator[Proposal]:
    """Tops of a line through a mode, of log densities and of what these promise to rise to.

    The former are of use where they are near the highest mode: a line through one of no mass has
    hundreds. Of the latter, and of the highest among them, those that are highest after a few
    gradients: promises are of places far beyond where the curvature is as in the mode.
    """
    assert mode.curvature is not None
    least, own = mode.value - NEGLIGIBLE, line.points[:, k] == mode.end[k]
    tops = np.flatnonzero(_is_top(promised) & (promised >= least) & ~own)
    highest = survey.basins.highest - NEGLIGIBLE
    high = np.flatnonzero(_is_top(line.values) & (line.values >= highest) & ~own)
    if not tops.size + high.size:
        return
    units = 1.0 / np.linalg.norm(np.linalg.inv(mode.curvature.base.matrix), axis=0)
    beside = np.minimum(np.union1d(tops, high), len(own) - 2)
    units[k] = np.median(np.diff(line.points[:, k])[beside])
    near = Coordinates.of(GaussianBase(mode.end, units))
    most = [np.argsort(-by[tops])[:N_PROMISING] for by in (promised, line.values)]
    tops = tops[np.union1d(*most)]
    starts = line.at(tops)
    raced = ascend(survey.density, starts.points, near, most_gradients=N_IN_RACE, first=starts[1:])
    survey.spent["ascents"] += raced.n_gradients
    best = np.argsort(-raced.values)[:N_WINNERS]
    points = np.concatenate([raced.ends[best], line.points[np.setdiff1d(high, tops[best])]])
    yield Proposal.at(points)._replace(coordinates=near)


def _is_top(values: FloatArray) -> BoolArray:
    """Whether each value of a line is no lower than those beside it."""
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    return (padded[1:-1] > padded[:-2]) & (padded[1:-1] >= padded[2:])


def images_of_modes(images: Images) -> StartSource:
    """Images of the highest modes, and of what that finds, if they are nearly as high.

    Where a target has a symmetry, starts lead to a mode and to its image by chance: ten to the one
    and none to the other. An image costs one evaluation. No image is a counted start, and they take
    an eighth of the gradients at most.
    """

    def starts(survey: Survey, _: int) -> Iterator[Proposal]:
        basins = survey.basins
        least = basins.highest - NEGLIGIBLE
        for i, basin in enumerate(basins.known):
            if basin.imaged or not basin.is_mode or basin.value < least:
                continue
            basin.imaged = True
            points = images(basin.end)
            too_many = sum(mode.value >= least for mode in basins.modes) > MOST_IMAGED
            too_dear = survey.spent["images"] + len(points) > survey.effort.most / 8
            if len(points) and not too_many and not too_dear:
                yield Proposal.at(points, image_of=i)
                least = basins.highest - NEGLIGIBLE

    return starts


def on_ascent_paths(
    survey: Survey, known: Sequence[LocalFit], around: Surroundings
) -> Iterator[LocalFit]:
    """Masses on the paths of ascents from fresh starts, where these end outside of the mass.

    Where the density rises from one mode into another, as from a wide group scale into the funnel
    of a narrow one, all ascents end in one place. The path there leads through what holds the mass.
    Yields fits, of which the modes' are ``known``.
    """
    best = max((fit.mass for fit in known), default=0.0)
    odd = [
        basin
        for basin in survey.basins.known
        if basin.fit is not None
        and basin.fit.most >= best - NEGLIGIBLE
        and not basin.is_gaussian
        # on a line, the highest place of one mode is at most the square root of three standard
        # deviations from the mean
        and np.abs(basin.fit.base.to_base(basin.end[None])).max() > 2.0
    ]
    # on a line no ascent passes by a mode
    if not odd or survey.density.dim == 1:
        return
    place = max(odd, key=lambda basin: basin.start_count)
    starts, n = pulled_inside(survey.density, *around.fresh(N_PATHS, survey.rng))
    survey.spent["fits"] += n
    seen = list(known)
    for i, start in enumerate(starts.points):
        fit = survey.fit_from(start, known=[one.base for one in seen])
        if fit is None:
            continue
        same, n = which_mode(survey.density, fit, seen, survey.rng)
        survey.spent["fits"] += n
        if same is not None:
            # what is known stays as it is, and counts the starts that pass by it
            fit = seen[same]
        elif fit.variance <= FAIR:
            seen.append(fit)
        else:
            # what fits no better is a piece of a mode, of which there is no end
            continue
        # where all ascents of one search ran away, each path stands for a search of its own
        searches = max(1 << i % N_SEARCHES, place.searches, key=int.bit_count)
        yield fit._replace(start_count=1, searches=searches)
