"""Which backend of PyTensor computes a density, and what JAX does to it.

What needs JAX itself is skipped where it is not installed, as in continuous integration.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering.errors import DensityError, ModelError, OptionError
from pymc_tempering.model import machine_code, python_density
from pymc_tempering.model.compile import compile_density, density_at_hand
from pymc_tempering.model.machine_code import BACKENDS
from pymc_tempering.model.powered import PoweredModel
from pymc_tempering.steps.workers import check_workers
from tests.black_box import black_box

ROOT = Path(__file__).resolve().parents[2]
X = np.array([[0.3, -1.2], [1.5, 0.4], [-0.7, 2.1]])
POINTS = np.array([[0.0, 0.0], [0.4, -1.3], [2.2, 0.9]])
NEAR = {"rtol": 1e-12, "atol": 1e-12}  # of gradients: PyMC's constants are not as good
SHORT = {
    "draws": 30, "tune": 20, "chains": 2, "cores": 1, "random_seed": 5, "search": "none",
    "progressbar": False, "quiet": True,
}  # fmt: skip


def model_of(log_likelihood):
    with pm.Model() as model:
        b = pm.Normal("b", 0.5, 2.0, shape=2)
        pm.Potential("p", log_likelihood(b))
    return model


def in_pytensor(b):
    return -0.5 * ((pt.dot(X, b) - 1.0) ** 2).sum()


def exact(z):
    r = X @ z - 1.0
    value = stats.norm(0.5, 2.0).logpdf(z).sum() - 0.5 * r @ r
    return value, -(z - 0.5) / 4.0 - X.T @ r


def agrees(density):
    for z in POINTS:
        value, grad = density.value_and_grad(z)
        expected, expected_grad = exact(z)
        assert value == pytest.approx(expected, rel=1e-8)
        np.testing.assert_allclose(grad, expected_grad, **NEAR)
    return True


@pytest.fixture
def tried(monkeypatch):
    """Backends that were tried, each of which refuses."""
    names = []

    def refusing(name):
        def refuse(graph, why):
            names.append(name)
            raise RuntimeError(f"not by {name}")

        return refuse

    for name in BACKENDS:
        monkeypatch.setitem(BACKENDS, name, refusing(name))
    return names


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("written", ["", "an Op"])
def test_the_order_in_which_backends_are_tried(tried, monkeypatch, installed, written):
    monkeypatch.setattr(machine_code, "jax_is_installed", lambda: installed)
    monkeypatch.setattr(machine_code, "made_for_jax", lambda graph: written)
    with pytest.raises(ModelError, match=r"neither by numba \(not by numba\) nor by .*\(not by c"):
        compile_density(model_of(in_pytensor))
    last = ["jax"] if installed else []
    assert tried == (["numba", "jax", "c"] if written else ["numba", "c", *last])


@pytest.mark.parametrize("name", list(BACKENDS))
def test_what_is_asked_for_is_all_that_is_tried(tried, name):
    with pytest.raises(ModelError, match=rf"\(not by {name}\)\. Look .* leave `backend` away"):
        compile_density(model_of(in_pytensor), backend=name)
    assert tried == [name]


def test_the_c_backend_gives_the_same_density():
    model = model_of(in_pytensor)
    by_numba, by_c = compile_density(model), compile_density(model, backend="c")
    assert by_c is not by_numba
    assert (by_numba.backend, by_c.backend) == ("numba", "c")
    assert [density.uses_jax for density in (by_numba, by_c)] == [False, False]
    assert by_c.calls_python.endswith("computes it: `backend` asks for it")
    assert agrees(by_c)
    # to look at draws, what there is will do
    assert density_at_hand(model) is by_c
    assert compile_density(model) is not by_c


def test_a_backend_that_is_wrong(monkeypatch):
    """As JAX was, in PyTensor 3.3.7, about the gradient of a marginal Gaussian process."""

    def wrong(*given):
        code = machine_code.machine_code(*given)

        def called(z, gradient):
            value = code.called(z, gradient)
            gradient[1] += 2.0
            return value

        return code._replace(called=called)

    monkeypatch.setattr("pymc_tempering.model.compile.machine_code", wrong)
    with pytest.raises(ModelError, match=r"'c' is wrong about an Op .* take another `backend`"):
        compile_density(model_of(in_pytensor), backend="c")


def test_steps_and_functions_take_a_backend():
    model = model_of(in_pytensor)
    first, second = (pm_temper.sample(model, **SHORT, **by) for by in ({}, {"backend": "c"}))
    np.testing.assert_allclose(first["posterior"]["b"], second["posterior"]["b"], rtol=1e-5)
    with model:
        assert pm_temper.SimulatedTempering(backend="c").density.backend == "c"


def test_an_unknown_backend():
    with pytest.raises(OptionError, match="Unknown backend 'jaxx' \\(did you mean jax"):
        pm_temper.sample(model_of(in_pytensor), backend="jaxx", **SHORT)


def test_step_methods_of_pymc_compile_for_themselves():
    with pm.Model() as model:
        pm.Normal("y", pm.Poisson("n", 2.0), 1.0, observed=1.0)
    with pytest.raises(OptionError, match="`backend` is 'c', and the step methods of PyMC"):
        pm_temper.CompoundTempering(model=model, backend="c")


def test_jax_that_is_not_there(monkeypatch):
    monkeypatch.setattr(python_density, "jax_is_installed", lambda: False)
    with pytest.raises(OptionError, match=r"pip install 'pymc-tempering\[jax\]'"):
        compile_density(model_of(in_pytensor), backend="jax")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_are_not_forked_where_they_would_hang(monkeypatch):
    monkeypatch.setattr(
        "pymc_tempering.steps.workers.start_method", lambda mp_ctx: mp_ctx or "fork"
    )
    run = {"chains": 2, "cores": 2, "no_fork": "Threads"}
    assert check_workers(None, **run) == "spawn"
    assert check_workers("forkserver", **run) == "forkserver"
    assert check_workers("fork", chains=2, cores=1, no_fork="Threads") == "fork"
    assert check_workers(None, chains=2, cores=2) is None
    with pytest.raises(OptionError, match=r"`mp_ctx` is 'fork'\. Threads\. Take"):
        check_workers("fork", **run)


# --- with JAX -----------------------------------------------------------------------------------


@pytest.fixture
def jax():
    found = pytest.importorskip("jax", reason="JAX is not installed: pip install jax")
    with found.enable_x64(True):
        yield found


@pytest.fixture
def wrapped(jax):
    jnp = jax.numpy
    return model_of(pytensor.wrap_jax(lambda b: -0.5 * jnp.sum((X @ b - 1.0) ** 2)))


class OfJax(Op):
    """The likelihood by JAX alone: what other backends would call is not there."""

    def make_node(self, b):
        return Apply(self, [pt.as_tensor(b)], [pt.dscalar()])

    def perform(self, node, inputs, outputs):
        raise NotImplementedError("by JAX alone")

    def pullback(self, inputs, outputs, gradients):
        return [-gradients[0] * pt.dot(X.T, pt.dot(X, inputs[0]) - 1.0)]


@pytest.fixture
def registered(jax):
    from pytensor.link.jax.dispatch import jax_funcify

    @jax_funcify.register(OfJax)
    def _(op, **kwargs):
        return lambda b: -0.5 * jax.numpy.sum((X @ b - 1.0) ** 2)


def test_an_op_that_wraps_jax(wrapped):
    density = compile_density(wrapped)
    assert (density.backend, density.uses_jax) == ("jax", True)
    assert density.calls_python == "JAX computes it: <lambda> is written for it"
    assert PoweredModel.of(wrapped).uses_jax
    assert agrees(density)


@pytest.mark.usefixtures("registered")
def test_an_op_that_jax_alone_can_compute():
    assert agrees(compile_density(model_of(OfJax())))
    with pytest.raises(DensityError, match="NotImplementedError: by JAX alone"):
        compile_density(model_of(OfJax()), backend="c")


def test_jax_beside_what_it_cannot_compile(jax):
    model = black_box()
    with model:
        pm.Potential("q", pytensor.wrap_jax(lambda x: -jax.numpy.sum(x**2))(model["x"]))
    density = compile_density(model)
    assert (density.backend, density.uses_jax) == ("numba", True)
    z = np.array([0.5, -1.0])
    expected = stats.norm.logpdf(z).sum() - 0.5 * (0.25 + 4.0) - z @ z
    assert density.value_and_grad(z)[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.usefixtures("jax")
def test_jax_cannot_compile_what_it_is_asked_for():
    with pytest.raises(ModelError, match=r"cannot be compiled, by JAX .*No JAX conversion"):
        compile_density(black_box(), backend="jax")


def test_double_precision_whatever_jax_is_set_to(jax):
    with jax.enable_x64(False):
        density = compile_density(model_of(in_pytensor), backend="jax")
        assert agrees(density)
        assert not jax.config.jax_enable_x64


def test_log_z_is_that_of_numba(wrapped):
    """The same moves from the same seed, and log Z but for how rounding grows along them."""
    by_jax = pm_temper.estimate_logz(wrapped, **SHORT)
    by_numba = pm_temper.estimate_logz(model_of(in_pytensor), **SHORT)
    assert by_jax.gradients == by_numba.gradients
    assert by_jax.log_z == pytest.approx(by_numba.log_z, abs=1e-6)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_forked_process_refuses(wrapped):
    density = compile_density(wrapped)
    child = os.fork()
    if child == 0:
        try:
            density.value_and_grad(POINTS[0])
        except DensityError as error:
            os._exit(7 if "in threads that a forked process does not have" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


SPAWNED = """
import numpy as np, pymc as pm, pytensor.tensor as pt, jax.numpy as jnp
from pytensor.link.jax.dispatch import jax_funcify
import pymc_tempering as pm_temper
from tests.model.test_backends import OfJax, SHORT, X, model_of

class Mine(OfJax):
    pass

@jax_funcify.register(Mine)
def _(op, **kwargs):
    return lambda b: -0.5 * jnp.sum((X @ b - 1.0) ** 2)

if __name__ == "__main__":
    model = model_of(Mine())
    runs = [pm_temper.sample(model, **(SHORT | {"cores": cores})) for cores in (1, 2)]
    print(np.array_equal(*(run["posterior"]["b"] for run in runs)))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("jax")
def test_processes_are_spawned_and_draw_alike(tmp_path):
    """They know an Op of the program's own, too."""
    path = tmp_path / "program.py"
    path.write_text(SPAWNED)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(path)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["True"]
