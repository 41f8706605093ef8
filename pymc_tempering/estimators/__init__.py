"""Estimators of log Z and of its error: pure functions of arrays of one chain.

Every estimator returns log z per level and an influence per scan; `uncertainty` turns these into a
standard error over scans and chains, and `result` is what the user sees. Nothing here knows a
sampler, a model or a DataTree.
"""
