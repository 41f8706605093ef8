"""From a compiled model to where tempering starts: once for a model, and shared by all chains."""

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.engine.threads import one_blas_thread
from pymc_tempering.model.compile import CompiledDensity, compile_density
from pymc_tempering.model.prior_points import prior_points
from pymc_tempering.options import check_choice, check_positive, check_random_seed, resolve_model
from pymc_tempering.references.search import find_modes
from pymc_tempering.references.watch import Report, unwatched
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["Prepared", "fit_base", "prepare", "shared_generator"]

METHODS = ("advi",)

N_PRIOR_STARTS = 12
"""Starts of the local fits that are drawn from the prior, where it can be drawn from."""

_SHARED_KEY = 2**32 - 1


@dataclass(frozen=True)
class Prepared:
    """What is known of a target before any tempering.

    Attributes
    ----------
    anchor : GaussianBase
        The local fits combined by matched moments, with an ELBO as ``log_zeta``.
    fits : tuple of GaussianBase
        The distinct local fits, not widened.
    """

    anchor: GaussianBase
    fits: tuple[GaussianBase, ...]

    @cached_property
    def modes(self) -> FloatArray:
        """Means of the fits, ``z``, shape (n_modes, D)."""
        return np.stack([fit.mean for fit in self.fits])


@density_guard()
def prepare(
    density: Density,
    start: FloatArray,
    rng: np.random.Generator,
    *,
    n_starts: int | None = None,
    report: Report = unwatched,
) -> Prepared:
    """Find the modes of a target and fit each: the pipeline that everything starts from.

    Full-rank local fits from the initial point, jitter around it and draws of the prior; a search
    by annealed particles for modes beyond them; all combined into one Gaussian.

    Parameters
    ----------
    density : Density
        The prior of a compiled model gives further starts.
    start : ndarray of shape (D,)
    rng : numpy.random.Generator
    n_starts : int, optional
        See :func:`.search.find_modes`.
    report : callable
        See :data:`pymc_tempering.references.watch.Report`.

    Raises
    ------
    BaseError
        If no fit succeeded.
    """
    report("starting points", 0, 0)
    with one_blas_thread():
        points = None
        if isinstance(density, CompiledDensity):
            points = prior_points(density, rng, N_PRIOR_STARTS)
        fits, anchor = find_modes(
            density, start, rng, prior_points=points, n_starts=n_starts, report=report
        )
    report("first draw", 0, 0)
    return Prepared(anchor, tuple(fits))


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
    n_starts: int | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> GaussianBase:
    """Fit a Gaussian base to a model, as the steps do.

    1. Mean-field ADVI from the model's initial point, from draws of its prior, and from mirrored
       pairs of points around the initial one, at 1 to 10 times the larger of 1 and the standard
       deviation of the first fit; more of them while new modes are found.
    2. Full-rank fits of the distinct modes among these.
    3. A search for modes beyond them, by particles annealed from afar.
    4. All combined by matched moments (eq. 26 of Graham & Storkey), with weights that leave out no
       mode.

    Steps widen the result by a fifth to a third and refine it from their own draws.

    Parameters
    ----------
    model : pymc.Model, optional
        By default the model of the current context.
    method : str, default "advi"
        How each local fit is found. Valid: "advi".
    n_starts : int, optional
        Number of starts in step 1 that are no draws of the prior. By default 19, or 31 for models
        whose prior cannot be drawn from, and up to 61 while new modes are found. 1 for targets
        known to be unimodal.
    random_seed : int or numpy.random.Generator, optional
        Seed of starts and fits; an int gives what a run with this seed starts from.

    Returns
    -------
    GaussianBase
        With ``log_zeta`` the log sum of the local ELBOs, in nats.

    Raises
    ------
    OptionError
        If the method is unknown or ``n_starts`` is below 1.
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
    if n_starts is not None:
        check_positive("n_starts", n_starts, integer=True)
    check_random_seed(random_seed)
    density = compile_density(model)
    rng = shared_generator(np.random.default_rng(random_seed))
    return prepare(density, density.start, rng, n_starts=n_starts).anchor
