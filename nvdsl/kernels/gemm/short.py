"""Products of a short K, of 16-bit types: as long as their results take to write.

A block has one tile of the result, and stays no longer: an SM holds several, of which some read while others write.

    read        the strips of A and B that the tile needs, of any strides, into shared memory
    multiply    each warp a part of the tile, by mma.sync
    write       sums through shared memory, so that neighbouring threads store neighbours of a row

A K of more than one slice is read slice by slice. Nothing is in flight meanwhile: other blocks are to fill the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl import sim
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm.gemv import batch_of, wide
from nvdsl.kernels.gemm.problem import GemmProblem

ROWS, COLS, SLICE = 64, 128, 64
"""Of a tile; and elements of K that are read at a time."""
PART, STEP = 32, 16
"""Rows and columns of a warp's part; elements of K that mma.sync multiplies."""
WARPS = ROWS // PART * (COLS // PART)
THREADS = WARPS * WARP_SIZE
BLOCKS = 3
"""Of an SM."""
BESIDE, BESIDE_SUMS = 8, 8
"""Columns beside those of a strip, and of the sums, in shared memory: rows lie in different banks."""
PAIR = 2
"""Elements that cp.async brings."""

ALIGNED, ODD, SIMULATED = 64, 128, 16
"""K up to which it is the fastest: where TMA reads the operands and stores the result, and where it doesn't. The
simulator executes each thread's instructions, and multiplies the tiles of wgmma at once."""


def pays(problem: GemmProblem, aligned: bool, target: str | None) -> bool:
    """Whether a product is one of these. ``aligned``: TMA can read the operands and store the result."""
    most = SIMULATED if sim.wanted(target) else ALIGNED if aligned else ODD
    return problem.a.dtype.bits == 16 and problem.acc_dtype == nv.f32 and problem.sizes[2] <= most


