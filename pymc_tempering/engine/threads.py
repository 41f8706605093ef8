"""One BLAS thread where draws depend on what is computed."""

import functools
from contextlib import AbstractContextManager
from typing import Any

import scipy.linalg  # noqa: F401  brings its own BLAS, which has to be there to be limited
from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@functools.cache
def _controller() -> ThreadpoolController:
    # it reads the list of everything that the process has loaded, which takes milliseconds
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread inside: sums of several depend on their number, draws must not."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited
