"""A step that copies by cp.async, several turns ahead."""

from __future__ import annotations

from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir.operands import named
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, memref, nvgpu, scf
from nvdsl.schedule.latency import k_loop
from nvdsl.schedule.ragged import real_shape
from nvdsl.schedule.registers import fold_views
from nvdsl.schedule.rewrite import clone, is_shared, key, slice_of
from nvdsl.schedule.step import step
from nvdsl.schedule.warps import trips
from nvdsl.schedule.work import Work

_READS = ("vector.transfer_read", "vector.load", "memref.load")
_WRITES = ("vector.transfer_write", "vector.store", "memref.store")


@step
def copy_async(work: Work, stages: int = 3) -> None:
    """Gives each tile in shared memory ``stages`` buffers, and copies into them by cp.async, ``stages - 1`` turns ahead
    of the products. A turn waits for its own group of copies, and then needs one barrier.

    cp.async moves 4, 8 or 16 bytes. An array whose rows are no multiples of 4 bytes goes through registers.
    """
    if stages < 2:
        work.refuse(f"{stages} buffers", "one is multiplied while others are filled", "copy_async(3)")
    if k_loop(work) is None:
        return
    fold_views(work)
    loop = k_loop(work)
    body = loop.regions[0].blocks[0]
    *ops, end = [op.operation for op in body.operations]
    stores = [op for op in ops if op.name in _WRITES and is_shared(op.operands[1])]
    for store in stores:
        _check(work, store)
    if not stores:
        work.refuse("no copies into shared memory", "cp.async is one", "stage(), copies(8) and unroll('copies') before")
    loads = [defining(store.operands[0]) for store in stores]
    address = slice_of([*stores, *loads], ops) - {*stores, *loads}
    products = slice_of([op for op in ops if op.name != "gpu.barrier" and op not in address and op not in stores
                         and op not in loads], ops)  # fmt: skip
    if any(op in products for op in (*loads, *stores)):
        work.refuse("products that use what is copied in registers", "cp.async leaves nothing there")
    tiles = {key(store.operands[1]): defining(store.operands[1]) for store in stores}
    variable, *carried = body.arguments
    lower, upper, width, *starts = loop.operands
    turns = trips(loop) or 0

    with ir.InsertionPoint(loop), loop.location:
        wide = {k: _with_stages(tile, stages) for k, tile in tiles.items()}

        def views(stage: Any) -> dict[int, Any]:
            return {k: _view(wide[k], tile, stage) for k, tile in tiles.items()}

        def copy(at: Any, stage: Any, more: Any = None) -> Any:
            """The token of the group of copies. Where there are no ``more`` they copy 0 bytes, and no branch is in the
            way; those that go through registers copy once more what nobody reads."""
            place = views(stage)
            values = clone([op for op in ops if op in address], {key(variable): at})
            tokens = []
            for load, store in zip(loads, stores, strict=True):
                if _bytes(store) in arch.CP_ASYNC_BYTES:
                    tokens.append(_copy(load, store, place[key(store.operands[1])], values, more))
                else:
                    clone([load, store], {**values, **place})
            return nvgpu.DeviceAsyncCreateGroupOp(tokens).result if tokens else None

        def number(n: int) -> Any:
            return arith.constant(ir.IndexType.get(), n)

        for ahead in range(stages - 1):
            if ahead < turns:
                token = copy(arith.addi(lower, arith.muli(width, number(ahead))), number(ahead))
            elif token is not None:  # an empty one: a turn waits until a number of groups are left
                token = nvgpu.DeviceAsyncCreateGroupOp([token]).result
        made = scf.ForOp(lower, upper, width, starts)
        with ir.InsertionPoint(made.body):
            here = made.induction_variable
            turn = arith.divui(arith.subi(here, lower), width)
            if token is not None:
                nvgpu.DeviceAsyncWaitOp(token, numGroups=stages - 2)
            gpu.barrier()
            later = arith.addi(here, arith.muli(width, number(stages - 1)))
            more = arith.cmpi(arith.CmpIPredicate.slt, later, upper)
            slot = arith.remui(arith.addi(turn, number(stages - 1)), number(stages))
            last = arith.subi(upper, width)
            copy(arith.minsi(later, last), slot, more)
            now = {key(variable): here, **{key(a): b for a, b in zip(carried, made.inner_iter_args, strict=True)}}
            now |= views(arith.remui(turn, number(stages)))
            now = clone([op for op in ops if op in products], now)
            scf.YieldOp([now.get(key(v), v) for v in end.operands])
        if token is not None:
            nvgpu.DeviceAsyncWaitOp(token, numGroups=0)
    for old, value in zip(loop.results, made.results, strict=True):
        old.replace_all_uses_with(value)
    loop.erase()
    _drop(work, tiles)
    work.clean()


