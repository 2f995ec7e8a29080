"""Debug mode: device asserts, and indices checked against the shape of what they index.

An access is checked against the memref that it names and, through views, against the arrays and the shared memory
behind it. What goes through a pointer has no shape: compute-sanitizer looks at it.
"""

from __future__ import annotations

import math
from typing import Any

from nvdsl.ir import views
from nvdsl.ir.location import where
from nvdsl.ir.operands import has, integer, mbarriers, named, optional, string
from nvdsl.ir.walk import constant, defining, find, identity, walk
from nvdsl.lower import debug_ptx, device_log
from nvdsl.lower.device_log import Site
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.lower.watchdog import add_site, mbarrier_names, to_i32, to_i64
from nvdsl.mlir import ir
from nvdsl.values import bounds
from nvdsl.values.elements import ELEMENTS

ASSERT = "nvdsl.assert"
"""Attribute of a ``gpu.printf`` that is an assert with values: where it is executed, the assert has failed."""

ASSERTS = ("cf.assert", "gpu.printf")


def drop_asserts(device: Any, kernels: Kernels, _: Any) -> None:
    """Without debug mode an assert costs nothing."""
    for function, _kernel in functions(device, kernels):
        for op in _asserts(function):
            op.erase()


def check_asserts(device: Any, kernels: Kernels, _: Any) -> None:
    """An assert that fails stops the kernel with its values in the log."""
    for function, kernel in functions(device, kernels):
        for op in _asserts(function):
            values: list[Any] = []
            with ir.InsertionPoint(op), op.location:
                if bounds.ATTRIBUTE in op.attributes:
                    _check_stated(op, kernel)
                    op.erase()
                    continue
                if op.name == "cf.assert":
                    holds, text = to_i32(op.operands[0]), string(op, "msg").replace("%", "%%")
                else:
                    holds, text = _constant(_i32(), 0), string(op, "format")
                    values = list(op.operands)[: device_log.MAX_VALUES]
                site = Site("assert", where(op), text, types=tuple(str(value.type) for value in values))
                _require(holds, kernel, site, values)
            op.erase()


def _asserts(function: Any) -> list[Any]:
    """Asserts, and stated indices."""
    return [op for op in find(function, *ASSERTS) if op.name == "cf.assert" or has(op, ASSERT) or bounds.stated(op)]


# --- bounds


_ACCESSES = {  # op -> position of its memref, what it does
    "memref.load": (0, "load"),
    "memref.store": (1, "store"),
    "vector.load": (0, "load"),
    "vector.store": (1, "store"),
    "memref.atomic_rmw": (1, "atomic operation"),
    "memref.generic_atomic_rmw": (0, "atomic operation"),
}


_MBARRIERS = (
    "nvgpu.mbarrier.get",
    "nvgpu.mbarrier.init",
    "nvgpu.mbarrier.arrive",
    "nvgpu.mbarrier.arrive.nocomplete",
    "nvgpu.mbarrier.arrive.expect_tx",
    "nvgpu.mbarrier.try_wait.parity",
    "nvgpu.tma.async.load",
)
"""Ops that name an mbarrier by its group and its number there, some of them with a predicate."""


def check_bounds(device: Any, kernels: Kernels, _: Any) -> None:
    """Each element access stops the kernel where an index is outside of its axis, each use of an mbarrier where its
    number is outside of its group."""
    for function, kernel in functions(device, kernels):
        ops = walk(function)
        names = mbarrier_names(ops)
        for op in ops:
            with ir.InsertionPoint(op), op.location:
                if op.name in _ACCESSES:
                    _check_access(op, kernel)
                elif op.name == "nvgpu.device_async_copy":
                    _check_async_copy(op, kernel)
                elif op.name in _MBARRIERS:
                    _check_mbarrier(op, names, kernel)


