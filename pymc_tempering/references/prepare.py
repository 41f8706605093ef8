"""From a compiled model to where tempering starts: once for a model, and shared by all chains."""

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density
from pymc_tempering.errors import OptionError
from pymc_tempering.model.compile import CompiledDensity, compile_density, prior_points
from pymc_tempering.model.point import CoordinateMap
from pymc_tempering.model.symmetries import Symmetries
from pymc_tempering.numerics import one_blas_thread
from pymc_tempering.options import check_choice, check_random_seed, resolve_model
from pymc_tempering.references.hierarchy import Hierarchy
from pymc_tempering.references.population import fit_by_draws
from pymc_tempering.references.posterior import NEARBY, PosteriorDraws
from pymc_tempering.references.prepared import SEARCHES, Prepared, Report, unwatched
from pymc_tempering.references.search import find_modes
from pymc_tempering.references.sources import SOURCES, Images
from pymc_tempering.references.survey import NEGLIGIBLE
from pymc_tempering.references.transport_maps import NEEDLESS, fit_maps
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm

N_PRIOR_STARTS = 512
"""Starts of the search that are drawn from the prior, where it can be drawn from."""

N_PRIOR_STARTS_OF_ONE = 64
"""The same where one mode is known, and ascents from others take 100 gradients and more each: an
autoregression of 300 values takes longer to draw 512 times than to fit."""


