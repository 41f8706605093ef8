"""A model whose prior, likelihood and posterior are all skewed, and far from one another."""

import pymc as pm


def skewed_model():
    with pm.Model() as model:
        tau = pm.Gamma("tau", 2.0, 3.0)
        pm.Normal("y", 0.0, tau, observed=[0.3, 2.0])
    return model
