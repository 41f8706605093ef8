"""From a PyMC model to a compiled log density of one flat vector."""
