"""Kernels that hang, or break a rule, on purpose: on a GPU debug mode reports them, on the CPU the verifier or the
simulator. With ``right=True`` each is without its mistake, and ends.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

import nvdsl as nv


@nv.jit
def wrong_bytes(x, out, *, right=False):
    """expect_tx says 16 bytes more than the box holds: the phase never completes."""
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=2, block=64)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(3, arrivals=1)
        t = nv.thread_id.x
        if t == 0:
            full[1].arrive_expect_tx(tile.bytes + (0 if right else 16))  # the cause
            x_tma.load(tile, full[1], (0, 0))
        full[1].wait(0)  # here
        out[nv.block_id.x, t] = tile[0, t]

    kernel()


@nv.jit
def wrong_parity(x, out, *, right=False):
    """The producer's first wait is for parity 0: for the release of a slot that nobody has filled yet."""
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=2, block=96)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]
        empty = nv.Mbarriers(2, arrivals=64)
        t = nv.thread_id.x
        if t == 64:
            for k in nv.range(3):
                empty[1].wait((k & 1) ^ (1 if right else 0))  # here
                full.arrive_expect_tx(tile.bytes)
                x_tma.load(tile, full, (0, 0))
        elif t < 64:
            for k in nv.range(3):
                full.wait(k & 1)
                out[nv.block_id.x, t] = tile[k, t]
                empty[1].arrive()

    kernel()


@nv.jit
def too_many_registers(out, *, right=False):
    """40 + 240 + 240 registers for 128 threads each are 66,560: the last warpgroup waits for ever."""

    @nv.kernel(grid=2, block=384)
    def kernel():
        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(24 if right else 40)
        else:
            nv.setmaxnreg_inc(240)  # here
        nv.sync_threads()
        out[nv.block_id.x, nv.thread_id.x] = 1

    kernel()


