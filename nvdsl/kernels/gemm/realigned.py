"""Products of operands whose rows start anywhere, beside few rows or columns: read as they lie, without a copy.

The split-K kernel. Rows of the larger operand lie off the grid of 16 bytes, so that two warpgroups load it: a thread
asks for the two aligned vectors of 16 bytes in which 16 bytes of a row lie, shifts them together, and stores them into
the ring. It asks for those of the next slice before, and what follows in memory is on its way to L2 by then. The other
operand comes by TMA, or where it is small in the same way.

A copy would read the operand, write it, and read it again: three times what this product takes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.realigned import VECTOR, WORD, WORDS, shifted_vector
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm import splitk
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm
from nvdsl.kernels.gemm.gathered import ThreadMainloop
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.gemm.tiles import with_stages
from nvdsl.lang.packing import as_vector, words_of
from nvdsl.ops import memory

PRODUCERS, THREADS = 2, 256
"""Warpgroups that load, and their threads."""
LINE = 128
"""Bytes of a row in a slot."""
LANES = LINE // VECTOR
"""Threads that share a row."""
AHEAD = 6
"""Slices between one that is loaded and the one that is asked for in L2 then."""
WIDTHS = 64, 176
"""Tiles' columns: of more the sums don't fit into the registers of so many threads."""
NARROW = 64
"""Columns up to which threads load both operands."""
LEAST = 4
"""Slices of a block's part, at least, where several blocks share a tile."""


