"""`small` of operands whose rows follow each other in memory, but not at multiples of 16 bytes: they would be read
element by element.

    row 0    |01234567|89abcdef|ghi        the aligned vectors of 16 bytes that lie in a row of A are read as they are;
    row 1     jklmn|opqrstuv|wxyz          a tile's rows are so far apart that all of them begin alike (here: the first
                                           one, the ninth, ...), so the same elements of B go with a vector of each

A vector's place in a column of B begins anywhere, so two vectors of it are shifted together. What is left at both ends
of K is one more slice, which is read by elements.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.realigned import VECTOR, WORDS, shifted_vector
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from nvdsl.kernels.gemm.residues import period
from nvdsl.kernels.gemm.small import RESIDENT, ROUNDS, SLICE, WARPS, Part, launch, multiplied
from nvdsl.lang.packing import words_of

TILE = 32, 8
"""Rows and columns of a tile. Two products of a warp share what is read of B, which L2 brings where it is long."""
AHEAD = 2
"""Slices that a warp asks for before it multiplies one."""
SPLITS = 8, 2
"""Blocks of a cluster that share a tile where K is long, the first one of which all clusters run at the same time."""
LANES = 4
"""That share a row."""
UNIT = 8
"""Elements of a vector."""
LEAST = 24
"""K at least: then a row has a vector that lies in it as a whole, and whose place in any column of B ends in one."""
MOST = 1 << 33
"""Bytes of an operand below which its words are counted in 31 bits."""


def takes(problem: GemmProblem) -> bool:
    """Whether both operands are whole pieces of memory, of rows off the grid."""
    a, b, k = problem.a, problem.b.transposed, problem.sizes[2]
    apart = a.dtype.bits == 16 and k * a.dtype.bytes % VECTOR > 0 and k >= LEAST
    return apart and problem.acc_dtype == nv.f32 and all(_follows(x, k) for x in (a, b))


def _follows(x: Matrix, k: int) -> bool:
    whole = len(x.shape) == 2 and x.aligned and x.strides == (k, 1)
    return whole and math.prod(x.shape) * x.dtype.bytes < MOST


def split(m: int, n: int, k: int, sms: int) -> int:
    """Blocks that share a tile."""
    count, rounds = tiles(m, n, k), nv.cdiv(slices(k), WARPS * AHEAD)
    fit = (split for split in SPLITS if rounds > ROUNDS and count <= RESIDENT * resident_clusters(split, sms))
    return next(fit, 1)


def slices(k: int) -> int:
    """Of K, its ends among them."""
    return nv.cdiv(k // UNIT - 2, LANES) + 1


def tiles(m: int, n: int, k: int) -> int:
    """Of an m x n result of 16-bit operands."""
    apart = period(k, VECTOR // UNIT)
    return nv.cdiv(m, TILE[0] * apart) * apart * nv.cdiv(n, TILE[1])


@nv.jit
def matmul(
    a: nv.Array,
    a_words: nv.Array,
    b: nv.Array,
    b_words: nv.Array,
    out: nv.Array,
    *operands: Any,
    split: int,
    sms: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[1, M, N] = a[1, M, K] @ b[1, N, K] transposed, of 16 bits, with sums of f32. ``a_words``, ``b_words``: the
    same memory as (1, 1, words) of i32, as many whole vectors as it has. ``split``: blocks of a cluster, each with a
    part of K; ``sms``: of the device."""
    (_, m, n), k = out.shape, a.shape[2]
    dtypes, bytes = (a.dtype, b.dtype, acc_dtype), a.dtype.bytes
    apart = period(k, bytes)
    vectors = nv.max(k // UNIT - 2, 1)  # of a row, from the first aligned one on
    whole = nv.cdiv(vectors, LANES)  # slices

    def summed(part: Part) -> list[Any]:
        # Bytes before the first vector, of all rows of the tile.
        head = -(part.rows[0] % VECTOR * (k * bytes % VECTOR)) & (VECTOR - 1)
        rows, cols = [nv.min(x, m - 1) for x in part.rows], [nv.min(x, n - 1) for x in part.cols]
        of_a = [nv.i32((nv.i64(row) * nv.i64(k * bytes) + (VECTOR - 1)) >> 4) for row in rows]
        starts = [nv.i64(col) * nv.i64(k * bytes) + nv.i64(head) for col in cols]
        of_b = [(nv.i32(x >> 4), nv.i32(x) % VECTOR * 8) for x in starts]

        inner = replace(part, end=nv.min(part.end, whole))

        def read(number: Any) -> list[list[Any]]:
            at = number * LANES + part.lane
            here, at = (number < inner.end) & (at < vectors), nv.min(at, vectors - 1)
            found: list[Any] = [a_words.vector((0, 0, (first + at) * WORDS), WORDS) for first in of_a]
            pairs = [[b_words.vector((0, 0, (first + at + i) * WORDS), WORDS) for i in (0, 1)] for first, _ in of_b]
            for (low, high), (_, bits) in zip(pairs, of_b, strict=True):
                found.append(shifted_vector([*low, *high], bits))
            return [[nv.select(here, word, 0) for word in vector] for vector in found]

        sums = inner.multiplied(read, AHEAD, dtypes)
        # The last slice: both ends.
        if (part.begin <= whole) & (whole < part.end) & ((whole - part.begin) % part.step == 0):
            first, ends = head // bytes, [part.lane + i for i in range(0, 3 * UNIT, LANES)]
            places = [nv.select(x < first, x, x + vectors * UNIT) for x in ends]
            exist = [x < k for x in places]

            def elements(x: nv.Array, row: Any) -> list[Any]:
                values = [x[0, row, nv.min(at, k - 1)] for at in places]
                values = [nv.select(here, value, x.dtype(0)) for here, value in zip(exist, values, strict=True)]
                return words_of(values + [x.dtype(0)] * (SLICE // LANES - len(values)), x.dtype)

            sums = multiplied([elements(a, x) for x in rows] + [elements(b, x) for x in cols], sums, dtypes, len(rows))
        return sums

    launch(summed, out, operands, whole + 1, split, acc_dtype, epilogue_op, shape=TILE, apart=apart, sms=sms)
