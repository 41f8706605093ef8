"""Densities that run Python code: right numbers, and exceptions carried out of compiled loops.

What raises inside a compiled loop runs in a process of its own: where the carrying is broken, the
process dies.
"""

import numba
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from pytensor.link.numba.dispatch import numba_funcify
from scipy import integrate, stats

import pymc_tempering as pm_temper
from pymc_tempering.engine.guard import density_guard
from pymc_tempering.errors import DensityError, ModelError
from pymc_tempering.model import machine_code
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.starts import inside
from tests.black_box import LOG_Z, Blind, Quadratic, black_box
from tests.fresh import fresh_process


def test_value_and_gradient_of_a_black_box(rng):
    density = compile_density(black_box())
    for z in rng.normal(0.5, 2.0, (5, 2)):
        value, grad = density.value_and_grad(z)
        assert value == pytest.approx(stats.norm.logpdf(z).sum() - 0.5 * ((z - 1) ** 2).sum())
        np.testing.assert_allclose(grad, -z - (z - 1), rtol=1e-12)


def test_no_word_of_object_mode(recwarn):
    compile_density(black_box())
    assert not [w for w in recwarn if "object mode" in str(w.message)]


def test_python_code_that_has_a_cache_key():
    """PyTensor keys some of the Ops for which numba calls Python, so a key alone says nothing."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        first = pt.unique(np.array([[2, 1], [1, 0], [2, 1]]) + pt.zeros(1, dtype=int), axis=0)[0]
        pm.Potential("p", (x * first).sum())
    density = compile_density(model)
    value, grad = density.value_and_grad(np.array([0.5, -1.0]))
    assert value == pytest.approx(stats.norm.logpdf([0.5, -1.0]).sum() + 0.5)
    np.testing.assert_allclose(grad, [0.5, 1.0])


def test_log_z_of_a_black_box():
    """False alarms: once in 15,000 seeds (4 standard errors), and 0.03 beyond the error's own."""
    estimate = pm_temper.estimate_logz(
        black_box(), draws=60, tune=40, chains=2, cores=1, random_seed=3, progressbar=False,
        quiet=True,
    )  # fmt: skip
    assert abs(estimate.log_z - LOG_Z) < 4 * estimate.se + 0.03
    assert estimate.se < 0.1


@pytest.mark.slow
def test_a_differential_equation():
    """Exponential decay, whose solution and evidence are known; false alarms below 1e-4."""
    t, observed = np.array([0.5, 1.0, 1.5]), np.array([1.2, 0.9, 0.45])
    decay = pm.ode.DifferentialEquation(
        func=lambda y, t, p: [-p[0] * y[0]], times=t, n_states=1, n_theta=1, t0=0
    )
    with pm.Model() as model:
        k = pm.LogNormal("k", 0.0, 0.5)
        pm.Normal("y", decay(y0=[2.0], theta=[k])[:, 0], 0.2, observed=observed)

    def exact(z):
        solution = 2.0 * np.exp(-np.exp(z) * t)
        return stats.norm(0.0, 0.5).logpdf(z) + stats.norm(solution, 0.2).logpdf(observed).sum()

    density = compile_density(model)
    for z in (-0.7, 0.1, 0.9):
        value, grad = density.value_and_grad(np.array([z]))
        assert value == pytest.approx(exact(z), abs=1e-5)
        assert grad[0] == pytest.approx((exact(z + 1e-5) - exact(z - 1e-5)) / 2e-5, abs=1e-3)
    result = pm_temper.anneal(
        model, n_particles=60, n_levels=6, schedule="linear", step_size=0.7, tune=0,
        base=pm_temper.GaussianBase(np.array([0.0]), np.array([0.35])), random_seed=1,
        progressbar=False,
    )  # fmt: skip
    log_z = np.log(integrate.quad(lambda z: np.exp(exact(z)), -4, 4)[0])
    assert abs(result.log_z - log_z) < 4 * result.log_z_se + 0.05


def test_an_op_without_a_gradient_says_so(rng):
    density = compile_density(black_box(op=Blind))
    assert "pullback not implemented for Blind" in density.no_gradient
    for z in rng.normal(0.5, 2.0, (3, 2)):
        value, grad = density.value_and_grad(z)
        assert value == pytest.approx(stats.norm.logpdf(z).sum() - 0.5 * ((z - 1) ** 2).sum())
        np.testing.assert_array_equal(grad, 0.0)
    assert compile_density(black_box()).no_gradient == ""


class Refused(Quadratic):
    """numba's dispatch has nothing for it."""


class Untyped(Quadratic):
    """numba cannot compile what its dispatch gives."""


