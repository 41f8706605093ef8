"""Sources of starts and of fits for a search, each of which can be left out.

A source of starts is given what is known, and yields :class:`.survey.Proposal`. The last two give
Gaussians at the end of a search, for places that no ascent ends in:

=========  ========================================================================
prior      draws of the prior, and the same with some coordinates of a known place
jitter     around the start and the first mode, 0.5 to 15 standard deviations away
scales     the same around every known mode, in the standard deviations of each
images     of known modes under symmetries that the target may have
residual   uphill in the deflated residual of modes that are Gaussian themselves
lines      along one coordinate through a known mode, over draws of the prior
labels     the highest mode, but for one label's coordinates, which are of the prior
paths      what ascents pass by on their way to a maximum that holds little mass
diffuse    wide components around or beside narrow ones (:mod:`.diffuse`)
=========  ========================================================================

``benchmarks/sources.py`` tells which targets need which source.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pymc_tempering.engine.path.path import density_at
from pymc_tempering.references.local import LocalFit
from pymc_tempering.references.prepared import N_SEARCHES
from pymc_tempering.references.quality import FAIR
from pymc_tempering.references.same_mode import which_mode
from pymc_tempering.references.starts import Surroundings, evaluated, pulled_inside
from pymc_tempering.references.survey import NEGLIGIBLE, Proposal, Survey
from pymc_tempering.types import BoolArray, FloatArray

__all__ = ["N_PATHS", "SOURCES", "Images", "StartSource", "along_lines",
           "around_known_modes", "by_label",
           "deflated_residual", "images_of_modes", "on_ascent_paths"]  # fmt: skip

SOURCES = ("prior", "jitter", "scales", "images", "residual", "lines", "labels", "paths",
           "diffuse")  # fmt: skip
"""Names of all of them."""

ONE_IN_NEAR = 5
"""For so many starts and gradients there is one more around a known mode as soon as there are two:
a narrow mode next to another is nearer in scales of that one than in those of the first."""

MOST_IMAGED = 24
"""Modes beyond which there are enough: those of five labels are 120, alike in all but the order."""

N_ANEW, N_ANEW_FOLLOWED = 4096, 8
"""Draws of a label, and those ascended from. Of two planets two of three searches found both with
so many, one with half; with an eighth, in a fifth of the gradients, three were 60 nats lower."""

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
    """Where lines through known modes come as high as these, in a fifth of the gradients.

    A line is along one coordinate, from a mode through all values that ``prior_points`` (m, D) have
    there. Of hundreds of periods each has a basin of a five hundredth of the starts, and most of
    these lose it on the way up; on a line the right one stands out. Higher modes are first; all
    evaluations of a line cost what thirty ascents do.
    """
    n_spent, n_lines = 0, prior_points.shape[1]
    seen = set[int]()

    def starts(survey: Survey, _: int) -> Iterator[Proposal]:
        nonlocal n_spent
        before = survey.n_looked
        modes = [i for i, basin in enumerate(survey.basins.known) if basin.is_mode]
        left = [i for i in modes if i not in seen]
        too_dear = ONE_IN_NEAR * (n_spent + prior_points.size) > before
        if survey.n_modes < 2 or not left or too_dear:
            return
        i = max(left, key=lambda i: survey.basins.known[i].value)
        seen.add(i)
        mode, found = survey.basins.known[i], []
        for k in range(n_lines):
            line = np.repeat(mode.end[None], len(prior_points), axis=0)
            line[:, k] = np.sort(prior_points[:, k])
            values = np.append(density_at(survey.density.address, line)[0], mode.value)
            survey.spent["ascents"] += len(line)
            order = np.argsort(np.append(line[:, k], mode.end[k]))
            on_line = np.concatenate([[-np.inf], values[order], [-np.inf]])
            tops = order[(on_line[1:-1] > on_line[:-2]) & (on_line[1:-1] >= on_line[2:])]
            tops = tops[(tops < len(line)) & (values[tops] >= mode.value - NEGLIGIBLE)]
            found.append(line[tops])
        points = np.concatenate(found)
        if len(points):
            yield Proposal.at(points)
        n_spent += survey.n_looked - before

    return starts


def by_label(prior_points: FloatArray, labels: BoolArray) -> StartSource:
    """The highest mode with what one label has drawn anew, of many draws the highest.

    Of two planets with hundreds of periods each both are seldom right at once; one after another
    they are found. ``labels`` (L, D) tell the coordinates of each, each drawn from between the
    ``prior_points`` (m, D). First is the label that a mode hardly needs: draws come near it. A
    rise that makes all modes before negligible is followed by others at once; what brings less
    takes a fifth of the gradients, or half if no counted start led to the highest mode.
    """
    n_spent, shared = 0, ~labels.any(axis=0)
    nearest = np.full(len(labels), np.inf)

    def starts(survey: Survey, _: int) -> Iterator[Proposal]:
        nonlocal n_spent
        while survey.n_modes > 1 and survey.n_looked < survey.effort.most:
            before, best = survey.n_looked, max(survey.basins.modes, key=lambda mode: mode.value)
            one_in = ONE_IN_NEAR if best.start_count else 2
            if one_in * (n_spent + N_ANEW) > before:
                return
            shares = survey.rng.random((labels.shape[1], N_ANEW))
            drawn = np.stack(list(map(np.quantile, prior_points.T, shares)), axis=1)
            kept = np.repeat(best.end[None], N_ANEW, axis=0)
            modes = np.array([mode.end for mode in survey.basins.modes])
            kept[::4, shared] = modes[survey.rng.integers(len(modes), size=N_ANEW // 4)][:, shared]
            i = int(nearest.argmax())
            found = evaluated(survey.density, np.where(labels[i], drawn, kept))
            survey.spent["ascents"] += N_ANEW
            nearest[i] = min(nearest[i], found.values.max(initial=-1e300)) - NEGLIGIBLE
            yield Proposal.at(found.points[np.argsort(-found.values)[:N_ANEW_FOLLOWED]])
            if survey.basins.highest > best.value + NEGLIGIBLE:
                nearest[:] = np.inf
            else:
                n_spent += survey.n_looked - before

    return starts


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
