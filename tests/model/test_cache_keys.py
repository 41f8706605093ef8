"""One graph in several dimensions: machine code on disk is never another model's."""

import numpy as np
import pytest
from scipy import stats

from pymc_tempering.errors import ModelError
from pymc_tempering.model.graph import CannotInterpretError, interpret
from pymc_tempering.model.machine_code import wrapper_key
from pymc_tempering.model.verify import verify_density
from tests.fresh import fresh_process

# PyTensor's key of this graph does not contain its dimension
SCRIPT = """
import sys
import numpy as np, pymc as pm
from pymc_tempering.model.compile import compile_density
for d in map(int, sys.argv[1:]):
    with pm.Model() as model:
        x = pm.Normal("x", 0.37, 1.21, shape=d)
        pm.Potential("p", -0.5 * (x**2).sum())
    value, grad = compile_density(model).value_and_grad(np.linspace(-1.0, 2.0, d))
    print(d, repr(value), *map(repr, grad.tolist()))
"""
DIMS = (3, 6, 2, 10)


def evaluated(*dims):
    printed = fresh_process(SCRIPT, *dims)
    return [[float(word) for word in line.split()] for line in printed.splitlines()]


def check(rows, dims):
    assert [int(row[0]) for row in rows] == list(dims)
    for d, value, *grad in rows:
        x = np.linspace(-1.0, 2.0, int(d))
        exact = stats.norm(0.37, 1.21).logpdf(x).sum() - 0.5 * (x**2).sum()
        assert value == pytest.approx(exact, rel=1e-12)
        np.testing.assert_allclose(grad, -(x - 0.37) / 1.21**2 - x, rtol=1e-12)


@pytest.mark.parametrize("dims", [DIMS, DIMS[::-1]], ids=["in order", "reversed"])
def test_dimensions_of_one_graph_in_one_process(dims):
    check(evaluated(*dims), dims)


def test_dimensions_of_one_graph_in_fresh_processes():
    for d in DIMS:
        check(evaluated(d), (d,))


def test_the_key_tells_everything_that_the_wrapper_depends_on(monkeypatch):
    import numba
    import pytensor

    keys = [wrapper_key("graph", "source (3,)"), wrapper_key("graph", "source (6,)")]
    keys.append(wrapper_key("another", "source (3,)"))
    with pytensor.config.change_flags(numba__fastmath=not pytensor.config.numba__fastmath):
        keys.append(wrapper_key("graph", "source (3,)"))
    for module in (numba, pytensor, np):
        with monkeypatch.context() as patch:
            patch.setattr(module, "__version__", "0.0")
            keys.append(wrapper_key("graph", "source (3,)"))
    assert len(set(keys)) == len(keys)
    assert wrapper_key("graph", "source (3,)") == keys[0]
    assert wrapper_key(None, "source (3,)") is None


@pytest.fixture(scope="module")
def compiled_pair():
    import pymc as pm
    from pymc.pytensorf import compile as pymc_compile

    from pymc_tempering.model.compile import compile_density

    with pm.Model() as model:
        x = pm.Normal("x", 0.37, 1.21, shape=3)
        pm.Potential("p", -0.5 * (x**2).sum())
    [value] = model.value_vars
    function = pymc_compile([value], [model.logp(), model.dlogp()], mode="NUMBA")
    return compile_density(model), function


def test_another_density_is_an_error(compiled_pair):
    density, function = compiled_pair
    points = np.random.default_rng(3).normal(size=(3, 3))
    verify_density(density.value_and_grad, function, points)
    wrong = [
        lambda z: (density.value_and_grad(z)[0] + 1e-3, density.value_and_grad(z)[1]),
        lambda z: (density.value_and_grad(z)[0], density.value_and_grad(z)[1][::-1].copy()),
        lambda z: (density.value_and_grad(z)[0], 0.99 * density.value_and_grad(z)[1]),
    ]
    for other in wrong:
        with pytest.raises(ModelError, match=r"not that of this model.*pytensor-cache purge"):
            verify_density(other, function, points)


def test_python_and_machine_code_agree(compiled_pair):
    _, function = compiled_pair
    z = np.array([0.1, -2.0, 0.7])
    value, grad = interpret(function.maker.fgraph, [z.copy()])
    expected, expected_grad = function(z)
    assert float(value) == pytest.approx(float(expected), rel=1e-13)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-13)


def test_graphs_too_large_for_python_are_refused(monkeypatch, compiled_pair):
    monkeypatch.setattr("pymc_tempering.model.graph.MAX_ENTRIES", 2)
    with pytest.raises(CannotInterpretError):
        interpret(compiled_pair[1].maker.fgraph, [np.zeros(3)])
