"""A matrix times a vector: results of one column, and their transposes, which are results of one row.

Such a product takes as long as its matrix takes to read. So there are no tensor cores and no shared memory on the way:
a thread asks for several vectors of 16 bytes before it multiplies the first one.

    rows       K contiguous: `lanes` neighbouring threads share a row; each takes every `lanes`-th vector of it
    columns    M contiguous: a thread has the rows of one vector; `lanes` neighbours have the vectors beside it, and the
               other threads of the block other places along K

Sums are f32 (f64, i32) and are added up in a fixed order. Where a result is so small that few blocks have a part of it,
K is divided among blocks, too: all but the last one hand their sums over in memory.
"""

from __future__ import annotations

import math
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.clamped_index import multiple
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.elementwise import place
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.gemm.streamk_fixup import GIVEN
from nvdsl.lang.collectives.words import join, split
from nvdsl.ops import memory

THREADS = 256
ACCESS = 16
"""Bytes that a thread loads at once."""
AHEAD, AT_END = 8, 4
"""Loads of the matrix before a thread multiplies; and where fewer are left."""
BLOCKS, RESIDENT = 4, 2
"""Blocks of an SM into which rows are divided, which even out, and those that run at the same time."""
NARROW = 4
"""Columns of a thread that loads one element at a time, from neighbouring threads' columns to the next ones: an
address, and an element of the vector, serve all of them."""
LINE = 8
"""Threads along M, at least: 128 contiguous bytes."""
WORTH, ROUNDS = 1 << 17, 4
"""Bytes of a row that a block reads, and rounds of loads along columns, for which handing sums over is worth its while.
"""
TOGETHER = 8
"""Sums of other blocks that a thread asks for at a time."""


