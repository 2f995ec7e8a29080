"""A step that guards what lies outside of arrays whose extents are no multiples of the tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir.operands import has, integer, named
from nvdsl.ir.walk import constant
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, memref, nvgpu, scf, vector
from nvdsl.ops.warp import sync_warp
from nvdsl.schedule.finish import lower_transfers
from nvdsl.schedule.ragged import EXTENTS, inside, inside_or_zero, real_shapes, zero_of
from nvdsl.schedule.registers import fold_views
from nvdsl.schedule.rewrite import is_shared
from nvdsl.schedule.step import step
from nvdsl.schedule.work import Work

_LOADS, _STORES = ("memref.load", "vector.load"), ("memref.store", "vector.store")
_MATRIX_LOAD, _MATRIX_STORE = "gpu.subgroup_mma_load_matrix", "gpu.subgroup_mma_store_matrix"


@step
def mask(work: Work) -> None:
    """Gives arrays that tile_blocks() has rounded up their own extents back, and guards each access to them: what lies
    outside is read as 0, and not written. Matrices of a warp at the edge go through shared memory."""
    if not real_shapes(work):
        return
    work.one("gpu.launch", made_by="launch() before")
    fold_views(work)
    lower_transfers(work)
    _drop_dead_views(work)
    rounded = real_shapes(work)
    (function,) = work.find("func.func")
    for array, shape in rounded:
        array.set_type(ir.MemRefType.get(shape, array.type.element_type))
    arguments = [v.type for v in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, []))
    del function.attributes[EXTENTS]
    scratch = _Scratch(work.one("gpu.launch", made_by=""))
    for array, _ in rounded:
        for use in list(array.uses):
            op = use.owner.operation
            if op.name in (_MATRIX_LOAD, _MATRIX_STORE):
                scratch.guard(op, array)
            elif op.name in _GUARDS:
                _GUARDS[op.name](op, array)
            elif op.name != "memref.cast":  # of a tensor map, which reads 0 and writes nothing outside
                work.refuse(f"{op.name} of an array that was rounded up", "it guards loads, stores and copies",
                            "choose tiles that divide the extents")  # fmt: skip
    work.clean()


def _drop_dead_views(work: Work) -> None:
    for op in reversed(work.find("memref.subview")):  # a view of a view before the one that it is of
        if not list(op.results[0].uses):
            op.erase()


def _number(n: int) -> Any:
    return arith.constant(ir.IndexType.get(), n)


def _plus(index: Any, n: int) -> Any:
    return arith.addi(index, _number(n)) if n else index


def _indices(op: Any) -> list[Any]:
    return list(named(op).indices)


def _width(type: Any) -> int:
    return type.shape[-1] if isinstance(type, ir.VectorType) else 1


def _loaded(array: Any, indices: list[Any], wide: Any = None) -> Any:
    """An element, or the vector ``wide`` of some, or 0 outside."""
    extents, element = list(array.type.shape), array.type.element_type
    made = scf.IfOp(inside(indices, extents), [wide or element], has_else=True)
    with ir.InsertionPoint(made.then_block):
        scf.YieldOp([vector.load(wide, array, indices) if wide else memref.load(array, indices)])
    with ir.InsertionPoint(made.else_block):
        scf.YieldOp([zero_of(wide or element)])
    return made.results[0]


def _load(op: Any, array: Any) -> None:
    indices, type = _indices(op), op.results[0].type
    count = _width(type)
    for store in _stores_of_computed(op):
        with ir.InsertionPoint(store), store.location:
            store.operands[0] = inside_or_zero(store.operands[0], indices, list(array.type.shape))
    with ir.InsertionPoint(op), op.location:
        if not isinstance(type, ir.VectorType):
            value = _loaded(array, indices)
        elif array.type.shape[-1] % count == 0:  # it is in the array as a whole, or not at all
            value = _loaded(array, indices, type)
        else:
            *outer, last = indices
            value = vector.from_elements(type, [_loaded(array, [*outer, _plus(last, i)]) for i in range(count)])
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _stores_of_computed(load: Any) -> list[Any]:
    """The stores into shared memory of what is computed from what was loaded, and is not 0 where that is."""
    found, waiting = [], [use.owner.operation for use in load.results[0].uses if use.owner.name not in _STORES]
    while waiting:
        op = waiting.pop()
        if op.name not in _STORES:
            waiting += [use.owner.operation for result in op.results for use in result.uses]
        elif is_shared(op.operands[1]) and op not in found:
            found.append(op)
    return found


def _stored(value: Any, array: Any, indices: list[Any]) -> None:
    made = scf.IfOp(inside(indices, list(array.type.shape)))
    with ir.InsertionPoint(made.then_block):
        if isinstance(value.type, ir.VectorType):
            vector.store(value, array, indices)
        else:
            memref.store(value, array, indices)
        scf.YieldOp([])


def _store(op: Any, array: Any) -> None:
    value, indices = op.operands[0], _indices(op)
    count = _width(value.type)
    with ir.InsertionPoint(op), op.location:
        if count == 1 or array.type.shape[-1] % count == 0:
            _stored(value, array, indices)
        else:
            *outer, last = indices
            for i in range(count):
                one = vector.extract(value, [], [i])
                _stored(one, array, [*outer, _plus(last, i)])
    op.erase()


def _copy(op: Any, array: Any) -> None:
    """cp.async reads fewer elements than it writes, and writes 0 for the others."""
    view = named(op)
    count = integer(op, "dstElements")
    with ir.InsertionPoint(op), op.location:
        bit = inside(list(view.srcIndices), list(array.type.shape))
        valid = arith.select(bit, _number(count) if view.srcElements is None else view.srcElements, _number(0))
        made = nvgpu.DeviceAsyncCopyOp(
            view.dst, list(view.dstIndices), array, list(view.srcIndices), count,
            srcElements=valid, bypassL1=has(op, "bypassL1") or None,
        )  # fmt: skip
    op.results[0].replace_all_uses_with(made.result)
    op.erase()


_GUARDS: dict[str, Callable[[Any, Any], None]] = {
    **dict.fromkeys(_LOADS, _load),
    **dict.fromkeys(_STORES, _store),
    "nvgpu.device_async_copy": _copy,
}


class _Scratch:
    """A tile in shared memory for each warp, through which it loads and stores matrices at an array's edge."""

    def __init__(self, launch: Any) -> None:
        self._launch, self._tiles = launch, dict[str, Any]()
        block = self._launch.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block), self._launch.location:
            thread = gpu.thread_id(gpu.Dimension.x)
            self._warp = arith.divui(thread, _number(arch.WARP_SIZE))
            self._lane = arith.remui(thread, _number(arch.WARP_SIZE))

    def guard(self, op: Any, array: Any) -> None:
        matrix = op.results[0].type if op.name == _MATRIX_LOAD else op.operands[0].type
        lead, turned = integer(op, "leadDimension"), has(op, "transpose")
        rows, columns = map(int, str(matrix).partition("<")[2].split("x")[:2])
        height, width = (columns, rows) if turned else (rows, columns)  # as it lies in memory
        if lead:
            lead = array.type.shape[-1]
        else:
            height = 1  # one line, which is read again and again
        with ir.InsertionPoint(op), op.location:
            if op.name == _MATRIX_LOAD:
                self._load(op, array, (height, width), width if lead else 0)
            else:
                self._store(op, array, (height, width), lead)
        op.erase()

    def _load(self, op: Any, array: Any, size: tuple[int, int], lead: int) -> None:
        tile = self._tile(*size, array.type.element_type)
        with self._each(size) as (row, column):
            here = self._places(_indices(op), row, column)
            memref.store(_loaded(array, here), tile, [self._warp, row, column])
        sync_warp()
        turned = has(op, "transpose") or None
        zero = _number(0)
        made = gpu.subgroup_mma_load_matrix(
            op.results[0].type, tile, [self._warp, zero, zero], lead, transpose=turned
        )
        sync_warp()  # before somebody writes to the tile again
        op.results[0].replace_all_uses_with(made)

    def _store(self, op: Any, array: Any, size: tuple[int, int], lead: int) -> None:
        """Where all of it is inside as wmma.store takes it: rows that are multiples of 16 bytes apart."""
        tile, zero = self._tile(*size, array.type.element_type), _number(0)
        indices, extents = _indices(op), list(array.type.shape)
        matrix, turned = op.operands[0], has(op, "transpose") or None

        def through_tile() -> None:
            gpu.subgroup_mma_store_matrix(matrix, tile, [self._warp, zero, zero], size[1], transpose=turned)
            sync_warp()
            with self._each(size) as (row, column):
                here = self._places(indices, row, column)
                _stored(memref.load(tile, [self._warp, row, column]), array, here)
            sync_warp()

        if lead * array.type.element_type.width // 8 % 16:
            through_tile()
            return
        made = scf.IfOp(inside(indices, extents, [*[1] * (len(indices) - 2), *size]), has_else=True)
        with ir.InsertionPoint(made.then_block):
            gpu.subgroup_mma_store_matrix(matrix, array, indices, lead, transpose=turned)
            scf.YieldOp([])
        with ir.InsertionPoint(made.else_block):
            through_tile()
            scf.YieldOp([])

    @contextmanager
    def _each(self, size: tuple[int, int]) -> Iterator[tuple[Any, Any]]:
        """A loop over the elements of a tile, among the lanes of a warp."""
        elements, width = math.prod(size), _number(size[1])
        loop = scf.ForOp(self._lane, _number(elements), _number(arch.WARP_SIZE))
        with ir.InsertionPoint(loop.body):
            place = loop.induction_variable
            yield arith.divui(place, width), arith.remui(place, width)
            scf.YieldOp([])

    def _places(self, indices: list[Any], row: Any, column: Any) -> list[Any]:
        """Of an element of a matrix in its array; a line has no rows."""
        *outer, last = indices
        if outer:
            *outer, above = outer
            outer = [*outer, arith.addi(above, row)]
        return [*outer, arith.addi(last, column)]

    def _tile(self, height: int, width: int, element: Any) -> Any:
        """The warps' tiles of one size."""
        text = f"{height}x{width}x{element}"
        if text not in self._tiles:
            warps = math.prod(filter(None, map(constant, list(self._launch.operands)[3:6]))) // arch.WARP_SIZE
            type = ir.Type.parse(f"memref<{warps}x{text}, #gpu.address_space<workgroup>>")
            with ir.InsertionPoint(self._launch), self._launch.location:
                self._tiles[text] = memref.alloc(type, [], [])
        return self._tiles[text]
