"""A reference of a user's own as `base=`: right log Z from it, and refusals by name."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering.errors import BaseError, OptionError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.own import GivenReference, OwnReference

DF, MEAN, SCALE = 5.0, np.array([0.6, 1.4]), np.array([0.9, 0.5])


class Student:
    """Independent Student t variables; each part can be put wrong."""

    shift, slope, columns = 0.0, 1.0, 2

    def draw(self, rng, n):
        return stats.t.rvs(DF, MEAN, SCALE, size=(n, 2), random_state=rng)[:, : self.columns]

    def log_density(self, z):
        return stats.t.logpdf(z, DF, MEAN, SCALE).sum() + self.shift

    def gradient(self, z):
        u = (z - MEAN) / SCALE
        return -self.slope * (DF + 1) * u / (DF + u**2) / SCALE


def broken(**parts):
    reference = Student()
    for name, part in parts.items():
        setattr(reference, name, part)
    return reference


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 1.5, shape=2)
        pm.Normal("y", x, [0.8, 0.4], observed=[1.0, 1.7])
    return model


@pytest.fixture(scope="module")
def density(model):
    return compile_density(model)


def test_is_what_the_protocol_says():
    assert isinstance(Student(), GivenReference)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["pt", "st"])
def test_log_z_is_that_of_the_model(model, method, seed):
    """Within 5 of its errors: a false alarm in a million runs."""
    exact = stats.norm.logpdf([1.0, 1.7], 0.3, np.hypot(1.5, [0.8, 0.4])).sum()
    estimate = pm_temper.estimate_logz(
        model, method=method, base=Student(), draws=60, tune=60, chains=2, cores=1,
        scans_per_draw=10, search="none", random_seed=seed, progressbar=False, quiet=True,
    )  # fmt: skip
    assert abs(estimate.log_z - exact) < 5.0 * estimate.se
    assert estimate.se < 0.1


def test_survives_a_pickle(density):
    reference = cloudpickle.loads(cloudpickle.dumps(OwnReference(Student(), density)))
    np.testing.assert_array_equal(
        reference.draw(3, np.random.default_rng(1)), Student().draw(np.random.default_rng(1), 3)
    )


def nan_somewhere(z):
    return np.nan if z[0] > 1.0 else stats.t.logpdf(z, DF, MEAN, SCALE).sum()


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (broken(gradient=None, draw=None), "has no method draw and no gradient"),
        (broken(columns=1), r"draws of shape \(2000, 1\).*expected \(2000, 2\).*'x': \(2,\)"),
        (broken(log_density=nan_somewhere), "log_density nan at its own draw"),
        (broken(log_density=lambda z: -(z**2)), r"shape \(2,\) for log_density.*a number"),
        (broken(gradient=lambda z: z[:1]), r"gradient of shape \(1,\); expected \(2,\)"),
        (broken(slope=1.02), "gradient that is not that of its log_density"),
        (broken(shift=0.7), r"not normalised.*integral is exp\(0\.[67]"),
    ],
)
def test_refused_by_name(reference, message, density):
    with pytest.raises(BaseError, match=message):
        OwnReference(reference, density)


def test_a_narrow_mode_apart_is_no_reason_to_refuse(density):
    """Draws of two modes say nothing of the gap between them: no false alarm."""

    class Two:
        ends = np.array([[-40.0, 0.0], [0.0, 3.0]])

        def draw(self, rng, n):
            ends = self.ends[(rng.random(n) < 0.7).astype(int)]
            return ends + [0.1, 1.0] * rng.standard_normal((n, 2))

        def _terms(self, z):
            return stats.norm.logpdf(z, self.ends, [0.1, 1.0]).sum(axis=1) + np.log([0.3, 0.7])

        def log_density(self, z):
            return np.logaddexp(*self._terms(z))

        def gradient(self, z):
            weights = np.exp(self._terms(z) - self.log_density(z))
            return weights @ ((self.ends - z) / np.array([0.1, 1.0]) ** 2)

    OwnReference(Two(), density)


def test_names_that_each_step_takes(model):
    with pytest.raises(OptionError, match=r"expected None, 'gaussian', 'mixture', 'prior'"):
        pm_temper.ParallelTempering(model=model, base="gauss")
    with pytest.raises(OptionError, match=r"did you mean mixture\?"):
        pm_temper.ParallelTempering(model=model, base="mixtur")
    with pytest.raises(OptionError, match=r"expected None, 'gaussian', 'prior'"):
        pm_temper.GibbsCT(model=model, base="gauss")
