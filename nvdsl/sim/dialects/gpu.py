"""gpu: ids, the block's barrier, dynamic shared memory, printf."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.driver.printf import formatted
from nvdsl.ir.location import where
from nvdsl.ir.operands import has, named, string, word
from nvdsl.sim import indices, meetings, memory
from nvdsl.sim.decode import Blocking, Decoder, Frame, op
from nvdsl.sim.dialects.masked import masked
from nvdsl.sim.machine import Waiting
from nvdsl.sim.moved import Moved
from nvdsl.sim.operands import check_barrier
from nvdsl.sim.report import error
from nvdsl.sim.values import LANES
from nvdsl.values import bounds

_AXES = {"x": 0, "y": 1, "z": 2}


def cluster_index(w: Any) -> tuple[int, ...]:
    return tuple(i // c for i, c in zip(w.block.index, w.machine.cluster_dim, strict=True))


def cluster_block(w: Any) -> tuple[int, ...]:
    return tuple(i % c for i, c in zip(w.block.index, w.machine.cluster_dim, strict=True))


IDS: dict[str, Any] = {
    "gpu.thread_id": lambda w: w.tid,
    "gpu.block_id": lambda w: w.block.index,
    "gpu.block_dim": lambda w: w.machine.block_dim,
    "gpu.grid_dim": lambda w: w.machine.grid,
    "gpu.cluster_id": cluster_index,
    "gpu.cluster_dim": lambda w: tuple(g // c for g, c in zip(w.machine.grid, w.machine.cluster_dim, strict=True)),
    "gpu.cluster_block_id": cluster_block,
    "gpu.cluster_dim_blocks": lambda w: w.machine.cluster_dim,
}


@op(*IDS)
def _id(d: Decoder, op: Any) -> Any:
    read = IDS[op.name]
    axis = _AXES[word(op, "dimension")]
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = read(v[0])[axis]

    return step


@op("gpu.lane_id")
def _lane(d: Decoder, op: Any) -> Any:
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = v[0].lane.astype(np.int64)

    return step


@op("gpu.dynamic_shared_memory")
def _dynamic(d: Decoder, op: Any) -> None:
    d.define(op.results[0], (memory.SHARED_BASE, memory.SHARED_BASE))


@op("gpu.barrier")
def _barrier(d: Decoder, op: Any) -> Any:
    at, call = where(op), meetings.call(op)
    return Blocking(lambda v: block_barrier(v[0], 0, None, at, call))


def block_barrier(
    w: Any, number: int, threads: int | None, at: Any, call: meetings.Call | None = None
) -> Iterator[Any]:
    """bar.sync: arrive, wait, and know what the others knew."""
    if w.machine.checks:
        check_barrier(w, number, threads, at)
    barrier = w.block.named_barrier(number)
    total = w.machine.threads if threads is None else threads
    mine = barrier.arrive(w, total if threads is not None else -(-total // LANES) * LANES, at, call)
    if w.record is not None:
        w.record.meet(barrier, mine)
    if barrier.generation == mine:
        wanted = total

        def hint() -> str:
            return (
                f"{barrier.arrived} of {wanted} threads are at {barrier.name}: the others are elsewhere, "
                "have returned, or never come here (a barrier under a condition?)"
            )

        yield Waiting(
            lambda: barrier.generation != mine,
            lambda: f"{barrier.name} (arrived {barrier.arrived} of {wanted} threads)",
            at,
            hint,
            barrier=barrier,
        )
    if w.record is not None:
        w.record.met(barrier, barrier.name, mine, at)
    w.acquire(barrier.done)
    w.meet(w.bits)


@op("gpu.shuffle")
def _shuffle(d: Decoder, op: Any) -> Any:
    value, offset, width = d.operands(op)
    r = d.result(op)
    valid = d.define(op.results[1])
    mode = word(op, "mode")
    moved = Moved(d, [r], [named(op).value])

    def finish(v: Frame, named: int, values: list[Any]) -> None:
        w, (x, by) = v[0], values
        source = shuffle_source(w, mode, by, int(np.asarray(v[width]).reshape(-1)[0]))
        inside = (source >= 0) & (source < LANES)
        source = np.where(inside, source, w.lane)
        if w.undefined:
            moved.between_lanes(v, source)
        v[r] = x if not isinstance(x, np.ndarray) else x[source]
        v[valid] = inside

    return masked(d, op, None, [value, offset], finish)


def shuffle_source(w: Any, mode: str, offset: Any, width: int) -> Any:
    lane = w.lane.astype(np.int64)
    if mode == "idx":
        return np.broadcast_to(np.asarray(offset), (LANES,)) % LANES
    if mode == "xor":
        return lane ^ offset
    if mode == "up":
        return lane - offset
    return np.where(lane + offset < width, lane + offset, lane)


def failed_assert(w: Any, lane: int, message: str, at: Any) -> Exception:
    thread = tuple(int(np.broadcast_to(t, (LANES,))[lane]) for t in w.tid)
    return error("assert", f"device assert failed in {w.name}, thread {thread}: {message}", at)


@op("gpu.printf")
def _printf(d: Decoder, op: Any) -> Any:
    """Each active lane prints, in the order of the lanes. (Or it states indices: `nvdsl.ops.bounds`.)"""
    if (stated := bounds.stated(op)) is not None:
        return indices.check(d.operands(op), stated, where(op))
    text = string(op, "format")
    slots = d.operands(op)
    at, is_assert = where(op), has(op, "nvdsl.assert")

    def step(v: Frame) -> None:
        w = v[0]
        out = []
        for lane in w.active_lanes():
            values = [x[lane] if np.shape(x) == (LANES,) else x for x in (v[s] for s in slots)]
            if is_assert:
                raise failed_assert(w, lane, formatted(text, values), at)
            out.append(formatted(text, values))
        sys.stdout.write("".join(out))

    return step
