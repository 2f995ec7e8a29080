"""nvvm, bulk copies: TMA loads, stores and reductions, lines of bytes, and their groups."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.location import where
from nvdsl.ir.operands import has, integer, word
from nvdsl.sim import boxes, copies
from nvdsl.sim.decode import Blocking, Decoder, Frame, op, unknown
from nvdsl.sim.dialects.nvgpu import load_box, predicated, store_box
from nvdsl.sim.report import Access


@op("nvvm.cp.async.bulk.tensor.shared.cluster.global")
def _tensor_load(d: Decoder, op: Any) -> Any:
    dst, tensor, coords, barrier = d.named(op, "dstMem", "tmaDescriptor", "coordinates", "mbar")
    im2col, multicast, predicate = d.named(op, "im2colOffsets", "multicastMask", "predicate")
    if im2col or word(op, "mode") != "tile":
        raise unknown(op, "im2col")
    at = where(op)

    def step(v: Frame) -> None:
        load_box(v, v[tensor], coords, v[dst], v[barrier], None if multicast is None else v[multicast], at)

    return predicated(predicate, step)


@op("nvvm.cp.async.bulk.tensor.global.shared.cta")
def _tensor_store(d: Decoder, op: Any) -> Any:
    tensor, src, coords, predicate = d.named(op, "tmaDescriptor", "srcMem", "coordinates", "predicate")
    at = where(op)
    return predicated(predicate, lambda v: store_box(v, v[tensor], coords, v[src], None, at))


@op("nvvm.cp.async.bulk.tensor.reduce")
def _tensor_reduce(d: Decoder, op: Any) -> Any:
    tensor, src, coords = d.named(op, "tmaDescriptor", "srcMem", "coordinates")
    at, kind = where(op), word(op, "redKind")
    return lambda v: store_box(v, v[tensor], coords, v[src], kind, at)


@op("nvvm.cp.async.bulk.tensor.prefetch")
def _tensor_prefetch(d: Decoder, op: Any) -> Any:
    """It moves nothing that a kernel could see, but its coordinates have a copy's rules."""
    tensor, coords, im2col = d.named(op, "tmaDescriptor", "coordinates", "im2colOffsets")
    if im2col or word(op, "mode") != "tile":
        raise unknown(op, "im2col")
    at = where(op)

    def step(v: Frame) -> None:
        w = v[0]
        for lane in w.active_lanes():
            box = boxes.Box(v[tensor], tuple(copies.uniform(v[c], w, lane) for c in coords))
            box.check(w.machine, 0, Access(w.name, "TMA prefetch", "prefetch", at), "prefetch")

    return step


@op("nvvm.cp.async.bulk.shared.cluster.global")
def _bulk_load(d: Decoder, op: Any) -> Any:
    dst, src, barrier, size, multicast = d.named(op, "dstMem", "srcMem", "mbar", "size", "multicastMask")
    at = where(op)

    def step(v: Frame) -> None:
        w = v[0]
        for lane in w.active_lanes():
            line = boxes.Line(copies.uniform(v[src], w, lane), copies.uniform(v[size], w, lane))
            mask = None if multicast is None else copies.uniform(v[multicast], w, lane) & 0xFFFF
            copies.load(w, lane, line, copies.uniform(v[dst], w, lane), copies.uniform(v[barrier], w, lane), mask, at)

    return step


@op("nvvm.cp.async.bulk.prefetch")
def _bulk_prefetch(d: Decoder, op: Any) -> Any:
    """It moves nothing that a kernel could see, but its bytes have a copy's rules."""
    src, size = d.named(op, "srcMem", "size")
    at = where(op)

    def step(v: Frame) -> None:
        w = v[0]
        for lane in w.active_lanes():
            line = boxes.Line(copies.uniform(v[src], w, lane), copies.uniform(v[size], w, lane))
            line.check(w.machine, 0, Access(w.name, "bulk prefetch", "prefetch", at), "prefetch")

    return step


@op("nvvm.cp.async.bulk.global.shared.cta")
def _bulk_store(d: Decoder, op: Any) -> Any:
    dst, src, size = d.named(op, "dstMem", "srcMem", "size")
    at = where(op)

    def step(v: Frame) -> None:
        w = v[0]
        for lane in w.active_lanes():
            line = boxes.Line(copies.uniform(v[dst], w, lane), copies.uniform(v[size], w, lane))
            copies.store(w, lane, line, copies.uniform(v[src], w, lane), None, at)

    return step


@op("nvvm.cp.async.bulk.commit.group")
def _bulk_commit(d: Decoder, op: Any) -> Any:
    return lambda v: copies.commit(v[0])


@op("nvvm.cp.async.bulk.wait_group")
def _bulk_wait(d: Decoder, op: Any) -> Any:
    pending, read, at = integer(op, "group"), has(op, "read"), where(op)
    return Blocking(lambda v: copies.wait(v[0], pending, read, at))
