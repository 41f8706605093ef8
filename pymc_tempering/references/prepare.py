"""From a compiled model to where tempering starts: once for a model, and shared by all chains."""

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.engine.threads import one_blas_thread
from pymc_tempering.model.compile import CompiledDensity, compile_density, prior_points
from pymc_tempering.model.symmetries import Symmetries
from pymc_tempering.options import check_choice, check_random_seed, resolve_model
from pymc_tempering.references.images import Images, no_images
from pymc_tempering.references.population import fit_by_draws
from pymc_tempering.references.prepared import Prepared
from pymc_tempering.references.search import SEARCHES, find_modes
from pymc_tempering.references.transport_maps import fit_maps
from pymc_tempering.references.watch import Report, unwatched
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["fit_base", "prepare", "shared_generator"]

METHODS = ("advi",)

N_PRIOR_STARTS = 512
"""Starts of the search that are drawn from the prior, where it can be drawn from."""

_SHARED_KEY = 2**32 - 1


@density_guard()
def prepare(
    density: Density,
    start: FloatArray,
    rng: np.random.Generator,
    *,
    search: str = "default",
    bend: bool = False,
    most: float = np.inf,
    report: Report = unwatched,
) -> Prepared:
    """Find the modes of a target and fit each: the pipeline that everything starts from.

    Ascents from the initial point, from jitter around it and from draws of the prior; full-rank
    local fits of the distinct modes; all combined into one Gaussian. Without a gradient, one
    Gaussian from weighted draws (:mod:`.population`).

    Parameters
    ----------
    density : Density
        The prior of a compiled model gives further starts.
    start : ndarray of shape (D,)
    rng : numpy.random.Generator
    search : {"default", "thorough", "none"}
        See :data:`.search.SEARCHES`.
    bend : bool
        Whether what is sampled can start from bent fits (:mod:`.bending`).
    most : float
        Gradients that it may take.
    report : callable
        See :data:`pymc_tempering.references.watch.Report`.

    Raises
    ------
    BaseError
        If no fit succeeded.
    """
    report("starting points", 0, 0)
    with one_blas_thread():
        points, effort = None, SEARCHES[search].within(most)
        if isinstance(density, CompiledDensity) and density.no_gradient:
            points = prior_points(density, rng, N_PRIOR_STARTS)
            found: Prepared = fit_by_draws(
                density, start, rng, prior_points=points, most=most, report=report
            )
        else:
            images: Images = no_images
            if isinstance(density, CompiledDensity):
                points = prior_points(density, rng, min(N_PRIOR_STARTS, effort.n_starts))
                images = Symmetries.of(density.points, density.model).images
            found = find_modes(
                density, start, rng,
                prior_points=points, images=images, effort=effort, report=report,
            )  # fmt: skip
            if bend:
                left = most - found.search.n_gradients
                found = fit_maps(density, found, rng, most=left, report=report)
    report("first draw", 0, 0)
    return found


def shared_generator(rng: np.random.Generator) -> np.random.Generator:
    """Generator that is the same for all chains of a run, made from that of any one.

    Chains have generators spawned from one, and keep the entropy of that one; only the last entry
    of the spawn key tells them apart.

    Parameters
    ----------
    rng : numpy.random.Generator
        Of a chain.

    Examples
    --------
    >>> first, second = np.random.default_rng(5).spawn(2)
    >>> shared_generator(first).random() == shared_generator(second).random()
    True
    >>> shared_generator(np.random.default_rng(5)).random() == shared_generator(first).random()
    True
    """
    sequence = rng.bit_generator.seed_seq
    if not isinstance(sequence, np.random.SeedSequence):
        # it cannot be spawned, so that it is of one chain; a copy leaves the chain's own alone
        return np.random.default_rng(deepcopy(rng).integers(2**63, size=4))
    key = (*sequence.spawn_key[:-1], _SHARED_KEY)
    return np.random.default_rng(
        np.random.SeedSequence(sequence.entropy, spawn_key=key, pool_size=sequence.pool_size)
    )


def fit_base(
    model: "pm.Model | None" = None,
    method: str = "advi",
    *,
    search: str = "default",
    random_seed: int | np.random.Generator | None = None,
) -> GaussianBase:
    """Fit a Gaussian base to a model, as the steps do.

    1. Ascents from the model's initial point, from draws of its prior, and from mirrored pairs of
       points around the initial one and the first mode, which differ in few coordinates or in all,
       at 0.5 to 15 times the standard deviation of the first fit or the larger of it and 1: as
       many as 50,000 gradients allow, or while one mode matters 6,000 and 1,500 for each dimension,
       15,000 at most. A start at which density and gradient are those of a known mode counts for it
       without an ascent, and so does an ascent that comes inside the first one. Images of the
       highest modes, with labels exchanged or signs turned, where the density is nearly as high.
    2. Gaussians from the curvature at the distinct ends; where the density is no Gaussian,
       variational fits (ADVI) of full rank, from the best place on the way to the end; where the
       end is outside of the fit also on the ways of six draws of the prior, since a density may
       rise from one mode into another.
    3. All combined by matched moments (eq. 26 of Graham & Storkey), with weights that leave out no
       mode.

    Steps widen the result by a fifth to a third and refine it from their own draws.

    Parameters
    ----------
    model : pymc.Model, optional
        By default the model of the current context.
    method : str, default "advi"
        How each local fit is found. Valid: "advi".
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
        If the method or the search is unknown.
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
    model = resolve_model(model, "fit_base")
    check_choice("method", method, METHODS)
    check_choice("search", search, SEARCHES)
    check_random_seed(random_seed)
    density = compile_density(model)
    rng = shared_generator(np.random.default_rng(random_seed))
    return prepare(density, density.start, rng, search=search).pooled
