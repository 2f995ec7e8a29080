"""nvgpu: mbarriers as groups, tensor copies. (Its warpgroup ops are executed after convert-nvgpu-to-nvvm.)"""

from __future__ import annotations

from typing import Any

from nvdsl.lower.kernels import mbarrier_count
from nvdsl.mlir import ir
from nvdsl.sim import copies, phases
from nvdsl.sim.decode import Blocking, Decoder, Frame, op
from nvdsl.sim.report import variable
from nvdsl.trace.location import where


def segments(op: Any, slots: list[Any]) -> list[list[Any]]:
    """Operands by group."""
    groups, start = [], 0
    for length in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]):
        groups.append(slots[start : start + length])
        start += length
    return groups


def predicated(predicate: int | None, f: Any) -> Any:
    """A step that runs ``f`` in the lanes where the predicate holds."""
    if predicate is None:
        return f

    def step(v: Frame) -> None:
        p, w = v[predicate], v[0]
        if p.__class__ is bool:
            if p:
                f(v)
            return
        mask = w.mask & p
        if mask.any():
            outer = w.mask
            w.set_mask(mask)
            f(v)
            w.set_mask(outer)

    return step


@op("nvgpu.mbarrier.create")
def _create(d: Decoder, op: Any) -> None:
    count, at = mbarrier_count(op), where(op)
    name = variable(at) or "group"
    while any(known.startswith(f"{name}[") for known in d.names.values()):
        name += "'"
    for i in range(count):
        d.names[d.mbarrier_at + 8 * i] = f"{name}[{i}]" if count > 1 else name
    d.define(op.results[0], d.mbarrier_at)
    d.mbarrier_at += 8 * count


def _address(v: Frame, group: int, index: int) -> Any:
    base = v[group]
    return (base[1] if base.__class__ is tuple else base) + 8 * v[index]


@op("nvgpu.mbarrier.get")
def _get(d: Decoder, op: Any) -> Any:
    group, index = d.operands(op)
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = _address(v, group, index)

    return step


@op("nvgpu.mbarrier.init")
def _init(d: Decoder, op: Any) -> Any:
    group, count, index, *predicate = d.operands(op)
    at, names = where(op), d.names
    return predicated(
        predicate[0] if predicate else None,
        lambda v: phases.init(v[0], _address(v, group, index), v[count], names, at),
    )


@op("nvgpu.mbarrier.arrive", "nvgpu.mbarrier.arrive.nocomplete")
def _arrive(d: Decoder, op: Any) -> Any:
    group, index, *count = d.operands(op)
    at = where(op)
    if op.results:
        d.define(op.results[0], 0)
    return lambda v: phases.arrive(v[0], _address(v, group, index), None, v[count[0]] if count else None, at)


@op("nvgpu.mbarrier.arrive.expect_tx")
def _arrive_expect_tx(d: Decoder, op: Any) -> Any:
    group, size, index, *predicate = d.operands(op)
    at = where(op)
    return predicated(
        predicate[0] if predicate else None,
        lambda v: phases.arrive(v[0], _address(v, group, index), v[size], None, at),
    )


@op("nvgpu.mbarrier.try_wait.parity")
def _try_wait(d: Decoder, op: Any) -> Any:
    group, parity, _ticks, index = d.operands(op)
    at = where(op)
    return Blocking(lambda v: phases.wait(v[0], _address(v, group, index), v[parity], at))


@op("nvgpu.tma.async.load")
def _load(d: Decoder, op: Any) -> Any:
    (dst,), (group,), (tensor,), coords, (index,), multicast, predicate = segments(op, d.operands(op))
    at = where(op)

    def step(v: Frame) -> None:
        address = _address(v, group, index)
        load_box(v, v[tensor], coords, v[dst][1], address, v[multicast[0]] if multicast else None, at)

    return predicated(predicate[0] if predicate else None, step)


def load_box(v: Frame, tensor: Any, coords: list[int], dst: Any, barrier: Any, multicast: Any, at: Any) -> None:
    """One copy for each active lane."""
    w = v[0]
    for lane in w.active_lanes():
        box = copies.Box(tensor, tuple(copies.uniform(v[c], w, lane) for c in coords))
        mask = None if multicast is None else copies.uniform(multicast, w, lane) & 0xFFFF
        copies.load(w, box, copies.uniform(dst, w, lane), copies.uniform(barrier, w, lane), mask, at)


@op("nvgpu.tma.async.store")
def _store(d: Decoder, op: Any) -> Any:
    (src,), (tensor,), coords, predicate = segments(op, d.operands(op))
    at = where(op)
    return predicated(
        predicate[0] if predicate else None, lambda v: store_box(v, v[tensor], coords, v[src][1], None, at)
    )


def store_box(v: Frame, tensor: Any, coords: list[int], src: Any, kind: str | None, at: Any) -> None:
    w = v[0]
    for lane in w.active_lanes():
        box = copies.Box(tensor, tuple(copies.uniform(v[c], w, lane) for c in coords))
        copies.store(w, lane, box, copies.uniform(src, w, lane), kind, at)


@op("nvgpu.tma.prefetch.descriptor", "nvgpu.tma.fence.descriptor")
def _prefetch(d: Decoder, op: Any) -> None:
    return None
