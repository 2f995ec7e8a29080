"""Kernels that were outlined, put back into the launches: the one form of a module that the verifier, the simulator
and the lowering start from. And shared memory that a module declares as globals, made part of the launch's.
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors import TraceError
from nvdsl.hopper import arch
from nvdsl.ir.location import where
from nvdsl.ir.walk import constant, find, walk
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import _gpu_ops_gen as gpu_ops
from nvdsl.mlir.dialects import arith, gpu, memref
from nvdsl.trace.launch import emit_launch
from nvdsl.values import scope

_SIZES = tuple(f"{what}{axis}" for what in ("gridSize", "blockSize", "clusterSize") for axis in "XYZ")
_AS_ARITH = {
    "index.constant": "arith.constant", "index.casts": "arith.index_cast", "index.castu": "arith.index_castui",
    "index.add": "arith.addi", "index.sub": "arith.subi", "index.mul": "arith.muli", "index.divs": "arith.divsi",
    "index.divu": "arith.divui", "index.rems": "arith.remsi", "index.remu": "arith.remui", "index.shl": "arith.shli",
    "index.shrs": "arith.shrsi", "index.shru": "arith.shrui", "index.and": "arith.andi", "index.or": "arith.ori",
    "index.xor": "arith.xori", "index.maxs": "arith.maxsi", "index.mins": "arith.minsi", "index.maxu": "arith.maxui",
    "index.minu": "arith.minui",
}  # fmt: skip
"""Ops of the index dialect, and those of arith that mean the same: what the rest of nvdsl knows."""
_CALLS = ("func.call", "llvm.call", "func.call_indirect")


def kernels(module: Any) -> list[Any]:
    """The ``gpu.func``s that are kernels, in program order."""
    return [op for op in find(module, "gpu.func") if "kernel" in op.attributes or "gpu.kernel" in op.attributes]


def full_name(kernel: Any) -> str:
    """``module::kernel``."""
    outer = kernel.operation.parent
    return f"{_name(outer)}::{_name(kernel)}"


def parameters(kernel: Any) -> list[Any]:
    """The types of a kernel's parameters."""
    return list(ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).inputs)


def known(kernel: Any, what: str) -> tuple[int, ...] | None:
    """The "block" or "cluster" that a kernel's attributes state."""
    for name in (f"known_{what}_size", f"gpu.known_{what}_size"):
        if name in kernel.attributes:
            return tuple(ir.DenseI32ArrayAttr(kernel.attributes[name]))
    return None


def kernel_of(launch: Any, module: Any) -> Any:
    """The kernel of a ``gpu.launch_func``. Raises TraceError for one that is no gpu.func, or that calls functions."""
    symbol = "::".join(ir.SymbolRefAttr(launch.attributes["kernel"]).value)
    found = [kernel for kernel in kernels(module) if full_name(kernel) == symbol]
    if not found:
        raise TraceError(
            f"the launch of {symbol}, which is no gpu.func with the attribute kernel",
            where=where(launch),
            rule="load takes kernels before they are lowered",
            fix="load the module as it was before convert-gpu-to-nvvm",
        )
    return found[0]


def inline(module: Any) -> None:
    """Turn each ``gpu.launch_func`` into a ``gpu.launch``, shared globals into dynamic shared memory, and ops of the
    index dialect into those of arith."""
    for op in walk(module):
        if op.name in _AS_ARITH:
            attributes = {name: op.attributes[name] for name in op.attributes}
            with ir.InsertionPoint(op), op.location:
                made = ir.Operation.create(_AS_ARITH[op.name], [op.results[0].type], list(op.operands), attributes)
            op.results[0].replace_all_uses_with(made.result)
            op.erase()
    for op in find(module, "gpu.launch_func"):
        _inline(op, module)
    for op in find(module, "gpu.launch"):
        _place_globals(op)