class Strip:
    """What a tile needs of one operand: ``mn`` rows or columns. ``major``: "k" where neighbours along K are near, which
    are the array's last axis then. ``unit``: elements that a thread reads at a time.

    A slice is read in turns, each as many elements as `STEP` of K has.
    """

    def __init__(self, array: nv.Array, mn: int, major: str, unit: int) -> None:
        self.array, self.mn, self.major, self.unit = array, mn, major, unit
        rows, cols = (mn, SLICE) if major == "k" else (SLICE, mn)
        self.tile = nv.smem((rows, cols + BESIDE), array.dtype)

    def places(self, turn: Any, bits: Any) -> list[tuple[Any, Any]]:
        """Rows and columns of the tile that this thread reads in a turn, where ``1 << bits`` elements of K are read."""
        across = (bits if self.major == "k" else self.mn.bit_length() - 1) - (self.unit - 1)
        row, col = nv.thread_id.x >> across, (nv.thread_id.x & ((1 << across) - 1)) * self.unit
        count, down = self.mn * STEP // (THREADS * self.unit), THREADS >> across
        return [(row + (turn * count + i) * down, col) for i in range(count)]

    def element(self, batch: Any, mn: Any, k: Any, place: tuple[Any, Any]) -> Any:
        """Read one; zero beyond K."""
        top, left, inside = self._found(mn, k, place)
        value = self.array[batch, top, nv.min(left, self.array.shape[2] - 1)]
        return nv.select(inside, value, self.array.dtype(0))

    def copy(self, batch: Any, mn: Any, k: Any, place: tuple[Any, Any]) -> None:
        """Start to copy a pair of them; zeros beyond the array."""
        top, left, inside = self._found(mn, k, place)
        valid = nv.select(inside & (left < self.array.shape[2]), PAIR, 0)
        nv.cp_async(self.tile.elements(place, PAIR), 0, self.array, (batch, top, left), PAIR, valid=valid)

    def _found(self, mn: Any, k: Any, place: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        """Row and column of the array, and whether they are inside of K."""
        row, col = place
        rows, cols = self.array.shape[1:]
        if self.major == "k":
            return nv.min(mn + row, rows - 1), k + col, k + col < cols
        return nv.min(k + row, rows - 1), mn + col, k + row < rows


def bring(strips: Sequence[tuple[Strip, Any, Any]], k: Any, bits: Any) -> None:
    """Read a slice of both operands from ``k`` on: each a strip, its batch and its first row or column."""
    for turn in nv.range(1 << (bits - 4), unroll=False):
        found = [(strip, batch, mn, strip.places(turn, bits)) for strip, batch, mn in strips]
        if strips[0][0].unit == PAIR:
            for strip, batch, mn, places in found:
                for place in places:
                    strip.copy(batch, mn, k, place)
            continue
        asked = [[strip.element(batch, mn, k, place) for place in places] for strip, batch, mn, places in found]
        for (strip, _, _, places), values in zip(found, asked, strict=True):
            for place, value in zip(places, values, strict=True):
                strip.tile[place] = value
    if strips[0][0].unit == PAIR:
        nv.cp_async_commit()
        nv.cp_async_wait(0)


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    a_major: str,
    b_major: str,
    pairs: bool,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[batch, M, N] = A[batch, M, K] @ B[batch, K, N] of f16 or bf16, with sums in f32. ``a_major``, ``b_major``: the
    axis along which neighbours are near, the last one of what is given: A as (M, K) or (K, M), B as (N, K) or (K, N).
    ``pairs``: that axis is contiguous and even, and rows start at multiples of 4 bytes; else strides are any.
    An operand of one batch serves all."""
    (batches, m, n), k = out.shape, a.shape[2 if a_major == "k" else 1]
    tiles = TileScheduler(m, n, ROWS, COLS, group=1, batches=batches)
    each = wide(out)
    bits = nv.select(k > 32, 6, nv.select(k > 16, 5, 4))  # of the elements of K that are read at a time

    @nv.kernel(grid=tiles.count, block=THREADS, blocks_per_sm=BLOCKS, programmatic=True)
    def kernel() -> None:
        nv.griddep_wait()
        nv.griddep_launch_dependents()
        batch, row, col = tiles.start(nv.block_id.x)
        unit = PAIR if pairs else 1
        A, B = Strip(a, ROWS, a_major, unit), Strip(b, COLS, b_major, unit)
        strips = (A, batch_of(a, batch), row), (B, batch_of(b, batch), col)
        top, left = nv.warp_id() // (COLS // PART) * PART, nv.warp_id() % (COLS // PART) * PART

        sums = nv.warp_accumulator(PART, PART)
        for first in nv.range(0, k, SLICE, unroll=False):
            bring(strips, first, bits)
            nv.sync_threads()
            for step in nv.range(0, nv.min(k - first, SLICE), STEP, unroll=False):
                x = nv.load_a(A.tile if a_major == "k" else A.tile.T, (top, step), (PART, STEP))
                y = nv.load_b(B.tile.T if b_major == "k" else B.tile, (step, left), (STEP, PART))
                sums += x @ y
            nv.sync_threads()

        shared = nv.smem((ROWS, COLS + BESIDE_SUMS), nv.f32)
        sums.store(shared, (top, left))
        nv.sync_threads()
        units = COLS // each
        c = nv.thread_id.x % units * each
        for r in nv.range(nv.thread_id.x // units, ROWS, THREADS // units, unroll=4):
            if (row + r < m) & (col + c < n):
                values = [shared[r, c + i] for i in range(each)]
                if epilogue_op is not None:
                    values = [
                        epilogue_op(acc_dtype(x), batch, row + r, col + c + i, *operands) for i, x in enumerate(values)
                    ]
                if each == 1:
                    out[batch, row + r, col + c] = out.dtype(values[0])
                else:
                    out.store_vector(nv.vector([out.dtype(x) for x in values]), (batch, row + r, col + c))

    kernel()
