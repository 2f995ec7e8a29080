"""Products of a short K, of 16-bit types: as long as their results take to write.

Blocks are persistent, several on an SM. All threads of one do the same:

    read        the strips of A and B for the next slice but one, of any strides, into one of three slots
    multiply    the slice that came first by mma.sync, each warp a part of the tile
    write       a whole tile's sums through shared memory, so that neighbouring threads store neighbours of a row

So a tile is read while the one before it is multiplied and written, and a K of two slices is asked for at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.rows_anywhere import store_rows
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm.gemv import batch_of, exponent
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT

DOWN, ACROSS = 2, 4
"""Warps that share a tile's rows, and its columns."""
PART, SMALL_PART = 32, 16
"""Rows and columns of a warp's part of a tile; and of a smaller tile, of which a thread reads and stores less."""
SLICE, STEP = 32, 16
"""Elements of K that are read at a time, and that mma.sync multiplies."""
THREADS = DOWN * ACROSS * WARP_SIZE
SLOTS = 3
"""Of which all but one are filled while that one is multiplied."""
BESIDE, BESIDE_SUMS = 8, 8
"""Columns beside those of a strip, and of the sums, in shared memory: rows lie in different banks."""
PAIR = 2
"""Elements that cp.async brings."""
LONG = 64
"""Elements of a row of the result from which on it is stored 16 bytes at a time, wherever it starts."""


Places = list[tuple[Any, Any]]
"""Rows and columns of a strip."""


