"""Replicas and what couples them: swaps on a ladder, exchanges of a pair, annealed particles."""
