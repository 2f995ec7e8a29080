"""memref: views. What a memref is: `nvdsl.sim.indexer`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nvdsl.ir import views
from nvdsl.ir.declared import VIEW
from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, integers
from nvdsl.ir.walk import defining, identity
from nvdsl.mlir import ir
from nvdsl.sim.decode import Decoder, Frame, is_shared, op, unknown
from nvdsl.sim.indexer import Layout
from nvdsl.sim.report import error
from nvdsl.sim.values import LANES, element

_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


def tile_of(ref: Any) -> tuple[int, ...] | None:
    """The swizzle and panel stride of the `Tile` that made a view; None for one laid out by hand."""
    made = defining(ref)
    known = made is not None and made.name == "memref.view" and VIEW in made.attributes
    return tuple(integers(made, VIEW)) if known else None


PLAIN = (0, -1)
"""Of an element whose address was computed row by row, as if its bytes had no swizzle."""


def element_of(ref: Any, indices: list[Any]) -> tuple[int, ...] | None:
    """How an access finds its element: as `tile_of`, but `PLAIN` where a view is indexed by sums and products of ids.
    Whoever applies a swizzle by hand has an XOR in the index, or a table; who looks at memory lays out one axis."""
    made = defining(ref)
    if made is None or made.name != "memref.view" or len(indices) == 1 and VIEW not in made.attributes:
        return tile_of(ref)
    return PLAIN if _is_plain(indices) and _is_plain([made.operands[1]], False) else tile_of(ref)


def _is_plain(values: list[Any], varies: bool = True) -> bool:
    """Whether the values are sums and products of ids and of what loops count; with ``varies``, of at least one."""
    todo, seen, found = list(values), set(), False
    while todo:
        value = todo.pop()
        if identity(value) in seen:
            continue
        seen.add(identity(value))
        op = defining(value)
        if op is None:
            owner = value.owner.owner
            if not (owner.name == "gpu.launch" or owner.name == "scf.for" and ir.BlockArgument(value).arg_number == 0):
                return False
            found = True
        elif op.name.startswith(_IDS):
            found = True
        elif op.name in _ADDRESSING:
            todo += op.operands
        elif op.name != "arith.constant":
            return False
    return found or not varies


_IDS = ("gpu.thread_id", "gpu.lane_id", "nvvm.read.ptx.sreg")
_ADDRESSING = frozenset(
    f"arith.{name}"
    for name in """addi subi muli divsi divui floordivsi remsi remui shli shrsi shrui andi index_cast index_castui extsi
    extui trunci""".split()
)


def tile_behind(pointer: Any) -> tuple[int, ...] | None:
    """The same of a pointer that a `Tile` made, or of the view that an address was taken of."""
    made = defining(pointer)
    while made is not None and made.name in ("llvm.getelementptr", "llvm.inttoptr", "arith.index_cast", "nvvm.mapa"):
        if VIEW in made.attributes:
            return tuple(integers(made, VIEW))
        if made.name == "llvm.getelementptr":
            return None
        made = defining(made.operands[0])
    if made is None or made.name != "memref.extract_aligned_pointer_as_index":
        return None
    return tile_of(made.operands[0])


@op("memref.view")
def _view(d: Decoder, op: Any) -> Any:
    source, shift, *_ = d.operands(op)
    r = d.result(op)
    kind = op.results[0].type
    size = element(kind).bytes
    for extent in kind.shape:
        size *= extent
    at, by_hand = where(op), VIEW not in op.attributes

    def step(v: Frame) -> None:
        address = v[source][1] + v[shift]
        if address.__class__ is int:
            limit = v[0].block.smem.size
            if address + size > limit:
                _too_small(v[0], address, size, limit, at)
            if by_hand and v[0].machine.checks:
                v[0].machine.code.tiles.check_view(v[0], address, size, at)
        v[r] = (address, address)

    if not is_shared(kind):
        raise unknown(op, "a view of global memory")
    return step


def _too_small(w: Any, address: int, size: int, limit: int, at: Any) -> None:
    base = w.block.smem.reserved
    raise error(
        "out-of-bounds",
        f"a view of bytes {address - base}..{address - base + size - 1} of shared memory, of which the launch "
        f"has {limit - base}",
        at,
        "a view lies inside of the block's shared memory",
        "check the slot's offset, or ask for more shared memory at the launch",
    )


@op("memref.cast", "memref.memory_space_cast", "memref.assume_alignment", "memref.collapse_shape",
    "memref.expand_shape")  # fmt: skip
def _same(d: Decoder, op: Any) -> Any:
    source, result = op.operands[0], op.results[0]
    if op.name == "memref.cast" and isinstance(result.type, ir.MemRefType):
        layout = Layout(op, source.type)
        if layout.is_static and not Layout(op, result.type).is_static:
            a, r = d.slot(source), d.result(op)
            steps = tuple(s // layout.element.bytes for s in layout.strides)

            def step(v: Frame) -> None:
                v[r] = (*v[a][:2], layout.shape, steps)

            return step
    for one in op.results:
        d.alias(one, source)
    return None


@op("memref.reinterpret_cast", "memref.subview")
def _part(d: Decoder, op: Any) -> Any:
    """subview's offsets are in elements of each axis, reinterpret_cast's one offset in elements of the buffer."""
    source = d.slot(op.operands[0])
    offsets, sizes, steps = (_mixed(d, op, name) for name in ("offsets", "sizes", "strides"))
    r = d.result(op)
    is_subview = op.name == "memref.subview"
    layout, made = Layout(op, op.operands[0].type), Layout(op, op.results[0].type)
    size = layout.element.bytes
    kept = list(range(len(sizes)))
    if is_subview:
        kept = [k for k, axis in enumerate(views.axes(op)) if axis.position is not None]
    fixed, constant = 0, not is_subview or layout.is_static
    terms = []
    if constant:
        strides = layout.strides if is_subview else (size,)
        for (slot, value), stride in zip(offsets, strides, strict=True):
            if slot:
                terms.append((slot, stride))
            else:
                fixed += value * stride

    def first(v: Frame, ref: Any) -> Any:
        address = (ref[1] if is_subview else ref[0]) + fixed
        for slot, stride in terms:
            address = address + v[slot] * stride
        if not constant:
            for (slot, value), stride in zip(offsets, layout.of(ref)[1], strict=True):
                address = address + (v[slot] if slot else value) * stride
        return address

    def step(v: Frame) -> None:
        ref = v[source]
        v[r] = (ref[0], first(v, ref))

    def step_dynamic(v: Frame) -> None:
        ref = v[source]
        found = tuple([v[slot] if slot else value for slot, value in steps])
        if is_subview:
            found = tuple([a * (b // size) for a, b in zip(found, layout.of(ref)[1], strict=True)])
        shape = tuple([v[slot] if slot else value for slot, value in sizes])
        v[r] = (ref[0], first(v, ref), *([part[k] for k in kept] for part in (shape, found)))

    return step if made.is_static else step_dynamic


def _mixed(d: Decoder, op: Any, name: str) -> list[tuple[int, int]]:
    """(slot, 0) or (0, constant) of each offset, size or stride."""
    coming = iter(d.named(op, name)[0])
    return [(next(coming), 0) if n == _DYNAMIC else (0, n) for n in integers(op, f"static_{name}")]


@op("memref.extract_aligned_pointer_as_index")
def _pointer(d: Decoder, op: Any) -> Any:
    (a,) = d.operands(op)
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = v[a][0]

    return step


@op("memref.extract_strided_metadata")
def _metadata(d: Decoder, op: Any) -> Any:
    """The buffer, the offset of the first element, extents and strides, in elements."""
    (a,) = d.operands(op)
    buffer, offset, *rest = (d.define(result) for result in op.results)
    layout = Layout(op, op.operands[0].type)
    size = layout.element.bytes
    if layout.is_static:
        numbers = [*layout.shape, *(s // size for s in layout.strides)]
        for slot, number in zip(rest, numbers, strict=True):
            d.template[slot] = number

    def step(v: Frame) -> None:
        ref = v[a]
        v[buffer] = (ref[0], ref[0])
        v[offset] = (ref[1] - ref[0]) // size
        if not layout.is_static:
            for slot, number in zip(rest, (*ref[2], *ref[3]), strict=True):
                v[slot] = number

    return step


@op("memref.dim")
def _dim(d: Decoder, op: Any) -> Any:
    axis = integer(defining(op.operands[1]), "value")
    extent = op.operands[0].type.shape[axis]
    if extent >= 0:
        d.define(op.results[0], extent)
        return None
    a, r = d.slot(op.operands[0]), d.result(op)

    def step(v: Frame) -> None:
        v[r] = v[a][2][axis]

    return step


@op("memref.alloca")
def _local(d: Decoder, op: Any) -> Any:
    """A buffer of each thread, full of NaNs. The same op gives a warp the same memory again."""
    layout, r = Layout(op, op.results[0].type), d.result(op)
    if not layout.is_static:
        raise unknown(op, "its extents are not constants")
    size = -(-math.prod(layout.shape) * layout.element.bytes // 16) * 16
    lanes = np.arange(LANES) * size

    def step(v: Frame) -> None:
        w = v[0]
        start = w.locals.get(r)
        if start is None:
            start = w.locals[r] = w.machine.gmem.alloc(LANES * size)
        w.machine.gmem.span(start, LANES * size)[:] = 0xFF
        v[r] = (start + lanes, start + lanes)

    return step
