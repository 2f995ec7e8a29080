"""Rewrites of the device module before MLIR's passes: what they can't take, or would get wrong."""

from __future__ import annotations

from typing import Any

from nvdsl.hopper.arch import MBARRIER_BYTES
from nvdsl.ir.operands import mbarriers
from nvdsl.ir.walk import find_outside, walk
from nvdsl.lower.kernels import Kernel, is_kernel, symbol_name
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm

Kernels = dict[str, Kernel]

_IDS = ("gpu.thread_id", "gpu.block_id", "gpu.cluster_id", "gpu.cluster_block_id")
_SIZES = ("gpu.block_dim", "gpu.grid_dim", "gpu.cluster_dim", "gpu.cluster_dim_blocks")
_DYNAMIC_SMEM = "memref<?xi8, #gpu.address_space<workgroup>>"

_KERNELS = ("gpu.launch", "gpu.module")


def device_module(host: Any, name: str | None = None) -> Any:
    """A module with copies of the host module's ``gpu.module``s, or of the one called ``name``: the passes work on
    these."""
    module = ir.Module.create(ir.Location.unknown())
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    for op in host.body.operations:
        if op.operation.name == "gpu.module" and name in (None, symbol_name(op)):
            op.operation.clone(ip=ir.InsertionPoint(module.body))
    return module


def launch_attributes(host: Any) -> list[dict[str, Any]]:
    """nvdsl's own attributes of each ``gpu.launch``, in program order: outlining drops them."""
    launches = find_outside(host, "gpu.launch", _KERNELS)
    return [{n: op.attributes[n] for n in op.attributes if n.startswith("nvdsl.")} for op in launches]


def restore_launch_attributes(host: Any, attributes: list[dict[str, Any]]) -> None:
    """Put them on the ``gpu.launch_func`` that each has become."""
    launches = find_outside(host, "gpu.launch_func", _KERNELS)
    for op, kept in zip(launches, attributes, strict=True):
        for name, value in kept.items():
            op.attributes[name] = value


def functions(device: Any, kernels: Kernels) -> list[tuple[Any, Kernel]]:
    """The kernels in the device module: each ``gpu.func`` or, later, ``llvm.func``, with its facts."""
    found = []
    for module in device.body.operations:
        for function in module.regions[0].blocks[0].operations:
            if is_kernel(function) or function.operation.name == "llvm.func":
                kernel = kernels.get(f"{symbol_name(module)}::{symbol_name(function)}")
                if kernel is not None:
                    found.append((function, kernel))
    return found


def parameter_count(function: Any) -> int:
    """How many parameters a ``gpu.func`` has."""
    return len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs)


def drop_unused_ids(device: Any, kernels: Kernels, _: Any) -> None:
    for function, _kernel in functions(device, kernels):
        for op in list(function.regions[0].blocks[0].operations):
            if op.operation.name in (*_IDS, *_SIZES) and not any(True for _ in op.results[0].uses):
                op.operation.erase()


def tensor_maps_as_pointers(device: Any, kernels: Kernels, _: Any) -> None:
    """Retype tensor map arguments as ``!llvm.ptr`` and cast back inside."""
    pointer = llvm.PointerType.get()
    for function, kernel in functions(device, kernels):
        entry = function.regions[0].blocks[0]
        for i in kernel.tensor_maps:
            argument = entry.arguments[i]
            descriptor = argument.type
            argument.set_type(pointer)
            with ir.InsertionPoint.at_block_begin(entry), function.location:
                cast = _cast(argument, descriptor)
            argument.replace_all_uses_except(cast, cast.owner.operation)
        count = parameter_count(function)  # further arguments of the entry block are static shared memory
        types = [argument.type for argument in list(entry.arguments)[:count]]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))


def place_mbarriers(device: Any, kernels: Kernels, _: Any) -> None:
    """Each ``nvgpu.mbarrier.create`` becomes a view of the dynamic shared block, behind the user's bytes."""
    for function, kernel in functions(device, kernels):
        offset = kernel.mbarrier_offset
        for op in walk(function):
            if op.name == "nvgpu.mbarrier.create":
                count = mbarriers(op.results[0])
                with ir.InsertionPoint(op), op.location:
                    group = _cast(_shared_view(offset, count), op.results[0].type)
                op.results[0].replace_all_uses_with(group)
                op.erase()
                offset += MBARRIER_BYTES * count


def _shared_view(offset: int, count: int) -> Any:
    """``count`` i64 of the dynamic shared block, from byte ``offset`` on."""
    index = ir.IndexType.get()
    start = new("arith.constant", index, value=ir.IntegerAttr.get(index, offset))
    block = new("gpu.dynamic_shared_memory", ir.Type.parse(_DYNAMIC_SMEM))
    view = ir.Type.parse(f"memref<{count}xi64, #gpu.address_space<workgroup>>")
    return new("memref.view", view, block, start)


def tf32_as_f32(device: Any, kernels: Kernels, _: Any) -> None:
    """Retype memrefs of tf32 as memrefs of f32, which occupy the same bytes."""
    for function, _kernel in functions(device, kernels):
        for op in walk(function):
            if op.name.startswith("memref."):
                for result in op.results:
                    if isinstance(result.type, ir.MemRefType) and _is_tf32(result.type):
                        result.set_type(_with_f32(result.type))


def _is_tf32(type: Any) -> bool:
    return isinstance(type.element_type, ir.FloatTF32Type)


def _with_f32(type: Any) -> Any:
    return ir.MemRefType.get(type.shape, ir.F32Type.get(), type.layout, type.memory_space)


def keep_llvm_atomics(device: Any, kernels: Kernels, _: Any) -> None:
    """Write out the system scope of the user's own llvm atomics: `finish.relax_atomics` then leaves them."""
    for function, _kernel in functions(device, kernels):
        for op in walk(function):
            if op.name in ("llvm.atomicrmw", "llvm.cmpxchg") and "syncscope" not in op.attributes:
                op.attributes["syncscope"] = ir.StringAttr.get("")


def new(name: str, type: Any, *operands: Any, **attributes: Any) -> Any:
    """The result of a new op at the current insertion point."""
    return ir.Operation.create(name, [type], list(operands), attributes).results[0]


def _cast(value: Any, type: Any) -> Any:
    return new("builtin.unrealized_conversion_cast", type, value)