def _check_mbarrier(op: Any, names: dict[Any, str], kernel: Kernel) -> None:
    group, number, guard = named(op).barriers, named(op).mbarId, optional(op, "predicate")
    made = defining(group)
    if made is None or made.name != "nvgpu.mbarrier.create":
        return
    count = mbarriers(group)
    if _known_below(number, count):
        return
    holds = _compare(number, count)
    if guard is not None:
        holds = new("arith.ori", holds.type, holds, new("arith.xori", guard.type, guard, _constant(guard.type, 1)))
    of = f"the {count} mbarriers of {names.get(identity(group), 'a group')}"
    site = Site("out-of-bounds", where(op), "mbarrier", of, types=("index",), extents=(count,))
    _require(to_i32(holds), kernel, site, [number])


def _check_stated(op: Any, kernel: Kernel) -> None:
    """Indices that a wrapper states: `nvdsl.ops.bounds`."""
    stated, operands = bounds.stated(op), list(op.operands)
    assert stated is not None
    values = operands[: len(stated.extents)]
    extents = [operands[n.number] if isinstance(n, bounds.Operand) else n for n in stated.extents]
    if len(values) > device_log.MAX_VALUES:
        return
    holds = None
    for value, extent in zip(values, extents, strict=True):
        one = _compare(value, extent)
        if stated.multiple > 1:
            rest = new("arith.remui", value.type, value, _constant(value.type, stated.multiple))
            equal = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
            whole = new("arith.cmpi", one.type, rest, _constant(value.type, 0), predicate=equal)
            one = new("arith.andi", one.type, one, whole)
        holds = one if holds is None else new("arith.andi", one.type, holds, one)
    _require_within(holds, "access", stated.of, values, extents, kernel, op, stated.multiple)


def _require_within(
    holds: Any, what: str, of: str, values: list[Any], extents: list[Any], kernel: Kernel, op: Any, multiple: int = 0
) -> None:
    """Indices are below their extents. Dynamic extents are written into the log behind them, where they have room."""
    dynamic = [extent for extent in extents if isinstance(extent, ir.Value)]
    logged = [*values, *dynamic] if len(values) + len(dynamic) <= device_log.MAX_VALUES else values
    known = tuple(None if isinstance(extent, ir.Value) else extent for extent in extents)
    types = tuple(str(value.type) for value in logged)
    site = Site("out-of-bounds", where(op), what, of, count=multiple, types=types, extents=known)
    _require(to_i32(holds), kernel, site, logged)


def _check_access(op: Any, kernel: Kernel) -> None:
    position, what = _ACCESSES[op.name]
    ref, indices = op.operands[position], list(op.operands)[position + 1 :]
    width = 1
    if op.name.startswith("vector."):
        vector = op.results[0] if op.name == "vector.load" else op.operands[0]
        width = vector.type.shape[-1]
    _check(what, ref, indices, width, kernel, op, "an array")
    source, outer = _behind(ref, indices)
    while source is not None:
        _check(what, source, outer, width, kernel, op, "an array (through a view)")
        source, outer = _behind(source, outer)
    _check_block(what, ref, kernel, op)


def _check_async_copy(op: Any, kernel: Kernel) -> None:
    """Where it writes; and where it reads, unless it says how much it reads: that may be nothing."""
    view, width = named(op), integer(op, "dstElements")
    _check("cp.async", view.dst, list(view.dstIndices), width, kernel, op, "an array")
    _check_block("cp.async", view.dst, kernel, op)
    source, indices = view.src, list(view.srcIndices)
    name = "an array"
    while source is not None and view.srcElements is None:
        _check("cp.async", source, indices, width, kernel, op, name)
        (source, indices), name = _behind(source, indices), "an array (through a view)"


def _check(what: str, ref: Any, indices: list[Any], width: int, kernel: Kernel, op: Any, name: str) -> None:
    """``width`` elements of the last axis from ``indices`` on lie within the memref."""
    extents = list(ref.type.shape)
    if not indices or len(indices) > device_log.MAX_VALUES or not _has_extents(ref):
        return
    dynamic = ir.ShapedType.get_dynamic_size()
    shown = "x".join("?" if extent == dynamic else str(extent) for extent in extents)
    for axis, extent in enumerate(extents):
        if extent == dynamic:
            dim = new("memref.dim", indices[0].type, ref, _constant(indices[0].type, axis))
            extents[axis] = _minus(dim, 0)
    extents[-1] = _minus(extents[-1], width - 1)
    checked = [(i, below) for i, below in zip(indices, extents, strict=True) if not _known_below(i, below)]
    if not checked:
        return
    holds = None
    for index, below in checked:  # as unsigned numbers, so that negative ones are too large
        one = _compare(index, below)
        holds = one if holds is None else new("arith.andi", one.type, holds, one)
    of = f"{name} of {shown} {ref.type.element_type}" + _space(ref)
    elements = f" of {width} elements" if width > 1 else ""
    _require_within(holds, what + elements, of, indices, extents, kernel, op)


