"""How joint continuous tempering calls PyMC."""

import pymc as pm
import pytensor
import pytest

import pymc_tempering as pm_temper


def test_sums_have_one_order(monkeypatch):
    """Else a seed's draws differ by whether compiled code is new or from the disk."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, 1.0, observed=0.5)
    found = []

    def sample(*_, **__):
        found.append(pytensor.config.numba__fastmath)
        raise KeyboardInterrupt

    monkeypatch.setattr(pm, "sample", sample)
    with pytest.raises(KeyboardInterrupt):
        pm_temper.sample(model=model, method="joint_ct", draws=10, tune=10, random_seed=1)
    assert found == [False]
