"""From a run or a model to the log marginal likelihood: finds arrays, calls estimators."""