def _has_extents(ref: Any) -> bool:
    """Whether the extents of a memref are known where it is used."""
    made = defining(ref)
    while made is not None and made.name == "memref.subview":
        made = defining(made.operands[0])
    return bool(ref.type.has_static_shape) or made is not None and made.name == "memref.reinterpret_cast"


def _minus(extent: Any, less: int) -> Any:
    """An extent that is smaller by ``less``, but not below 0."""
    if isinstance(extent, int):
        return max(extent - less, 0)
    shorter = new("arith.subi", extent.type, extent, _constant(extent.type, less))
    return new("arith.maxsi", extent.type, shorter, _constant(extent.type, 0))


def _check_block(what: str, ref: Any, kernel: Kernel, op: Any) -> None:
    """A view of the block's shared memory lies within the kernel's tiles."""
    view = defining(ref)
    while view is not None and view.name in ("memref.cast", "memref.subview", "memref.reinterpret_cast"):
        view = defining(view.operands[0])
    if view is None or view.name != "memref.view" or not view.results[0].type.has_static_shape:
        return
    size = _bytes(view.results[0].type)
    start, below = named(view).byte_shift, kernel.user_smem_bytes - size + 1
    if size == 0 or kernel.user_smem_bytes == 0 or _known_below(start, below):
        return
    of = f"the {kernel.user_smem_bytes} bytes of the block's shared memory"
    site = Site("out-of-bounds", where(op), what, of, types=("index",), extents=(max(below, 0),))
    _require(to_i32(_compare(start, max(below, 0))), kernel, site, [start])


def _bytes(type: Any) -> int:
    dtype = ELEMENTS.get(str(type.element_type))
    return math.prod(type.shape) * dtype.bytes if dtype else 0


def _behind(ref: Any, indices: list[Any]) -> tuple[Any, list[Any]]:
    """The memref that ``ref`` is a view of, and the indices there; None for what is no view."""
    op = defining(ref)
    if op is None or op.name != "memref.subview":
        return None, []
    outer = []
    for axis in views.axes(op):
        start = _constant(ir.IndexType.get(), axis.start) if isinstance(axis.start, int) else axis.start
        if axis.position is not None:
            index = indices[axis.position]
            if axis.step != 1:
                index = new("arith.muli", index.type, index, _constant(index.type, axis.step))
            start = new("arith.addi", index.type, start, index)
        outer.append(start)
    return op.operands[0], outer


def _known_below(index: Any, below: Any) -> bool:
    number = constant(index)
    return isinstance(below, int) and number is not None and 0 <= number < below


def _compare(index: Any, below: Any) -> Any:
    if isinstance(below, ir.Value):
        index, below = to_i64(index), to_i64(below)
    else:
        below = _constant(index.type, max(below, 0))
    unsigned_less = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 6)
    i1 = ir.IntegerType.get_signless(1)
    return new("arith.cmpi", i1, index, below, predicate=unsigned_less)


def _space(ref: Any) -> str:
    return " in shared memory" if "workgroup" in str(ref.type.memory_space) else ""


def _require(holds: Any, kernel: Kernel, site: Site, values: list[Any]) -> None:
    number = add_site(kernel, site)
    debug_ptx.emit(debug_ptx.require(number, len(values)), holds, *[to_i64(value) for value in values])


def _constant(type: Any, value: int) -> Any:
    return new("arith.constant", type, value=ir.IntegerAttr.get(type, value))


def _i32() -> Any:
    return ir.IntegerType.get_signless(32)
