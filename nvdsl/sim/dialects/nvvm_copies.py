"""nvvm, bulk copies: TMA loads, stores and reductions, lines of bytes, and their groups."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.location import where
from nvdsl.mlir import ir
from nvdsl.sim import boxes, copies
from nvdsl.sim.decode import Blocking, Decoder, Frame, op, unknown
from nvdsl.sim.dialects.nvgpu import load_box, predicated, segments, store_box
from nvdsl.sim.dialects.nvvm import word
from nvdsl.sim.report import Access


@op("nvvm.cp.async.bulk.tensor.shared.cluster.global")
def _tensor_load(d: Decoder, op: Any) -> Any:
    (dst,), (tensor,), coords, (barrier,), im2col, multicast, _hint, predicate = segments(op, d.operands(op))
    if im2col or word(op, "mode") != "tile":
        raise unknown(op, "im2col")
    at = where(op)

    def step(v: Frame) -> None:
        load_box(v, v[tensor], coords, v[dst], v[barrier], v[multicast[0]] if multicast else None, at)

    return predicated(predicate[0] if predicate else None, step)


@op("nvvm.cp.async.bulk.tensor.global.shared.cta")
def _tensor_store(d: Decoder, op: Any) -> Any:
    (tensor,), (src,), coords, _hint, predicate = segments(op, d.operands(op))
    at = where(op)
    return predicated(
        predicate[0] if predicate else None, lambda v: store_box(v, v[tensor], coords, v[src], None, at)
    )


@op("nvvm.cp.async.bulk.tensor.reduce")
def _tensor_reduce(d: Decoder, op: Any) -> Any:
    (tensor,), (src,), coords, _hint = segments(op, d.operands(op))
    at, kind = where(op), word(op, "redKind")
    return lambda v: store_box(v, v[tensor], coords, v[src], kind, at)


@op("nvvm.cp.async.bulk.tensor.prefetch")
def _tensor_prefetch(d: Decoder, op: Any) -> Any:
    """It moves nothing that a kernel could see, but its coordinates have a copy's rules."""
    (tensor,), coords, im2col, _hint = segments(op, d.operands(op))
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
    (dst,), (src,), (barrier,), (size,), multicast, _hint = segments(op, d.operands(op))
    at = where(op)

    def step(v: Frame) -> None:
        w = v[0]
        for lane in w.active_lanes():
            line = boxes.Line(copies.uniform(v[src], w, lane), copies.uniform(v[size], w, lane))
            mask = copies.uniform(v[multicast[0]], w, lane) & 0xFFFF if multicast else None
            copies.load(w, lane, line, copies.uniform(v[dst], w, lane), copies.uniform(v[barrier], w, lane), mask, at)

    return step


@op("nvvm.cp.async.bulk.global.shared.cta")
def _bulk_store(d: Decoder, op: Any) -> Any:
    (dst,), (src,), (size,), *_ = segments(op, d.operands(op))
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
    pending, read, at = ir.IntegerAttr(op.attributes["group"]).value, "read" in op.attributes, where(op)
    return Blocking(lambda v: copies.wait(v[0], pending, read, at))