def launch(kernel: Any, info: scope.Kernel, arguments: list[Any], smem: int) -> None:
    """A ``gpu.launch`` of ``kernel``, at the insertion point, with what `describe_launch` said of its sizes."""
    op = emit_launch(info, lambda: None, smem)
    _take_body(op.operation, kernel, arguments)


def _inline(op: Any, module: Any) -> None:
    kernel = kernel_of(op, module)
    with ir.InsertionPoint(op), op.location:
        names = {"module": _name(kernel.operation.parent), "function": _name(kernel)}
        made = _launch_like(op, op.opview.dynamicSharedMemorySize, names)
        count = 12 if op.opview.clusterSizeX is None else 18
        block = made.regions[0].blocks.append(*[ir.IndexType.get()] * count, arg_locs=[op.location] * count)
        with ir.InsertionPoint(block):
            gpu.terminator()
        _take_body(made, kernel, list(op.opview.kernelOperands))
    op.erase()


def _launch_like(op: Any, smem: Any, names: dict[str, str]) -> Any:
    """A ``gpu.launch`` without a body, at the insertion point, of the sizes of a launch, whose token it replaces: all
    work is on one stream, where any token stands for what is before it."""
    index, view = ir.IndexType.get(), op.opview
    sizes = [getattr(view, name) for name in _SIZES]
    sizes = [s if s is None or s.type == index else arith.index_cast(index, s) for s in sizes]
    if smem is None:
        smem = arith.ConstantOp(ir.IntegerType.get_signless(32), 0).result
    made = gpu_ops.LaunchOp(
        None, [], *sizes[:6], clusterSizeX=sizes[6], clusterSizeY=sizes[7], clusterSizeZ=sizes[8],
        dynamicSharedMemorySize=smem, **{name: ir.FlatSymbolRefAttr.get(text) for name, text in names.items()},
    ).operation  # fmt: skip
    if len(op.results):
        op.results[0].replace_all_uses_with(ir.Operation.create("gpu.wait", [op.results[0].type]).result)
    return made


def _take_body(launch: Any, kernel: Any, arguments: list[Any]) -> None:
    """Put a copy of a kernel's body into a launch."""
    for inner in walk(kernel):
        if inner.name in _CALLS:
            raise TraceError(
                f"kernel {_name(kernel)} calls a function ({inner.name})",
                where=where(inner),
                rule="a loaded kernel is one gpu.func",
                fix="run mlir-opt --inline on the module first",
            )
    copy = kernel.operation.clone()
    region, body = copy.regions[0], launch.regions[0].blocks[0]
    entry, terminator = region.blocks[0], list(body.operations)[-1]
    with ir.InsertionPoint(terminator), kernel.location:
        given = [_as(value, type) for value, type in zip(arguments, parameters(kernel), strict=True)]
        buffers = list(entry.arguments)[len(given) :]
        given += [_attribution(number, buffer.type, kernel) for number, buffer in enumerate(buffers)]
    for argument, value in zip(list(entry.arguments), given, strict=True):
        argument.replace_all_uses_with(value)
    for inner in list(entry.operations):
        inner.operation.move_before(terminator)
    terminator.operation.erase()
    for block in list(region.blocks)[1:]:
        block.append_to(launch.regions[0])
    copy.erase()
    for block in launch.regions[0].blocks:
        end = list(block.operations)[-1]
        if end.operation.name == "gpu.return":
            with ir.InsertionPoint(end), end.location:
                gpu.terminator()
            end.operation.erase()


def _as(value: Any, type: Any) -> Any:
    """An argument as the kernel's parameter has it: an array as a pointer, or as a memref of dynamic shape."""
    if value.type == type:
        return value
    if str(type).startswith("!llvm.ptr"):
        address = memref.extract_aligned_pointer_as_index(value)
        integer = arith.index_cast(ir.IntegerType.get_signless(64), address)
        return ir.Operation.create("llvm.inttoptr", [type], [integer]).result
    return memref.CastOp(type, value).result


