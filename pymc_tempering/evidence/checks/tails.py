"""What the density says around the draws: rounding noise, tails like a power, divergence."""

from collections.abc import Mapping, Sequence
from itertools import islice, product

import numpy as np
from scipy.stats import norm

from pymc_tempering.engine.path.climb import climb
from pymc_tempering.engine.path.divergent import BEYOND, MAX_DIM, rise_beyond
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.noise import first_noise, jitter, noisiest
from pymc_tempering.engine.path.path import Density
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings
from pymc_tempering.evidence.checks.overlap import base_reaches
from pymc_tempering.evidence.checks.priors import runaway_flat_variables
from pymc_tempering.numerics import pareto_k
from pymc_tempering.types import FloatArray, IntArray

MIN_TAIL_K = 0.45
"""Tail index of draws beyond which it is named. Default runs of ten models without such tails had
0.39 at most, six of a Student t with 1.5 degrees of freedom (index 0.67) 0.35 to 0.68, of Cauchy
and horseshoe 0.8 to 1.7; of 7000 runs of exact draws of seven light targets 10 were named
(2026-11-21)."""

MAX_DROP = 9.0
"""Nats that the density may lose ten times as far out: a power of index 0.45 loses 7.4, of 0.35 as
many as 9, and a Gaussian from half of its standard deviations on 12."""

_MIN_DRAWS = 200  # 20 of them in a tail
_N_CLIMBS = 3  # draws that climb: each costs hundreds of gradients


def noise(density: Density, z: FloatArray, names: Sequence[str]) -> Findings:
    """Draws `z` (n, D) that lie where the density is noise; `names` are those of the D coordinates.

    Such places have next to no mass in truth; one draw there says that noise was climbed. Looked at
    are the draws with the largest coordinates, since huge numbers come from these, and a few more.
    """
    farthest = np.argsort(-np.abs(z).max(axis=1))[:8]
    spread = np.linspace(0, len(z) - 1, 8).astype(int)
    for draw in z[np.concatenate([farthest, spread])]:
        if (place := first_noise(density, draw)) is None:
            continue
        i, off = noisiest(density, place), jitter(density, place)
        yield Finding(
            f"where {_in_words(names[i], place[i])} the log density jumps by {off:.2g} nats "
            "when its variables move by their last digits, and draws came to lie there or "
            "further out: it is the difference of numbers too large to be subtracted, and says "
            "nothing of the posterior. So there is no estimate.",
            {str(names[i]): float(place[i]), "jitter": off},
        )
        return


def _in_words(name: str, value: float) -> str:
    """Coordinate and value, on the scale of the variable where that is a logarithm.

    Examples
    --------
    >>> _in_words("nu_log__", 38.0), _in_words("x[2]", -3e16)
    ('nu is 3.2e+16', 'x[2] is -3e+16')
    """
    variable, log, rest = name.partition("_log__")
    return f"{variable}{rest} is {np.exp(value) if log else value:.2g}"


def _noise(run: AtHand) -> list[Finding]:
    at = run.unconstrained
    if "noise" not in at.found:
        at.found["noise"] = [*noise(*at.parts)]
    return at.found["noise"]


def heavy_tails(density: Density, z: FloatArray, names: Sequence[str]) -> Findings:
    """Coordinates along which draws and density fall off like a power of distance.

    Draws alone do not tell a tail from a light mode far away, or a slab from the spike beside it.
    So the density is asked too: ten times as far out it is lower by ``(1 + 1 / k) log 10`` where
    the tail index is k, and by far more where draws simply end. `z` are draws (n, D) of all chains.

    Examples
    --------
    >>> from pymc_tempering.testing import heavy_tail
    >>> target = heavy_tail(dof=(1.1,), loc=(0.0,), scale=(1.0,))
    >>> [finding] = heavy_tails(target, target.draw(np.random.default_rng(1), 1000), ["x"])
    >>> 0.7 < finding.measured["tail index of x"] < 1.4
    True
    """
    if len(z) < _MIN_DRAWS:
        return
    distance = z - np.median(z, axis=0)
    k = np.array([[_tail_index(sign * x) for x in distance.T] for sign in (1.0, -1.0)])
    # the largest of many indices, each from the tail of half the draws
    n_tail = min(len(z) / 10, 3.0 * np.sqrt(len(z) / 2))
    limit = max(MIN_TAIL_K, norm.isf(3e-3 / (2 * k.shape[1])) / np.sqrt(n_tail))
    heavy: dict[int, float] = {}
    for side, i in zip(*np.unravel_index(np.argsort(-k, axis=None), k.shape), strict=True):
        if k[side, i] <= limit or len(heavy) == 3:
            break
        outermost = np.argsort((1.0, -1.0)[side] * distance[:, i])[-9:]
        if i not in heavy and _falls_like_a_power(density, z, int(i), outermost):
            heavy[int(i)] = float(k[side, i])
    if not heavy:
        return
    listed = ", ".join(f"{names[i]} ({index:.2f})" for i, index in heavy.items())
    yield Finding(
        f"draws fall off like a power of the distance along {listed}; in brackets the tail "
        f"index, beyond {limit:.2f}. Moves hardly travel such tails, so that log Z may lack their "
        "mass, and its error be too small.",
        {f"tail index of {names[i]}": index for i, index in heavy.items()},
    )


