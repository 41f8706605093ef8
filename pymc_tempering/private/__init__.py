"""Every hook into parts of PyMC, PyTensor and numba that those do not promise to keep.

Each function says what it is used for, and has a test of its own in ``tests/test_private.py``
that names it when a new release breaks it. No module outside of this package imports private
modules; what is public elsewhere (and listed in that test) is imported where it is used. Imports
are inside the functions, so that what needs numba alone does not load PyMC.
"""

from pymc_tempering.private.of_numba import (
    address_of_compiled,
    bounded_integer,
    cache_locators,
    hand_on_needs,
    keep_apart,
    keep_inside,
    locator_file,
    name_by_key,
    no_reference_counts,
    set_cache_locators,
    stock_locators,
)
from pymc_tempering.private.of_pymc import (
    ProgressHooks,
    assigned_steps,
    constant_values,
    default_cores,
    dispatch_by_op,
    draws_from_prior,
    has_random_terms,
    has_total_size,
    is_circular,
    is_improper,
    is_log_transform,
    is_ordered,
    is_simplex,
    is_simulator,
    parameter_error,
    reseed,
    resize_observed,
    rewrite_before_gradient,
    rewrite_parameter_checks,
    start_method,
)
from pymc_tempering.private.of_pytensor import (
    compile_keyed,
    graph_classes,
    graph_key,
    is_for_jax,
    is_step,
    jax_dispatch,
    jitted,
    never_merge,
    runs_compiled_code,
    without_key,
)

__all__ = ["ProgressHooks", "address_of_compiled", "assigned_steps", "bounded_integer",
           "cache_locators", "compile_keyed", "constant_values", "default_cores", "dispatch_by_op",
           "draws_from_prior", "graph_classes", "graph_key", "hand_on_needs", "has_random_terms",
           "has_total_size", "is_circular", "is_for_jax", "is_improper", "is_log_transform",
           "is_ordered", "is_simplex", "is_simulator", "is_step", "jax_dispatch", "jitted",
           "keep_apart", "keep_inside", "locator_file", "name_by_key", "never_merge",
           "no_reference_counts", "parameter_error", "reseed", "resize_observed",
           "rewrite_before_gradient", "rewrite_parameter_checks", "runs_compiled_code",
           "set_cache_locators", "start_method", "stock_locators", "without_key"]  # fmt: skip
