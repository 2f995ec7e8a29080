"""gpu, matrices of a warp (WMMA): gpu.subgroup_mma_*, which lower to wmma.load, wmma.mma and wmma.store.

A value is a `Matrix`, the whole of it and not each lane's part. Which lane holds what of A and B is not said by the PTX
ISA ("wmma", matrix fragments), so that each lane may touch all that a load of these reads. Of C and D a lane holds the
same elements whenever the shape and the type are the same, so that a warp may load what it has stored. Here they are
those of mma.sync's C, given to other lanes in each block of 8 x 8, so that no lane has the same place in two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import has, integer, word
from nvdsl.sim import matrix
from nvdsl.sim.access import Accessor
from nvdsl.sim.decode import Decoder, Frame, op, unknown
from nvdsl.sim.indexer import Indexer
from nvdsl.sim.report import error
from nvdsl.sim.values import LANES, Element, element


class Matrix(NamedTuple):
    """``values``: [rows, columns]. ``transposed``: it was loaded as columns that follow each other in memory."""

    values: Any
    transposed: bool


class _Type(NamedTuple):
    rows: int
    columns: int
    element: Element
    operand: str


def _type(type: Any) -> _Type:
    """The fields of a ``!gpu.mma_matrix<16x16xf16, "AOp">``, which Python's bindings don't give."""
    shape, _, rest = str(type).partition("<")[2].rpartition("x")
    name, _, operand = rest.partition(",")
    rows, columns = map(int, shape.split("x"))
    signless = name.removeprefix("s").removeprefix("u") if name[1:2] == "i" else name
    return _Type(rows, columns, element(signless), operand.strip(' ">'))


def _fragment_bytes(kind: _Type) -> int:
    """Of a lane's part: 16-bit operands are held twice (PTX ISA, matrix fragments for WMMA)."""
    twice = 2 if kind.operand != "COp" and kind.element.bytes == 2 else 1
    return twice * kind.rows * kind.columns * kind.element.bytes // LANES


class _Place:
    """Where a matrix lies: its elements' addresses, with all of them checked against the array's extents."""

    def __init__(self, d: Decoder, op: Any, ref: Any, indices: list[int], kind: _Type) -> None:
        self.transposed, leading = has(op, "transpose"), integer(op, "leadDimension")
        self.index = Indexer(d, op, ref, indices)
        layout, self.at, self.kind = self.index.layout, where(op), kind
        if layout.element.bytes != kind.element.bytes:
            raise unknown(op, "a matrix of vectors in memory")
        size = layout.element.bytes
        if layout.strides[-1] != size:
            raise unknown(op, "elements that are not contiguous")
        lines, self.length = (kind.columns, kind.rows) if self.transposed else (kind.rows, kind.columns)
        if len(layout.strides) > 1 and leading * size == layout.strides[-2]:
            self.index.beyond[-2:] = [lines - 1, self.length - 1]
        self.lines = np.arange(lines) * leading * size
        self.fragment = _fragment_bytes(kind)
        self.warp = Accessor(layout.space, kind.element, self.length, min(16, self.fragment), self.at)

    def address(self, v: Frame) -> int:
        """Of the first element, which all lanes agree on."""
        w, address = v[0], self.index(v)
        if w.count != LANES:
            raise error("divergent-collective", f"{w.name} has {w.count} lanes", self.at,
                        "all 32 threads of a warp execute wmma together (PTX ISA, wmma)",
                        "launch a multiple of 32 threads")  # fmt: skip
        if address.__class__ is np.ndarray:
            if (address != address[0]).any():
                raise error("not-uniform", f"the matrix's address differs between the lanes of {w.name}", self.at,
                            "all threads of a warp give wmma the same address and stride (PTX ISA, wmma.load)",
                            "compute it from the warp, not from the lane")  # fmt: skip
            address = address[0]
        if address % self.fragment:
            raise error("misaligned", f"{w.name} has a matrix at an address that is no multiple of {self.fragment}",
                        self.at, "a matrix starts at a multiple of its fragment's size, and its rows are a "
                        "multiple of 16 bytes apart (PTX ISA, matrix storage for WMMA; CUDA programming guide, wmma)",
                        "align the tile, and pad its rows by a multiple of 16 bytes")  # fmt: skip
        return int(address)


@functools.lru_cache(maxsize=64)
def _pairs(rows: int, columns: int, size: int, leading: int, transposed: bool) -> tuple[int, list[tuple[Any, Any]]]:
    """For each access of a C or D: (how many elements a lane has together, [(rows and columns by lane, offsets)])."""
    together = 1 if transposed else 2
    found = []
    for row in range(0, rows, 8):
        for column in range(0, columns, 8):
            lane = (np.arange(LANES) + row * 2 + column) % LANES
            for first in range(0, 2, together):
                i, j = row + lane // 4, column + lane % 4 * 2 + first
                offset = (j * leading + i * size) if transposed else (i * leading + j * size)
                found.append(((i, j), offset))
    return together, found


