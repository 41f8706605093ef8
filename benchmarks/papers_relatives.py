"""Relatives of the package's methods that the founding papers name, and whether to have them.

Tempered transitions (Neal 1996), Wang-Landau biasing of beta (2001; metadynamics is the same for a
continuous beta), tempering by data points (Jasra, Stephens & Holmes 2007), and adiabatic Monte
Carlo (Betancourt 2014), beside parallel tempering as in the package (DEO swaps, fresh draws of the
base, MBAR) at equal numbers of evaluations. All have the same moves, random walks of the scale of
the level, and the same levels. Two modes of unlike width, 30 and 70 % of the mass, in one and in
eight dimensions; for data points a model with two modes, and a conjugate regression.
"""

import argparse

import numpy as np
from figures import console, rmse, table
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.estimators.rts import rts

SHARE, LOG_Z = 0.7, 1.7
WIDE = 4.0


class TwoModes:
    """Modes at -3 (sd 0.8, 30 %) and 3 (sd 0.5, 70 %) of the first coordinate; base N(0, 16 I)."""

    def __init__(self, dim):
        self.dim = dim

    def delta(self, x):
        """Log target less log base, nats."""
        parts = [
            np.log(weight) + norm.logpdf(x[..., 0], place, sd)
            + norm.logpdf(x[..., 1:], 0.0, sd).sum(axis=-1)
            for weight, place, sd in ((1.0 - SHARE, -3.0, 0.8), (SHARE, 3.0, 0.5))
        ]  # fmt: skip
        return LOG_Z + logsumexp(parts, axis=0) - norm.logpdf(x, 0.0, WIDE).sum(axis=-1)

    def move(self, x, delta, betas, rng):
        """One random walk at inverse temperatures, an evaluation each."""
        sd = 1.0 / np.sqrt((1.0 - betas) / WIDE**2 + betas / 0.6**2)
        new = x + (2.4 / np.sqrt(self.dim) * sd)[..., None] * rng.standard_normal(x.shape)
        new_delta = self.delta(new)
        log_ratio = 0.5 * ((x**2).sum(axis=-1) - (new**2).sum(axis=-1)) / WIDE**2
        log_ratio += betas * (new_delta - delta)
        moved = np.log(rng.random(delta.shape)) < log_ratio
        return np.where(moved[..., None], new, x), np.where(moved, new_delta, delta)

    def fresh(self, shape, rng):  # noqa: D102
        x = WIDE * rng.standard_normal((*shape, self.dim))
        return x, self.delta(x)


def schedule(dim):
    n = 8 if dim == 1 else 14
    return np.linspace(0.0, 1.0, n) ** (2 if dim == 1 else 3)


def parallel_tempering(target, betas, n_evaluations, repeats, rng):
    n_levels = betas.size
    x, delta = target.fresh((repeats, n_levels), rng)
    deltas, right = [], []
    for scan in range(n_evaluations // n_levels):
        x[:, 1:], delta[:, 1:] = target.move(
            x[:, 1:], delta[:, 1:], np.tile(betas[1:], (repeats, 1)), rng
        )
        x[:, 0], delta[:, 0] = target.fresh((repeats,), rng)
        for k in range(scan % 2, n_levels - 1, 2):
            log_odds = (betas[k + 1] - betas[k]) * (delta[:, k] - delta[:, k + 1])
            swap = np.log(rng.random(repeats)) < log_odds
            for array in (x, delta):
                array[swap, k], array[swap, k + 1] = array[swap, k + 1], array[swap, k].copy()
        deltas.append(delta.copy())
        right.append(x[:, -1, 0] > 0.0)
    deltas, first = np.array(deltas), len(deltas) // 5
    log_z = [mbar(deltas[first:, r], betas).log_z[-1] for r in range(repeats)]
    return np.array(log_z), np.array(right)[first:].mean(axis=0)


def tempered_transitions(target, betas, n_evaluations, repeats, rng):
    """Up to a fresh draw of the base and down again, after as many moves at beta = 1.

    The way down is annealing, the way up its reverse, so that Bennett's ratio of both has log Z.
    """
    n_levels = betas.size
    x, delta = target.fresh((repeats,), rng)
    down, up, right, accepted = [], [], [], []
    ones = np.ones(repeats)
    for _ in range(n_evaluations // (4 * n_levels)):
        for _ in range(2 * n_levels):
            x, delta = target.move(x, delta, ones, rng)
            right.append(x[:, 0] > 0.0)
        y, of_y, log_up = x, delta, np.zeros(repeats)
        for k in range(n_levels - 1, 0, -1):
            log_up += (betas[k] - betas[k - 1]) * of_y
            if k > 1:
                y, of_y = target.move(y, of_y, betas[k - 1] * ones, rng)
        y, of_y = target.fresh((repeats,), rng)
        log_down = np.zeros(repeats)
        for k in range(1, n_levels):
            log_down += (betas[k] - betas[k - 1]) * of_y
            if k < n_levels - 1:
                y, of_y = target.move(y, of_y, betas[k] * ones, rng)
        accept = np.log(rng.random(repeats)) < log_down - log_up
        x, delta = np.where(accept[:, None], y, x), np.where(accept, of_y, delta)
        down.append(log_down)
        up.append(log_up)
        accepted.append(accept)
    first = len(down) // 5
    pairs = np.stack([down, up], axis=-1)[first:]
    log_z = [bar_ladder(pairs[:, r], [0.0, 1.0]).log_z[-1] for r in range(repeats)]
    return np.array(log_z), np.array(right)[len(right) // 5 :].mean(axis=0), np.mean(accepted)


def wang_landau(target, betas, n_evaluations, repeats, rng):
    """Simulated tempering whose weights adapt by 1 / t; and RTS from the half with fixed ones."""
    n_levels = betas.size
    x, delta = target.fresh((repeats,), rng)
    level, weights = np.zeros(repeats, dtype=int), np.zeros((repeats, n_levels))
    rows = np.arange(repeats)
    kept, weighed, counted = [], np.zeros(repeats), np.zeros(repeats)
    adapted = weights
    for t in range(n_evaluations):
        moved = target.move(x, delta, betas[level], rng)
        base = target.fresh((repeats,), rng)
        x, delta = (np.where((level == 0).reshape(-1, *[1] * (a.ndim - 1)), b, a)
                    for a, b in zip(moved, base, strict=True))  # fmt: skip
        log_q = weights + betas * delta[:, None]
        q = np.exp(log_q - logsumexp(log_q, axis=1, keepdims=True))
        level = np.minimum(
            (q.cumsum(axis=1) < rng.random(repeats)[:, None]).sum(axis=1), n_levels - 1
        )
        if t < n_evaluations // 2:
            weights = weights - n_levels * min(1.0, 20.0 / (t + 1)) * (q - 1.0 / n_levels)
            adapted = weights
        else:
            kept.append(delta.copy())
            weighed += q[:, -1] * (x[:, 0] > 0.0)
            counted += q[:, -1]
    kept = np.array(kept)
    from_rts = [rts(kept[:, r], betas, weights[r]).log_z[-1] for r in rows]
    return np.array(from_rts), weighed / counted, adapted[:, 0] - adapted[:, -1]


def study_of_modes(dim, n_evaluations, repeats, seed):
    target, betas = TwoModes(dim), schedule(dim)
    pt = parallel_tempering(target, betas, n_evaluations, repeats, np.random.default_rng(seed))
    transitions = tempered_transitions(
        target, betas, n_evaluations, repeats, np.random.default_rng(seed)
    )
    biased = wang_landau(target, betas, n_evaluations, repeats, np.random.default_rng(seed))
    found = {
        "parallel tempering, MBAR": pt,
        "tempered transitions, BAR": transitions[:2],
        "Wang-Landau, then RTS": biased[:2],
        "Wang-Landau, its weights": (biased[2], np.full(repeats, np.nan)),
    }
    errors = {name: (rmse(z - LOG_Z), rmse(share - SHARE)) for name, (z, share) in found.items()}
    rows = [[name, f"{a:.3f}", f"{b:.3f}"] for name, (a, b) in errors.items()]
    table(f"two modes, {dim} dimensions, {n_evaluations:,} evaluations, {repeats} repeats",
          ["", "RMSE of log Z", "RMSE of the share"], rows)  # fmt: skip
    console.print(f"Tempered transitions accepted: {transitions[2]:.3f}.")
    return errors


def paths_of_data(log_prior, draw_prior, log_each, scale, sizes, n_units, repeats, rng):
    """RMSE-ready log Z of parallel tempering by powers, and by numbers of data points.

    ``n_units`` are evaluations of single data points; ``scale(share)`` the size of moves.
    """
    n_data = sizes[-1]
    found = []
    for by_points in (False, True):
        cost = sum(sizes) if by_points else n_data * len(sizes)
        n_scans = int(n_units // cost)
        given = log_prior, draw_prior, log_each, scale, sizes, by_points, n_scans, rng
        found.append(np.array([_one_path(*given) for _ in range(repeats)]))
    return found


def _one_path(log_prior, draw_prior, log_each, scale, sizes, by_points, n_scans, rng):
    n_levels, n_data = len(sizes), sizes[-1]
    shares = np.array(sizes) / n_data
    # (level, point): what each level counts every data point with
    weights = np.array([np.arange(n_data) < m for m in sizes]) if by_points else (
        np.repeat(shares[:, None], n_data, axis=1)
    )  # fmt: skip
    x = draw_prior(n_levels, rng)
    each = log_each(x)
    steps = np.array([scale(share) for share in shares])
    forward, reverse = [], []
    for scan in range(n_scans):
        new = x + steps[:, None] * rng.standard_normal(x.shape)
        of_new = log_each(new)
        ratio = log_prior(new) - log_prior(x) + (weights * (of_new - each)).sum(axis=1)
        moved = np.log(rng.random(n_levels)) < ratio
        x, each = np.where(moved[:, None], new, x), np.where(moved[:, None], of_new, each)
        x[0] = draw_prior(1, rng)[0]
        each[0] = log_each(x[:1])[0]
        gain = (np.diff(weights, axis=0)[:, None] * np.stack([each[:-1], each[1:]], 1)).sum(axis=2)
        for k in range(scan % 2, n_levels - 1, 2):
            if np.log(rng.random()) < gain[k, 0] - gain[k, 1]:
                x[[k, k + 1]], each[[k, k + 1]] = x[[k + 1, k]], each[[k + 1, k]]
                gain[k] = gain[k, ::-1]
        if scan >= n_scans // 5:
            gain = (np.diff(weights, axis=0)[:, None] * np.stack([each[:-1], each[1:]], 1)).sum(2)
            forward.append(gain[:, 0])
            reverse.append(gain[:, 1])
    pairs = np.stack([forward, reverse], axis=-1)
    return sum(bar_ladder(pairs[:, k], [0.0, 1.0]).log_z[-1] for k in range(n_levels - 1))


def study_of_data(n_units, repeats, seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(1.0, 1.0, 32)
    grid = np.linspace(-6.0, 6.0, 20_001)
    log_p = norm.logpdf(grid, 0.3, 1.5) + norm.logpdf(y[:, None], grid**2, 1.0).sum(axis=0)
    exact = logsumexp(log_p) + np.log(grid[1] - grid[0])
    squares = paths_of_data(
        lambda x: norm.logpdf(x[:, 0], 0.3, 1.5),
        lambda n, rng: rng.normal(0.3, 1.5, (n, 1)),
        lambda x: norm.logpdf(y, x**2, 1.0),
        lambda share: 2.4 / np.sqrt(1.0 / 1.5**2 + 4.0 * 32 * share),
        [0, 1, 2, 4, 8, 16, 32], n_units, repeats, rng,
    )  # fmt: skip
    z = rng.normal(size=(64, 8))
    response = z @ rng.normal(size=8) + rng.normal(size=64)
    exact_linear = multivariate_normal(cov=np.eye(64) + z @ z.T).logpdf(response)
    linear = paths_of_data(
        lambda x: norm.logpdf(x).sum(axis=1),
        lambda n, rng: rng.standard_normal((n, 8)),
        lambda x: norm.logpdf(response, x @ z.T, 1.0),
        lambda share: 2.4 / np.sqrt(8.0) / np.sqrt(1.0 + 64 * share),
        [0, 1, 2, 4, 8, 16, 32, 64], 4 * n_units, repeats, rng,
    )  # fmt: skip
    errors = {}
    for name, found, truth in (("two modes", squares, exact), ("regression", linear, exact_linear)):
        errors[name] = [float(rmse(values - truth)) for values in found]
    rows = [[name, *(f"{e:.3f}" for e in values)] for name, values in errors.items()]
    table(f"RMSE of log Z, {repeats} repeats", ["", "powers of all data", "data points"], rows)
    return errors


def study_of_adiabatic(n, seed):
    """Flow on the zero level of the contact Hamiltonian, with the exact d log z / d beta.

    ``x' = p``, ``p' = grad log f - p (mean of delta - delta)``, ``beta' = p^2``.
    """
    rng = np.random.default_rng(seed)
    grid, betas = np.linspace(-20.0, 20.0, 8001), np.linspace(0.0, 1.0, 201)
    rows = []
    for name, modes in (("one mode", [(1.0, 3.0, 0.5)]),
                        ("two modes", [(1.0 - SHARE, -3.0, 0.8), (SHARE, 3.0, 0.5)])):  # fmt: skip
        parts = [np.log(w) + norm.logpdf(grid, m, s) for w, m, s in modes]
        delta = logsumexp(parts, axis=0) - norm.logpdf(grid, 0.0, WIDE)
        log_p = norm.logpdf(grid, 0.0, WIDE) + betas[:, None] * delta
        p = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        means, slope = p @ delta, np.gradient(delta, grid)

        def flow(x, v, beta, delta=delta, means=means, slope=slope):
            d, mean = np.interp(x, grid, delta), np.interp(beta, betas, means)
            force = -x / WIDE**2 + beta * np.interp(x, grid, slope)
            return v, force + v * (d - mean), v * v

        x, v, beta = WIDE * rng.standard_normal(n), rng.standard_normal(n), np.zeros(n)
        step, alive = 2e-3, np.ones(n, dtype=bool)
        for _ in range(20_000):
            state = np.array([x, v, beta])
            k1 = np.array(flow(*state))
            k2 = np.array(flow(*(state + 0.5 * step * k1)))
            k3 = np.array(flow(*(state + 0.5 * step * k2)))
            k4 = np.array(flow(*(state + step * k3)))
            moved = state + step * np.clip((k1 + 2 * k2 + 2 * k3 + k4) / 6.0, -1e3, 1e3)
            x, v, beta = np.where(alive, moved, state)
            alive &= (beta < 1.0) & (np.abs(x) < 20.0)
            if not alive.any():
                break
        arrived = beta >= 1.0
        exact = sum(w * norm.sf(0.0, m, s) for w, m, s in modes)
        there = arrived & (x > 0.0)
        shares = arrived.mean(), (x[arrived] > 0.0).mean(), exact, x[there].std()
        rows.append([name, *(f"{share:.2f}" for share in shares)])
    head = ["", "reach beta = 1", "of these x > 0", "exact", "sd there (exact 0.50)"]
    table(f"adiabatic Monte Carlo, {n} trajectories, with the exact mean of delta", head, rows)
    return rows


def run(full=False, seed=1):
    repeats = 40 if full else 20
    low = study_of_modes(1, 40_000 if full else 10_000, repeats, seed)
    high = study_of_modes(8, 80_000 if full else 20_000, repeats, seed)
    data = study_of_data(100_000 if full else 50_000, repeats, seed)
    rows = study_of_adiabatic(1000 if full else 300, seed)
    for name in ("tempered transitions, BAR", "Wang-Landau, then RTS"):
        ratios = [e[name][0] / e["parallel tempering, MBAR"][0] for e in (low, high)]
        why = f"RMSE of log Z over that of parallel tempering {ratios[0]:.2f}, {ratios[1]:.2f}"
        verdict(name.split(",")[0], max(ratios) < 0.9, why)
    ratios = {name: points / powers for name, (powers, points) in data.items()}
    why = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    verdict("tempering by data points", max(ratios.values()) < 0.9, f"RMSE over powers': {why}")
    arrived, share, exact = map(float, rows[1][1:4])
    why = f"with two modes {arrived} reach beta = 1, {share} of these in the mode of {exact}"
    verdict("adiabatic Monte Carlo", arrived > 0.95 and abs(share - exact) < 0.1, why)


def verdict(name, worth, why):
    console.print(f"{name}: worth having: {'yes' if worth else 'no'} ({why})", soft_wrap=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(options.full, options.seed)
    console.print()
