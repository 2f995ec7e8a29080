"""The thin layer under the names of LLVM's NVGPU examples (mlir/test/Examples/NVGPU/tools/nvdsl.py).

A program in that style runs with only its import lines changed:

    from nvdsl.mlir import ir
    from nvdsl.mlir.dialects import gpu, scf, nvgpu, nvvm
    from nvdsl.mlir.extras import types as T
    from nvdsl.thin import *

The import of the dialects comes before that of the thin layer, whose ``gpu`` also takes ``gpu.wait(type, tokens)`` and
``gpu.printf(format, [x, y])`` as older versions of the examples write them.

Operators follow the types, and these are signed: ``<``, ``<=``, ``>``, ``>=``, ``//``, ``/`` and ``%`` of index and i32
values are signed here, and unsigned in LLVM's ``tools/nvdsl.py``. Numbers that are not negative give the same. With
``tid = 0``, ``(tid - 1) // 2`` is -1 here and 2**63 - 1 there, and only here does ``tid - 1 < n`` hold. ``/`` of index
values rounds down like ``//``; ``/`` of other integers is an error. For unsigned numbers convert:
``nv.u32(tid - 1) // 2``.

`load` takes kernels that are written as MLIR.

The host body (gpu.alloc, gpu.memcpy, gpu.wait, tensor maps, launches) is executed op by op through
cuda-python. What such programs relied on luck for is put right here, each where it says so:
a block barrier after the mbarriers' init, a barrier of one warpgroup inside ``with Warpgroup``, a wait for
wgmma before accumulators are stored, `setmaxnreg` in the direction that the launch needs.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from nvdsl.call.module import trace_function
from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.ir.walk import find
from nvdsl.mlir import ir
from nvdsl.mlir import runtime as rt
from nvdsl.mlir.dialects import arith, func, memref, nvgpu, nvvm, scf
from nvdsl.mlir.extras import types as T
from nvdsl.ops.mbarrier import Mbarriers
from nvdsl.ops.smem import DYNAMIC as MLIR_DYNAMIC
from nvdsl.ops.smem import get_dynamic_shared_memory
from nvdsl.ops.tma import TMA
from nvdsl.ops.warp import WARP_GROUP_SIZE, setmaxnreg_dec, setmaxnreg_inc
from nvdsl.ops.wgmma import wgmma_wait
from nvdsl.thin.examples import get_mlir_func_obj_ty, get_mlir_ty, gpu
from nvdsl.thin.host_function import HostFunction
from nvdsl.thin.load import Loaded, LoadedFunction, LoadedKernel, load
from nvdsl.trace.launch import describe_launch, emit_launch
from nvdsl.values import scope
from nvdsl.values.traced import const
from nvdsl.values.typing import Coords

P = ParamSpec("P")
R = TypeVar("R")


def get_type_size(ty: ir.Type) -> int:
    """Bytes of a memref, float or integer type."""
    if isinstance(ty, ir.MemRefType):
        size = get_type_size(ty.element_type)
        for extent in ty.shape:
            size *= extent
        return size
    if isinstance(ty, ir.IntegerType | ir.FloatType):
        return max(ty.width // 8, 1)
    if isinstance(ty, ir.IndexType):
        return 8
    raise trace_error(
        f"get_type_size({ty})",
        rule="a size is known for memrefs with static shape, floats and integers",
        fix="pass a.type or a.type.element_type",
    )


class Warpgroup:
    """One warpgroup's part of a kernel: ``with Warpgroup(primary_thread=128, register_size=40):``.

    ``primary_thread``: its first thread, a multiple of 128. ``register_size``: registers per thread from there
    on (setmaxnreg). ``is_wg_primary`` is true in its first thread. A ``gpu.barrier`` inside waits for
    this warpgroup alone (named barrier ``1 + warpgroup``): the others never reach it.
    """

    def __init__(self, primary_thread: int, register_size: int) -> None:
        if primary_thread % WARP_GROUP_SIZE:
            raise trace_error(
                f"Warpgroup(primary_thread={primary_thread})",
                rule="a warpgroup starts at a multiple of 128 threads (PTX ISA, wgmma)",
                fix="use 0, 128, 256, ...",
            )
        tidx = gpu.thread_id(gpu.Dimension.x)
        self.primary_thread = primary_thread
        self.register_size = register_size
        self.number = primary_thread // WARP_GROUP_SIZE
        self.is_wg_primary = (tidx % WARP_GROUP_SIZE) == 0
        self.wg_id = tidx / WARP_GROUP_SIZE
        self.is_me = self.wg_id == self.number

    def __enter__(self) -> Warpgroup:
        self._if = scf.IfOp(self.is_me)
        increase = self.register_size > arch.launch_registers(scope.current("Warpgroup").threads)
        with ir.InsertionPoint(self._if.then_block):
            (setmaxnreg_inc if increase else setmaxnreg_dec)(self.register_size)
        self._insertion = ir.InsertionPoint(self._if.then_block)
        self._insertion.__enter__()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is None:
            scf.yield_([])
        self._insertion.__exit__(exc_type, exc_value, traceback)
        if exc_type is None:
            _narrow_barriers(self._if, self.number)
        # An exception in the body is the user's: returning nothing lets it go on.


def _narrow_barriers(op: Any, warpgroup: int) -> None:
    """``gpu.barrier`` under a warpgroup's branch -> a named barrier of its 128 threads."""
    for barrier in find(op, "gpu.barrier"):
        i32 = ir.IntegerType.get_signless(32)
        with ir.InsertionPoint(barrier):
            nvvm.barrier(
                barrier_id=const(1 + warpgroup, i32),
                number_of_threads=const(WARP_GROUP_SIZE, i32),
                loc=barrier.location,  # else it gets the line that is being traced
            )
        barrier.erase()