@density_guard()
def prepare(  # noqa: C901, PLR0913 - what a run knows, and each way to begin
    density: Density, start: FloatArray, rng: np.random.Generator, *, search: str = "default",
    bend: bool = False, most: float = np.inf, report: Report = unwatched,
    draws: PosteriorDraws | None = None, hierarchy: Hierarchy | None = None, spent: int = 0,
) -> Prepared:  # fmt: skip
    """Find the modes of a target and fit each: the pipeline that everything starts from.

    Without a gradient, one Gaussian from weighted draws (:mod:`.population`). ``search`` is one of
    :data:`.prepared.SEARCHES`; ``bend`` is whether what is sampled can start from transport maps;
    ``most`` are the gradients that it may take. With ``draws`` of a posterior of less data modes
    are looked for around these alone; ``hierarchy`` is that whose map the density is in the
    coordinates of, and ``spent`` the gradients before. Raises BaseError if no fit succeeded.
    """
    report("starting points", 0, 0)
    n_each = 1
    with one_blas_thread():
        found: Prepared
        points, effort, known, came_back = None, SEARCHES[search].within(most), None, 0
        other: GaussianBase | None = None
        no_gradient = isinstance(density, CompiledDensity) and density.no_gradient
        if hierarchy is not None:
            other, came_back, n_ascents = hierarchy.another_mode(rng, effort, report)
            spent += n_ascents
            if other is None:
                # ends of ascents on slopes of funnels are not worth the gradients of many modes
                effort = effort.for_one_mode(n_ascents)
                # the map's own normal, which takes no matrix
                known = GaussianBase(np.zeros(density.dim), np.ones(density.dim))
            n_each = hierarchy.density.n_each
            effort = effort.of(n_each)
            start, bend = np.zeros(density.dim), False
        if draws is not None:
            nearby = None if no_gradient else NEARBY.within(most)
            points = np.empty((0, density.dim))
            if isinstance(density, CompiledDensity):
                points = prior_points(density, rng, NEARBY.n_starts // 2)
            found = draws.prepare(density, rng, prior_points=points, effort=nearby, report=report)
        elif isinstance(density, CompiledDensity) and no_gradient:
            points = prior_points(density, rng, N_PRIOR_STARTS)
            found = fit_by_draws(density, start, rng, prior_points=points, most=most, report=report)
        else:
            images: Images | None = None
            exchanges = None
            if isinstance(density, CompiledDensity):
                n = N_PRIOR_STARTS if known is None else N_PRIOR_STARTS_OF_ONE
                points = prior_points(density, rng, min(n, effort.n_starts))
                symmetries = Symmetries.of(density.points, density.model)
                images, exchanges = symmetries.images, symmetries.exchanges
                if (made := density.points.map) is not None:
                    images, exchanges = _through(images, made), None
                if density.points.innovations is not None:
                    # images are of the series
                    images = None
            found = find_modes(
                density, start, rng,
                prior_points=points, images=images, exchanges=exchanges,
                effort=effort, report=report, sources=SOURCES,
                # of less a map may have no draws
                negligible=NEGLIGIBLE if known is None else NEEDLESS,
                known=known, known_to=came_back,
            )  # fmt: skip
            if known is not None and hierarchy is not None:
                found, n_ascents = hierarchy.without_own(found)
                spent += n_ascents
            if other is not None:
                # where the map does not reach an ascent may stop short of it, with hardly a mass
                found = replace(found, poorly_fitted=(*found.poorly_fitted, other))
            if bend:
                left = most - found.search.n_gradients
                found = fit_maps(density, found, rng, most=left, report=report)
    report("first draw", 0, 0)
    if not spent:
        return found
    seen = replace(found.search, n_gradients=n_each * found.search.n_gradients + spent)
    if hierarchy is not None and seen.rise_along >= 0:
        # a coordinate of the map is that of one value of the model, in another order
        seen = replace(seen, rise_along=int(hierarchy.map.arrays.order[seen.rise_along]))
    return replace(found, search=seen)


def _through(images: Images, made: CoordinateMap) -> Images:
    """Images of places in the coordinates of a map."""
    return lambda u: made.to_base(images(made.from_base(u)))


def shared_generator(rng: np.random.Generator) -> np.random.Generator:
    """Generator that is the same for all chains of a run, made from that of any one.

    Chains have generators spawned from one, and keep the entropy of that one; only the last entry
    of the spawn key tells them apart.
    """
    sequence = rng.bit_generator.seed_seq
    if not isinstance(sequence, np.random.SeedSequence):
        # it cannot be spawned, so that it is of one chain; a copy leaves the chain's own alone
        return np.random.default_rng(deepcopy(rng).integers(2**63, size=4))
    key = (*sequence.spawn_key[:-1], 2**32 - 1)
    return np.random.default_rng(
        np.random.SeedSequence(sequence.entropy, spawn_key=key, pool_size=sequence.pool_size)
    )


def fit_base(
    model: "pm.Model | None" = None, *unknown: object, search: str = "default",
    random_seed: int | np.random.Generator | None = None, **options: object,
) -> GaussianBase:  # fmt: skip
    """Fit a Gaussian base to a model, as the steps do.

    1. Ascents from draws of the prior and from jitter around the initial point and the first mode:
       as many as 50,000 gradients allow, or 15,000 and fewer while only one mode matters. Images of
       the highest modes under symmetries of the model.
    2. A Gaussian from the curvature at each distinct maximum (Laplace approximation). Where the
       density is no Gaussian, a variational fit of full rank by regression of gradients, which
       begins at the best place on the ascent path.
    3. All combined by matched moments (eq. 26 of Graham & Storkey), with weights that leave out no
       mode.

    Steps widen the result by a fifth to a third and refine it from their own draws.

    Parameters
    ----------
    model : pymc.Model, optional
        By default the model of the current context.
    search : {"default", "thorough", "none"}
        "thorough" has ten times the gradients for ascents; "none" is one start, for targets known
        to be unimodal.
    random_seed : int or numpy.random.Generator, optional
        Seed of starts and fits; an int gives what a run with this seed starts from.

    Returns
    -------
    GaussianBase
        With ``log_zeta`` the log sum of the local ELBOs, in nats.

    Raises
    ------
    OptionError
        If the search is unknown, or another argument is given.
    BaseError
        If no fit succeeded.
    ModelError
        If the model cannot be compiled.

    References
    ----------
    Graham & Storkey, Continuously tempered Hamiltonian Monte Carlo, UAI 2017, section 6, eq. 26.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     x = pm.Normal("x", 3.0, 2.0)
    ...     base = fit_base(random_seed=1)
    >>> bool(abs(base.mean[0] - 3.0) < 0.3), bool(abs(base.scale[0] - 2.0) < 0.3)
    (True, True)
    """
    if unknown or options:
        raise OptionError(
            f"`fit_base` was given {[*unknown, *sorted(options)]}; expected a model, and `search` "
            "and `random_seed` alone. There is one way to fit, Laplace approximations and "
            "variational fits by regression: leave `method` away."
        )
    model = resolve_model(model, "fit_base")
    check_choice("search", search, SEARCHES)
    check_random_seed(random_seed)
    density = compile_density(model)
    rng = shared_generator(np.random.default_rng(random_seed))
    return prepare(density, density.start, rng, search=search).pooled
