"""Whether a model is sampled in the coordinates of the map of its hierarchy, and its modes there.

What a hierarchy has of modes shows in the marginal density of its few globals. Ascents of the log
density itself end on the slopes of funnels, in places without mass: hundreds of them in a Poisson
regression with 200 groups, for 250,000 gradients.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.model.compile import CompiledDensity, prior_points
from pymc_tempering.model.mapped import through_map
from pymc_tempering.model.normal_locals import NormalLocals, through_normal
from pymc_tempering.model.structure import MANY_GLOBALS, MOST_BENT, Structure, structures_of
from pymc_tempering.references import normal_locals
from pymc_tempering.references.conditional import ConditionalFit, conditional_fit, continued
from pymc_tempering.references.levels import lacks_neck
from pymc_tempering.references.local import combine_local_bases, with_images
from pymc_tempering.references.nested_laplace import NestedLaplace
from pymc_tempering.references.nodes import Ridges, alone, ridges_by_nested
from pymc_tempering.references.prepared import N_SEARCHES, SEARCHES, Effort, Prepared, Report
from pymc_tempering.references.quality import COARSE, GAIN, LADDER, N_DRAWS, TRIMMED, log_weights
from pymc_tempering.references.same_mode import MAX_DIP, N_ON_LINE, dip
from pymc_tempering.references.survey import NEGLIGIBLE
from pymc_tempering.references.transport_maps import NEEDLESS
from pymc_tempering.types import FloatArray

N_STARTS = 16
"""Ascents of the marginal density, as of :func:`pymc_tempering.estimate_many`; fewer, but one of
each search, where they take more than a search does that knows of one mode."""

MOST_TRIED = 3
"""Choices of the globals."""

N_SCANS = 400
"""Of the run that a map is judged by, some 2000 gradients; of 200 one of `gp_states` had half in a
tail, and said 23 for 2 to 3. And of that from which local scales are taken: after 200 the scale of
a horseshoe was not there yet."""

_MOST = 2.0 * LADDER
"""V beyond which a map is the last resort. Short runs say 7 to 11 of one of `irt_3`, which saves
most of its time, 12 and 14 of probabilities in 30 groups, where a map saves half to two thirds, and
15 to 350 of those of `capture_recapture` with one and two globals, beside 3 of that with three. Of
eight groups, with globals a fifth as wide as they should be, they say 8 to 31, and draws take
28,000 gradients; with a seventh, 12 to 32 and 600,000."""

_LAST = 8.0 * _MOST
"""V beyond which there is none. With 20 to 98 of four tables of shares, where most counts are 0,
log Z is right for .4 to 1.5 million gradients, and without a map 9 nats off for 3 to 4."""

_MOST_CONTINUED = 2
"""Times that a map is fitted to where a run of its own has been."""

_STEP = 1e-5  # of the globals' coordinates, over which their law is compared

_WITHIN = 1.0
"""Standard deviations of the globals from the map's centre within which an ascent has come back."""

_ASIDE = 3.0
"""Standard deviations of a local from the map's own mode within which it is in that."""