@numba_funcify.register(Refused)
def _(op, node, **kwargs):
    raise NotImplementedError("no machine code")


@numba_funcify.register(Untyped)
def _(op, node, **kwargs):
    return numba.njit(lambda x: x.of_no_array())


@pytest.mark.parametrize("op", [Refused, Untyped])
def test_what_numba_refuses_is_compiled_by_another_backend(op):
    density = compile_density(black_box(op=op))
    value, grad = density.value_and_grad(np.array([0.5, -1.0]))
    assert value == pytest.approx(stats.norm.logpdf([0.5, -1.0]).sum() - 0.5 * (0.25 + 4.0))
    np.testing.assert_allclose(grad, [0.0, 3.0], atol=1e-12)
    assert "Python code" in density.calls_python or "numba cannot" in density.calls_python


def test_a_graph_that_nothing_compiles_is_refused(monkeypatch):
    def refuse(*args, mode, **kwargs):
        raise RuntimeError(f"not by {type(get_mode(mode).linker).__name__}")

    monkeypatch.setattr(machine_code, "pymc_compile", refuse)
    with pytest.raises(ModelError, match=r"neither by numba \(not by NumbaLinker\) nor .*VMLin"):
        compile_density(black_box())


def test_an_exception_at_the_first_point():
    def called(x):
        raise RuntimeError("no solution")

    with pytest.raises(DensityError, match=r"RuntimeError: no solution at .* x=\[0") as caught:
        compile_density(black_box(called))
    assert isinstance(caught.value.__cause__, RuntimeError)
    np.testing.assert_array_equal(caught.value.point["x"], [0.0, 0.0])


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, FloatingPointError, ZeroDivisionError])
def test_numerical_errors_are_zero_density(error):
    def called(x):
        if x[0] > 3.0:
            raise error

    density = compile_density(black_box(called))
    assert density.value_and_grad(np.array([3.5, 0.0]))[0] == -np.inf
    assert np.isfinite(density.value_and_grad(np.array([2.5, 0.0]))[0])


def test_after_a_failure_nothing_is_called_until_it_is_raised():
    calls = []

    def called(x):
        calls.append(x.copy())
        if x[0] > 3.0:
            raise RuntimeError("too far")

    density = compile_density(black_box(called))
    near, far = np.array([0.0, 0.0]), np.array([3.5, 0.25])
    calls.clear()
    with pytest.raises(DensityError, match="too far") as caught, density_guard():  # noqa: PT012
        assert inside(density, near[None])[0]
        assert not inside(density, far[None])[0]
        assert not inside(density, near[None])[0]
    np.testing.assert_array_equal(caught.value.point["x"], far)
    assert len(calls) == 2
    with density_guard():
        assert inside(density, near[None])[0]


RAISING = """
import os, signal, sys
import numpy as np, pymc as pm
import pymc_tempering as pm_temper
from pymc_tempering.errors import DensityError
from tests.black_box import black_box

fail = []
def called(x):
    for how in fail:
        how(x)

def broken(x):
    raise OSError(f"{x[0]:.12f}")

def interrupt(x):
    raise KeyboardInterrupt

def signalled(x):
    os.kill(os.getpid(), signal.SIGINT)

model = black_box(called)

def sample(where, how, cores=1):
    step = pm_temper.ParallelTempering(model=model, scans_per_draw=4)
    advance, n = step._advance, 0
    def counted(point):
        nonlocal n
        n += 1
        if n == where:
            fail[:] = [how]
        return advance(point)
    step._advance = counted
    try:
        return pm.sample(
            10, tune=10, step=step, model=model, chains=3, cores=cores, random_seed=1,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )
    finally:
        fail.clear()

for where in (1, 5, 15):
    try:
        sample(where, broken)
    except DensityError as error:
        same = f"{error.point['x'][0]:.12f}" == str(error.__cause__)
        print(where, type(error.__cause__).__name__, same)
try:
    sample(5, broken, cores=2)
except pm.sampling.parallel.ParallelSamplingError as error:
    print("cores", type(error.__cause__).__name__)
for how in (interrupt, signalled):
    sizes = sample(16, how).posterior.sizes
    print(how.__name__, sizes["chain"], sizes["draw"])
print(dict(sample(None, None).posterior.sizes)["chain"])
"""


def test_exceptions_and_interrupts_in_fits_tuning_and_draws():
    lines = fresh_process(RAISING).split("\n")
    assert lines[:3] == ["1 OSError True", "5 OSError True", "15 OSError True"]
    assert lines[3] == "cores DensityError"
    # five draws of the first chain, and no further chains
    assert lines[4:6] == ["interrupt 1 5", "signalled 1 5"]
    assert lines[6] == "3"