class WGMMAType(Enum):
    """What a `WGMMAMatrix` is: sums in registers, or an operand in shared memory."""

    Accumulator = 1
    Descriptor = 2


class WGMMAMatrix:
    """An operand or the accumulator of nvgpu's warpgroup matrix multiplication.

    ``D += A @ B`` emits ``nvgpu.warpgroup.generate.descriptor`` for both operands and ``nvgpu.warpgroup.mma``, which
    issues wgmma.fence, the wgmmas, wgmma.commit_group and a wait that leaves one group in flight. Operands
    have the 128-byte swizzle; B is stored as (K, N).
    """

    def __init__(
        self,
        matrix_type: WGMMAType,
        shape: Sequence[int] | None = None,
        desc: TMA | None = None,
        smem: ir.Value | None = None,
        ty: ir.Type | None = None,
        acc_op: ir.Value | None = None,
    ) -> None:
        self.matrix_type, self.desc, self.smem, self.ty = matrix_type, desc, smem, ty
        if acc_op is not None:
            self.matrix_type, self.acc_op = WGMMAType.Accumulator, acc_op
            return
        if shape is None or len(shape) != 2:
            raise trace_error(
                f"WGMMAMatrix with shape {shape}",
                rule="a matrix has two extents, rows and columns",
                fix="pass [M, K], [K, N] or [M, N]",
            )
        self.M, self.N = shape
        if matrix_type is WGMMAType.Accumulator:
            self.acc_op = nvgpu.warpgroup_mma_init_accumulator(self.acc_ty)

    @property
    def acc_ty(self) -> ir.Type:
        """The accumulator's type, ``!nvgpu.warpgroup.accumulator``."""
        return ir.Type.parse(
            f"!nvgpu.warpgroup.accumulator<fragmented = vector<{self.M}x{self.N}x{self.ty}>>"
        )

    @property
    def wgmma_ty(self) -> ir.Type:
        """The operand's type, ``!nvgpu.warpgroup.descriptor``."""
        assert self.desc is not None
        return ir.Type.parse(
            f"!nvgpu.warpgroup.descriptor<tensor = memref<{self.M}x{self.N}x{self.desc.memref_ty.element_type}, "
            "#gpu.address_space<workgroup>>>"
        )

    def store_accumulator(self, dest: ir.Value) -> None:
        """Wait for all wgmmas, then write the accumulator to a memref (``nvgpu.warpgroup.mma.store``)."""
        assert self.matrix_type == WGMMAType.Accumulator
        wgmma_wait(0)
        nvgpu.warpgroup_mma_store(self.acc_op, dest)

    def update_smem(self, smem: ir.Value) -> None:
        """Take the operand from another view of shared memory."""
        self.smem = smem

    def update_accumulator(self, acc_op: ir.Value) -> None:
        """Take other sums."""
        self.acc_op = acc_op

    def __matmul__(self, rhs: WGMMAMatrix) -> list[ir.Value]:
        assert self.desc is not None and rhs.desc is not None
        return [
            nvgpu.warpgroup_generate_descriptor(m.wgmma_ty, m.smem, m.desc.tma_descriptor)  # type: ignore[union-attr]
            for m in (self, rhs)
        ]

    def __iadd__(self, matmul_result: list[ir.Value]) -> WGMMAMatrix:
        lhs, rhs = matmul_result
        acc_op = nvgpu.WarpgroupMmaOp(self.acc_op.type, lhs, rhs, self.acc_op, transposeB=True).result
        return WGMMAMatrix(WGMMAType.Accumulator, acc_op=acc_op)


