"""A mixture as reference: its density, draws and state; scans from it, right and wrong."""

from copy import deepcopy
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest
from laws import ExactPath, check_mixture, ladder_statistics
from loops import ladder_kernel
from planted import with_planted
from scipy import stats

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.ensembles.ladder_scans import ladder_scans
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.components import log_mixture, widest
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase, base_id
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.path import GAUSSIAN, MIXTURE
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.path.transport import MEAN, Terms, TransportMap
from pymc_tempering.errors import BaseError
from pymc_tempering.estimators.bar import bar_ladder

TARGET = testing.asymmetric_bimodal()
FITS = (
    GaussianBase(TARGET.mean + np.array([-1.2, 0.4]), np.array([0.7, 0.5])),
    GaussianBase(TARGET.mean + np.array([1.0, -0.3]), np.array([[0.6, 0.0], [0.5, 0.9]])),
)
WEIGHTS = np.array([0.3, 0.7])
WIDE = GaussianBase(TARGET.mean + 0.2, np.linalg.cholesky(2.0 * TARGET.cov))
COORDINATES = {
    "diagonal": Coordinates.of(GaussianBase(TARGET.mean, np.array([2.5, 1.5]))),
    "dense": Coordinates.of(WIDE),
}
BETAS = np.array([0.0, 0.4, 1.0])
SETTINGS = Hamiltonian(max_steps=8)


def path(coordinates=COORDINATES["dense"], weights=WEIGHTS, share=0.15, dof=1.0):
    return TemperedPath(TARGET, coordinates, Mixture(FITS, weights, share, dof))


def density(z, coordinates, weights=WEIGHTS, share=0.15, dof=1.0):
    """By SciPy."""
    base = coordinates.base
    wide = stats.multivariate_t(base.mean, base.covariance, df=dof).pdf(z)
    return share * wide + sum(
        w * stats.multivariate_normal(g.mean, g.covariance).pdf(z)
        for w, g in zip((1.0 - share) * weights, FITS, strict=True)
    )


@pytest.mark.parametrize("dof", [1.0, 6.0])
@pytest.mark.parametrize("form", COORDINATES)
def test_density_and_gradient_against_scipy(form, dof, rng):
    coordinates = COORDINATES[form]
    mixture = path(coordinates, dof=dof).mixture
    # near each component, and where all but the wide one are negligible
    far = np.array([[30.0, -20.0], [-9.0, 9.0]])
    z = np.vstack([mixture.draw(20, coordinates, rng)[0], TARGET.mean + far])
    expected = np.log(density(z, coordinates, dof=dof))
    np.testing.assert_allclose(mixture.log_density(z, coordinates), expected, rtol=1e-10)
    check_mixture(mixture, coordinates, TARGET, z)


def test_density_in_low_rank_coordinates(rng):
    """45 dimensions: the wide component is the Gaussian of the coordinates as they are."""
    dim = 45
    direction = np.linalg.qr(rng.normal(size=(dim, 1)))[0].T
    sd = np.exp(0.3 * rng.normal(size=dim))
    mean = rng.normal(size=dim)
    coordinates = Coordinates.from_rows(mean, np.vstack([sd, direction, 3.0 * direction]))
    assert coordinates.rank == 1
    np.testing.assert_allclose(
        coordinates.matrix @ direction[0], coordinates.from_base(direction[0]) - mean
    )
    factor = np.tril(0.1 * rng.normal(size=(dim, dim)), -1) + np.diag(sd)
    mixture = Mixture((GaussianBase(mean + 0.1, factor),), np.ones(1))
    target = testing.scaled_normal(dim=dim, sd=0.7)
    z, _ = mixture.draw(8, coordinates, rng)
    check_mixture(mixture, coordinates, target, z, 1e-8)


