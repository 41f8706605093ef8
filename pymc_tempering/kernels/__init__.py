"""Compiled moves: everything that runs inside a scan, in numba, on arrays alone."""