class Strip:
    """What a tile needs of one operand: ``mn`` rows or columns. ``major``: "k" where neighbours along K are near, which
    are the array's last axis then.

    A slice is read in turns, each as many elements as `STEP` of K has. ``unit``: those that a thread reads at a time.
    """

    def __init__(self, array: nv.Array, mn: int, major: str) -> None:
        self.array, self.mn, self.major = array, mn, major
        rows, cols = (mn, SLICE) if major == "k" else (SLICE, mn)
        self.stack = nv.smem((SLOTS, rows, cols + BESIDE), array.dtype)

    @property
    def extent(self) -> Any:
        """K."""
        return self.array.shape[2 if self.major == "k" else 1]

    def places(self, turn: Any, turns: Any, unit: int) -> Places:
        """Rows and columns of the tile that this thread reads in a turn, of 1 or 2 in all."""
        across = (turns + 3 if self.major == "k" else self.mn.bit_length() - 1) - (unit - 1)
        row, col = nv.thread_id.x >> across, (nv.thread_id.x & ((1 << across) - 1)) * unit
        count, down = self.mn * STEP // (THREADS * unit), THREADS >> across
        return [(row + (turn * count + i) * down, col) for i in range(count)]

    def elements(self, batch: Any, mn: Any, k: Any, places: Places) -> list[Any]:
        """Read some; zeros beyond K."""
        found = []
        for top, left, inside in (self._found(mn, k, place) for place in places):
            value = self.array[batch, top, nv.min(left, self.array.shape[2] - 1)]
            found.append(nv.select(inside, value, self.array.dtype(0)))
        return found

    def copy(self, slot: Any, batch: Any, mn: Any, k: Any, place: tuple[Any, Any]) -> None:
        """Start to copy a pair of them into a slot; zeros beyond the array."""
        top, left, inside = self._found(mn, k, place)
        valid = nv.select(inside & (left < self.array.shape[2]), PAIR, 0)
        nv.cp_async(self.stack[slot].elements(place, PAIR), 0, self.array, (batch, top, left), PAIR, valid=valid)

    def _found(self, mn: Any, k: Any, place: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        """Row and column of the array, and whether they are inside of K."""
        row, col = place
        rows, cols = self.array.shape[1:]
        if self.major == "k":
            return nv.min(mn + row, rows - 1), k + col, k + col < cols
        return nv.min(k + row, rows - 1), mn + col, k + row < rows


Tiles = Sequence[tuple[Strip, Any, Any]]
"""What a slice is read from: each operand's strip, its batch, and its first row or column."""


def copy(slot: Any, strips: Tiles, k: Any) -> None:
    """Start to copy a slice of both operands from ``k`` on into a slot, in pairs."""
    turns = _turns(strips, k)
    for turn in nv.range(turns, unroll=False):
        for strip, batch, mn in strips:
            for place in strip.places(turn, turns, PAIR):
                strip.copy(slot, batch, mn, k, place)


def carry(slot: Any, strips: Tiles, k: Any) -> None:
    """Read a slice of both operands from ``k`` on, element by element, into a slot: all are asked for before any is
    there."""
    turns = _turns(strips, k)
    asked = [strip.elements(batch, mn, k, strip.places(0, turns, 1)) for strip, batch, mn in strips]
    later = [[strip.array.dtype(0)] * len(values) for (strip, *_), values in zip(strips, asked, strict=True)]
    if turns > 1:
        later = [strip.elements(batch, mn, k, strip.places(1, turns, 1)) for strip, batch, mn in strips]
    for turn, found in enumerate((asked, later)):
        if turns > turn:
            for (strip, *_), values in zip(strips, found, strict=True):
                for place, value in zip(strip.places(turn, turns, 1), values, strict=True):
                    strip.stack[slot][place] = value


def _turns(strips: Tiles, k: Any) -> Any:
    """In which a slice is read: as many as it has steps."""
    return nv.select(strips[0][0].extent - k > STEP, SLICE // STEP, 1)


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    a_major: str,
    b_major: str,
    part: int,
    sms: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[batch, M, N] = A[batch, M, K] @ B[batch, K, N] of f16 or bf16, with sums in f32.

    ``a_major``, ``b_major``: the axis along which neighbours are near, the last one of what is given: A as (M, K) or
    (K, M), B as (N, K) or (K, N). An operand of one batch serves all. ``part``: rows and columns of a warp's part of a
    tile."""
    (batches, m, n), k = out.shape, a.shape[2 if a_major == "k" else 1]
    rows, cols = DOWN * part, ACROSS * part
    tiles = TileScheduler(m, n, rows, cols, group=1, batches=batches)
    staged = out.dtype if epilogue_op is None else nv.f32
    pairs = lie_at(PAIR, a, b)
    of_sm = resident(epilogue_op is not None and part == PART)
    blocks = nv.min(tiles.count, sms * of_sm)

    @nv.kernel(grid=blocks, block=THREADS, blocks_per_sm=of_sm, programmatic=True)
    def kernel() -> None:
        nv.griddep_wait()
        nv.griddep_launch_dependents()
        A, B = Strip(a, rows, a_major), Strip(b, cols, b_major)
        shared = nv.smem((rows, cols + BESIDE_SUMS), staged)
        top, left = _part(nv.warp_id(), part)

        def read(slot: Any, tile: Any, first: Any) -> None:
            if tile < tiles.count:
                batch, row, col = tiles.start(tile)
                strips = (A, batch_of(a, batch), row), (B, batch_of(b, batch), col)
                if pairs:
                    copy(slot, strips, first)
                else:
                    carry(slot, strips, first)
            if pairs:
                nv.cp_async_commit()

        def following(tile: Any, first: Any) -> tuple[Any, Any]:
            """The tile and the place along K of the next slice."""
            last = first + SLICE >= k
            return nv.select(last, tile + blocks, tile), nv.select(last, 0, first + SLICE)

        slot, ahead = nv.i32(0), (nv.block_id.x, nv.i32(0))  # `ahead`: the slice that is read next
        for i in range(SLOTS - 1):
            read(nv.i32(i), *ahead)
            ahead = following(*ahead)
        for tile in nv.range(nv.block_id.x, tiles.count, blocks):
            sums = nv.warp_accumulator(part, part)
            for first in nv.range(0, k, SLICE, unroll=False):
                if pairs:
                    nv.cp_async_wait(SLOTS - 2)
                nv.sync_threads()  # this slice is there, and the one before it, and the sums' memory, are done with
                read(nv.select(slot == 0, SLOTS - 1, slot - 1), *ahead)
                ahead = following(*ahead)
                of_a, of_b = A.stack[slot], B.stack[slot]
                for step in nv.range(0, nv.min(k - first, SLICE), STEP, unroll=False):
                    x = nv.load_a(of_a if a_major == "k" else of_a.T, (top, step), (part, STEP))
                    y = nv.load_b(of_b.T if b_major == "k" else of_b, (step, left), (STEP, part))
                    sums += x @ y
                slot = nv.select(slot == SLOTS - 1, 0, slot + 1)
            (warp,) = opaque(nv.warp_id())  # its place is not kept beside the sums
            sums.store(shared, _part(warp, part))
            nv.sync_threads()
            write(shared, out, tiles.start(tile), acc_dtype, epilogue_op, operands)

    kernel()


def _part(warp: Any, part: int) -> tuple[Any, Any]:
    """First row and column of a warp's part of a tile."""
    return warp // ACROSS * part, warp % ACROSS * part


def resident(crowded: bool) -> int:
    """Blocks of an SM. ``crowded``: large tiles beside an epilogue, which needs registers."""
    return 2 if crowded else 3


def lie_at(unit: int, *arrays: nv.Array) -> Any:
    """Whether so many neighbours along the last axis of all these lie together, at a multiple of themselves."""
    if not all(_contiguous(x) for x in arrays):
        return False
    whole: Any = True
    for step in (step for x in arrays for step in (x.shape[-1], *x.strides[:-1])):
        whole = (step % unit == 0) & whole
    return whole


def _contiguous(x: nv.Array) -> bool:
    return isinstance(x.strides[-1], int) and x.strides[-1] == 1


def write(
    shared: nv.Tile, out: nv.Array, at: tuple[Any, Any, Any], acc_dtype: nv.DType, epilogue_op: EpilogueOp | None,
    operands: Sequence[Any],
) -> None:  # fmt: skip
    """Store a tile's sums, which is ``at`` a batch, a row and a column: 16 bytes at a time where rows are long or
    aligned, else in pairs or one by one, as they lie. By all threads."""
    rows, cols = shared.shape[0], shared.shape[1] - BESIDE_SUMS
    # What follows from the thread is not kept beside a large tile's sums.
    thread = opaque(nv.thread_id.x)[0] if rows == DOWN * PART else nv.thread_id.x
    given, most = (shared, out, at, acc_dtype, epilogue_op, operands, thread), TMA_ALIGNMENT // out.dtype.bytes
    # An epilogue needs the registers; and short rows are ends for the most part.
    plain = epilogue_op is None and shared.dtype == out.dtype and out.dtype.bits in (16, 32) and _contiguous(out)
    long = plain and out.shape[2] >= LONG
    if lie_at(most, out):
        _write(*given, most)
    elif long:
        store_rows(
            out, at, out.shape[1], (rows, cols), _of_row(out, cols, most), thread, THREADS,
            lambda r, c: shared.vector((r, c), most), lambda r, c: shared[r, c],
        )  # fmt: skip
    elif lie_at(PAIR, out):
        _write(*given, PAIR)
    else:
        _write(*given, 1)


def _write(
    shared: nv.Tile, out: nv.Array, at: tuple[Any, Any, Any], acc_dtype: nv.DType, epilogue_op: EpilogueOp | None,
    operands: Sequence[Any], thread: Any, each: int,
) -> None:  # fmt: skip
    (batch, row, col), (_, m, n) = at, out.shape
    rows, cols = shared.shape[0], shared.shape[1] - BESIDE_SUMS
    bits = _of_row(out, cols, each)
    c = (thread & ((1 << bits) - 1)) * each
    unroll = 4 if epilogue_op is None and each > PAIR else 2  # with more there are not enough registers
    for r in nv.range(thread >> bits, rows, THREADS >> bits, unroll=unroll):
        if (row + r < m) & (col + c < n):
            values = read_sums(shared, r, c, each)
            if epilogue_op is not None:
                places = [(batch, row + r, col + c + i) for i in range(each)]
                values = [epilogue_op(acc_dtype(x), *y, *operands) for x, y in zip(values, places, strict=True)]
            if each == 1:
                out[batch, row + r, col + c] = out.dtype(values[0])
            else:
                out.store_vector(nv.vector([out.dtype(x) for x in values]), (batch, row + r, col + c))


def _of_row(out: nv.Array, cols: int, each: int) -> Any:
    """Of the threads that store a row of a tile, so many elements each, the exponent of two."""
    return exponent(2 * nv.cdiv(nv.min(out.shape[2], cols), each) - 1, cols // each)


def read_sums(shared: nv.Tile, r: Any, c: Any, count: int) -> list[Any]:
    """Neighbours of a row."""
    if count == 1:
        return [shared[r, c]]
    most = min(count, TMA_ALIGNMENT // shared.dtype.bytes)
    return [x for i in range(0, count, most) for x in shared.vector((r, c + i), most)]