@nv.jit
def part_of_the_block(out, *, right=False):
    """A barrier of 64 threads to which one warp alone comes."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        if right or t < 32:
            nv.named_barrier_sync(1, 64)  # here
        out[t] = 1

    kernel()


@nv.jit
def failing_assert(x, out, *, right=False):
    @nv.kernel(grid=2, block=64)
    def kernel():
        t = nv.thread_id.x
        i = t + 64 * nv.block_id.x
        value = x[i]
        assert right or value < 100.0, f"x[{i}] is {value:.1f}"  # here
        out[i] = value

    kernel()


@nv.jit
def load_beyond(x, out, *, right=False):
    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        shift = 0 if right else 8
        out[t] = x[3, t + shift]  # here

    kernel()


@nv.jit
def store_beyond(x, out, *, right=False):
    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        shift = 0 if right else 1
        out[t - shift] = x[3, t]  # here

    kernel()


@nv.jit
def shared_beyond(x, out, *, right=False):
    """A tile's element behind the last tile of the block's shared memory."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        tile = nv.smem((2, 64), nv.f32)
        tile[t // 32 + (0 if right else 1), t] = x[3, t]  # here
        nv.sync_threads()
        out[t] = tile[t // 32, t]

    kernel()


@nv.jit
def column_beyond(x, out, *, right=False):
    """A tile's element past the end of its row: the next row's first."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        tile = nv.smem((2, 64), nv.f32)
        shift = nv.i32(x[0, 0 if right else 1])
        tile[0, t] = x[3, t]
        nv.sync_threads()
        out[t] = tile[0, t + shift]  # here

    kernel()


@nv.jit
def stage_beyond(x, out, *, right=False):
    """A stage of a stack, and a barrier of a group, that are not there."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        stack = nv.smem((2, 2, 64), nv.f32)
        nv.smem((2, 64), nv.f32)
        stage = nv.i32(x[0, 1 if right else 2])
        stack[stage][0, t] = x[3, t]  # here
        nv.sync_threads()
        out[t] = stack[1][0, t] if right else 0.0

    kernel()


@nv.jit
def barrier_beyond(x, out, *, right=False):
    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        full = nv.Mbarriers(2, arrivals=64)
        nv.Mbarriers(2, arrivals=64)
        full[nv.i32(x[0, 1 if right else 2])].arrive()  # here
        out[t] = x[3, t]

    kernel()


@nv.jit
def odd_column(x, out, *, right=False):
    """A TMA load whose innermost coordinate, which only the kernel knows, is 8 bytes."""
    x_tma = nv.TMA(x, tile=(16, 32))

    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        tile = nv.smem((16, 32), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if t == 0:
            column = nv.i32(x[0, 4 if right else 2])
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (3, column))  # here
        full.wait(0)
        out[t] = tile[t // 32, t % 32]

    kernel()


@nv.jit
def divided_by_zero(x, out, *, right=False):
    """The last row of x holds no 0, the first one does."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        divisor = nv.i32(x[15 if right else 0, t])
        out[t] = nv.f32(1000 % divisor)  # here

    kernel()


@nv.jit
def step_of_zero(x, out, *, right=False):
    @nv.kernel(grid=1, block=64)
    def kernel():
        step, total = nv.i32(x[0, 1 if right else 0]), nv.f32(0.0)
        for _ in nv.range(0, 4, step):  # here
            total += 1.0
        out[nv.thread_id.x] = total

    kernel()


@nv.jit
def between_vectors(x, out, *, right=False):
    """Vectors of four floats that start at odd ones, which only the kernel knows."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        shift = nv.i32(x[0, 0 if right else 1])
        out[t] = x.vector((3, nv.min(t // 4 * 4 + shift, 60)), 4)[t % 4]  # here

    kernel()


@dataclass(frozen=True)
class Mistake:
    """A kernel, and what its report must name besides the line of the comment ``# here``.

    ``cpu``: "verify", or the kind of the simulator's error. ``device``: the kind of debug mode's; ``says``: patterns.
    """

    function: Any
    cpu: str
    device: str
    says: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def line(self) -> int:
        """Where a wait does not end, or an access or assert fails."""
        return self._line_of("# here")

    @property
    def cause(self) -> int:
        """Where the verifier sees the mistake."""
        return self._line_of("# the cause") or self.line

    def _line_of(self, comment: str) -> int:
        lines, first = inspect.getsourcelines(self.function._function)
        return next((first + i for i, text in enumerate(lines) if comment in text), 0)

    def arguments(self) -> list[Any]:
        x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
        if self.function is failing_assert:
            return [x.reshape(-1)[:128].copy(), np.full(128, np.nan, np.float32)]
        shapes = {"wrong_bytes": (2, 64), "wrong_parity": (2, 64), "too_many_registers": (2, 384)}
        out = np.full(shapes.get(self.name, (64,)), np.nan, np.float32)
        return [x, out] if "x" in inspect.signature(self.function._function).parameters else [out]


MISTAKES = [
    Mistake(wrong_bytes, "verify", "deadlock", (
        r"in kernel kernel 4 warps waited for 2 s",
        r"warps 0, 1 of block 0 and 2 more wait for mbarrier full\[1\], parity 0: "
        r"its phase \(parity 0\) still needs 16 bytes",
        r"likely: 16 bytes that full\[1\] expects are in no copy")),
    Mistake(wrong_parity, "deadlock", "deadlock", (
        r"in kernel kernel 6 warps waited",
        r"warp 2 of block 0 and 1 more wait for mbarrier empty\[1\], parity 0: "
        r"its phase \(parity 0\) still needs 64 arrivals",
        r"warps 0, 1 of block 0 and 2 more wait for mbarrier full, parity 0: its phase \(parity 0\) still needs 1 ")),
    Mistake(too_many_registers, "verify", "hang", (
        r"warps ([4-9]|1[01])[\d, to]* of block 0 and 4 more wait for registers \(setmaxnreg.inc to 240\)",  # any four
        r"warps 0 to [\d, to]+ of block 0 and 8 more wait for the block's barrier",
        r"likely: setmaxnreg waits for registers that no warpgroup gives back")),
    Mistake(part_of_the_block, "verify", "hang", (
        r"warp 0, thread 0, waits for named barrier 1", r"1 warp has returned", r"likely: not all threads")),
    Mistake(failing_assert, "assert", "assert", (
        r"device assert failed in warp 1 of block 1, thread 36: x\[100\] is 100\.0$",)),
    Mistake(load_beyond, "out-of-bounds", "out-of-bounds", (
        r"load out of bounds by warp 1, thread 56: index \(3, 64\) of an array of 16x64 f32",)),
    Mistake(store_beyond, "out-of-bounds", "out-of-bounds", (
        r"store out of bounds by warp 0, thread 0: index -1 of an array of 64 f32",)),
    Mistake(shared_beyond, "verify", "out-of-bounds", (
        r"access out of bounds by warp 1, thread \d+: index \(2, \d+\) of a tile of 2x64 f32",
        r"on axis 0 the largest legal index is 1")),
    Mistake(column_beyond, "out-of-bounds", "out-of-bounds", (
        r"access out of bounds by warp 1, thread 63: index \(0, 64\) of a tile of 2x64 f32",
        r"on axis 1 the largest legal index is 63")),
    Mistake(stage_beyond, "out-of-bounds", "out-of-bounds", (
        r"access out of bounds by warp [01], thread \d+: index 2 of a stack of 2 tiles",)),
    Mistake(barrier_beyond, "out-of-bounds", "out-of-bounds", (
        r"mbarrier out of bounds by warp [01], thread \d+: index 2 of the 2 mbarriers of full",)),
    Mistake(odd_column, "illegal-copy", "illegal-copy", (
        r"TMA load by warp 0(, thread 0)?.*: innermost coordinate 2 is 8 bytes of f32$",
        r"fix: .*start the box at 0,")),
    Mistake(divided_by_zero, "division", "division", (r"warp 0(, thread 0,| lane 0) divides 1000 by 0 \(arith",)),
    Mistake(step_of_zero, "loop-step", "loop-step", (r"warp [01](, thread \d+,)? is at a loop with a step of 0",)),
    Mistake(between_vectors, "misaligned", "misaligned", (
        r"(load|access) of 16 bytes by warp \d( lane \d+ at byte \d+ of|, thread \d+: its address is 4 past)",)),
]  # fmt: skip