class Hierarchy(NamedTuple):
    """A density in the coordinates of a map, and what that was made from.

    ``variance`` is V of the map (:mod:`.quality`), by its own draws or a short run, whichever says
    more.
    """

    density: CompiledDensity
    structure: Structure
    map: ConditionalMap | NormalLocals
    variance: float

    @classmethod
    def of(cls, density: CompiledDensity) -> "tuple[Hierarchy | None, int]":
        """Find the map of a density, the same for any seed, and the gradients that it took.

        None where it has no globals, or V is that of a long ladder, non-centred as well.
        """
        if density.no_gradient or density.calls_python:
            return None, 0
        made, n_gradients, own = list[tuple[bool, Hierarchy]](), 0, structures_of(density)
        hubs = own[0][0].globals if own[0] else None
        # levels and their scale, which no map covers, or without the neck
        levels = density.innovations(hubs)
        is_funnel = levels is not None and levels.are_nested
        if is_funnel:
            n_gradients, own = own[1], (own[0], 0)
        for way in density.ways_to_write(hubs, non_centred_first=is_funnel):
            found, n = cls._as_it_is(way, own if way is density else structures_of(way))
            n_gradients += n
            if found is not None:
                lacks, n = lacks_neck(found.density, levels if way is density else None)
                n_gradients += n
                made.append((lacks, found))
                if found.variance <= _MOST and not lacks:
                    break
        return min(made, key=lambda of: (of[0], of[1].variance), default=(0, None))[1], n_gradients

    @classmethod
    def _as_it_is(
        cls, density: CompiledDensity, read: tuple[list[Structure], int]
    ) -> "tuple[Hierarchy | None, int]":
        structures, n_gradients = read
        best, effort = None, SEARCHES["default"]
        most = effort.n_for_seldom
        for structure in structures[:MOST_TRIED]:
            if most <= 0.0:
                break
            rng = np.random.default_rng(0)
            try:
                # what is tried far from any mode has numbers beyond all bounds
                with np.errstate(all="ignore"):
                    found = conditional_fit(density, structure, density.start, rng, most)
            except np.linalg.LinAlgError:
                continue  # regressions and curvatures of what is no hierarchy may be singular
            n_gradients += found.n_gradients
            most = effort.n_gradients - n_gradients
            least = _LAST if best is None else best.variance
            if found.map is None or (best is not None and found.variance > least):
                continue
            left = effort.n_for_seldom - n_gradients
            made, n = cls._without_gaps(density, structure, found, rng, left)
            n_gradients += n
            if made is None or made.variance > least:
                continue
            if len(structure.globals) > MANY_GLOBALS:
                # where there is a funnel among so many, ascents lead away from the mass
                top = _Ascent.from_place(made, np.zeros(density.dim))
                n_gradients += top.n_gradients
                if np.isinf(top.mass):
                    continue
            best = made
            # a path of few levels gains little from others, and maps of many globals are dear
            if best.variance <= (_MOST if len(structure.globals) > MOST_BENT else COARSE):
                break
        return best, n_gradients

    @classmethod
    @np.errstate(all="ignore")
    def _without_gaps(
        cls, density: CompiledDensity, structure: Structure, found: ConditionalFit,
        rng: np.random.Generator, most: float,
    ) -> "tuple[Hierarchy | None, int]":  # fmt: skip
        """Take the map, or where it lacks mass normal locals, or nothing; with the gradients."""
        made, n_gradients = None, 0
        if found.variance <= _MOST or len(structure.globals) > MANY_GLOBALS:
            made, n_gradients = cls._judged(density, structure, found, rng, most)
        near = found.map if made is None else made.map
        is_used = made is not None and made.variance <= _LAST
        assert isinstance(near, ConditionalMap)
        left = most - n_gradients
        normal, n = normal_locals.normal_locals_of(density, structure, near, rng, left)
        n_gradients += n
        if normal is None and not is_used:
            return None, n_gradients
        ridges: Ridges | None
        if normal is not None:
            ridges, n = normal_locals.ridges_of_normal(normal)
        else:
            nested = NestedLaplace(density, structure, near.from_base(np.zeros(near.dim)))
            ridges = ridges_by_nested(nested, near, SEARCHES["default"].n_for_one_mode)
            n = nested.n_gradients
        n_gradients += n
        if is_used and ridges is not None:
            missed, n = normal_locals.mass_missed(density, near, ridges, normal, rng)
            n_gradients += n
            is_used = missed <= TRIMMED
        is_poor = made is not None and made.variance > _MOST
        # a poor map may lack mass that nobody has looked for
        if is_used and not (is_poor and (normal is not None or ridges is None)):
            return made, n_gradients
        if normal is None or ridges is None:
            return None, n_gradients
        try:
            normal, variance, n = normal_locals.with_own_law(normal, ridges, rng)
        except np.linalg.LinAlgError:  # it may have no root
            return None, n_gradients
        made = cls(through_normal(density, normal), structure, normal, variance)
        return made, n_gradients + n

    @classmethod
    def _judged(
        cls, density: CompiledDensity, structure: Structure, found: ConditionalFit,
        rng: np.random.Generator, most: float,
    ) -> "tuple[Hierarchy, int]":  # fmt: skip
        """Have a short run say V of a map, and fit it to where that has been; with the gradients.

        Of `volatility_vague` V was 9 to 66, since a tenth of the mass is where two globals are far
        out at once, and there were no nodes. A good enough map is kept where it is not halved:
        with another of `capture_recapture`, 2.1 for 3.5, errors of log Z were three times as large.
        Of many globals the variational fit may end far from the mass: V of a model of abilities was
        473, and from where the run had gone .7. Their products are dear: a fair map is kept.
        """
        maps, n_gradients = list[Hierarchy](), 0
        for n_left in range(_MOST_CONTINUED, -1, -1):
            assert found.map is not None
            mapped = through_map(density, found.map)
            seen, n, u = _variance_by_run(mapped, rng)
            n_gradients += n
            made = cls(mapped, structure, found.map, max(found.variance, seen))
            gains = not maps or made.variance < maps[-1].variance
            maps.append(made)
            is_dear = found.n_to_mend > SEARCHES["default"].n_for_one_mode
            enough = LADDER if is_dear else COARSE
            if not n_left or not gains or made.variance <= enough or n_gradients > most:
                break
            z, left = found.map.from_base(u), most - n_gradients
            is_elsewhere = made.variance > _MOST and len(structure.globals) > MANY_GLOBALS
            try:
                with np.errstate(all="ignore"):
                    if is_elsewhere:
                        found = conditional_fit(density, structure, z[-1], rng, left)
                    else:
                        found = continued(density, structure, found, z, rng, left)
            except np.linalg.LinAlgError:
                break
            n_gradients += found.n_gradients
            if found.map is None:
                break
        first, best = maps[0], min(maps, key=lambda made: made.variance)
        is_kept = best.variance > GAIN * first.variance and first.variance <= _MOST
        return first if is_kept else best, n_gradients

    @property
    def of_globals(self) -> ConditionalMap:
        """The map of the globals alone."""
        made = self.map
        if isinstance(made, NormalLocals):
            return made.of_globals
        return alone(made.arrays.mean, made.arrays.root, made.laws)

    def another_mode(
        self, rng: np.random.Generator, effort: Effort, report: Report
    ) -> tuple[GaussianBase | None, int, int]:
        """Where an ascent finds as much away from the map, if one does; and gradients of all.

        Each starts at a draw of the prior, globals and locals. Between the two are bits of the
        searches that they stand for, of those that came back.
        """
        starts = prior_points(self.density, rng, min(N_STARTS, effort.n_starts - 1))
        most = min(effort.n_gradients, effort.n_for_one_mode)
        best = _Ascent.from_place(self, np.zeros(self.density.dim), most=0)
        spent, came_back = best.n_gradients, 0
        for i, start in enumerate(starts):
            if i >= N_SEARCHES and spent > most:
                break
            report("search for modes", i, len(starts))
            end = _Ascent.from_place(self, start, best)
            is_back, n = self._is_back(end, best)
            spent += end.n_gradients + n
            if is_back is False:
                return GaussianBase(end.u, np.ones(end.u.size)), came_back, spent
            came_back |= (is_back or False) << i % N_SEARCHES
        return None, came_back, spent

    def without_own(self, found: Prepared) -> tuple[Prepared, int]:
        """Keep the best fit of the map's own mode, and those of others; and the gradients.

        Far in the tails of globals, where the map is wrong, a Gaussian fits it as poorly, and half
        of a large V counts as mass. From a mode of the locals alone an ascent ends in this.
        """
        if len(found.fits) == 1:
            return found, 0
        best = _Ascent.from_place(self, np.zeros(self.density.dim), most=0)
        spent, kept, has_own = best.n_gradients, list[GaussianBase](), False
        for fit in found.fits:
            end = _Ascent.from_place(self, fit.mean)
            is_back, n = self._is_back(end, best)
            spent += end.n_gradients + n
            is_own = bool(is_back) and end.aside <= _ASIDE
            if not (is_own and has_own):
                kept.append(fit)
            has_own |= is_own
        if len(kept) == len(found.fits):
            return found, spent
        pooled = combine_local_bases(with_images(kept, found.orbit))
        poorly = found.poorly_fitted if len(kept) > 1 else ()
        made = replace(found, pooled=pooled, fits=tuple(kept), shapes=(), poorly_fitted=poorly)
        return made, spent

    def _is_back(self, end: "_Ascent", best: "_Ascent") -> tuple[bool | None, int]:
        """Whether an ascent led to the map's mode, or rises on there; None where to less mass."""
        if best.is_near(end.place):
            return True, 0
        if end.value < best.value - NEGLIGIBLE:
            return None, 0
        is_joined, n = self._joined(best.place, end.place)
        return is_joined or (False if end.mass >= best.value - NEEDLESS else None), n

    @np.errstate(all="ignore")
    def _joined(self, a: FloatArray, b: FloatArray) -> tuple[bool, int]:
        """Whether the marginal density dips by a nat at most between two globals, on a ridge."""
        u = np.zeros((N_ON_LINE + 2, self.density.dim))
        u[:, : a.size] = np.linspace(a, b, len(u))
        z = self.map.from_base(u)
        nested = NestedLaplace(self.density.inner, self.structure, z[0])
        units = np.sqrt((self.map.arrays.root**2).sum(axis=1))
        line = nested.at(z[:, self.structure.globals], units).log_marginal
        return dip(line) <= MAX_DIP, nested.n_gradients