def _check(work: Work, store: Any) -> None:
    load = defining(store.operands[0])
    if load is None or load.name not in _READS or is_shared(load.operands[0]) or len(list(load.results[0].uses)) != 1:
        work.refuse("a store into shared memory that is no copy", "cp.async copies from global memory")
    assert load is not None
    array = load.operands[0]
    size, row = _bytes(store), real_shape(work, array)[-1] * array.type.element_type.width // 8
    if size not in arch.CP_ASYNC_BYTES and not row % min(arch.CP_ASYNC_BYTES):
        work.refuse(f"copies of {size} bytes", "cp.async moves 4, 8 or 16 bytes (PTX ISA, cp.async)", "copies(8)")
    tile = defining(store.operands[1])
    if tile is None or tile.name != "memref.alloc":
        work.refuse("a store into a part of a tile", "each tile gets buffers as a whole", "copy_async() once")


def _bytes(store: Any) -> int:
    type = store.operands[0].type
    if isinstance(type, ir.VectorType):
        return int(type.shape[-1] * type.element_type.width // 8)
    return int(type.width // 8)


def _with_stages(tile: Any, stages: int) -> Any:
    type = ir.MemRefType(tile.results[0].type)
    whole = ir.MemRefType.get([stages, *type.shape], type.element_type, None, type.memory_space)
    with ir.InsertionPoint(tile):
        return memref.alloc(whole, [], [])


def _view(wide: Any, tile: Any, stage: Any) -> Any:
    """The buffer of one stage."""
    type = ir.MemRefType(tile.results[0].type)
    strides, _ = type.get_strides_and_offset()
    layout = ir.StridedLayoutAttr.get(ir.ShapedType.get_dynamic_stride_or_offset(), strides)
    part = ir.MemRefType.get(type.shape, type.element_type, layout, type.memory_space)
    dynamic, rest = ir.ShapedType.get_dynamic_size(), [0] * type.rank
    sizes, ones = [1, *type.shape], [1] * (type.rank + 1)
    return memref.SubViewOp(part, wide, [stage], [], [], [dynamic, *rest], sizes, ones).result


def _copy(load: Any, store: Any, target: Any, values: dict[int, Any], more: Any) -> Any:
    type = store.operands[0].type
    count = type.shape[-1] if isinstance(type, ir.VectorType) else 1
    past_l1 = _bytes(store) == max(arch.CP_ASYNC_BYTES)  # .cg takes no other size
    into = [values.get(key(v), v) for v in named(store).indices]
    out = [values.get(key(v), v) for v in named(load).indices]
    valid = None
    if more is not None:
        valid = arith.select(more, *(arith.constant(ir.IndexType.get(), n) for n in (count, 0)))
    return nvgpu.DeviceAsyncCopyOp(
        target, into, load.operands[0], out, count, srcElements=valid, bypassL1=past_l1 or None
    ).result


def _drop(work: Work, tiles: dict[int, Any]) -> None:
    for op in work.find("memref.dealloc"):
        if key(op.operands[0]) in tiles:
            op.erase()
    for tile in tiles.values():
        if list(tile.results[0].uses):
            work.refuse("a tile that is used outside of the loop over K", "its buffers hold other steps by then")
        tile.erase()