# --- shared memory


def _attribution(number: int, type: Any, kernel: Any) -> Any:
    """A buffer that a kernel declares in its head: one in shared memory is a global by another name."""
    if not _is_shared(type):
        raise TraceError(
            f"kernel {_name(kernel)} has a private buffer, {type}",
            where=where(kernel),
            rule="a loaded kernel's buffers are in shared memory, or arguments",
            fix="use memref.alloca in the kernel",
        )
    name = ir.FlatSymbolRefAttr.get(f"buffer {number} of {_name(kernel)}")
    return ir.Operation.create("memref.get_global", [type], attributes={"name": name}).result


def _place_globals(launch: Any) -> None:
    """Each ``memref.get_global`` of shared memory in a launch becomes a view of the dynamic block, behind the bytes
    that the launch asks for."""
    gets = find(launch, "memref.get_global")
    for get in gets:
        if not _is_shared(get.results[0].type):
            raise TraceError(
                f"a kernel uses the global @{ir.FlatSymbolRefAttr(get.attributes['name']).value} in global memory",
                where=where(get),
                rule="a loaded kernel's globals are in shared memory (#gpu.address_space<workgroup>, or 3)",
                fix="pass it as an argument",
            )
    if not gets:
        return
    size = launch.opview.dynamicSharedMemorySize
    end = 0 if size is None else constant(size)
    if end is None:
        raise TraceError(
            "the dynamic shared memory of a launch is computed by the host function",
            where=where(launch),
            rule="globals in shared memory are placed behind it, so its size must be known",
            fix="write a constant as the dynamic shared memory size",
        )
    places: dict[str, int] = {}
    for get in gets:
        name = str(get.attributes["name"])
        if name not in places:
            places[name] = -(-end // arch.SMEM_ALIGNMENT) * arch.SMEM_ALIGNMENT
            end = places[name] + _bytes(get.results[0].type, get)
        with ir.InsertionPoint(get), get.location:
            view = _view(places[name], get.results[0].type)
        get.results[0].replace_all_uses_with(view)
        get.erase()
    with ir.InsertionPoint(launch), launch.location:
        total = arith.ConstantOp(ir.IntegerType.get_signless(32), end).result
        made = _launch_like(launch, total, {})
    for name in launch.attributes:
        if name != "operandSegmentSizes":
            made.attributes[name] = launch.attributes[name]
    for block in list(launch.regions[0].blocks):
        block.append_to(made.regions[0])
    launch.erase()


def _view(offset: int, type: Any) -> Any:
    """A memref of ``type`` at byte ``offset`` of the dynamic shared block."""
    workgroup = ir.Attribute.parse("#gpu.address_space<workgroup>")
    block = ir.Operation.create("gpu.dynamic_shared_memory", [ir.Type.parse(f"memref<?xi8, {workgroup}>")]).result
    start = arith.ConstantOp(ir.IndexType.get(), offset).result
    plain = ir.MemRefType.get(type.shape, type.element_type, memory_space=workgroup)
    view = ir.Operation.create("memref.view", [plain], [block, start]).result
    if view.type == type:
        return view
    return ir.Operation.create("builtin.unrealized_conversion_cast", [type], [view]).result


def _is_shared(type: Any) -> bool:
    space = type.memory_space if isinstance(type, ir.MemRefType) else None
    return space is not None and (str(space) == "#gpu.address_space<workgroup>" or str(space).partition(" ")[0] == "3")


def _bytes(type: Any, op: Any) -> int:
    if not type.has_static_shape or not isinstance(type.element_type, ir.IntegerType | ir.FloatType):
        raise TraceError(
            f"a global of type {type}",
            where=where(op),
            rule="a buffer in shared memory has a static shape of integers or floats",
            fix="write its shape as numbers",
        )
    count = 1
    for extent in type.shape:
        count *= extent
    return count * max(type.element_type.width // 8, 1)


def _name(op: Any) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value