def _tail_index(distance: FloatArray) -> float:
    """Pareto k of the draws beyond the median; -inf where there is none."""
    k = float(pareto_k(np.log(distance[distance > 0.0])))
    return k if np.isfinite(k) else -np.inf


def _falls_like_a_power(density: Density, z: FloatArray, i: int, rows: IntArray) -> bool:
    """Whether the density lasts ten times as far out, the others kept, taken along, or fitted."""
    centre, spread = np.median(z, axis=0), z.std(axis=0)
    path = TemperedPath.from_base(density, GaussianBase(centre, spread)).view
    near, outward = (z[rows] - centre) / spread, 10.0
    far = near.copy()
    far[:, i] *= outward
    top = new_replicas(path, near).log_target
    drop = top - new_replicas(path, far).log_target
    # all coordinates of a multivariate t are far out at once, where each gives more room
    together = top - new_replicas(path, outward * near).log_target - near.shape[1] * np.log(outward)
    if min(np.median(drop), np.median(together)) <= MAX_DROP:
        return True
    # a scale that governs the coordinate, and grows with it, is a part of the same tail
    tops = [[climb(path, u[row], fixed=i)[1] for u in (near, far)]
            for row in range(len(rows))[:: max(len(rows) // _N_CLIMBS, 1)]
            if np.isfinite(drop[row])]  # fmt: skip
    fitted = np.array([top[0] - top[1] for top in tops])
    return bool(fitted.size and 0.0 <= np.median(fitted) <= MAX_DROP)


def rise_of_search(arrays: Mapping[str, FloatArray], names: Sequence[str]) -> Findings:
    """Whether the search for modes saw the mass rise without end; `arrays` are of the search."""
    along = arrays.get("search_rise_along", np.array([-1]))
    chain = along.argmax()
    if along[chain] < 0:
        return
    rises = [arrays[name][chain] for name in ("search_rise", "search_rise_beyond")]
    yield _rising(names[int(along[chain])], rises)


def rising_mass(density: Density, z: FloatArray, names: Sequence[str]) -> Findings:
    """Whether mass rises far beyond all draws; see :mod:`pymc_tempering.engine.path.divergent`."""
    if (spread := _spread(z)) is None:
        return
    base = GaussianBase(z.mean(axis=0), spread)
    path = TemperedPath.from_base(density, base).view
    for start in base.to_base(z[np.linspace(0, len(z) - 1, _N_CLIMBS).astype(int)]):
        end = base.mean + base.standard_deviation * climb(path, start)[0]
        rise = rise_beyond(density, base, end)
        if rise.coordinate >= 0:
            yield _rising(names[rise.coordinate], rise.nats)
            return


def _spread(z: FloatArray) -> FloatArray | None:
    """Standard deviations of draws; None for draws that are too few, or too wide to look around."""
    spread: FloatArray = z.std(axis=0)
    if len(z) < _MIN_DRAWS or z.shape[1] > MAX_DIM or not (spread > 0.0).all():
        return None
    return spread


def _rising(name: str, rises: Sequence[float]) -> Finding:
    """Warning that the mass rises by so many nats beyond all draws, and by so many beyond that."""
    first, second = map(float, rises)
    return Finding(
        f"along {name} density and width together rise by {first:.0f} nats from {BEYOND:.0f} to "
        f"{2 * BEYOND:.0f} standard deviations away, and by {second:.0f} more within as many: "
        "it has no finite integral there, or nearly all of its mass where no draw is, whatever is "
        "printed.",
        {f"rise along {name}": [first, second]},
        remedy="Look at what the density does there: a scale that can shrink onto data that are "
        "equal needs a prior that keeps it from zero, or data with their rounding.",
    )


def plateau(density: Density, z: FloatArray, names: Sequence[str]) -> Findings:
    """Whether the density lasts along a coordinate, so that its integral diverges."""
    if (spread := _spread(z)) is None:
        return
    centre = np.median(z, axis=0)
    path = TemperedPath.from_base(density, GaussianBase(centre, spread)).view
    # the last three are beyond the width of any funnel that is as wide where its density has not
    # fallen by 700 nats; squares of them are numbers still
    distances = 2.0 ** np.array([*range(21), 40, 80, 160])
    way = np.tile((z[len(z) // 2] - centre) / spread, (distances.size, 1))
    top = new_replicas(path, way[:1]).log_target[0]
    for i, sign in product(range(z.shape[1]), (1.0, -1.0)):
        u = way.copy()
        u[:, i] = sign * distances
        # one that has fallen by so much after six doublings holds nothing beyond
        far = new_replicas(path, u[6:7]).log_target[0]
        if np.isfinite(far) and far < top - 700.0:
            continue
        masses = new_replicas(path, u).log_target + np.log(distances)
        # beyond the first that is not finite numbers overflow, or the support ends
        n = int(np.append(np.isfinite(masses), False).argmin())
        # over the last three doublings density times distance lasts: with each a tail that has the
        # index of 500 loses more
        if n >= 4 and np.diff(masses[n - 4 : n]).min() > -1e-3:
            reach = float(distances[n - 1])
            yield Finding(
                f"along {names[i]} the density falls no faster than one over the distance, as "
                f"far as {reach:.3g} standard deviations of the draws: it has no finite "
                "integral there, whatever is printed.",
                {f"distance along {names[i]}": reach},
            )
            return


def _heavy(run: AtHand) -> Findings:
    if not _noise(run) and not base_reaches(run.statistics):
        yield from heavy_tails(*run.unconstrained.parts)


def _divergent(run: AtHand) -> Findings:
    """By the first way that shows it, the cheapest before others."""
    yield from runaway_flat_variables(run)
    if run.unconstrained is not None and not _noise(run):
        density, z, names = run.unconstrained.parts
        yield from rise_of_search(run.arrays, names)
        yield from rising_mass(density, z, names)
        yield from plateau(density, z, names)


CHECKS = (
    Check(
        "rounding_noise",
        "Draws lie where the log density is the difference of numbers above 10^15, as of two "
        "`gammaln` of a Student t with huge degrees of freedom. It jumps there when a variable "
        "moves by its last digits, and moves climb the jumps. There is no estimate (`nan`).",
        "Keep the variable from such values, by a bound or a prior with lighter tails, or write "
        "the density so that large terms cancel, as a normal in place of a Student t of a million "
        "degrees of freedom.",
        _noise,
        ("model", "unconstrained"),
        lasting=True,
        is_cause=True,
        refuses=True,
    ),
    Check(
        "heavy_tails",
        "On the unconstrained scale draws and density fall off like a power of the distance along "
        "a coordinate: the tail index is above 0.45, more with many coordinates; from 0.5 on "
        "there is no variance. And the base is thinner than the posterior there, so that it draws "
        "no excursions itself. Moves are made for tails like a Gaussian's; log Z may lack the "
        "mass of the tails, and its error be too small. Parallel tempering fits tails into its "
        "base, and then there is no warning; other methods do not.",
        "Raise `draws` and compare; put a prior on what lets the tail grow; or, where scales "
        "shrink and grow with it as in a horseshoe, pass explorer='gist', whose steps follow them.",
        _heavy,
        ("unconstrained",),
        lasting=True,
    ),
    Check(
        "divergent_integral",
        "The posterior has no finite integral, and log Z is infinite whatever is printed. Draws of "
        "a flat variable lie more than 10^7 from their median; or density and width together still "
        "rise ten and twenty standard deviations uphill of the draws, as where a scale can shrink "
        "onto observations that are equal; or along one value the density falls no faster than one "
        "over the distance, as along the logarithm of a scale with a flat prior and a single "
        "observation. Looked for in up to 100 dimensions, and only uphill of draws.",
        "Give the variable a proper prior, or more data than leave it free.",
        lambda run: islice(_divergent(run), 1),
        ("model", "idata"),
        lasting=True,
        is_cause=True,
    ),
)
