"""Kernels with atomics, and what they must give: for the simulator and for the device."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import nvdsl as nv

DTYPES: dict[str, Any] = {
    "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
INTEGERS = [name for name in DTYPES if name[0] in "iu"]
KINDS = {
    "add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
LIMIT = 5
"""Of ``inc`` and ``dec``."""

VECTORS = [("f32", 2, False), ("f32", 4, False), ("bf16", 8, False), ("f16", 4, False), ("f16", 2, True)]
"""Type, elements, and whether in shared memory."""


def kinds_of(name: str) -> list[str]:
    integers = ["and", "or", "xor", *(("inc", "dec") if "32" in name else ())] if name in INTEGERS else []
    return ["add", "sub", "min", "max", *integers]


@nv.jit
def combined(x, start, y, *, kinds):
    """Each lane of a warp combines its number with one of four elements, in global (y[0]) and shared memory (y[1])."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        s = nv.smem((len(kinds), 4), y.dtype)
        for i in range(len(kinds)):
            if t < 4:
                s[i, t] = start[t]
        nv.sync_threads()
        for i, kind in enumerate(kinds):
            value = LIMIT if kind in ("inc", "dec") else x[t]
            getattr(nv, f"atomic_{kind}")(s, (i, t % 4), value)
            getattr(y, f"atomic_{kind}")((0, i, t % 4), value)
        nv.sync_threads()
        for i in range(len(kinds)):
            if t < 4:
                y[1, i, t] = s[i, t]

    kernel()


def numbers(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, the four elements at first, y, and what y must be."""
    dtype, kinds = DTYPES[name], kinds_of(name)
    x = np.random.default_rng(7).integers(1, 9, 32).astype(dtype)
    if name[0] != "u":
        x[::3] = -x[::3]
    start = np.array([3, 5, 0, 1], dtype)
    expected = np.broadcast_to(start, (len(kinds), 4)).copy()
    for i, kind in enumerate(kinds):
        for lane, value in enumerate(x):
            place = i, lane % 4
            if kind == "inc":
                expected[place] = 0 if expected[place] >= LIMIT else expected[place] + 1
            elif kind == "dec":
                expected[place] = LIMIT if expected[place] == 0 else expected[place] - 1
            else:
                expected[place] = KINDS[kind](expected[place], value)
    y = np.broadcast_to(start, (2, len(kinds), 4)).copy()
    return x, start, y, np.array([expected, expected])


@nv.jit
def exchanged(x, y):
    @nv.kernel(grid=1, block=4)
    def kernel():
        t = nv.thread_id.x
        y[0, t] = x.atomic_exch(t, 9)
        y[1, t] = nv.atomic_cas(x, t, 9, 4)
        y[2, t] = nv.atomic_cas(x, t, 9, 5, order="acq_rel", scope="cta")
        y[3, t] = x[t]

    kernel()


@nv.jit
def tickets(counter, y, *, blocks=2):
    """Each thread draws a place of its own."""

    @nv.kernel(grid=blocks, block=64)
    def kernel():
        y[nv.atomic_add(counter, 0, 1)] = nv.thread_id.x

    kernel()


@nv.jit
def summed(x, y, *, count, shared, blocks=2):
    """Vectors of ``count`` elements are added to four places."""

    @nv.kernel(grid=blocks, block=32)
    def kernel():
        t = nv.thread_id.x
        s = nv.smem((4 * count,), y.dtype)
        if t < 4 * count:
            s[t] = 0
        nv.sync_threads()
        nv.atomic_add(s if shared else y, t % 4 * count, x.vector(t * count, count))
        nv.sync_threads()
        if shared:
            if t < 4 * count:
                y.atomic_add(t, s[t])

    kernel()


@nv.jit
def locked(lock, total, *, orders=("acquire", "release"), blocks=3):
    """A lock of compare-and-swap around an ordinary sum."""

    @nv.kernel(grid=blocks, block=32)
    def kernel():
        if nv.thread_id.x == 0:
            while nv.atomic_cas(lock, 0, 0, 1, order=orders[0]) != 0:
                pass
            total[0] = total[0] + 1
            nv.atomic_exch(lock, 0, 0, order=orders[1])

    kernel()


@nv.jit
def counted_in_a_cluster(x, *, cluster=2):
    """Every block counts in the shared memory of block 0."""

    @nv.kernel(grid=cluster, block=32, cluster=cluster)
    def kernel():
        s = nv.smem((1,), nv.i32)
        if nv.thread_id.x == 0:
            s[0] = 0
        nv.cluster_sync()
        s.at(0).atomic_add(0, 1)
        if nv.cluster_rank() == 0:
            s.atomic_add(0, 1)
        nv.cluster_sync()
        if nv.cluster_rank() == 0:
            x[nv.thread_id.x] = s[0]

    kernel()


@nv.jit
def drawn(counter, times, total, *, tiles, blocks, stages, whole_warps):
    """Warp 0 draws; warp 1 counts the tiles. Of a warp that frees slots lane by lane, each lane does."""

    @nv.kernel(grid=blocks, block=64)
    def kernel():
        queue = nv.TileQueue(counter, tiles, readers=1 if whole_warps else 32, stages=stages)
        lane, work = nv.lane_id(), queue.begin()
        if nv.warp_id() == 0:
            if lane == 0:
                while work.valid:
                    work = queue.draw(work)
        else:
            while work.valid:
                times.atomic_add(work.tile, 1, predicate=lane == 0)
                work = queue.next(work) if whole_warps else queue.next(work, release=True)
            total.atomic_add(0, 1, predicate=lane == 0)

    kernel()


@nv.jit
def in_turns(out, *, count, total):
    """Members write the number of each turn; the last rounds may be short."""

    @nv.kernel(grid=1, block=32 * count)
    def kernel():
        turns, me = nv.Turns(count, threads=32), nv.warp_id()
        place = nv.smem((1,), nv.i32)
        if nv.thread_id.x == 0:
            place[0] = 0
        nv.sync_threads()
        turns.begin(me)
        for turn in nv.range(me, total, count):
            turns.wait(me)
            if nv.lane_id() == 0:
                out[place[0]] = me
                place[0] = place[0] + 1
            turns.pass_on(me, turn + 1 < total)

    kernel()