class NVDSL:
    """The decorators of the thin layer."""

    @staticmethod
    def mlir_gpu_launch(
        grid: Coords = (1, 1, 1), block: Sequence[int] = (1, 1, 1), smem: int = 0
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Trace a nested function into ``gpu.launch``. ``smem``: bytes that the kernel laid out itself."""

        def decorator(function: Callable[P, R]) -> Callable[P, R]:
            @functools.wraps(function)
            def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
                info = describe_launch(function.__name__, tuple(grid), tuple(block), 1)
                results: list[R] = []
                op = emit_launch(info, lambda: results.append(function(*args, **kwargs)), smem)
                _synchronize_inits(op)
                return results[0]

            return wrapper

        return decorator

    @staticmethod
    def mlir_func(function: Callable[..., None]) -> ThinFunction:
        """Trace a host function and run it op by op. See `ThinFunction`."""
        return ThinFunction(function)


_MBARRIER_USES = (
    "nvgpu.mbarrier.arrive", "nvgpu.mbarrier.arrive.expect_tx", "nvgpu.mbarrier.try_wait.parity",
    "nvgpu.mbarrier.get", "nvgpu.tma.async.load",
)  # fmt: skip


def _synchronize_inits(launch: Any) -> None:
    """Put ``fence.mbarrier_init`` and a block barrier behind the mbarriers' inits, unless one is there.

    The examples initialize in thread 0 and let the other threads run on to their first wait.
    """
    ops = list(launch.body.blocks[0].operations)
    holders = [i for i, op in enumerate(ops) if find(op, "nvgpu.mbarrier.init")]
    if not holders:
        return
    for op in ops[holders[-1] + 1 :]:
        if op.operation.name in ("gpu.barrier", "nvvm.cluster.wait"):
            return
        if any(find(op, name) for name in _MBARRIER_USES):
            break
    line = ops[holders[-1]].location
    with ir.InsertionPoint(ops[holders[-1] + 1]):
        nvvm.fence_mbarrier_init(loc=line)
        gpu.barrier(loc=line)


class ThinFunction(HostFunction):
    """A host function in LLVM's style. Positional arguments are traced: NumPy or device arrays as memrefs,
    bool as i1, int as index, float as f32. Keyword arguments stay Python values.

    With ``MLIR_NVDSL_PRINT_IR=1`` a call prints the traced module instead of running it, as LLVM's does.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        super().__init__(function.__name__)
        functools.update_wrapper(self, function)
        self._function = function

    def __reduce__(self) -> str:
        """By name, as Python's functions are."""
        return self._function.__qualname__

    def _module(self, specs: list[Any], **kwargs: Any) -> ir.Module:
        return trace_function(
            self.__name__,
            specs,
            lambda values: self._function(*values, **kwargs),
        ).verified()


__all__ = [
    "MLIR_DYNAMIC", "NVDSL", "TMA", "WARP_GROUP_SIZE", "Loaded", "LoadedFunction", "LoadedKernel", "Mbarriers", "T",
    "ThinFunction", "WGMMAMatrix", "WGMMAType", "Warpgroup", "arith", "const", "ctypes", "errno", "func", "functools",
    "get_dynamic_shared_memory", "get_mlir_func_obj_ty", "get_mlir_ty", "get_type_size", "gpu", "ir", "load", "memref",
    "np", "nvgpu", "nvvm", "os", "rt", "scf", "sys",
]  # fmt: skip
