"""Tiles that are copied in each turn, by TMA where it takes the array, and how wgmma reads them."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.operands import integers
from nvdsl.ir.walk import defining
from nvdsl.layout import Operand, TileLayout
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, memref, nvgpu, scf
from nvdsl.ops import wgmma
from nvdsl.schedule.ragged import inside_or_zero, real_shape
from nvdsl.schedule.rewrite import apply, key
from nvdsl.schedule.work import Work
from nvdsl.values.traced import Value, const

SWIZZLE = 128
"""Bytes of a row of a box: the width of the swizzle."""


class Tile:
    """A tile that is copied in each turn: the array that it is a part of, and where; its slots in shared memory, and
    the matrix descriptor by which wgmma reads one.

    ``copy``: a linalg.copy, or an elementwise operation, whose function its elements are. ``axis``: along which M or N
    runs, 0 where K runs along the rows.
    """

    def __init__(self, work: Work, copy: Any, axis: int, start: int, stages: int) -> None:
        self.source, buffer = copy.operands
        self.function = copy if copy.name == "linalg.generic" else None
        self.extents = real_shape(work, self.source)
        self.rows, self.columns = buffer.type.shape
        self.element = buffer.type.element_type
        self.itemsize = self.element.width // 8
        self.panel = SWIZZLE // self.itemsize
        self.size = self.rows * self.columns * self.itemsize
        self.start, self.end = start, start + stages * self.size
        self.major = "mn" if axis else "k"
        row = self.extents[-1] * self.itemsize
        self.by_tma = self.function is None and row % 16 == 0  # CUDA driver API, cuTensorMapEncodeTiled
        self._map: Any = None

    @property
    def layout(self) -> TileLayout:
        return TileLayout.of(self.rows, self.columns, self.itemsize, SWIZZLE)

    @property
    def operand(self) -> Operand:
        return Operand(self.layout, self.major)

    def make_map(self) -> None:
        """The tensor map, on the host: a box is a panel of the tile, of one matrix of a batch."""
        array, sums = offsets(self.source)
        box = [1] * (len(sums) - 2) + [self.rows, self.panel]
        shape = "x".join(map(str, box))
        text = (
            f"!nvgpu.tensormap.descriptor<tensor = memref<{shape}x{self.element}, 3>, swizzle = swizzle_128b, "
            "l2promo = l2promo_256b, oob = zero, interleave = none>"
        )
        anything = memref.cast(ir.Type.parse(f"memref<*x{self.element}>"), array)
        self._map = nvgpu.TmaCreateDescriptorOp(ir.Type.parse(text), anything, [number(n) for n in box]).result

    def load(self, block: Any, full: Any, slot: Any, values: dict[int, Any]) -> None:
        """Copy the tile of a turn into a slot. ``values``: by `key`, what loops' variables and what is computed from
        them are in this turn."""
        _, sums = offsets(self.source)
        *batch, row, column = (total(terms, values) for terms in sums)
        shape = [1] * len(batch) + [self.rows, self.panel]
        kind = ir.Type.parse(f"memref<{'x'.join(map(str, shape))}x{self.element}, #gpu.address_space<workgroup>>")
        for panel in range(self.columns // self.panel):
            byte = number(self.start + panel * self.rows * SWIZZLE)
            view = memref.view(kind, block, arith.addi(arith.muli(slot, number(self.size)), byte), [])
            place = [arith.addi(column, number(panel * self.panel)), row, *reversed(batch)]
            nvgpu.TmaAsyncLoadOp(view, full, self._map, place, slot)

    def copy(self, block: Any, slot: Any, values: dict[int, Any], thread: Any, threads: int) -> None:
        """The same without TMA: each of ``threads`` moves every so many-th element to its place in the swizzle."""
        array, sums = offsets(self.source)
        *batch, row, column = (total(terms, values) for terms in sums)
        i32, kind = ir.IntegerType.get_signless(32), ir.MemRefType.get([1], self.element, None, _shared())
        first = arith.addi(arith.muli(slot, number(self.size)), number(self.start))
        loop = scf.ForOp(thread, number(self.rows * self.columns), number(threads))
        with ir.InsertionPoint(loop.body):
            place = loop.induction_variable
            i, j = arith.divui(place, number(self.columns)), arith.remui(place, number(self.columns))
            here = [*batch, arith.addi(row, i), arith.addi(column, j)]
            element = memref.load(array, here)
            if self.function is not None:
                element = inside_or_zero(apply(self.function, [element]), here, self.extents)
            byte = self.layout.offset(*(Value(arith.index_cast(i32, index)) for index in (i, j)))
            there = arith.addi(first, arith.index_cast(ir.IndexType.get(), byte))
            memref.store(element, memref.view(kind, block, there, []), [number(0)])
            scf.YieldOp([])

    def descriptor(self, address: Value, slot: Any, first: Any = None) -> Value:
        """The matrix descriptor of a slot, from the byte ``first`` of the tile on. ``address``: of shared memory."""
        i32 = ir.IntegerType.get_signless(32)
        byte = arith.addi(arith.muli(slot, number(self.size)), number(self.start))
        if first is not None:
            byte = arith.addi(byte, first)
        return wgmma.descriptor(address + Value(arith.index_cast(i32, byte)), self.operand)


def _shared() -> Any:
    return ir.Attribute.parse("#gpu.address_space<workgroup>")


def advance(descriptor: Value, byte: int) -> Value:
    """A descriptor of the same operand some bytes further: its start address counts 16 bytes."""
    return descriptor + const(byte >> 4, ir.IntegerType.get_signless(64)) if byte else descriptor


def constant_of(value: Any) -> float | None:
    """The float that a value is known to be."""
    made = defining(value)
    return ir.FloatAttr(made.attributes["value"]).value if made is not None and made.name == "arith.constant" else None


def number(n: int) -> Any:
    return arith.constant(ir.IndexType.get(), n)


def equal(value: Any, n: int) -> Any:
    return arith.cmpi(arith.CmpIPredicate.eq, value, number(n))


def offsets(value: Any) -> tuple[Any, list[list[Any]]]:
    """The array that a view is a part of, and the terms of its start in each axis: values and integers. A view may
    leave the first axis out."""
    views = []
    while (made := defining(value)) is not None and made.name == "memref.subview":
        views.append(made)
        value = made.operands[0]
    sums: list[list[Any]] = [[] for _ in range(value.type.rank)]
    for made in views:
        dynamic = iter(list(made.operands)[1:])
        starts = integers(made, "static_offsets")
        for terms, offset in zip(sums[-len(starts) :], starts, strict=True):
            terms.append(next(dynamic) if offset == ir.ShapedType.get_dynamic_size() else offset)
    return value, sums


def total(terms: list[Any], values: dict[int, Any]) -> Any:
    """The sum of `offsets`' terms. ``values``: by `key`, what stands for some of them."""
    found = number(0)
    for term in terms:
        value = number(term) if isinstance(term, int) else values.get(key(term), term)
        found = arith.addi(found, value)
    return found
