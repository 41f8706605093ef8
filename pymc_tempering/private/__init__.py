"""Every hook into parts of PyMC, PyTensor and numba that those do not promise to keep.

Each function says what it is used for, and has a test of its own in ``tests/test_private.py``
that names it when a new release breaks it. No module outside of this package imports private
modules; what is public elsewhere (and listed in that test) is imported where it is used. Imports
are inside the functions, so that what needs numba alone does not load PyMC.
"""
