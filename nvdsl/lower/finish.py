"""Rewrites of the device module after MLIR's passes: what the NVPTX backend and ptxas need to be told."""

from __future__ import annotations

from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir.operands import string, word
from nvdsl.ir.walk import walk
from nvdsl.lower import toolchain
from nvdsl.lower.prepare import Kernels, functions
from nvdsl.mlir import ir

PTX_ISA = "ptx86"
"""PTX ISA 8.6 has all that Hopper has, up to fence.*.sync_restrict; ptxas knows it since CUDA 12.7."""

_TENSOR_MAP = (
    f"{{llvm.byval = !llvm.array<{arch.TENSOR_MAP_BYTES} x i8>, nvvm.grid_constant, "
    f"llvm.align = {arch.TENSOR_MAP_ALIGNMENT} : i64}}"
)
_MONOTONIC = 2  # LLVM's AtomicOrdering


def kernel_attributes(device: Any, kernels: Kernels, _: Any) -> None:
    """Tensor maps by value; the block's exact size instead of its maximum.

    With ``.reqntid`` ptxas knows which values are uniform in a warp and needs no shuffle to prove it. Without a
    block size or ``.minnctapersm`` it ignores setmaxnreg. ``.reqnctapercluster`` came with convert-gpu-to-nvvm:
    ptxas's code is the same without it, but the driver then checks the launch.
    """
    i32 = ir.IntegerType.get_signless(32)
    for function, kernel in functions(device, kernels):
        attributes = function.attributes
        if kernel.tensor_maps:
            attributes["arg_attrs"] = _argument_attributes(function, kernel.tensor_maps)
        if kernel.block is not None:
            if "nvvm.maxntid" in attributes:
                del attributes["nvvm.maxntid"]
            attributes["nvvm.reqntid"] = ir.DenseI32ArrayAttr.get(list(kernel.block))
            attributes["nvvm.minctasm"] = ir.IntegerAttr.get(i32, kernel.blocks_per_sm)


def _argument_attributes(function: Any, tensor_maps: tuple[int, ...]) -> Any:
    tensor_map = ir.DictAttr.parse(_TENSOR_MAP)
    if "arg_attrs" in function.attributes:
        found = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
    else:
        found = [ir.DictAttr.get({})] * len(function.regions[0].blocks[0].arguments)
    return ir.ArrayAttr.get([tensor_map if i in tensor_maps else a for i, a in enumerate(found)])


def producer_first(device: Any, kernels: Kernels, _: Any) -> None:
    """Say that the branch of those who give up registers is the likely one, so that its code follows the branch.

    What a launch has to load first is fetched line by line then, with no jump. The others wait for the loads.
    """
    weights = ir.DenseI32ArrayAttr.get([1, 100]), ir.DenseI32ArrayAttr.get([100, 1])
    for function, _kernel in functions(device, kernels):
        found = [op for op in walk(function) if op.name in ("llvm.cond_br", "nvvm.setmaxregister")]
        giving = [op.block for op in found if op.name == "nvvm.setmaxregister" and word(op, "action") == "decrease"]
        for branch in found:
            if branch.name == "llvm.cond_br":
                gives = [successor in giving for successor in branch.successors]
                if gives[0] != gives[1]:
                    branch.attributes["branch_weights"] = weights[gives[0]]


def external_shared_memory(device: Any, _kernels: Kernels, _: Any) -> None:
    """Declare the dynamic block as ``.extern .shared .align 1024``.

    As convert-gpu-to-nvvm leaves it, internal and of length 0, the backend makes it a static variable of
    the kernel with an alignment of 16, too small for a swizzle.
    """
    i64 = ir.IntegerType.get_signless(64)
    for module in device.body.operations:
        for op in module.regions[0].blocks[0].operations:
            if op.operation.name == "llvm.mlir.global" and _is_dynamic_shared_memory(op):
                op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
                op.attributes["alignment"] = ir.IntegerAttr.get(i64, arch.SMEM_ALIGNMENT)


def _is_dynamic_shared_memory(op: Any) -> bool:
    return string(op, "sym_name").startswith("__dynamic_shmem__")


def relax_atomics(device: Any, kernels: Kernels, _: Any) -> None:
    """Atomics of the memref dialect become relaxed at the GPU's scope, as CUDA's atomicAdd is.

    The dialect leaves their order open; its lowering takes acquire and release for the whole system, which
    costs a fence on either side of each.
    """
    i64 = ir.IntegerType.get_signless(64)
    monotonic, scope = ir.IntegerAttr.get(i64, _MONOTONIC), ir.StringAttr.get("device")
    for function, _kernel in functions(device, kernels):
        for op in walk(function):
            if op.name not in ("llvm.atomicrmw", "llvm.cmpxchg") or "syncscope" in op.attributes:
                continue
            op.attributes["syncscope"] = scope
            for name in ("ordering", "success_ordering", "failure_ordering"):
                if name in op.attributes:
                    op.attributes[name] = monotonic


DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""The NVPTX backend's. Without it an i64 counts as aligned to 4 bytes while its loads and stores are made, and each is
split in two; where a stored one had been an f64, ptxas 13.0 then wrote a wrong lower half (seen on an H200)."""


def attach_target(device: Any, _kernels: Kernels, options: Any) -> None:
    """Say what to generate code for, and link libdevice into modules that call it."""
    for module in device.body.operations:
        link = f', link = ["{toolchain.libdevice(options.ptxas)}"]' if _calls_libdevice(module) else ""
        target = f'#nvvm.target<O = {options.opt_level}, chip = "{arch.CHIP}", features = "+{PTX_ISA}"{link}>'
        module.attributes["targets"] = ir.ArrayAttr.get([ir.Attribute.parse(target)])
        module.attributes["llvm.data_layout"] = ir.StringAttr.get(DATA_LAYOUT)


def _calls_libdevice(module: Any) -> bool:
    return any(
        op.operation.name == "llvm.func" and string(op, "sym_name").startswith("__nv_")
        for op in module.regions[0].blocks[0].operations
    )
