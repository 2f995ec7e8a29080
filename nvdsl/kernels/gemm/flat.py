"""Products of a short K whose operands lie row behind row: both with K contiguous, and nothing between their rows.

As `short`, and of 8 bits, too. But a strip of such an operand is one run of memory, wherever its rows start. So threads
copy it as it is, 16 bytes at a time, and find nothing out about rows. Lanes take the elements that mma.sync wants from
where they are, in pairs where K is even.

    copy        the runs of A and B for the next tile, into one of two slots
    multiply    the tile in the other one, each warp a part of it; elements beyond K, of the next row, become zeros
    write       as `short` does

Where two slots would be too large there is one, and the next tile is copied while this one is written.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import Any

import nvdsl as nv
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm.gemv import batch_of
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, Matrix
from nvdsl.kernels.gemm.short import ACROSS, BESIDE_SUMS, DOWN, PAIR, PART, STEP, THREADS, resident, write
from nvdsl.lang.packing import as_words, elements_of, words_of
from nvdsl.lang.warp_fragment import WarpFragment

MOST, BANKS = 128, 128
"""K for which there is room in a tile; for half of it there are two slots. And bytes in all banks of shared memory:
rows of a multiple of so many would all begin in the same bank."""
ROWS, COLS = DOWN * PART, ACROSS * PART
"""Of a tile."""
EIGHT, WORD = 8, 4
"""Rows or columns of an operand that a register of mma.sync is for; and its bytes along K."""
LARGEST = 1 << 31
"""Elements whose numbers are no i32."""


def fits(*operands: Matrix) -> bool:
    """Whether both operands lie so, as (M, K) and (N, K)."""
    return all(
        x.aligned
        and (x.strides[-1] == 1 or x.shape[-1] == 1)
        and x.strides[-2] == x.shape[-1]
        and all(step * x.dtype.bytes % TMA_ALIGNMENT == 0 for step in x.strides[:-2])
        and math.prod(x.shape[-2:]) < LARGEST
        for x in operands
    )


def holds(k: int, dtype: nv.DType) -> bool:
    """Whether there is room for K, and rows begin in different banks."""
    return k <= MOST and k * dtype.bytes % BANKS > 0


@functools.lru_cache
def ways(k: int) -> int:
    """Of a K of 16-bit elements, in how many turns a warp's lanes are served where each reads its word of a step: words
    that they want of the same bank."""
    words = {(row * k + 2 * lane) // 2 for row in range(EIGHT) for lane in range(WARP_SIZE // EIGHT)}
    return max(Counter(word % (BANKS // WORD) for word in words).values())


class Run:
    """``mn`` rows of an operand, in shared memory as in the array, (batch, 1, rows times ``k``)."""

    def __init__(self, array: nv.Array, mn: int, k: Any) -> None:
        self.array, self.k = array, k
        self.word, self.step = WORD // array.dtype.bytes, step_of(array)
        self.slots = nv.smem((1, mn * MOST + 2 * self.step), array.dtype)
        self.size = mn * k + self.step  # of a slot: lanes look beyond the last row

    def copy(self, slot: Any, batch: Any, mn: Any) -> None:
        """Start to copy the rows from ``mn`` on into a slot, as many as there are, and what lanes see beyond them,
        zeros beyond the last row."""
        first, of, each = mn * self.k, slot * self.size, TMA_ALIGNMENT // self.array.dtype.bytes
        left = self.array.shape[2] - first
        for x in nv.range(nv.thread_id.x * each, nv.min(self.size, left + self.step), THREADS * each, unroll=False):
            to, valid = self.slots.elements((0, of + x), each), nv.min(nv.max(left - x, 0), each)
            nv.cp_async(to, 0, self.array, (batch_of(self.array, batch), 0, first + x), each, valid=valid)

    def words(self, slot: Any, rows: list[Any], step: Any, unit: int) -> list[tuple[Any, Any]]:
        """Of each row this lane's registers of a step of K: of 16 bits elements 0, 1 and 8, 9 from its own place on.
        ``unit``: elements of which K is a multiple, 1 or 2."""
        at = step + nv.lane_id() % 4 * self.word
        found = []
        for row in rows:
            start, behind = slot * self.size + row * self.k + at, (0, self.step // 2)
            low, high = (self._word(start + i, at + i, unit) for i in behind)
            found.append((low, high))
        return found

    def _word(self, x: Any, k: Any, unit: int) -> Any:
        dtype = self.array.dtype
        if unit == self.word:
            (word,) = as_words([self.slots.vector((0, x), unit)], dtype)
            return nv.select(k < self.k, word, nv.i32(0))
        dtype = dtype if dtype.bits == 16 else nv.i8  # nothing else is done with floats of 8 bits
        elements: list[Any] = []
        for i in range(0, self.word, unit):
            found = self.slots.vector((0, x + i), unit) if unit > 1 else self.slots[0, x + i]
            some = elements_of([nv.bitcast(found, dtype)])
            elements += [nv.select(k + i < self.k, y, dtype(0)) for y in some]
        (word,) = words_of(elements, dtype)
        return word


def step_of(array: nv.Array) -> int:
    """Elements of K that mma.sync multiplies."""
    return STEP * 2 // array.dtype.bytes


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    sms: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[batch, M, N] = A[batch, M, K] @ B[batch, N, K] transposed of 8 or 16 bits, with sums of 32, of operands that
    are given as (batch, 1, M K) and (batch, 1, N K). K is at most `MOST`. An operand of one batch serves all."""
    batches, m, n = out.shape
    k = a.shape[2] // m
    tiles = TileScheduler(m, n, ROWS, COLS, group=1, batches=batches)
    two, depth = 2 * k <= MOST, step_of(a)
    # Tensor cores take floats of 8 bits as pairs of f16, which need registers, too.
    of_sm = resident(epilogue_op is not None or a.dtype.bits == 8)
    blocks = nv.min(tiles.count, sms * of_sm)
    staged = out.dtype if epilogue_op is None and acc_dtype.is_float else acc_dtype

    @nv.kernel(grid=blocks, block=THREADS, blocks_per_sm=of_sm, programmatic=True)
    def kernel() -> None:
        nv.griddep_wait()
        nv.griddep_launch_dependents()
        A, B = Run(a, ROWS, k), Run(b, COLS, k)
        shared = nv.smem((ROWS, COLS + BESIDE_SUMS), staged)
        top, left = nv.warp_id() // ACROSS * PART, nv.warp_id() % ACROSS * PART
        group = nv.lane_id() // 4
        down, across = ([first + group + i for i in range(0, PART, EIGHT)] for first in (top, left))

        def read(slot: Any, tile: Any) -> None:
            if tile < tiles.count:
                batch, row, col = tiles.start(tile)
                A.copy(slot, batch, row)
                B.copy(slot, batch, col)
            nv.cp_async_commit()

        def plus(sums: Any, slot: Any, rows: list[Any], cols: list[Any], unit: int) -> Any:
            for step in nv.range(0, k, depth, unroll=False):
                of_a, of_b = A.words(slot, rows, step, unit), B.words(slot, cols, step, unit)
                upper, lower = of_a[::2], of_a[1::2]
                words = [w for u, v in zip(upper, lower, strict=True) for w in (u[0], v[0], u[1], v[1])]
                x = WarpFragment("a", (PART, depth), a.dtype, words)
                y = WarpFragment("b", (depth, PART), b.dtype, [w for pair in of_b for w in pair])
                sums += x @ y
            return sums

        slot = nv.i32(0)
        read(slot, nv.block_id.x)
        for tile in nv.range(nv.block_id.x, tiles.count, blocks):
            nv.cp_async_wait(0)
            nv.sync_threads()  # this tile is there, and the one before it, and the sums' memory, are done with
            if two:
                read(slot ^ 1, tile + blocks)
            _, row, col = tiles.start(tile)
            rows, cols = [nv.min(x, m - 1 - row) for x in down], [nv.min(x, n - 1 - col) for x in across]
            sums = nv.warp_accumulator(PART, PART, acc_dtype)
            if k % PAIR == 0:
                sums = plus(sums, slot, rows, cols, PAIR)
            else:
                sums = plus(sums, slot, rows, cols, 1)
            sums.store(shared, (top, left))
            nv.sync_threads()
            if two:
                slot = slot ^ 1
            else:
                read(slot, tile + blocks)
            write(shared, out, tiles.start(tile), acc_dtype, epilogue_op, operands)

    kernel()