class _Sum(_Place):
    """A matrix C or D in memory, lane by lane."""

    def __init__(self, d: Decoder, op: Any, ref: Any, indices: list[int], kind: _Type) -> None:
        super().__init__(d, op, ref, indices, kind)
        size, leading = kind.element.bytes, int(self.lines[1])
        if kind.rows % 8 or kind.columns % 8:
            raise unknown(op, f"a matrix of {kind.rows} x {kind.columns}")
        together, self.parts = _pairs(kind.rows, kind.columns, size, leading, self.transposed)
        self.access = Accessor(self.index.layout.space, kind.element, together, 1, self.at)
        self.steps = np.arange(together)[:, None]

    def load(self, v: Frame) -> Any:
        w, start = v[0], self._start(v, "wmma.load.c")
        values = np.empty((self.kind.rows, self.kind.columns), self.kind.element.dtype)
        for (i, j), offset in self.parts:
            values[i, j + self.steps] = self.access.load(w, start + offset)
        return values

    def store(self, v: Frame, values: Any) -> None:
        w, start = v[0], self._start(v, "wmma.store.d")
        for (i, j), offset in self.parts:
            self.access.store(w, start + offset, values[i, j + self.steps])

    def _start(self, v: Frame, what: str) -> int:
        start = self.address(v)
        self.warp.locate(v[0], start + self.lines, what)
        return start


@op("gpu.subgroup_mma_load_matrix")
def _load(d: Decoder, op: Any) -> Any:
    kind = _type(op.results[0].type)
    indices, r = d.operands(op)[1:], d.result(op)
    if kind.operand == "COp":
        place = _Sum(d, op, op.operands[0], indices, kind)
        transposed = place.transposed

        def load_sum(v: Frame) -> None:
            v[r] = Matrix(place.load(v), transposed)

        return load_sum
    operand = _Place(d, op, op.operands[0], indices, kind)
    what, access, steps = f"wmma.load.{kind.operand[0].lower()}", operand.warp, np.arange(operand.length)
    transposed = operand.transposed

    def load_operand(v: Frame) -> None:
        w = v[0]
        found, block, offsets = access.locate(w, operand.address(v) + operand.lines, what)
        if w.machine.checks:
            access.check_warp(w, found, block, offsets, what)
        lines = found.view(access.dtype)[(offsets >> access.shift)[:, None] + steps]
        v[r] = Matrix(lines.T if transposed else lines, transposed)

    return load_operand


@op("gpu.subgroup_mma_store_matrix")
def _store(d: Decoder, op: Any) -> Any:
    value, _, *indices = d.operands(op)
    place = _Sum(d, op, op.operands[1], indices, _type(op.operands[0].type))

    def step(v: Frame) -> None:
        place.store(v, v[value].values)

    return step


@op("gpu.subgroup_mma_compute")
def _compute(d: Decoder, op: Any) -> Any:
    """Sums are f32 sums, in no particular order; what goes into an f16 sum is rounded once for each op."""
    slots, r, at = d.operands(op), d.result(op), where(op)
    a_type, _, d_type = (_type(x.type) for x in op.operands)
    layouts = has(op, "a_transpose"), has(op, "b_transpose")
    kind = "tf32" if a_type.element.name == "f32" else a_type.element.name

    def step(v: Frame) -> None:
        w = v[0]
        a, b, c = (v[slot] for slot in slots)
        for name, one, transposed in zip("ab", (a, b), layouts, strict=True):
            if w.machine.checks and one.transposed != transposed:
                raise _layout_error(w, name, one.transposed, at)
        exact = (kind, kind) if w.machine.options.exact else None
        x, y = matrix.widen(a.values, kind), matrix.widen(b.values, kind)
        total = matrix.mma(x, np.ascontiguousarray(y.T), c.values, d_dtype=d_type.element.name, exact=exact)
        v[r] = Matrix(total, c.transposed)

    return step


def _layout_error(w: Any, name: str, loaded: bool, at: Any) -> Exception:
    words = ("row", "col")
    return error(
        "wmma-layout",
        f"{w.name} multiplies a matrix {name.upper()} that was loaded as .{words[loaded]} as .{words[not loaded]}",
        at,
        "the layout of wmma.mma is that of the wmma.load which made the operand; else the result is undefined (PTX "
        "ISA, wmma.mma)",
        f"set {name}_transpose on gpu.subgroup_mma_compute where the load has transpose, and only there",
    )


@op("gpu.subgroup_mma_constant_matrix")
def _constant(d: Decoder, op: Any) -> Any:
    (value,), r, kind = d.operands(op), d.result(op), _type(op.results[0].type)

    def step(v: Frame) -> None:
        x = v[value]
        v[r] = Matrix(np.full((kind.rows, kind.columns), x[0] if np.ndim(x) else x, kind.element.dtype), False)

    return step


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "maxf": np.maximum, "minf": np.minimum,
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "negatef": np.negative, "negates": np.negative,
    "extf": lambda x: x, "truncf": lambda x: x,
}  # fmt: skip


@op("gpu.subgroup_mma_elementwise")
def _elementwise(d: Decoder, op: Any) -> Any:
    """Element by element: which lane holds what does not matter."""
    slots, r, kind, name = d.operands(op), d.result(op), _type(op.results[0].type), word(op, "opType")
    if name not in _ELEMENTWISE:
        raise unknown(op, name)
    f = _ELEMENTWISE[name]

    def step(v: Frame) -> None:
        with np.errstate(all="ignore"):
            made = f(*(v[slot].values for slot in slots)).astype(kind.element.dtype)
        v[r] = Matrix(made, v[slots[0]].transposed)

    return step
