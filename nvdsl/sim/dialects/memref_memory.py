"""memref: accesses of one element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.ir.operands import integer
from nvdsl.mlir.dialects import arith
from nvdsl.sim.access import GLOBAL, Accessor
from nvdsl.sim.atomics import RELAXED, add_f32
from nvdsl.sim.decode import Blocking, Decoder, Frame, op
from nvdsl.sim.dialects.memref import element_of, tile_of
from nvdsl.sim.indexer import Indexer
from nvdsl.sim.polling import polling
from nvdsl.sim.undefined import Stored
from nvdsl.sim.values import LANES, scalar


@op("memref.load")
def _load(d: Decoder, op: Any) -> Any:
    return loads(d, op, *_element_access(d, op, op.operands[0], d.operands(op)[1:]))


@op("memref.store")
def _store(d: Decoder, op: Any) -> Any:
    return stores(d, op, *_element_access(d, op, op.operands[1], d.operands(op)[2:]))


def _element_access(d: Decoder, op: Any, ref: Any, indices: list[int]) -> tuple[Indexer, Accessor]:
    index = Indexer(d, op, ref, indices)
    return index, Accessor(index.layout.space, index.layout.element, None, 1, index.at)


def loads(d: Decoder, op: Any, index: Indexer, access: Accessor) -> Any:
    """The step of a load from the memref that is its first operand."""
    access.tile = element_of(op.operands[0], list(op.operands)[1:])
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = access.load(v[0], index(v))

    return step


def stores(d: Decoder, op: Any, index: Indexer, access: Accessor) -> Any:
    """The step of a store of the first operand to the memref that is the second one."""
    value, *_ = d.operands(op)
    stored = Stored(d, op.operands[0], index.at)
    tile = tile_of(op.operands[1])
    access.tile = tile if tile is None else element_of(op.operands[1], list(op.operands)[2:])

    def step(v: Frame) -> None:
        w, address = v[0], index(v)
        access.store(w, address, v[value])
        if w.undefined:
            stored.check(v, access, address)

    return step


_RMW: dict[str, Any] = {
    "addf": np.add, "addi": np.add, "assign": None, "andi": np.bitwise_and, "ori": np.bitwise_or,
    "xori": np.bitwise_xor, "maxs": np.maximum, "maxu": np.maximum, "mins": np.minimum, "minu": np.minimum,
    "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin, "muli": np.multiply,
    "mulf": np.multiply,
}  # fmt: skip


@op("memref.atomic_rmw")
def _atomic(d: Decoder, op: Any) -> Any:
    """One lane after the other. Relaxed, as the lowering makes it."""
    _, _, *indices = d.operands(op)
    index = Indexer(d, op, op.operands[1], indices)
    access = Accessor(index.layout.space, index.layout.element, None, 1, index.at, RELAXED)
    kind = arith.AtomicRMWKind(integer(op, "kind")).name
    return atomic(d, op, access, index, op.operands[0], _RMW[kind], kind in ("maxu", "minu"))


def atomic(d: Decoder, op: Any, access: Accessor, index: Any, operand: Any, f: Any, is_unsigned: bool = False) -> Any:
    """old = memory; memory = f(old, value), lane by lane. ``f`` None: assignment.

    What a warp does with a number that it drew may come before or after what others do with theirs. So it goes on at
    once in the order "reverse"; in "forward" only when no other warp can; in "random" this way or that.
    """
    r, value = d.result(op), d.slot(operand)
    is_used = any(True for _ in op.results[0].uses)
    stored = Stored(d, operand, access.at)
    e = access.e
    access.reads = f is not None or is_used
    if f is np.add and e.name == "f32" and access.space == GLOBAL:
        f = add_f32

    def step(v: Frame) -> None:
        w = v[0]
        given = np.broadcast_to(np.asarray(v[value], e.dtype), (LANES,))
        given = given.view(e.unsigned) if is_unsigned else given
        old = np.zeros(LANES, given.dtype)
        address = index(v)
        for found, offsets in access.modify(w, address):
            view = found.view(given.dtype)
            for lane, offset in w.in_turn(offsets):
                at = offset >> access.shift
                old[lane] = view[at]
                view[at] = given[lane] if f is None else f(view[at], given[lane])
                w.machine.changes += bool(view[at] != old[lane])
        v[r] = old.view(e.dtype)
        if w.undefined:
            stored.check(v, access, address)

    def drawn(v: Frame) -> Iterator[Any]:
        step(v)
        machine = v[0].machine
        order = machine.options.order
        if order == "forward" or (order == "random" and machine.random.random() < 0.5):
            yield polling(access.at, None)

    return Blocking(drawn) if is_used and access.space == GLOBAL else step


@op("memref.generic_atomic_rmw")
def _generic_atomic(d: Decoder, op: Any) -> Any:
    """One lane after the other runs the body on what the one before left."""
    _, *indices = d.operands(op)
    index = Indexer(d, op, op.operands[0], indices)
    access = Accessor(index.layout.space, index.layout.element, None, 1, index.at, RELAXED)
    block = op.regions[0].blocks[0]
    current = d.define(block.arguments[0])
    body, terminator = d.block(block)
    (made,) = d.operands(terminator)
    r, e = d.result(op), access.e

    def step(v: Frame) -> None:
        w = v[0]
        outer = w.mask
        ((found, offsets),) = access.modify(w, index(v))  # a memref is in one memory
        view, old = found.view(e.dtype), np.zeros(LANES, e.dtype)
        for lane, offset in w.in_turn(offsets):
            old[lane] = view[offset >> access.shift]
            v[current] = scalar(old[lane : lane + 1], e)
            w.set_mask(np.arange(LANES) == lane)
            body(v)
            value = v[made]
            view[offset >> access.shift] = value[lane] if isinstance(value, np.ndarray) else value
            w.machine.changes += bool(view[offset >> access.shift] != old[lane])
        w.set_mask(outer)
        v[r] = old

    return step
