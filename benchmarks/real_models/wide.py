"""Many predictors, few of which matter."""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from real_models.counts import sigmoid
from real_models.entries import real

KIND = "wide"


def horseshoe(n, n_predictors, binary):
    """Regularised horseshoe (Piironen & Vehtari 2017), non-centred."""
    rng = np.random.default_rng(n_predictors + binary)
    x = rng.normal(size=(n, n_predictors))
    weights = np.zeros(n_predictors)
    weights[:5] = [2.0, -1.5, 1.0, 3.0, -2.0]
    mean = x @ weights
    y = (rng.random(n) < sigmoid(mean)).astype(int) if binary else mean + rng.normal(size=n)
    tau = pm.HalfCauchy("tau", 5.0 / (n_predictors - 5.0) / np.sqrt(n))
    slab = pm.InverseGamma("slab", 2.0, 8.0)
    local = pm.HalfCauchy("local", 1.0, shape=n_predictors)
    z = pm.Normal("z", shape=n_predictors)
    width = local * pt.sqrt(slab / (slab + tau**2 * local**2))
    mean = pm.Normal("mean", 0.0, 3.0) + pt.dot(x, z * tau * width)
    if binary:
        pm.Bernoulli("y", logit_p=mean, observed=y)
    else:
        pm.Normal("y", mean, pm.HalfNormal("noise", 2.0), observed=y)


for called, n, n_predictors, binary in (
    ("horseshoe_100", 150, 100, False),
    ("horseshoe_400_binary", 200, 400, True),
    ("horseshoe_1536_binary", 54, 1536, True),
):
    sizes = {"n": n, "n_predictors": n_predictors, "binary": binary}
    real(KIND, called)(partial(horseshoe, **sizes))
