"""A model with a skewed prior far from the posterior, ordered anew in every copy of a copy."""

import pymc as pm


def skewed_model():
    with pm.Model() as model:
        mu = pm.Normal("mu", 2.0, 3.0)
        tau = pm.Gamma("tau", 2.0, 3.0)
        u = pm.Uniform("u", -2.0, 5.0)
        pm.Normal("y", mu + u, tau, observed=[0.3, 2.0])
    return model
