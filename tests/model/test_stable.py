"""Logs of probabilities beyond what double precision can tell from 0 and 1."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import betaln, expit, log_expit

from pymc_tempering.model.compile import compile_density
from pymc_tempering.private.of_pytensor import with_stable_logs

FAR = (-800.0, -50.0, -3.0, 2.0, 38.0, 750.0)

x = pt.matrix("x")
OF_P = {
    "another axis": lambda p: pt.log(p[:, :, None]),
    "one entry": lambda p: pt.log(p[1, 0]),
    "rows by number": lambda p: pt.log(p[np.array([2, 0, 2])]),
    "filled": lambda p: pt.log(pt.alloc(p[0, 0], 2, 3)),
    "in another shape": lambda p: pt.log(p.reshape((2, 3))),
}
OF_Q = {
    "minus": lambda p: pt.log1p(-p),
    "a product": lambda p: pt.log1p(-1.0 * p),
    "rows of minus": lambda p: pt.log1p((-p)[np.array([2, 0, 2])]),
    "minus an entry": lambda p: pt.log1p(-1 * p[1, 0]),
}


@pytest.mark.parametrize("place", FAR)
@pytest.mark.parametrize("form", OF_P | OF_Q)
def test_value_and_gradient_are_those_of_the_logit(form, place):
    log_of, sign = (OF_P[form], 1.0) if form in OF_P else (OF_Q[form], -1.0)
    terms = log_of(pt.sigmoid(x))
    stable = with_stable_logs(terms.sum())
    with pytensor.config.change_flags(mode="FAST_COMPILE", linker="py"):
        value, gradient = (
            out.eval({x: np.full((3, 2), place)}) for out in (stable, pytensor.grad(stable, x))
        )
        n = terms.shape.eval({x: np.zeros((3, 2))}).prod()
    np.testing.assert_allclose(value, n * log_expit(sign * place), rtol=1e-14)
    np.testing.assert_allclose(gradient.sum(), n * sign * expit(-sign * place), rtol=1e-12)


OTHERS = {
    "twice": lambda p: pt.log(2.0 * p),
    "log of minus": lambda p: pt.log(-p),
    "log1p of p": lambda p: pt.log1p(p),
    "two of them": lambda p: pt.log1p(-p * p),
    "minus two": lambda p: pt.log1p(-2.0 * p),
    "by rows of -1 and 1": lambda p: pt.log1p(np.array([-1.0, 1.0]) * p),
    "no sigmoid": lambda p: pt.log(pt.exp(p)[0]),
    "an index of p": lambda p: pt.log(pt.as_tensor([0.3, 0.2])[pt.cast(p[0, 0] > 0.5, "int64")]),
}


@pytest.mark.parametrize("form", OTHERS)
def test_others_stay_as_they_are(form):
    log_density = OTHERS[form](pt.sigmoid(x))
    assert "Softplus" not in str(pytensor.dprint(with_stable_logs(log_density), file="str"))


def beta_of_zero_and_one():
    pm.Beta("p", 0.1, 0.2)
    return lambda z: 0.1 * log_expit(z[0]) + 0.2 * log_expit(-z[0]) - betaln(0.1, 0.2)


def successes():
    pm.Binomial("y", n=10, p=pm.Beta("p", 1.0, 1.0), observed=[10, 9])
    return lambda z: 20 * log_expit(z[0]) + 2 * log_expit(-z[0]) + np.log(10.0)


def groups():
    p = pm.math.invlogit(pm.Flat("a", shape=2))
    pm.Bernoulli("y", p=p[np.array([0, 1, 1])], observed=[0, 1, 0])
    return lambda z: log_expit(-z[0]) + log_expit(z[1]) + log_expit(-z[1])


@pytest.mark.parametrize("case", [beta_of_zero_and_one, successes, groups])
def test_models_keep_their_slope(case):
    """From 37 on PyMC's gradient is no number, nor is its value one where groups have an index."""
    with pm.Model() as model:
        exact = case()
    density = compile_density(model)
    for place in (-60.0, -1.3, 2.1, 36.0, 38.0, 60.0):
        z = np.full(density.dim, place)
        value, gradient = density.value_and_grad(z)
        np.testing.assert_allclose(value, exact(z), rtol=1e-12)
        for i in range(density.dim):
            step = np.zeros(density.dim)
            step[i] = 1e-3
            slope = (exact(z + step) - exact(z - step)) / 2e-3
            np.testing.assert_allclose(gradient[i], slope, rtol=1e-5, atol=1e-9)
