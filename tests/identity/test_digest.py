"""What changes a model changes its digest and is named; what does not leaves it as it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_tempering.model.code_digest import CodeDigest, Unknown
from pymc_tempering.model.identity import Identity, recipe
from tests.identity import pairs

pytestmark = pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")


def test_enough_pairs():
    assert len(pairs.CHANGED) >= 35
    assert len(pairs.SAME) >= 20


@pytest.mark.parametrize("name", pairs.CHANGED)
def test_a_change_is_named(name):
    first, second, named = pairs.CHANGED[name]
    before, after = Identity.of(first()), Identity.of(second())
    assert before.digest != after.digest
    assert before.changes(after) == ([named] if isinstance(named, str) else [*named])


@pytest.mark.parametrize("name", pairs.SAME)
def test_the_same(name):
    first, second, _ = pairs.SAME[name]
    before, after = Identity.of(first()), Identity.of(second())
    assert before.changes(after) == []
    assert before.digest == after.digest
    assert before.is_certain


def test_in_another_process():
    """In which text has other hashes and objects lie elsewhere."""
    root = Path(__file__).parents[2]
    code = "import json; from tests.identity import pairs; print(json.dumps(pairs.digests()))"
    path = os.pathsep.join([str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == pairs.digests()


def test_the_order_of_variables_is_compiled_in():
    assert recipe(pairs.linear()) == recipe(pairs.linear())
    assert recipe(pairs.linear()) != recipe(pairs.linear(reorder=True))


def test_changes_in_place():
    """Of an array in the graph, of observed values, of shared values, and of a closure."""
    x, y, rate = pairs.X.copy(), pairs.Y.copy(), np.array(0.5)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        scale = pm.CustomDist("s", logp=lambda value: -float(rate) * value**2)
        covariate = pm.Data("covariate", np.ones(4))
        data = pt.as_tensor(y)
        pm.Normal("y", b * pt.as_tensor(x) + covariate + scale, 1.0, observed=data)
    identity = Identity.of(model)
    assert Identity.of(model) == identity
    x[1] = 9.0
    assert identity.changes(Identity.of(model)) == ["the likelihood of 'y'"]
    x[1] = pairs.X[1]
    assert Identity.of(model) == identity
    y[2] = 9.0
    assert identity.changes(Identity.of(model)) == ["the data of 'y'"]
    y[2] = pairs.Y[2]
    rate[()] = 0.7
    assert identity.changes(Identity.of(model)) == ["the prior of 's'"]
    rate[()] = 0.5
    with model:
        pm.set_data({"covariate": np.zeros(4)})
    assert identity.changes(Identity.of(model)) == ["the data 'covariate'"]


def test_a_list_that_is_written_into_is_not_of_the_digest():
    calls = []
    model = pairs.black_box(2.0, hidden=calls)
    identity = Identity.of(model)
    model.compile_logp(mode="FAST_COMPILE")({"x": 1.5})
    assert calls
    assert Identity.of(model) == identity
    [operations] = identity.undigested.values()
    assert not identity.is_certain
    assert "FromFunctionOp" in operations[0]
    assert "list" in operations[0]
    # a function says nothing of another list, and densities have to
    assert identity.changes(Identity.of(pairs.black_box(3.0, hidden=[1]))) == []


def test_flags():
    model = pairs.linear()
    identity = Identity.of(model)
    model.check_bounds = False
    assert identity.changes(Identity.of(model)) == ["`floatX` or `check_bounds`"]


def test_a_text_and_back():
    identity = Identity.of(pairs.linear())
    assert Identity.from_json(identity.to_json()) == identity
    assert Identity.from_json("{}") is Identity.from_json(None) is Identity.from_json("x") is None


def test_a_large_model_is_stored_without_its_parts():
    with pm.Model() as model:
        for i in range(1500):
            pm.Normal(f"variable_{i}", i, 1.0)
    identity = Identity.of(model)
    stored = Identity.from_json(identity.to_json())
    assert len(identity.to_json()) < 60_000
    assert stored.changes(identity) == []
    assert stored.changes(Identity.of(pairs.linear())) == ["a part that was not recorded"]


def test_a_count_of_calls_is_not_of_the_digest():
    """What a function itself writes beyond its own variables says nothing of another function."""

    def counting():
        n = 0

        def density(x):
            nonlocal n
            n += 1
            return -(x**2)

        return density

    def none(value):
        raise Unknown

    density, called = counting(), counting()
    called(1.0)
    digest = CodeDigest(none)
    with digest.noting() as unknown:
        assert digest.value(density) == digest.value(called)
    assert unknown == ["a variable that it writes"]