@np.errstate(all="ignore")
def _variance_by_run(
    mapped: CompiledDensity, rng: np.random.Generator
) -> tuple[float, int, FloatArray]:
    """Mean variance of log weights along the path from a map; gradients and draws of a short run.

    It is the rise of their mean, whose slope by beta is their variance. Draws of the map do not
    tell of mass that it lacks: with the mode far from the mass their V was 1, this 30 to 90.
    """
    base = GaussianBase(np.zeros(mapped.dim), np.ones(mapped.dim))
    positions, n_gradients = positions_by_run(mapped, base, rng)
    here = density_at(mapped.address, positions)[0] - base.log_density(positions)
    apart = here.mean() - log_weights(mapped, base, rng).mean()
    n_gradients += len(positions) + N_DRAWS
    return float(apart) if np.isfinite(apart) else np.inf, n_gradients, positions


def positions_by_run(
    density: CompiledDensity, base: GaussianBase, rng: np.random.Generator
) -> tuple[FloatArray, int]:
    """Draws (n, D) of a short run between a Gaussian and a density, and its gradients."""
    path = TemperedPath.from_base(density, base)
    ladder = Ladder(path, np.array([0.0, 1.0]), base.mean[None], rng, settings=Hamiltonian())
    run = ladder.run(N_SCANS, rng, adapt=True, keep_positions=True)
    # the first half is of the way there
    return run.target_positions[N_SCANS // 2 :], run.counts["n_gradients"] + ladder.n_off_record


class _Ascent(NamedTuple):
    """Where an ascent of the marginal density ended, in coordinates of the map: ``u`` (D,).

    ``place`` (k,) are those of the globals, ``aside`` is the largest of the locals'. ``mass`` is by
    curvature, -inf on a slope.
    """

    u: FloatArray
    place: FloatArray
    aside: float
    value: float
    mass: float
    n_gradients: int

    def is_near(self, place: FloatArray) -> bool:
        """Whether a place (k,) is where it ended."""
        return bool(np.abs(self.place - place).max() <= _WITHIN)

    @classmethod
    @np.errstate(all="ignore")
    def from_place(
        cls, hierarchy: Hierarchy, u: FloatArray, known: "_Ascent | None" = None, most: int = 40
    ) -> "_Ascent":
        """Ascend from coordinates ``u`` (D,) of the map, unless it comes back to what is known.

        By the density of the globals' own coordinates: theirs has no mode where a scale and its
        values are both among them.
        """
        made, at, law = hierarchy.map, hierarchy.structure.globals, hierarchy.of_globals
        k = at.size
        nested = NestedLaplace(hierarchy.density.inner, hierarchy.structure, made.from_base(u))
        steps = 1e-2 * np.sqrt((law.arrays.root**2).sum(axis=1))
        aside = _STEP * np.vstack([np.eye(k), -np.eye(k)])

        def falling(y: FloatArray) -> tuple[float, FloatArray]:
            g, log_det = law.forward(np.vstack([y, y + aside]))
            if not np.isfinite(g).all():
                return 1e300, np.zeros(k)
            value, slope = nested.marginal(g[0], steps)
            values = g[1:] @ slope + log_det[1:]
            pulled = (values[:k] - values[k:]) / (2.0 * _STEP)
            return (-value - log_det[0], -pulled) if np.isfinite(value) else (1e300, np.zeros(k))

        def until_known(intermediate_result: OptimizeResult) -> None:
            if known is not None and known.is_near(intermediate_result.x):
                raise StopIteration

        found = minimize(falling, u[:k], jac=True, method="BFGS", callback=until_known,
                         options={"gtol": 0.1, "maxiter": most})  # fmt: skip
        place, value = found.x, -float(found.fun)
        if value <= -1e300 or not np.isfinite(place).all():
            nowhere = np.full(u.size, np.inf)
            return cls(nowhere, nowhere[:k], np.inf, -np.inf, -np.inf, nested.n_gradients)
        end = nested.z.copy()
        end[at] = law.from_base(place)
        flat = float(np.abs(found.jac).max()) < 0.1
        u = made.to_base(end)
        beside = float(np.abs(u[k:]).max())
        mass = value + 0.5 * np.linalg.slogdet(found.hess_inv)[1] if flat else -np.inf
        return cls(u, place, beside, value, mass, nested.n_gradients)
