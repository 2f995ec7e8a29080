"""A matrix times a vector, of a matrix whose rows follow each other in memory, but not at multiples of 16 bytes.

`gemv.rows` would read single elements. Here a thread reads the aligned vectors of 16 bytes that lie in a row as a
whole, and shifts what they are multiplied by to them, which is in L1. Rows that are as many rows apart as 16 bytes have
elements begin alike, so what is shifted and converted serves `ROWS` of them. A row's ends are read element by element.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.realigned import VECTOR, WORDS, shifted_vector
from nvdsl.kernels.gemm import gemv
from nvdsl.lang.packing import as_vector
from nvdsl.values.math import fma

ROWS, AHEAD = 2, 4
"""Rows of a thread, and vectors of each that it asks for before it multiplies."""
LANES = 8
"""Threads that share a row, at least: a few loads of each are all of its ends."""
MOST = 1 << 33
"""Bytes of a matrix below which its words are counted in 31 bits."""


@nv.jit
def rows(
    a: nv.Array,
    a_words: nv.Array,
    b: nv.Array,
    b_words: nv.Array,
    out: nv.Array,
    *operands: Any,
    sms: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[1, M, 1] = A[1, M, K] @ B[1, 1, K]. ``a_words``, ``b_words``: the same memory as (1, 1, words) of i32, as
    many whole vectors as it has; a row has two at least."""
    (_, m, _), k = out.shape, a.shape[2]
    dtype, unit = gemv.sums_of(acc_dtype), VECTOR // a.dtype.bytes
    vectors = nv.max(k // unit - 1, 0)  # that surely lie in a row, and whose place in B ends in a whole vector
    group = unit * ROWS
    slots = m // group * unit + nv.min(m % group, unit)  # of threads that share rows
    bits, parts = gemv.divided(slots, vectors, k * a.dtype.bytes, sms)
    bits = nv.max(bits, LANES.bit_length() - 1)
    each, pitch = nv.cdiv(vectors, parts), a.strides[1]
    grid = gemv.Grid(1, nv.cdiv(slots, gemv.THREADS >> bits), parts)
    partial = gemv.Partial(grid, ROWS, dtype)

    @nv.kernel(grid=grid.count, block=gemv.THREADS)
    def kernel() -> None:
        _, block, part = grid.place()
        lane = nv.thread_id.x & ((1 << bits) - 1)
        slot = block * (gemv.THREADS >> bits) + (nv.thread_id.x >> bits)
        row = slot // unit * group + slot % unit
        at = nv.min(row, m - 1)
        found = [nv.select(row + i * unit < m, at + i * unit, at) for i in range(ROWS)]  # all of them begin alike
        begins = [nv.i64(x) * nv.i64(pitch) * a.dtype.bytes for x in found]
        head = nv.i32(-begins[0] & (VECTOR - 1)) // a.dtype.bytes  # elements before the first whole vector
        firsts = [nv.i32((x + (VECTOR - 1)) >> 4) for x in begins]
        bit = head * a.dtype.bits

        def loaded(places: list[Any]) -> list[Any]:
            rows_of_a = [[a_words.vector((0, 0, (first + x) * WORDS), WORDS) for first in firsts] for x in places]
            beside = [[b_words.vector((0, 0, (x + i) * WORDS), WORDS) for i in range(2)] for x in places]
            return list(zip(rows_of_a, beside, strict=True))

        def plus(totals: Any, found: list[Any], exist: list[Any]) -> Any:
            sums = [*totals]
            for (rows_of_a, (low, high)), here in zip(found, exist, strict=True):
                y = as_vector(shifted_vector([*low, *high], bit), b.dtype).to(dtype)
                for i, x in enumerate(rows_of_a):
                    more = _plus_product(sums[i], as_vector([*x], a.dtype).to(dtype), y)
                    sums[i] = more if here is True else nv.where(here, more, sums[i])
            return nv.vector(sums)

        def ends() -> list[Any]:
            """A lane's elements, and whether they exist."""
            numbers = [lane + i * (1 << bits) for i in range(nv.cdiv(2 * unit, LANES))]
            places = [nv.min(nv.select(x < head, x, x + vectors * unit), k - 1) for x in numbers]
            exist = [(x < k - vectors * unit) & (part == 0) for x in numbers]
            return [([a[0, at, x] for at in found], b[0, 0, x], here) for x, here in zip(places, exist, strict=True)]

        def plus_ends(totals: Any, elements: list[Any]) -> Any:
            for mine, y, here in elements:
                totals = totals + nv.vector([gemv.only(here, dtype(x) * dtype(y), dtype) for x in mine])
            return totals

        begin, end = part * each, nv.min((part + 1) * each, vectors)
        rounds = nv.max(end - begin, 0) >> (bits + AHEAD.bit_length() - 1)
        full = begin + (rounds << (bits + AHEAD.bit_length() - 1))
        totals = nv.vector([dtype(0)] * ROWS)
        for first in nv.range(begin + lane, full, AHEAD << bits, unroll=False):
            totals = plus(totals, loaded([first + (i << bits) for i in range(AHEAD)]), [True] * AHEAD)
        if begin < end:  # what is left, and the ends, are asked for together
            places = [full + lane + (i << bits) for i in range(AHEAD)]
            left, elements = loaded([nv.min(x, end - 1) for x in places]), ends()
            totals = plus_ends(plus(totals, left, [x < end for x in places]), elements)
        else:
            totals = plus_ends(totals, ends())
        totals = nv.vector([gemv.added_up(totals[i], bits, dtype) for i in range(ROWS)])
        if parts > 1:
            totals = partial.sums_of_block(totals)
        for i in range(ROWS):
            if (lane == 0) & (row + i * unit < m) & (part == parts - 1):
                gemv.store(totals[i], out, (0, row + i * unit), acc_dtype, epilogue_op, operands)

    kernel()


def _plus_product(total: Any, x: Any, y: Any) -> Any:
    for i in range(len(x)):
        total = fma(x[i], y[i], total)
    return total