def test_density_and_gradient_in_many_dimensions(rng):
    """40, where vector instructions take over: dense, banded, mapped and diagonal components."""
    dim = 40
    dense, banded = (np.tril(0.2 * rng.normal(size=(dim, dim)), -1) for _ in range(2))
    banded[np.abs(np.subtract.outer(range(dim), range(dim))) > 2] = 0.0
    # a banded root, whose rows begin after the first column
    fits = (
        GaussianBase(rng.normal(size=dim), dense + np.diag(rng.uniform(0.5, 1.5, dim))),
        GaussianBase(np.zeros(dim), np.linalg.inv(banded + np.eye(dim))),
        TransportMap(
            np.full(dim, 0.3), rng.normal(size=(dim, dim)) / 4.0 + np.eye(dim),
            Terms(np.array([[7, MEAN, 2, 5], [39, 1, 7, -1]]), np.array([0.4, -0.2])),
        ),
        GaussianBase(rng.normal(size=dim), np.exp(0.5 * rng.normal(size=dim))),
    )  # fmt: skip
    coordinates = Coordinates.of(GaussianBase(np.full(dim, 0.1), np.linspace(0.5, 2.0, dim)))
    mixture = Mixture(fits, np.array([0.4, 0.2, 0.3, 0.1]))
    begins = mixture.in_coordinates(coordinates).begins
    assert begins[0].max() == 0 < begins[1].max()
    target = testing.scaled_normal(dim=dim, sd=0.7)
    z, component = mixture.draw(60, coordinates, rng)
    assert set(component) == {0, 1, 2, 3, 4}
    near = component > 0  # far out, where the wide component is, differences are not as exact
    check_mixture(mixture, coordinates, target, z[near], 1e-8)


def test_rows_of_roots_begin_where_they_are_not_zero(rng):
    """Two blocks of three coordinates, six on their own, and a bend between blocks."""
    blocks = np.kron(np.eye(2), np.array([[0.7, 0.0, 0.0], [-0.4, 1.2, 0.0], [0.9, 0.3, 0.5]]))
    upper = np.kron(np.eye(2), np.array([[1.5, 0.3, -0.2], [0.0, 0.8, 0.6], [0.0, 0.0, 1.1]]))
    bend = Terms(np.array([[4, MEAN, 0, 1]]), np.array([0.4]))
    mean = rng.normal(size=6)
    fits = (
        GaussianBase(mean, blocks),
        GaussianBase(mean + 0.5, np.exp(0.5 * rng.normal(size=6))),
        TransportMap(mean - 0.5, upper, bend),
    )
    mixture = Mixture(fits, np.array([0.3, 0.5, 0.2]))
    coordinates = Coordinates.of(GaussianBase(mean, np.linspace(0.8, 2.5, 6)))
    components = mixture.in_coordinates(coordinates)
    assert components.begins.tolist() == [[0, 0, 0, 3, 3, 3], [*range(6)], [0, 1, 2, 3, 4, 5]]
    exact = [fit.root if isinstance(fit, TransportMap) else np.linalg.inv(fit.scale)
             if not fit.is_diagonal else np.diag(1.0 / fit.scale) for fit in fits]  # fmt: skip
    least = [np.linalg.svd(root @ coordinates.matrix, compute_uv=False)[-1] for root in exact]
    assert np.isclose(widest(components), min(1.0, 1.0 / min(least)))
    target = testing.scaled_normal(dim=6, sd=0.7)
    z, _ = mixture.draw(40, coordinates, rng)
    check_mixture(mixture, coordinates, target, z, 1e-8)


def test_it_covers_what_lies_many_standard_deviations_out(rng):
    """Ten of them: 50 nats below the top for a Gaussian, less than 10 here."""
    coordinates = COORDINATES["dense"]
    out = rng.normal(size=(200, 2))
    z = coordinates.from_base(10.0 * out / np.linalg.norm(out, axis=1, keepdims=True))
    mixture = path().mixture
    own = mixture.log_density(z, coordinates)
    assert (own > mixture.log_density(WIDE.mean[None], coordinates) - 10.0).all()
    assert (own > np.log(0.15) + WIDE.log_density(z) + 40.0).all()


@pytest.mark.statistical
def test_draws_follow_the_density(rng):
    """Shares of the components among 40000 draws and means of their places: |z| > 5, seven."""
    coordinates, n = COORDINATES["dense"], 40_000
    # enough degrees of freedom for squares that have a variance
    dof = 9.0
    mixture = path(dof=dof).mixture
    z, component = mixture.draw(n, coordinates, rng)
    shares = np.array([0.15, 0.85 * 0.3, 0.85 * 0.7])
    owned = mixture.responsibilities(z, coordinates)
    drawn = np.bincount(component, minlength=3) / n
    assert (np.abs(drawn - shares) < 5.0 * np.sqrt(shares / n)).all()
    np.testing.assert_allclose(owned.sum(axis=1), 1.0)
    assert (np.abs(owned.mean(axis=0) - shares) < 5.0 * owned.std(axis=0) / np.sqrt(n)).all()
    means = np.stack([WIDE.mean, *(fit.mean for fit in FITS)])
    covariances = [dof / (dof - 2.0) * WIDE.covariance, *(fit.covariance for fit in FITS)]
    seconds = np.stack([c + np.outer(m, m) for c, m in zip(covariances, means, strict=True)])
    for found, exact in (
        (z, shares @ means),
        (z**2, shares @ np.diagonal(seconds, axis1=1, axis2=2)),
    ):
        error = found.std(axis=0) / np.sqrt(n)
        assert (np.abs(found.mean(axis=0) - exact) < 5.0 * error).all()


