"""nvgpu: mbarriers as groups, tensor copies. (Its warpgroup ops are executed after convert-nvgpu-to-nvvm.)"""

from __future__ import annotations

from typing import Any

from nvdsl.hopper.arch import MBARRIER_BYTES
from nvdsl.ir.location import mbarrier_group, where
from nvdsl.ir.operands import mbarriers, named
from nvdsl.sim import boxes, copies, phases
from nvdsl.sim.decode import Blocking, Decoder, Frame, op
from nvdsl.sim.report import error


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
    count, at = mbarriers(op.results[0]), where(op)
    name = mbarrier_group(at, {known.partition("[")[0] for known in d.names.values()})
    for i in range(count):
        d.names[d.mbarrier_at + MBARRIER_BYTES * i] = f"{name}[{i}]" if count > 1 else name
    d.define(op.results[0], d.mbarrier_at)
    d.mbarrier_at += MBARRIER_BYTES * count


def _size(op: Any) -> int:
    """How many barriers the group has that the op names."""
    return mbarriers(named(op).barriers)


def _address(v: Frame, group: int, index: int, size: int, at: Any) -> Any:
    """The address of mbarrier ``index`` of a group of ``size``."""
    base, i = v[group], v[index]
    if i.__class__ is int:
        inside = 0 <= i < size
    else:
        used = i[v[0].mask]
        inside = bool(((used >= 0) & (used < size)).all())
    if not inside:
        raise error(
            "out-of-bounds",
            f"{v[0].name} uses mbarrier {i if i.__class__ is int else used.tolist()} of a group of {size}",
            at,
            f"a group's barriers are 0 to {size - 1}",
            "index with `k % stages`",
        )
    return (base[1] if base.__class__ is tuple else base) + MBARRIER_BYTES * i


@op("nvgpu.mbarrier.get")
def _get(d: Decoder, op: Any) -> Any:
    group, index = d.named(op, "barriers", "mbarId")
    r, size, at = d.result(op), _size(op), where(op)

    def step(v: Frame) -> None:
        v[r] = _address(v, group, index, size, at)

    return step


@op("nvgpu.mbarrier.init")
def _init(d: Decoder, op: Any) -> Any:
    group, count, index, predicate = d.named(op, "barriers", "count", "mbarId", "predicate")
    at, names, size = where(op), d.names, _size(op)
    return predicated(
        predicate,
        lambda v: phases.init(v[0], _address(v, group, index, size, at), v[count], names, at),
    )


@op("nvgpu.mbarrier.arrive", "nvgpu.mbarrier.arrive.nocomplete")
def _arrive(d: Decoder, op: Any) -> Any:
    group, index = d.named(op, "barriers", "mbarId")
    count = d.named(op, "count")[0] if op.name.endswith("nocomplete") else None
    at, n = where(op), _size(op)
    if op.results:
        d.define(op.results[0], 0)
    return lambda v: phases.arrive(
        v[0], _address(v, group, index, n, at), None, None if count is None else v[count], at
    )


@op("nvgpu.mbarrier.arrive.expect_tx")
def _arrive_expect_tx(d: Decoder, op: Any) -> Any:
    group, size, index, predicate = d.named(op, "barriers", "txcount", "mbarId", "predicate")
    at, n = where(op), _size(op)
    return predicated(
        predicate,
        lambda v: phases.arrive(v[0], _address(v, group, index, n, at), v[size], None, at),
    )


@op("nvgpu.mbarrier.try_wait.parity")
def _try_wait(d: Decoder, op: Any) -> Any:
    group, parity, index = d.named(op, "barriers", "phaseParity", "mbarId")
    at, n = where(op), _size(op)
    return Blocking(lambda v: phases.wait(v[0], _address(v, group, index, n, at), v[parity], at))


@op("nvgpu.tma.async.load")
def _load(d: Decoder, op: Any) -> Any:
    dst, group, tensor, coords, index = d.named(
        op, "dst", "barriers", "tensorMapDescriptor", "coordinates", "mbarId"
    )
    multicast, predicate = d.named(op, "multicastMask", "predicate")
    at, n = where(op), _size(op)

    def step(v: Frame) -> None:
        address = _address(v, group, index, n, at)
        load_box(v, v[tensor], coords, v[dst][1], address, None if multicast is None else v[multicast], at)

    return predicated(predicate, step)


def load_box(v: Frame, tensor: Any, coords: list[int], dst: Any, barrier: Any, multicast: Any, at: Any) -> None:
    """One copy for each active lane."""
    w = v[0]
    for lane in w.active_lanes():
        box = boxes.Box(tensor, tuple(copies.uniform(v[c], w, lane) for c in coords))
        mask = None if multicast is None else copies.uniform(multicast, w, lane) & 0xFFFF
        copies.load(w, lane, box, copies.uniform(dst, w, lane), copies.uniform(barrier, w, lane), mask, at)


@op("nvgpu.tma.async.store")
def _store(d: Decoder, op: Any) -> Any:
    src, tensor, coords, predicate = d.named(op, "src", "tensorMapDescriptor", "coordinates", "predicate")
    at = where(op)
    return predicated(predicate, lambda v: store_box(v, v[tensor], coords, v[src][1], None, at))


_ONCE_IS_ENOUGH = (None, "min", "max", "and", "or")
"""A store, and reductions that change nothing when they are done again."""


def store_box(v: Frame, tensor: Any, coords: list[int], src: Any, kind: str | None, at: Any) -> None:
    w = v[0]
    lanes = w.active_lanes()
    if kind not in _ONCE_IS_ENOUGH and len(lanes) > 1 and w.machine.checks:
        _check_repeated(v, coords, src, kind, at)
    for lane in lanes:
        box = boxes.Box(tensor, tuple(copies.uniform(v[c], w, lane) for c in coords))
        copies.store(w, lane, box, copies.uniform(src, w, lane), kind, at)


def _check_repeated(v: Frame, coords: list[int], src: Any, kind: Any, at: Any) -> None:
    """Lanes that all add the same tile to the same place."""
    w = v[0]
    seen: dict[Any, int] = {}
    for lane in w.active_lanes():
        what = copies.uniform(src, w, lane), *(copies.uniform(v[c], w, lane) for c in coords)
        first = seen.setdefault(what, lane)
        if first != lane:
            raise error(
                "repeated-copy",
                f"lanes {first} and {lane} of {w.name} ({len(w.active_lanes())} are active) each do this TMA reduction "
                f"({kind}) of the same tile to the same place",
                at,
                "each thread that executes a bulk copy starts one of its own (PTX ISA, cp.reduce.async.bulk.tensor)",
                "elect one thread: `if nv.thread_id.x == 0:`, or `if nv.elect():` in one warp",
            )


@op("nvgpu.tma.prefetch.descriptor", "nvgpu.tma.fence.descriptor")
def _prefetch(d: Decoder, op: Any) -> None:
    return None
