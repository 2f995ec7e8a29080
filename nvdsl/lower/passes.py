"""The way from a traced module to what the NVPTX backend takes, as data: read it top to bottom.

Two lists. `HOST` splits the traced module into a host body and kernels, and that module is what the launch layer
executes. `DEVICE` then works on a copy of its ``gpu.module``s alone. A step is either MLIR passes, as the text that
``PassManager.parse`` takes, or a rewrite in Python for what MLIR has no pass for.

Decisions that hold for all of them:

* ``index`` is 64 bits; kernels take bare pointers, so their memref arguments have static shapes. Extents and strides
  that only a run knows are arguments of their own.
* No fast math: an ``arith.mulf`` followed by an ``arith.addf`` stays two roundings (``mul.rn``, ``add.rn``), unlike
  nvcc's default. Who wants one writes an fma, or the op's own ``fastmath<contract>``.
* ``vector.load`` and ``vector.store`` become one wide access only with their ``alignment`` attribute: MLIR
  promises no more than the alignment of an element without it.
* No canonicalize and no cse of kernels: LLVM does the same work again, and the PTX is the same without them.
"""

from __future__ import annotations

from collections.abc import Callable

from nvdsl.errors.records import dataclass
from nvdsl.ir import tensor_copies
from nvdsl.ir.arith import DIVISIONS
from nvdsl.lower import (
    accumulators,
    atomics,
    checks,
    cluster_waits,
    device_alignment,
    device_checks,
    device_coordinates,
    device_operands,
    dynamic_arrays,
    finish,
    kernels,
    legalize,
    parameters,
    predication,
    prepare,
    structs,
    watchdog,
)

Rewrite = Callable[..., None]


@dataclass(frozen=True)
class Step:
    """``pipeline``: MLIR passes at module level; else ``rewrite(module, kernels, options)``.

    ``needs``: the step is left out unless a kernel was traced with one of these ops. ``debug``: it belongs to debug
    mode (True), or to what is not debug mode (False).
    """

    name: str
    why: str
    pipeline: str = ""
    rewrite: Rewrite | None = None
    needs: tuple[str, ...] = ()
    debug: bool | None = None

    def wanted(self, op_names: frozenset[str], debug: bool = False) -> bool:
        return self.debug in (None, debug) and (not self.needs or not op_names.isdisjoint(self.needs))


def _pass(name: str, why: str, *, options: str = "", nest: str = "", needs: tuple[str, ...] = ()) -> Step:
    text = f"{name}{{{options}}}" if options else name
    return Step(name, why, pipeline=f"{nest}({text})" if nest else text, needs=needs)


def _rewrite(name: str, why: str, rewrite: Rewrite, needs: tuple[str, ...] = ()) -> Step:
    return Step(name, why, rewrite=rewrite, needs=needs)


def _debug(name: str, why: str, rewrite: Rewrite, needs: tuple[str, ...] = (), when: bool = True) -> Step:
    return Step(name, why, rewrite=rewrite, needs=needs, debug=when)


_VECTOR_TRANSFERS = ("vector.transfer_read", "vector.transfer_write")
_ATOMICS = ("memref.atomic_rmw", "memref.generic_atomic_rmw")

HOST = (
    _rewrite("sink-arrays", "arrays of dynamic extents are put together in the kernels that use them",
             dynamic_arrays.sink),
    _pass("gpu-launch-sink-index-computations", "constants move into the kernels that use them"),
    _pass("gpu-kernel-outlining", "each gpu.launch becomes a gpu.func and a gpu.launch_func"),
    _rewrite("numbers-first", "a launch waits for each line of its parameters that it reads", parameters.numbers_first),
    _rewrite("known-sizes", "a kernel knows the block and the cluster that all its launches have",
             kernels.know_sizes),
    _pass("cse", "a call computes each number once", nest="func.func"),
)

