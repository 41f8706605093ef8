"""The path from a reference to a target, as compiled code sees it, and calls of their densities.

At inverse temperature beta the density of the path is

    log pi_beta(u) = (1 - beta) log_reference(u) + beta log_target(u) + const

in coordinates ``u`` in which the reference has about unit scale, ``z = mean + scale u``. In these
coordinates every Gaussian reference is N(0, I); a mixture of Gaussians is given by arrays, and any
other reference is a compiled density of its own. Kernels receive densities as addresses, so that
they are compiled once per installation and not for every model.
"""

from typing import Any, NamedTuple, Protocol

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from pymc_tempering.engine.guard import STOP_SYMBOL
from pymc_tempering.engine.path.components import Components, log_mixture
from pymc_tempering.jit import compiled
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.types import FloatArray, IntArray


class Density(Protocol):
    """A compiled log density, kept alive by the object that presents it."""

    @property
    def address(self) -> int:
        """Of the function, see :func:`call_density`."""

    @property
    def dim(self) -> int:
        """Number D of unconstrained values."""


@intrinsic
def call_density(typingctx: Any, address: Any, z: Any, grad: Any) -> Any:
    """Call ``double f(const double *z, double *grad)`` at an address, from compiled code.

    The function returns the log density in nats, ``-inf`` outside the support, and overwrites
    `grad`; both arrays are contiguous and of shape (D,). Without a call ``-inf`` is returned once
    the run was interrupted, see :mod:`pymc_tempering.engine.guard`.
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


def density_at(address: int, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Values (n,) and gradients (n, D) at the rows of ``z``, of shape (n, D)."""
    # a copy is writeable and contiguous, whatever z is: compiled once
    z = np.array(z, dtype=np.float64, order="C")
    values, grads = np.empty(len(z)), np.empty_like(z)
    _call_each(address, z, values, grads)
    return values, grads


@compiled(borrows=True)
def _call_each(address: int, z: FloatArray, values: FloatArray, grads: FloatArray) -> None:
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


HALF_LOG_2PI = 0.5 * LOG_2PI

GAUSSIAN = 0
"""``reference_address`` of a path whose reference is N(0, I) in its coordinates."""

MIXTURE = 1
"""``reference_address`` of a path whose reference is that of its ``components``."""


class Path(NamedTuple):
    """A path: its two densities and the coordinates in which replicas move.

    Made by an object that keeps the compiled code alive, never by hand.
    """

    target_address: int  # the target's log density of `z`, see `call_density`
    reference_address: int  # the reference's, normalised; or `GAUSSIAN`, or `MIXTURE`
    mean: FloatArray  # (D,)
    scale: FloatArray  # (R, D), the rows of `coordinates.Coordinates`
    log_det_scale: float  # log of the Jacobian, nats
    components: Components  # of a mixture, in `u`; empty for any other reference
    faults: IntArray  # (2,), evaluations with a log target of +inf, and of no number; incremented


@compiled(borrows=True, inside=True)
def log_normal(u: FloatArray) -> float:
    """Log density of N(0, I) at ``u`` of shape (D,), in nats."""
    total = 0.0
    for i in range(u.shape[0]):
        total += u[i] * u[i]
    return -0.5 * total - u.shape[0] * HALF_LOG_2PI


@compiled(borrows=True, inside=True)
def _zero_bad_entries(grad: FloatArray) -> bool:
    """Set entries that are not finite to zero, and say whether there were any."""
    check = 0.0
    for i in range(grad.shape[0]):
        check += 0.0 * grad[i]
    if check == 0.0:
        return False
    for i in range(grad.shape[0]):
        if not np.isfinite(grad[i]):
            grad[i] = 0.0
    return True


@compiled(borrows=True, apart=True, inside=True)
def evaluate_target(
    path: Path, u: FloatArray, grad: FloatArray, work: FloatArray
) -> tuple[float, bool]:
    """Log target density at ``u`` (D,) in the path's coordinates, and whether its gradient was bad.

    `grad` is overwritten with the gradient by ``u``, zero where the density is zero; `work` is two
    rows of scratch space. An infinite density, or one that is not a number, is counted and is
    ``-inf``. Entries of a gradient that are not finite count as zero, which leaves moves exact,
    since a kick may be any function of position. It is bad where a move might end: trajectories
    that diverge in the narrow part of a funnel go where squares overflow.
    """
    z, grad_z = work[0], work[1]
    to_z(path.mean, path.scale, u, z)
    value = call_density(path.target_address, z, grad_z)
    if not np.isfinite(value):
        if value != -np.inf:
            path.faults[0 if value == np.inf else 1] += 1
        for i in range(u.shape[0]):
            grad[i] = 0.0
        return -np.inf, False
    bad_gradient = _zero_bad_entries(grad_z)
    pull_back(path.scale, grad_z, grad)
    # no move ends at such a log density
    return value + path.log_det_scale, bad_gradient and value > -1e8


@compiled(borrows=True, apart=True, inside=True)
def evaluate_reference(path: Path, u: FloatArray, residual: FloatArray, work: FloatArray) -> float:
    """Log reference density at ``u`` (D,) in nats.

    `residual`, (D,) or (0,) for a Gaussian reference, is overwritten with ``grad log_reference +
    u``, what a rotation does not account for; `work` is two rows of scratch space.
    """
    if path.reference_address == GAUSSIAN:
        return log_normal(u)
    if path.reference_address == MIXTURE:
        return log_mixture(path.components, u, residual, work)
    z, grad_z = work[0], work[1]
    to_z(path.mean, path.scale, u, z)
    value = call_density(path.reference_address, z, grad_z)
    if not np.isfinite(value):
        for i in range(u.shape[0]):
            residual[i] = 0.0
        return -np.inf
    _zero_bad_entries(grad_z)
    pull_back(path.scale, grad_z, residual)
    for i in range(u.shape[0]):
        residual[i] += u[i]
    return value + path.log_det_scale
