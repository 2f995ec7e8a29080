"""Kernels that ask a Hopper GPU what the PTX ISA leaves open. Most break a rule on purpose: run them through
`benchmarks.facts` only, which gives each a process of its own and a deadline."""

from __future__ import annotations

import os

os.environ["NVDSL_VERIFY"] = "off"

from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import ptx, wgmma
from nvdsl.ops.pointer import GLOBAL, address_of
from nvdsl.values.traced import const

N = 256
GROUP = 32
"""wgmmas of one group: 32 of m64n256k16 take some 4,096 clocks."""
MIDDLE = GROUP // 2


@nv.jit
def wait_of_one_warp(a, b, delays, times, sums, *, place, overwrite):
    """Each warp of a warpgroup waits ``delays[warp]`` clocks at ``place``; when did it pass what? ``overwrite``: warp 0
    writes NaN over B and the other warps' rows of A, right after its wait for wgmma."""
    a_tma, b_tma = nv.TMA(a, (64, 64), swizzle=128), nv.TMA(b, tile=(64, N), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, N), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t, warp = nv.thread_id.x, nv.warp_id()
        delay = delays[warp]

        def at(here: str) -> None:
            if here == place:
                begin = nv.clock()
                while nv.clock() - begin < delay:
                    nv.nanosleep(20)

        def note(column: int) -> None:
            if nv.lane_id() == 0:
                times[warp, column] = nv.clock()

        if t == 0:
            full.arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        nv.sync_threads()
        a_start = wgmma.descriptor(A.address, A.operand(mn_axis=0))
        b_start = wgmma.descriptor(B.address, B.operand(mn_axis=1))
        acc: Any = llvm.mlir_undef(wgmma.accumulator_type(N, nv.f32))
        note(0)
        at("fence")
        note(1)
        wgmma.wgmma_fence()
        at("first")
        note(2)
        for i in range(GROUP):
            acc = wgmma.mma_async(
                acc, a_start, b_start, n=N, a_dtype=a.dtype, b_dtype=b.dtype, d_dtype=nv.f32, b_major="mn",
                scale_d=i > 0,
            )  # fmt: skip
            if i == MIDDLE:
                at("middle")
        note(3)
        at("commit")
        wgmma.wgmma_commit()
        at("wait")
        note(4)
        nv.wgmma_wait(0)
        note(5)
        if overwrite:
            if warp == 0:
                for i in range(8):
                    B[i, nv.lane_id()] = float("nan")
                    A[16 + i * 6, nv.lane_id()] = float("nan")
                nv.fence_proxy_async()
        fields = ptx.unpack(ptx.touch(acc))
        total = nv.f32(0.0)
        for field in fields:
            total += nv.f32(field)
        sums[t] = total

    kernel()


@nv.jit
def elect_in_half_a_warp(out):
    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        if t < 16:
            if nv.elect():
                out[0] = t
        out[1] = 7

    kernel()


@nv.jit
def shuffle_from_both_branches(x, out):
    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        v = x[t]
        if t < 16:
            out[t] = v + nv.shuffle_xor(v, 16)
        else:
            out[t] = (v + nv.shuffle_xor(v, 16)) * 10.0

    kernel()


@nv.jit
def lanes_of_one_warp_hand_over(out):
    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((1,), nv.f32)
        bar = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 1:
            bar.wait(0)
            out[0] = s[0]
        elif t == 0:
            s[0] = 7.0
            bar.arrive()

    kernel()


@nv.jit
def arithmetic(x, y, out):
    """Division by zero, INT_MIN / -1, shifts beyond the width; operands from memory, so that nothing is folded."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        out[0, t] = x[t] // y[t]
        out[1, t] = x[t] % y[t]
        out[2, t] = x[t] << y[t]
        out[3, t] = x[t] >> y[t]

    kernel()


@nv.jit
def add_of_a_block(counter, *, scope):
    @nv.kernel(grid=264, block=1024)
    def kernel():
        llvm.atomicrmw(
            llvm.AtomicBinOp.add, address_of(counter, space=GLOBAL), const(1, nv.i32), llvm.AtomicOrdering.monotonic,
            syncscope=scope,
        )  # fmt: skip

    kernel()


@nv.jit
def reduce_by_all_lanes(out):
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=1, block=32)
    def kernel():
        tile = nv.smem((16, 64), nv.f32)
        t = nv.thread_id.x
        for i in nv.range(16):
            tile[i, t] = 1.0
            tile[i, t + 32] = 1.0
        nv.fence_proxy_async()
        nv.sync_warp()
        out_tma.reduce_add(tile, (0, 0))
        nv.bulk_commit_group()
        nv.bulk_wait_group(0)

    kernel()


@nv.jit
def order_of_blocks(ticket, order):
    """Which block came when: ``order[i]`` is the block that drew ticket i."""

    @nv.kernel(grid=1056, block=1024)
    def kernel():
        if nv.thread_id.x == 0:
            i32 = ir.IntegerType.get_signless(32)
            at = address_of(ticket, space=GLOBAL)
            mine = llvm.atomicrmw(llvm.AtomicBinOp.add, at, const(1, i32), llvm.AtomicOrdering.monotonic)
            order[nv.i32(mine)] = nv.block_id.x

    kernel()


def wgmma_case(place: str, late: int, clocks: int, overwrite: bool, seed: int) -> dict[str, Any]:
    g = np.random.default_rng(seed)
    a = g.integers(-2, 3, (64, 64)).astype(np.float16)
    b = g.integers(-2, 3, (64, N)).astype(np.float16)
    delays = np.zeros(4, np.int64)
    delays[late] = clocks
    times, sums = np.zeros((4, 6), np.int64), np.zeros(128, np.float32)
    wait_of_one_warp(a, b, delays, times, sums, place=place, overwrite=overwrite)
    d = GROUP * (a[:, :16].astype(np.float64) @ b[:16].astype(np.float64))
    t = np.arange(128)
    row = t // 32 * 16 + t % 32 // 4
    column = np.add.outer(t % 4 * 2, (np.arange(0, N, 8)[:, None] + [0, 1]).ravel())
    want = d[row[:, None], column].sum(1) + d[row[:, None] + 8, column].sum(1)
    wrong = [int(w) for w in range(4) if not (sums[32 * w : 32 * w + 32] == want[32 * w : 32 * w + 32]).all()]
    return {"times": (times - times[:, :1].min()).tolist(), "wrong_warps": wrong}