def test_weights_are_what_is_asked_for():
    for weights, share in (([0.5, 0.6], 0.15), ([0.0, 1.0], 0.15), ([0.5], 0.15), ([0.5, 0.5], 1)):
        with pytest.raises(BaseError, match="weight"):
            Mixture(FITS, np.array(weights), share)
    for dof in (0.0, np.inf):
        with pytest.raises(BaseError, match="degrees of freedom"):
            Mixture(FITS, WEIGHTS, 0.15, dof)
    with pytest.raises(BaseError, match="at least one fit"):
        Mixture((), np.ones(0))


def test_the_path_knows_its_mixture():
    own = path()
    assert own.view.reference_address == MIXTURE
    gaussian = own.starting_from(None)
    assert gaussian.view.reference_address == GAUSSIAN
    assert gaussian.base_id == base_id(WIDE)
    others = [path(weights=WEIGHTS[::-1]), path(share=0.2), path(dof=3.0), own.moved(FITS[0])]
    assert len({p.base_id for p in (own, gaussian, *others)}) == 6
    assert own.moved(FITS[0]).mixture is own.mixture
    copy = cloudpickle.loads(cloudpickle.dumps(own.mixture))
    assert copy.digest == own.mixture.digest


LAW = SimpleNamespace(
    log_density=lambda z: np.log(density(z, COORDINATES["dense"])),
    draw=lambda n, rng: path().mixture.draw(n, COORDINATES["dense"], rng)[0],
)
EXACT = ExactPath(TARGET, LAW)
# draws of the wide component have no mean
STATISTICS = ladder_statistics(EXACT, BETAS.size, lambda z: np.arctan(z - TARGET.mean))
LOG_ODDS = 0.5 * np.log(0.7 / 0.3)


def forgets_the_wide_one(components, u, residual, work):
    """Density without the defensive component, whose normaliser is then wrong, too."""
    value = log_mixture(components, u, residual, work)
    square = 0.0
    for i in range(u.shape[0]):
        square += u[i] * u[i]
    tail = 0.5 * (components.dof + u.shape[0])
    top = components.log_scales[0] - tail * np.log1p(square / components.dof)
    rest = np.exp(value) - np.exp(top)
    return np.log(rest) if rest > 0.0 else value - 30.0


def weighs_alike(components, u, residual, work):
    """Weights that are forgotten: 0.3 and 0.7 count as one half each."""
    scales = components.log_scales
    scales[1] += LOG_ODDS
    scales[2] -= LOG_ODDS
    value = log_mixture(components, u, residual, work)
    scales[1] -= LOG_ODDS
    scales[2] += LOG_ODDS
    return value


WRONG = (forgets_the_wide_one, weighs_alike)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "wrong",
    [None, *(pytest.param(w, marks=pytest.mark.slow) for w in WRONG)],
)
def test_scans_from_a_mixture_leave_every_level_invariant(wrong, rng):
    """False alarm 1e-3; a density without one of its components is found."""
    scans = with_planted(ladder_scans, {} if wrong is None else {log_mixture: wrong})
    steps = np.array([1.0, 0.2, 0.2])
    kernel = ladder_kernel(path(), BETAS, steps, settings=SETTINGS, n_scans=3, scans=scans)
    result = testing.invariance_test(
        kernel, lambda rng, n: EXACT.draw_levels(rng, n, BETAS), STATISTICS, n=50_000,
        rng=rng, vectorized=True,
    )  # fmt: skip
    assert result.rejected == (wrong is not None), result
    if wrong is None:
        moves = kernel.record.acceptance_sums / kernel.record.acceptance_sums[0]
        assert (moves > 0.5).all()