@nv.jit
def rows(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    sms: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[batch, M, 1] = A[batch, M, K] @ B[batch, 1, K]; an operand of one batch serves all."""
    (batches, m, _), k = out.shape, a.shape[2]
    dtype, unit = sums_of(acc_dtype), wide(a)
    chunks = k // unit
    bits, parts = divided(batches * m, chunks, k * a.dtype.bytes, sms)
    each = nv.cdiv(chunks, parts)
    grid = Grid(batches, nv.cdiv(m, THREADS >> bits), parts)
    partial = Partial(grid, 1, dtype)

    @nv.kernel(grid=grid.count, block=THREADS)
    def kernel() -> None:
        batch, block, part = grid.place()
        lane, lanes = nv.thread_id.x & ((1 << bits) - 1), 1 << bits
        row = block * (THREADS >> bits) + (nv.thread_id.x >> bits)
        of_a, of_b, at = batch_of(a, batch), batch_of(b, batch), nv.min(row, m - 1)

        def plus(total: Any, steps: list[Any], exist: list[Any]) -> Any:
            loaded = [(load(a, (of_a, at, x * unit), unit), load(b, (of_b, 0, x * unit), unit)) for x in steps]
            for (x, y), here in zip(loaded, exist, strict=True):
                total += only(here, (x.to(dtype) * y.to(dtype)).sum(), dtype)
            return total

        begin, end = part * each, nv.min((part + 1) * each, chunks)
        total = summed(plus, dtype(0), begin, end, lane, bits)
        if unit > 1:
            for x in nv.range(chunks * unit + lane, nv.select(part == 0, k, 0), lanes, unroll=False):
                total += dtype(a[of_a, at, x]) * dtype(b[of_b, 0, x])
        total = added_up(total, bits, dtype)
        if parts > 1:
            total = partial.sums_of_block(nv.vector([total]))[0]
        if (lane == 0) & (row < m) & (part == parts - 1):
            store(total, out, (batch, row), acc_dtype, epilogue_op, operands)

    kernel()


@nv.jit
def columns(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    sms: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """The same of an A that is given as (batch, K, M), with M contiguous."""
    (batches, m, _), k = out.shape, a.shape[1]
    dtype, unit = sums_of(acc_dtype), wide(a)
    nv.require_multiples(M=(m, unit))
    each_thread = unit if unit > 1 else NARROW
    chunks = nv.cdiv(m, each_thread)
    few = nv.cdiv(batches * chunks, sms * RESIDENT)  # for as many blocks as run at once, or fewer
    line = LINE if unit > 1 else nv.min(nv.max(chunks, LINE), NARROW * LINE)
    bits = exponent(2 * nv.max(few, line) - 1, THREADS // max(unit, 8))
    groups = THREADS.bit_length() - 1 - bits
    blocks = nv.cdiv(chunks, 1 << bits)
    most = nv.cdiv(sms * RESIDENT, nv.max(batches * blocks, 1))
    pays = (batches * m < LINE * ACCESS // a.dtype.bytes * sms) & (k > ROUNDS * (AHEAD << groups))
    parts = nv.select(pays, nv.max(nv.min(nv.min(most, k // (AHEAD << groups)), THREADS), 1), 1)
    each = nv.cdiv(k, parts)
    grid = Grid(batches, blocks, parts)
    partial = Partial(grid, THREADS, dtype)

    @nv.kernel(grid=grid.count, block=THREADS)
    def kernel() -> None:
        batch, block, part = grid.place()
        thread, lanes = nv.thread_id.x, 1 << bits
        lane, other = thread & (lanes - 1), thread >> bits
        of_a, of_b = batch_of(a, batch), batch_of(b, batch)
        row = nv.min(block * lanes + lane, chunks - 1) * unit
        first = block * lanes * each_thread
        apart = [nv.min(first + lane + i * lanes, m - 1) for i in range(each_thread)]  # where they are no vector

        def loads(x: Any) -> Any:
            return load(a, (of_a, x, row), unit) if unit > 1 else nv.vector([a[of_a, x, at] for at in apart])

        def plus(totals: Any, steps: list[Any], exist: list[Any]) -> Any:
            loaded = [(loads(x), b[of_b, 0, x]) for x in steps]
            for (x, y), here in zip(loaded, exist, strict=True):
                totals = totals + only(here, x.to(dtype) * dtype(y), dtype)
            return totals

        begin, end = part * each, nv.min((part + 1) * each, k)
        totals = summed(plus, nv.vector([dtype(0)] * each_thread), begin, end, other, groups)
        shared = nv.smem((THREADS, each_thread), dtype)
        for i in range(each_thread):
            shared[thread, i] = totals[i]
        nv.sync_threads()
        total = dtype(0)
        of_lane, number = (thread // unit, thread % unit) if unit > 1 else (thread, (thread >> bits) & (NARROW - 1))
        for group in nv.range(1 << groups, unroll=False):
            total += shared[group * lanes + (of_lane & (lanes - 1)), number]
        if parts > 1:
            total = partial.sum_of_each(total, bits + each_thread.bit_length() - 1, shared)
        row = first + thread
        if (thread < lanes * each_thread) & (row < m) & (part == parts - 1):
            store(total, out, (batch, row), acc_dtype, epilogue_op, operands)

    kernel()


def divided(rows: nv.Int, chunks: nv.Int, bytes: nv.Int, sms: int) -> tuple[nv.Int, nv.Int]:
    """Of rows of ``chunks`` loads and so many ``bytes``: the exponent of the threads that share one, and parts of K."""
    wanted = nv.cdiv(sms * BLOCKS * THREADS, nv.max(rows, 1))
    bits = exponent(nv.min(wanted, nv.cdiv(chunks, AT_END)), THREADS)
    pays = (rows < RESIDENT * sms) & (bytes > WORTH)
    return bits, nv.select(pays, nv.max(nv.min(nv.min(wanted, chunks) // THREADS, THREADS), 1), 1)


def summed(plus: Any, total: Any, begin: Any, end: Any, mine: Any, bits: Any) -> Any:
    """``total`` plus what the places ``begin + mine``, and every ``1 << bits``-th one after it before ``end`` have.
    ``plus``: of (total, places, whether each exists). The last of several parts may begin behind its end."""
    rounds = nv.max(end - begin, 0) >> (bits + AHEAD.bit_length() - 1)
    full = begin + (rounds << (bits + AHEAD.bit_length() - 1))
    for first in nv.range(begin + mine, full, AHEAD << bits, unroll=False):
        total = plus(total, [first + (i << bits) for i in range(AHEAD)], [True] * AHEAD)
    for first in nv.range(full + mine, end, AT_END << bits, unroll=False):
        places = [first + (i << bits) for i in range(AT_END)]
        total = plus(total, [nv.min(place, end - 1) for place in places], [place < end for place in places])
    return total


def only(here: Any, value: Any, dtype: nv.DType) -> Any:
    return value if here is True else nv.where(here, value, dtype(0))


def sums_of(acc_dtype: nv.DType) -> nv.DType:
    """The type in which products are added up."""
    return acc_dtype if acc_dtype in (nv.f64, nv.i32) else nv.f32


def wide(x: nv.Array) -> int:
    """Elements of 16 bytes, where surely all rows begin at multiples of them; else 1."""
    count = ACCESS // x.dtype.bytes
    return count if unit_of(x) == count else 1


def unit_of(x: nv.Array) -> int:
    """The elements, up to 16 bytes, at multiples of which all rows surely begin."""
    *outer, last = [multiple(step) if isinstance(step, int) else -multiple(step) for step in x.strides]
    return math.gcd(ACCESS // x.dtype.bytes, *outer) if last == 1 else 1


def exponent(x: nv.Int, most: int) -> nv.Int:
    """Of the greatest power of two up to ``x`` and ``most``; at least 0."""
    found: nv.Int = 0
    for bit in range(1, most.bit_length()):
        found = nv.select(x >= 1 << bit, bit, found)
    return found


def batch_of(x: nv.Array, batch: Any) -> Any:
    return place(x, batch, 0, 0)[0]


def load(x: nv.Array, at: tuple[Any, ...], count: int) -> Any:
    """``count`` elements along the last axis: one access, or if the array's rows are not aligned one each."""
    if count > 1 and wide(x) == count:
        return x.vector(at, count)
    *outer, last = at
    return nv.vector([x[(*outer, last + i)] for i in range(count)])


def added_up(total: Any, bits: nv.Int, dtype: nv.DType) -> Any:
    """The sum of the totals of ``1 << bits`` neighbouring threads, for each of them."""
    for bit in range(5):
        other = join([nv.shuffle_xor(word, 1 << bit) for word in split(total)], total)
        total += nv.select(bit < bits, other, dtype(0))
    shared = nv.smem(THREADS // 32, dtype)
    if bits > 5:
        if nv.lane_id() == 0:
            shared[nv.warp_id()] = total
        nv.sync_threads()
        warps = 1 << (bits - 5)
        first = nv.warp_id() & -warps
        total = shared[first]
        for i in range(1, THREADS // 32):
            total += nv.select(i < warps, shared[first + (i & (warps - 1))], dtype(0))
    return total


def store(
    total: Any, out: nv.Array, at: tuple[Any, Any], acc_dtype: nv.DType, op: EpilogueOp | None, operands: Any
) -> None:
    """Store a sum to the only column of ``out``."""
    value = acc_dtype(total)
    if op is not None:
        value = op(value, *at, nv.i32(0), *operands)
    out[(*at, 0)] = out.dtype(value)


class Grid:
    """Blocks: of each batch, of each group of rows, of each part of K; the parts of one are neighbours."""

    def __init__(self, batches: nv.Int, blocks: nv.Int, parts: nv.Int) -> None:
        self.parts, self.shares = parts, batches * blocks
        self.count = self.shares * parts
        self._of_parts, self._of_blocks = Divisor.of(parts), Divisor.of(nv.max(blocks, 1))

    def place(self) -> tuple[Any, Any, Any]:
        """Batch, group of rows, part."""
        share, part = self._of_parts.divmod(nv.block_id.x)
        return *self._of_blocks.divmod(share), part


class Partial:
    """Sums of the blocks that share K, ``width`` each, on their way to the last one of them. Made in the host function.

    The last has the highest number: all that it waits for have begun before it. As in
    `nvdsl.kernels.gemm.streamk_fixup` memory is this call's alone and not cleared, and a flag is up when it has a value
    that no memory has by chance."""

    def __init__(self, grid: Grid, width: int, dtype: nv.DType) -> None:
        self.parts, self.dtype = grid.parts, dtype
        count = nv.select(grid.parts > 1, grid.count, 1)
        self.sums = nv.empty((count, width), dtype)
        self.flags = nv.empty(count, nv.i64, arbitrary=True)
        self._of_parts = Divisor.of(grid.parts)

    def sums_of_block(self, totals: Any) -> Any:
        """Of ``width`` sums a block, a vector that all its threads have. Thread by thread: who stores raises the flag,
        and who has waited reads."""
        thread, width = nv.thread_id.x, len(totals)
        first, part = self._place()
        if part < self.parts - 1:
            if thread == 0:
                for i in range(width):
                    self.sums[nv.block_id.x, i] = totals[i]
                memory.store_release(self.flags, nv.block_id.x, GIVEN)
        else:
            self._wait(first, part)
            mine = nv.where(thread == part, totals, nv.vector([self.dtype(0)] * width))
            if thread < part:
                mine = nv.vector([self.sums[first + thread, i] for i in range(width)])
            bits = nv.i32(THREADS.bit_length() - 1)
            totals = nv.vector([added_up(mine[i], bits, self.dtype) for i in range(width)])
        return totals

    def sum_of_each(self, total: Any, bits: Any, shared: nv.Tile) -> Any:
        """Of a sum of each of the first ``1 << bits`` threads, beside those of the same thread in the other blocks: as
        many threads as there are ask for some of these. ``shared``: memory of a row for each thread."""
        thread = nv.thread_id.x
        first, part = self._place()
        mine, group, groups = thread & ((1 << bits) - 1), thread >> bits, THREADS >> bits
        if part < self.parts - 1:
            if thread == mine:
                self.sums[nv.block_id.x, thread] = total
            nv.sync_threads()
            if thread == 0:
                memory.store_release(self.flags, nv.block_id.x, GIVEN)
        else:
            self._wait(first, part)
            nv.sync_threads()
            others = self.dtype(0)
            for start in nv.range(group, part, TOGETHER * groups, unroll=False):
                places = [start + i * groups for i in range(TOGETHER)]
                given = [self.sums[first + nv.min(place, part - 1), mine] for place in places]
                for place, value in zip(places, given, strict=True):
                    others += nv.select(place < part, value, self.dtype(0))
            shared[thread, 0] = others
            nv.sync_threads()
            for other in nv.range(groups, unroll=False):
                total += shared[(other << bits) + mine, 0]
        return total

    def _place(self) -> tuple[Any, Any]:
        """The number of the first block that shares the sums, and which of them this one is."""
        part = self._of_parts.divmod(nv.block_id.x)[1]
        return nv.block_id.x - part, part

    def _wait(self, first: Any, part: Any) -> None:
        """Wait for the sums of the blocks before this one, each thread for one, and lower their flags."""
        thread = nv.thread_id.x
        if thread // 32 * 32 < part:
            while nv.vote_any(memory.load_acquire(self.flags, first + nv.min(thread, part - 1)) != GIVEN):
                pass
            if thread < part:
                self.flags[first + thread] = 0

