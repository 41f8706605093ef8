"""A C function that hands on what it was made with."""

import ctypes
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import llvmlite.binding as llvm
import numba
import pytest

from pymc_tempering.model.machine_code import _engine, at_addresses

_DOUBLES = numba.types.CPointer(numba.types.float64)
_KEPT: list[object] = []
_WHOLE, _REAL = numba.types.int64, numba.types.float64


@numba.cfunc(numba.types.float64(_DOUBLES, _DOUBLES, _WHOLE, _REAL, _WHOLE))
def core(z, grad, whole, real, last):
    grad[0] = z[1] + last
    return whole * z[0] + real


@pytest.mark.parametrize("whole", [3, -1, 2**53 + 1, 2**62])
@pytest.mark.parametrize("real", [0.1, -1e-310, 1e308, 0.0])
def test_every_bit_of_what_is_handed_on_arrives(whole, real):
    closure = at_addresses(core.address, (whole, real, 7))
    gc.collect()
    z, grad = (ctypes.c_double * 2)(1.0, 5.0), (ctypes.c_double * 2)()
    assert closure.ctypes(z, grad) == float(whole) + real
    assert list(grad) == [12.0, 0.0]
    again = type(closure.ctypes)(closure.address)
    assert again(z, grad) == float(whole) + real


def test_an_address_outlives_what_it_was_taken_from():
    """As those of numba do: a density may be known by its address alone."""
    kind, addresses = type(at_addresses(core.address, (0, 0.0, 0)).ctypes), []
    for i in range(50):
        addresses.append(at_addresses(core.address, (0, 0.5 * i, i)).address)
        gc.collect()
    z, grad = (ctypes.c_double * 2)(), (ctypes.c_double * 2)()
    assert [kind(address)(z, grad) for address in addresses] == [0.5 * i for i in range(50)]


def test_closures_have_numbers_of_their_own():
    closures = [at_addresses(core.address, (0, 0.5 * i, i)) for i in range(20)]
    z, grad = (ctypes.c_double * 2)(), (ctypes.c_double * 2)()
    values = [(closure.ctypes(z, grad), grad[0]) for closure in closures]
    assert values == [(0.5 * i, float(i)) for i in range(20)]


def test_threads_make_them_in_one_engine(monkeypatch):
    make, made = llvm.create_mcjit_compiler, []

    def slow(*arguments):
        made.append(arguments)
        time.sleep(0.05)
        return make(*arguments)

    monkeypatch.setattr(llvm, "create_mcjit_compiler", slow)
    _KEPT.append(_engine())  # closures of other tests live in it
    made.clear()
    _engine.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        closures = list(pool.map(lambda i: at_addresses(core.address, (0, 0.5 * i, i)), range(200)))
    assert len(made) == 1
    z, grad = (ctypes.c_double * 2)(), (ctypes.c_double * 2)()
    assert [one.ctypes(z, grad) for one in closures] == [0.5 * i for i in range(200)]