def tuned(rng, **options):
    chain = Ladder(path(**options), np.array([0.0, 1.0]), TARGET.start, rng, settings=SETTINGS)
    chain.run(400, rng, adapt=True)
    chain.stop_adaptation()
    return chain


@pytest.mark.statistical
def test_log_z_and_the_mean_from_two_levels(rng):
    """From 150 blocks of 200 scans: |t| > 5.5 at 1.6e-7 each, three."""
    chain = tuned(rng)
    found = []
    for _ in range(150):
        record = chain.run(200, rng, keep_positions=True)
        log_z = bar_ladder(record.delta, chain.betas).log_z[-1]
        found.append([log_z, *record.target_positions.mean(axis=0)])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    exact = np.array([TARGET.log_z, *TARGET.mean])
    assert (np.abs(np.mean(found, axis=0) - exact) < 5.5 * error).all()
    assert (error < [0.05, 0.25, 0.1]).all()
    assert record.counts["n_round_trips"] > 5


@pytest.mark.statistical
def test_arrivals_are_counted_for_the_component_that_was_drawn_from(rng):
    """Given a draw's place, its component follows the responsibilities, taken or not: |z| > 5."""
    chain = tuned(rng)
    counted, expected, variance, n = np.zeros(3), np.zeros(3), np.zeros(3), 0
    for _ in range(1500):
        # where the one is that may arrive, before it moves
        drawn = chain.coordinates.from_base(chain.u[chain.replica_at[:1]])
        record = chain.run(1, rng)
        arrived, there = record.from_component
        assert arrived.sum() == record.counts["n_tempered_restarts"]
        assert there.sum() <= 1
        if arrived.any():
            own = chain.mixture.responsibilities(drawn, chain.coordinates)[0]
            counted, expected = counted + arrived, expected + own
            variance, n = variance + own * (1.0 - own), n + 1
    assert n > 100
    assert (np.abs(counted - expected) < 5.0 * np.sqrt(variance)).all()
    # the components differ by far more than that
    assert np.ptp(expected) > 10.0 * np.sqrt(variance).max()


def test_what_is_recorded_of_the_reference_are_its_draws(rng):
    """Not what a swap put in their place: controls are sums over the draws."""
    chain = tuned(rng)
    draws, *_ = chain.path.draws_and_origins(400, deepcopy(rng))
    record = chain.run(400, rng)
    # a replica in the tails may stay for a hundred scans
    assert record.counts["n_tempered_restarts"] > 0
    z = chain.coordinates.from_base(draws)
    own = chain.mixture.log_density(z, chain.coordinates)
    np.testing.assert_allclose(record.delta[:, 0], TARGET.log_density(z) - own, rtol=1e-9)


def test_the_only_pair_of_two_levels_meets_in_every_scan(rng):
    chain = tuned(rng)
    swapped = set()
    # a replica in the tails may stay for a hundred scans
    for _ in range(1000):
        before, parity = chain.replica_at.copy(), chain.scan % 2
        chain.run(1, rng)
        if (chain.replica_at != before).any():
            swapped.add(parity)
    assert swapped == {0, 1}


def test_a_stored_ladder_goes_on_with_its_mixture(rng):
    chain = tuned(rng)
    state = cloudpickle.loads(cloudpickle.dumps(chain.state()))
    blank = TemperedPath.from_base(TARGET, GaussianBase(np.zeros(2), np.ones(2)))
    other = Ladder.restored(state, path=blank, settings=SETTINGS, swap_scheme=0)
    assert other.path.base_id == chain.path.base_id
    first = chain.run(20, np.random.default_rng(3))
    again = other.run(20, np.random.default_rng(3))
    np.testing.assert_array_equal(first.delta, again.delta)


def test_changing_the_mixture_keeps_the_replicas(rng):
    chain = tuned(rng)
    before = chain.positions
    for mixture in (Mixture(FITS[:1], np.ones(1)), None, Mixture(FITS, WEIGHTS)):
        chain.change_mixture(mixture)
        np.testing.assert_array_equal(chain.positions, before)
        if mixture is None:
            own = chain.base.log_density(before)
        else:
            own = mixture.log_density(before, chain.coordinates)
        np.testing.assert_allclose(
            chain.replicas.delta[chain.replica_at], TARGET.log_density(before) - own, rtol=1e-8
        )
    assert chain.run(5, rng).delta.shape == (5, 2)
