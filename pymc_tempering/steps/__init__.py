"""PyMC step methods: thin adapters over the kernels."""
