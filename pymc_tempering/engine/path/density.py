"""Calling a log density by address, and the coordinates in which kernels see it.

A kernel that closes over a model's function has to be compiled again for every model. A kernel
that receives the density as an address is compiled once per installation.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from pymc_tempering.engine.interrupts import STOP_SYMBOL
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

__all__ = ["call_density", "call_density_at", "pull_back", "to_z"]


@intrinsic
def call_density(typingctx: Any, address: Any, z: Any, grad: Any) -> Any:
    """Call ``double f(const double *z, double *grad)`` at an address, from compiled code.

    The function returns the log density in nats, ``-inf`` outside the support, and overwrites
    `grad`; both arrays are contiguous and of shape (D,). Without a call ``-inf`` is returned once
    the run was interrupted, see :mod:`pymc_tempering.engine.interrupts`.
    """
    signature = numba.types.float64(address, z, grad)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = ir.DoubleType().as_pointer()
        function_type = ir.FunctionType(ir.DoubleType(), [pointer, pointer])
        function = builder.inttoptr(args[0], function_type.as_pointer())
        z_struct = context.make_array(sig.args[1])(context, builder, args[1])
        grad_struct = context.make_array(sig.args[2])(context, builder, args[2])
        # by name: an address would be part of the code that is kept on disk
        stop = builder.module.globals.get(STOP_SYMBOL) or ir.GlobalVariable(
            builder.module, ir.IntType(64), STOP_SYMBOL
        )
        stopped = builder.load_atomic(stop, "monotonic", 8)
        goes_on = builder.icmp_unsigned("==", stopped, ir.Constant(ir.IntType(64), 0))
        before = builder.block
        with builder.if_then(goes_on, likely=True):
            called = builder.call(function, [z_struct.data, grad_struct.data])
            calling = builder.block
        value = builder.phi(ir.DoubleType())
        value.add_incoming(ir.Constant(ir.DoubleType(), -np.inf), before)
        value.add_incoming(called, calling)
        return value

    return signature, codegen


@compiled(borrows=True)
def call_density_at(address: int, z: FloatArray, values: FloatArray, grads: FloatArray) -> None:
    """Fill ``values`` and the rows of ``grads`` at the rows of ``z``, of shape (n, D)."""
    for n in range(z.shape[0]):
        values[n] = call_density(address, z[n], grads[n])


# sums in any order, so that the compiler can use vector instructions; no other liberties, since
# infinities and nan must keep their meaning
@compiled(borrows=True, fastmath={"reassoc", "contract"}, inside=True)
def _lower_times(lower: FloatArray, x: FloatArray, out: FloatArray) -> None:
    for i in range(x.shape[0]):
        total = 0.0
        for j in range(i + 1):
            total += lower[i, j] * x[j]
        out[i] = total


@compiled(borrows=True, inside=True)
def _transposed_times(lower: FloatArray, x: FloatArray, out: FloatArray) -> None:
    for j in range(x.shape[0]):
        out[j] = 0.0
    for i in range(x.shape[0]):
        factor = x[i]
        for j in range(i + 1):
            out[j] += lower[i, j] * factor


@compiled(borrows=True, fastmath={"reassoc", "contract"}, inside=True)
def _low_rank_times(rows: FloatArray, x: FloatArray) -> None:
    # in place, one direction after another: they are orthogonal
    rank = (rows.shape[0] - 1) // 2
    for j in range(rank):
        along = 0.0
        for i in range(x.shape[0]):
            along += rows[1 + j, i] * x[i]
        for i in range(x.shape[0]):
            x[i] += along * rows[1 + rank + j, i]


@compiled(borrows=True, apart=True, inside=True)
def to_z(mean: FloatArray, scale: FloatArray, u: FloatArray, z: FloatArray) -> None:
    """Map ``u`` to ``z = mean + scale u``, both (D,); ``scale`` has the rows of Coordinates."""
    dim = u.shape[0]
    n_rows = scale.shape[0]
    if n_rows == 1:
        for i in range(dim):
            z[i] = mean[i] + scale[0, i] * u[i]
    elif n_rows < dim:
        for i in range(dim):
            z[i] = u[i]
        _low_rank_times(scale, z)
        for i in range(dim):
            z[i] = mean[i] + scale[0, i] * z[i]
    else:
        _lower_times(scale, u, z)
        for i in range(dim):
            z[i] += mean[i]


@compiled(borrows=True, apart=True, inside=True)
def pull_back(scale: FloatArray, grad_z: FloatArray, grad: FloatArray) -> None:
    """Gradient ``grad`` by ``u``, (D,), of a function of ``z``, by the transpose of ``scale``."""
    dim = grad.shape[0]
    n_rows = scale.shape[0]
    if n_rows == 1:
        for i in range(dim):
            grad[i] = scale[0, i] * grad_z[i]
    elif n_rows < dim:
        for i in range(dim):
            grad[i] = scale[0, i] * grad_z[i]
        _low_rank_times(scale, grad)
    else:
        _transposed_times(scale, grad_z, grad)