def config(n: int, dtype: nv.DType, b_major: str = "k") -> Config | None:
    """The tiles of a result of ``n`` columns and more rows; None where copies are faster."""
    width = next((width for width in WIDTHS if n <= width), None)
    if width is None:
        return None
    tile = Config(128, width, LINE // dtype.bytes, schedule="splitk", consumers=2, split=1, parts=128, store_buffers=1)
    return replace(with_stages(tile, dtype, b_major), tile_k=64)


class RealignedOperand(TmaOperand):
    """The tiles of (rows, K) in memory, without gaps. ``words``: the same memory as (vectors, 4) of i32, as many whole
    ones as it has; a row has one at least."""

    words: nv.Array
    clips = False

    def _map(self, array: nv.Array, present: nv.Int | None = None) -> Any:
        self.array = array

    def words_of(self, stage: Any) -> nv.Tile:
        """A slot as words: (rows, 32)."""
        layout = nv.layout.TileLayout.of(self.rows, LINE // WORD, WORD, LINE)
        return nv.Tile(layout, nv.i32, self.stack[stage].offset)


class Loader:
    """A thread's part of the slices of an operand's tile, which begins at row ``top``: eight neighbouring threads have
    a row's 128 bytes."""

    def __init__(self, operand: RealignedOperand, top: Any) -> None:
        self.operand, self.thread, self.top = operand, nv.thread_id.x, top
        self.rows, self.k = operand.array.shape
        self.pitch = self.k * operand.dtype.bytes
        self.vector, self.line = self.thread % LANES, self.thread // LANES
        self.lines = range(0, operand.rows, THREADS // LANES)
        starts = [nv.i64(nv.min(top + self.line + i, self.rows - 1)) * nv.i64(self.pitch) for i in self.lines]
        self.places = [nv.i32(start >> 4) + self.vector for start in starts]
        self.bits = [nv.i32(start) % VECTOR * 8 for start in starts]

    def ask(self, k: Any) -> list[Any]:
        """The vectors in which this thread's ones of the slice at ``k`` lie, two for each."""
        words, right = self.operand.words, k * self.operand.dtype.bytes // VECTOR
        last = words.shape[0] - 1
        return [words.vector((nv.min(at + right + i, last), 0), WORDS) for at in self.places for i in (0, 1)]

    def put(self, stage: Any, k: Any, asked: list[Any]) -> None:
        """Store the slice at ``k`` into a slot, with zeros behind the row's end."""
        operand, right = self.operand, k * self.operand.dtype.bytes // VECTOR
        left = self.pitch - (right + self.vector) * VECTOR  # bytes of the row from here on
        masks, slot = [_mask(left - WORD * i) for i in range(WORDS)], operand.words_of(stage)
        pairs = zip(asked[::2], asked[1::2], strict=True)
        for i, bits, (low, high) in zip(self.lines, self.bits, pairs, strict=True):
            found = [x & mask for x, mask in zip(shifted_vector([*low, *high], bits), masks, strict=True)]
            slot.store_vector(as_vector(found, nv.i32), (self.line + i, self.vector * WORDS))
        if (self.top + operand.rows >= self.rows) & (left + self.vector * VECTOR < LINE + VECTOR):
            self._end(slot, k, right)

    def _end(self, slot: nv.Tile, k: Any, right: Any) -> None:
        """What the array ends with may be less than a vector."""
        each = VECTOR // self.operand.dtype.bytes
        last = self.operand.words.shape[0] - 1
        for i, at in zip(self.lines, self.places, strict=True):
            if (self.top + self.line + i == self.rows - 1) & (at + right >= last):
                ends = words_of([self._element(k + self.vector * each + j) for j in range(each)], self.operand.dtype)
                slot.store_vector(as_vector(ends, nv.i32), (self.line + i, self.vector * WORDS))

    def prefetch(self, k: Any) -> None:
        """Ask for the slice at ``k`` in L2, two threads for each row."""
        rows, half = self.operand.rows, LINE // 2 // self.operand.dtype.bytes
        line, right = self.thread % rows, self.thread // rows * half
        if k + right < self.k:
            memory.prefetch(self.operand.array, (nv.min(self.top + line, self.rows - 1), k + right))

    def _element(self, k: Any) -> Any:
        """Of the last row; zero beyond it."""
        array = self.operand.array
        return nv.select(k < self.k, array[self.rows - 1, nv.min(k, self.k - 1)], array.dtype(0))


def _mask(bytes: Any) -> Any:
    """A word of which the first ``bytes`` are ones."""
    return nv.select(bytes >= WORD, -1, (1 << nv.max(bytes, 0) * 8 % 32) - 1)


class RealignedMainloop(ThreadMainloop):
    """`ThreadMainloop` of which two warpgroups load A, and B where TMA doesn't."""

    fillers = THREADS

    def load(
        self, state: nv.PipelineState, batch: Any, row: Any, col: Any, first: Any = 0, last: Any = None, **_: Any
    ) -> nv.PipelineState:
        """By all threads of two warpgroups."""
        of_a = Loader(self.a, row)  # type: ignore[arg-type]
        of_b = Loader(self.b, col) if isinstance(self.b, RealignedOperand) else None
        asked = of_a.ask(first * self.a.k)
        for step in nv.range(first, self.steps if last is None else last, unroll=False):
            k = step * self.a.k
            beside = [] if of_b is None else of_b.ask(k)
            following = of_a.ask(k + self.a.k)
            of_a.prefetch(k + AHEAD * self.a.k)
            full = self.ring.acquire(state, expect=False)
            if of_b is None and nv.thread_id.x == 0:
                full.expect_tx(self.b.bytes(self.b.usual))
                self.b.load(state.stage, full, batch, col, k, self.b.usual)
            of_a.put(state.stage, k, asked)
            if of_b is not None:
                of_b.put(state.stage, k, beside)
            full.arrive()
            asked, state = following, state.next()
        return state


class WholeOperand(TmaOperand):
    """Tiles of which all rows are loaded, zeros beyond the array."""

    clips = False


class RealignedGemm(Gemm):
    operand, mainloop = RealignedOperand, RealignedMainloop
    producers = PRODUCERS

    def loads(self) -> nv.Bool:
        """All threads of the producing warpgroups do."""
        return True


@nv.jit
def matmul(
    a: nv.Array,
    words: nv.Array,
    b: nv.Array,
    *more: Any,
    config: Config,
    sms: int,
    both: bool,
    b_major: str,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[M, N] = a[M, K] @ B[K, N]: ``a`` without gaps, its rows wherever they start; ``words``: the same memory, see
    `RealignedOperand`. B is given as (K, N), or (N, K) where ``b_major`` is "k", and read by TMA; ``both``: as A is, as
    (N, K). ``more``: its words in this case, the result, and what the epilogue is handed. Threads store the result."""
    config = replace(config, tile_k=LINE // a.dtype.bytes)
    words_of_b, out, operands = (more[0], more[1], more[2:]) if both else (None, more[0], more[1:])
    gemm = RealignedGemm(a, b, out, operands, config, acc_dtype, "k", b_major, epilogue_op, True)
    gemm.a.words = words  # type: ignore[attr-defined]
    if words_of_b is None:
        gemm.b = WholeOperand(b, config.tile_n, config.tile_k, major=b_major)
    else:
        gemm.b.words = words_of_b  # type: ignore[attr-defined]
    splitk.launch(gemm, resident_clusters(1, sms), LEAST)