DEVICE = (
    _rewrite("check-arrays", "bare pointers carry no shape", checks.static_arrays),
    _rewrite("check-intrinsics", "what LLVM can't select ends the process", checks.intrinsics,
             needs=checks.INTRINSICS),
    _rewrite("drop-unused-ids", "outlining reads 12 ids and sizes that most kernels don't use",
             prepare.drop_unused_ids),
    _debug("drop-asserts", "an assert is checked in debug mode and in the simulator", device_checks.drop_asserts,
           needs=device_checks.ASSERTS, when=False),
    _debug("declare-log", "through which a kernel says where it is", watchdog.declare_log),
    _debug("check-asserts", "in debug mode", device_checks.check_asserts, needs=device_checks.ASSERTS),
    _debug("check-bounds", "an index outside of its axis stops the kernel", device_checks.check_bounds),
    _debug("check-coordinates", "one of a TMA copy that would be an illegal instruction stops the kernel",
           device_coordinates.check_coordinates, needs=tensor_copies.COPIES),
    _debug("check-alignment", "an access of several elements whose address isn't aligned stops the kernel",
           device_alignment.check_alignment, needs=device_alignment.ACCESSES),
    _debug("check-operands", "a division by 0, or a loop's step of 0, stops the kernel", device_operands.check_operands,
           needs=(*DIVISIONS, *device_operands.LOOPS)),
    _debug("bound-waits", "an mbarrier wait ends after a while", watchdog.bound_waits),
    _debug("cluster-waits", "nvgpu's and nvvm's waits acquire at the scope of the block",
           cluster_waits.cluster_waits, needs=("nvgpu.mbarrier.try_wait.parity",), when=False),
    _debug("predicate", "an instruction under a `predicate=` has it, and is no branch", predication.predicate,
           needs=("scf.if",), when=False),
    _debug("announce-waits", "a warp says where it may stop", watchdog.announce_waits),
    _debug("enter-and-return", "a warp says that it has begun, and ended", watchdog.enter_and_return),
    _rewrite("tensor-maps-as-pointers", "gpu-to-nvvm knows no tensor map arguments",
             prepare.tensor_maps_as_pointers),
    _rewrite("place-mbarriers", "nvgpu would make them static shared memory, which may overlap the dynamic block",
             prepare.place_mbarriers, needs=("nvgpu.mbarrier.create",)),
    _rewrite("tf32-as-f32", "LLVM has no tf32; in memory it is an f32",
             prepare.tf32_as_f32, needs=("memref.view", "memref.reinterpret_cast")),
    _rewrite("keep-llvm-atomics", "atomics that the user wrote in the llvm dialect keep their order and scope",
             prepare.keep_llvm_atomics, needs=_ATOMICS),
    _rewrite("float8-conversions", "arith's, which LLVM has no types for", legalize.float8_conversions,
             needs=legalize.FLOAT8_OPS),
    _rewrite("count-bits", "math's, which no pass below takes", legalize.count_bits,
             needs=tuple(legalize.COUNT_BITS)),
    _rewrite("bf16-products", "of mma.sync, where the next steps of the LLVM in use know none",
             legalize.bf16_products, needs=("nvgpu.mma.sync",)),
    Step("loops-of-matrices", "the next step knows no loop that carries a !gpu.mma_matrix",
         pipeline="convert-scf-to-cf", needs=("gpu.subgroup_mma_compute",)),
    _pass("convert-nvgpu-to-nvvm", "mbarriers, TMA, warpgroup MMA"),
    _rewrite("hold-accumulators", "LLVM would write them behind the fence",
             accumulators.hold_accumulators, needs=("nvgpu.warpgroup.mma",)),
    _rewrite("write-atomics", "an order that the backend would drop", atomics.write_orders,
             needs=("llvm.atomicrmw",)),
    _rewrite("instructions-as-intrinsics", "nvvm's ex2, log2, sin and cos, where the LLVM in use lacks them",
             legalize.instructions, needs=tuple(legalize.INSTRUCTIONS)),
    _pass("convert-vector-to-scf", "vector.transfer_* of rank 2 and more become loops", needs=_VECTOR_TRANSFERS),
    _pass("convert-vector-to-llvm", "vector.transfer_* of rank 1", needs=_VECTOR_TRANSFERS),
    _pass("convert-scf-to-cf", "for, while, if become branches"),
    _pass("expand-strided-metadata", "subviews and casts of memrefs become an offset"),
    _pass("lower-affine", "the arithmetic that the pass before made"),
    _pass("convert-gpu-to-nvvm", "everything that is left but nvvm: arith, math, memref, vector, cf, gpu",
          options="use-bare-ptr-memref-call-conv=1", nest="gpu.module"),
    _pass("convert-nvvm-to-llvm", "nvvm ops that are inline PTX"),
    _rewrite("join-wgmmas", "LLVM would take an accumulator apart and put it together between two",
             structs.join_wgmmas, needs=structs.WGMMAS),
    _rewrite("spread-structs", "LLVM's inline assembly takes registers one by one", structs.spread,
             needs=structs.INLINE_ASM),
    _rewrite("check-inline-ptx", "what LLVM can't print ends the process", checks.inline_ptx,
             needs=checks.INLINE_PTX),
    _pass("reconcile-unrealized-casts", "the passes' casts cancel out"),
    _rewrite("kernel-attributes", "block size, tensor maps by value", finish.kernel_attributes),
    _rewrite("external-shared-memory", "one dynamic block, aligned to 1024 bytes",
             finish.external_shared_memory),
    _rewrite("relax-atomics", "memref's atomics order nothing else, as CUDA's don't",
             finish.relax_atomics, needs=_ATOMICS),
    _rewrite("producer-first", "a launch waits for the code of its first loads", finish.producer_first,
             needs=("nvvm.setmaxregister",)),
    _rewrite("nvptx-target", "sm_90a, PTX ISA 8.6, libdevice where a kernel calls it", finish.attach_target),
    _pass("ensure-debug-info-scope-on-llvm-func", "PTX names the user's lines",
          options="emission-kind=DebugDirectivesOnly"),
)  # fmt: skip

NAMES = tuple(step.name for step in (*HOST, *DEVICE))

EMIT_PTX = "gpu-module-to-binary{format=isa}"
"""LLVM's optimizer and the NVPTX backend, in this process."""
