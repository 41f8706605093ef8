"""Another processor's last bits, on this one.

Libraries of linear algebra choose kernels by processor, which sum in another order. What a run
draws follows from its last bits, so that a test at a threshold passes here and fails elsewhere.
With PYMC_TEMPERING_TEST_LAST_BITS set to a number, NumPy's decompositions and solutions are wrong
by a rounding or so, chosen by that number: as many processors as wanted, none of which is here.
"""

import functools
import hashlib

import numpy as np

__all__ = ["disturb"]

_FUNCTIONS = ("cholesky", "eigh", "eigvalsh", "inv", "lstsq", "qr", "solve", "svd")


def disturb(seed):
    """Have NumPy's linear algebra round differently from now on."""
    for name in _FUNCTIONS:
        setattr(np.linalg, name, _disturbed(getattr(np.linalg, name), seed))


def _disturbed(function, seed):
    @functools.wraps(function)
    def rounded(*args, **kwargs):
        result = function(*args, **kwargs)
        if isinstance(result, tuple):
            parts = [_rounded(part, seed) for part in result]
            return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
        return _rounded(result, seed)

    return rounded


def _rounded(value, seed):
    # what is exact, as zeros, ones and whole numbers mostly are, is so on every processor
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return value
    # a processor rounds the same numbers alike, whenever it meets them
    content = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).digest()
    rng = np.random.default_rng([seed, int.from_bytes(content)])
    steps = rng.integers(-1, 2, size=value.shape) * np.finfo(value.dtype).eps
    exact = value == np.round(value)
    return np.where(exact, value, value * (1.0 + steps)).astype(value.dtype)
