"""Exact draws of a tempered model, as `pm.sample` would store them."""

import numpy as np
import pytest
import xarray as xr


def exact_draws(target, base, bias, rng, n_chains=4, n_draws=400, n_base=4000):
    """Independent draws of (z, beta) from the joint density, without any sampler."""
    grid = np.concatenate([np.linspace(0, 0.02, 60, endpoint=False), np.linspace(0.02, 1, 200)])
    log_density = target.log_z_path(grid, base) - bias(grid)
    density = np.exp(log_density - log_density.max())
    steps = np.concatenate([[0.0], np.cumsum(np.diff(grid) * 0.5 * (density[1:] + density[:-1]))])
    beta = np.interp(rng.uniform(size=(n_chains, n_draws)) * steps[-1], steps, grid)
    z = np.array([target.draw_path(rng, 1, float(b), base)[0] for b in beta.ravel()])
    z = z.reshape(n_chains, n_draws, target.dim)
    return store(target, base, bias, z, beta, target.delta(base.draw(rng, n_base), base))


def store(target, base, bias, z, beta, base_delta):
    posterior = xr.Dataset(
        {
            "x": (("chain", "draw", "x_dim_0"), target.constrain(z)),
            "tempering_u": (("chain", "draw", "tempering_u_dim_0"), base.to_base(z)),
            "tempering_delta": (("chain", "draw"), target.delta(z, base)),
            "beta": (("chain", "draw"), beta),
        },
        coords={
            "chain": np.arange(len(z)),
            "draw": np.arange(z.shape[1]),
            "tempering_u_dim_0": np.arange(target.dim),
            "x_dim_0": np.arange(target.dim),
        },
    )
    records = {
        "knots": bias.knots,
        "bias": bias.values,
        "base_mean": base.mean,
        "base_scale": base.scale,
        "base_delta": base_delta,
    }
    constant = xr.Dataset(
        {
            f"tempering_{name}": ([f"{name}_{i}" for i in range(value.ndim)], value)
            for name, value in records.items()
        }
    )
    statistics = xr.Dataset({"diverging": (("chain", "draw"), np.zeros(beta.shape, bool))})
    return xr.DataTree.from_dict(
        {"posterior": posterior, "constant_data": constant, "sample_stats": statistics}
    )


@pytest.fixture(scope="session")
def exact():
    return exact_draws


@pytest.fixture
def draw_exactly(rng):
    def draw(target, base, bias, **options):
        return exact_draws(target, base, bias, rng, **options)

    return draw
