"""Products of a large operand whose rows start off TMA's grid of 16 bytes, beside few rows or columns: read by TMA as
it lies, without a copy.

Rows of K elements without gaps start at other residues of 16 bytes, but every `period`-th one (2 to 16 of them) starts
at the same. So the rows of a residue are a matrix whose rows lie on the grid, all of them with the same few elements of
the row before at the front, for which the other operand has zeros. With ``K = step`` modulo the grid:

    row 0    |0123456789abcdef|...          residue r begins r * (K - step) elements behind the first one, on the grid;
    row 1     xx|0123456789abc...           its rows begin r * step elements further on
    row 2     xxxx|0123456789a...

    copy      the small operand once for each residue, r * step zeros before its rows
    multiply  a batch of one product for each residue, by the split-K kernel; what a slice has of the rows before and
              behind is zeroed in shared memory, as it may be NaN

The copies are small; one of the large operand would read it, write it, and read it again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.direct_epilogue import DirectEpilogue
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.blocks.realigned import VECTOR, WORD, WORDS, shifted
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm import splitk
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.gemm.tiles import with_stages
from nvdsl.lang.extents import shaped
from nvdsl.lang.packing import as_vector, as_words

LINE = 128
"""Bytes of a row in a slot."""
NARROW, WIDE = 64, 176
"""Tiles' columns: narrow ones have two blocks on an SM."""
HIGH = (128, 192)
"""Wide tiles' rows. Those that take fewer rounds: 19041 x 140 x 30328 of e4m3, 150 tiles of 128 rows, took an H200's
132 SMs 227 us, and 100 of 192 rows 192 us. Of 16 bits all have the first, as a process shall compile few kernels."""
LEAST = 4
"""Slices of a block's part, at least, where several blocks share a tile."""
THREADS, PIECE, MOST_BEFORE = 256, 2048, 256
"""Of a block that copies; bytes of a row that it does; and more than there are zeros before it, for any residue."""


def config(m: int, n: int, dtype: nv.DType, residues: int, sms: int) -> Config | None:
    """The tiles of a result of ``n`` columns and ``m`` rows, which are more; None where copies are faster."""
    width = NARROW if n <= NARROW else WIDE
    if n > width:
        return None

    def rounds(high: int) -> int:
        """The rows of all tiles that a block computes one after the other."""
        return nv.cdiv(residues * nv.cdiv(nv.cdiv(m, residues), high), sms) * high

    high = min(HIGH, key=rounds) if width == WIDE and dtype.bits != 16 else HIGH[0]
    tile = Config(
        high, width, LINE // dtype.bytes, schedule="splitk", consumers=high // 64, split=1, parts=128, store_buffers=1
    )
    return with_stages(tile, dtype, "k")


def period(k: Any, bytes: int) -> Any:
    """Rows of ``k`` elements from one to the next of the same residue."""
    pitch = k * bytes
    return VECTOR // nv.min(pitch & -pitch, VECTOR)


class ResidueOperand(TmaOperand):
    """The tiles of (residues, rows, K and what lies before), of which the first ``more`` residues have one row more,
    see `divide`. ``pitch``: bytes of a row without what lies before; ``before``: bytes of the latter for residue 1."""

    clips = False
    pitch: nv.Int
    before: nv.Int

    def _map(self, array: nv.Array, present: nv.Int | None = None) -> Any:
        self.array = array

    def divide(self, longer: nv.Array, more: nv.Int) -> None:
        """Make the tensor maps. ``longer``: the first ``more`` residues, with the last row that they alone have."""
        self.more = more
        self.map, self.longer = (super(ResidueOperand, self)._map(x) for x in (self.array, longer))

    def load_tile(
        self, slot: nv.Tile, full: nv.Mbarrier, batch: nv.Int, mn: nv.Int, k: nv.Int, count: nv.Int, **_: Any
    ) -> None:
        if batch < self.more:
            self.longer.load(slot, full, (batch, mn, k), l2_hint=self.hint)
        else:
            self.map.load(slot, full, (batch, mn, k), l2_hint=self.hint)


class ResidueMainloop(Mainloop):
    """`Mainloop` that zeroes what of A's slices is of other rows."""

    a: ResidueOperand
    begin: Any

    def start(self, at: tuple[Any, Any, Any], first: Any, bytes: Any) -> None:
        self.begin = first
        super().start(at, first, bytes)

    def reach(self, slot: nv.PipelineState, at: tuple[Any, Any], number: Any) -> None:
        super().reach(slot, at, number)
        low = self.first[0] * self.a.before - (self.begin + number) * LINE
        high = low + self.a.pitch
        if (low > 0) | (high < LINE):
            thread = nv.warpgroup_thread()
            layout = nv.layout.TileLayout.of(self.a.rows, LINE // WORD, WORD, LINE)
            words = nv.Tile(layout, nv.i32, self.a.stack[slot.stage].offset)
            each = arch.WARPGROUP_SIZE // self.rows  # threads that share a row
            row, width = at[0] + thread // each, LINE // WORD // each
            for i in range(0, width, WORDS):
                col = thread % each * width + i
                found = [
                    x & first_bytes(high - (col + j) * WORD) & ~first_bytes(low - (col + j) * WORD)
                    for j, x in enumerate(words.vector((row, col), WORDS))
                ]
                words.store_vector(as_vector(found, nv.i32), (row, col))
            nv.fence_proxy_async()
            nv.named_barrier_sync(nv.warpgroup_id(), arch.WARPGROUP_SIZE)


class ResidueEpilogue(DirectEpilogue):
    """`DirectEpilogue` of (residues, rows, N), of which only the first ``more`` residues have the last row."""

    more: nv.Int

    def _store(
        self, acc: nv.Accumulator, batch: Any, row: Any, col: Any, consumer: Any, held: Any, end: Any, room: Any
    ) -> None:
        end = self.out.shape[-2] - nv.select(batch < self.more, 0, 1)
        super()._store(acc, batch, row, col, consumer, held, end, room)


class ResidueGemm(Gemm):
    operand, mainloop = ResidueOperand, ResidueMainloop


def first_bytes(count: Any) -> Any:
    """A word of which the first ``count`` bytes are ones; any number."""
    return nv.select(count >= WORD, -1, (1 << nv.max(count, 0) * 8 % 32) - 1)


def shifted_copies(b: nv.Array, residues: nv.Int, step: nv.Int, cols: nv.Int) -> nv.Array:
    """(residues, N, ``cols``) of ``b``, (N, K) of any strides: residue ``r`` has ``r * step`` zeros before K, and zeros
    behind. In a host function; ``cols``: whole vectors of 16 bytes.

    A block reads a piece of a row into shared memory, with what lies before it, and writes it once for each residue.
    """
    size, (rows, k) = b.dtype.bytes, b.shape
    made = nv.empty((residues, rows, cols), b.dtype)
    each, word, piece, before = (bytes // size for bytes in (VECTOR, WORD, PIECE, MOST_BEFORE))
    pieces = Divisor.of(nv.cdiv(cols, piece))

    @nv.kernel(grid=rows * pieces.value, block=THREADS, programmatic=True)
    def shifted_pieces() -> None:
        nv.griddep_wait()  # of what may have written the source, and may yet read these copies
        nv.griddep_launch_dependents()
        row, number = pieces.divmod(nv.block_id.x)
        left, memory = number * piece, nv.smem((1, before + piece + each), b.dtype)
        for first in range(0, before + piece + each, THREADS):
            at = first + nv.thread_id.x
            x = left - before + at
            value = nv.select((x >= 0) & (x < k), b[row, nv.clamp(x, 0, k - 1)], b.dtype(0))
            if at < before + piece + each:
                memory[0, at] = value
        nv.sync_threads()
        for number in nv.range(nv.thread_id.x, residues * (piece // each), THREADS, unroll=2):
            residue, place = number // (piece // each), number % (piece // each) * each
            start = before + place - residue * step
            ahead = [memory.vector((0, start // word * word + i * word), word) for i in range(WORDS + 1)]
            words, bits = as_words(ahead, b.dtype), start % word * size * 8
            found = [shifted(words[i], words[i + 1], bits) for i in range(WORDS)]
            if left + place < cols:
                made.store_vector(as_vector(found, b.dtype), (residue, row, left + place))

    shifted_pieces()
    return made


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    config: Config,
    sms: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[M, N] = A[M, K] @ B[K, N]. ``a``: one run of memory, (1, M * K), from a multiple of 16 bytes on, with at
    least as many rows as residues; ``b``: (N, K) of any strides. Threads store the result; ``operands`` have one
    element for all of it."""
    config = replace(config, tile_k=LINE // a.dtype.bytes)
    bytes, (n, k), (m, _), (down, right) = a.dtype.bytes, b.shape, out.shape, out.strides
    grid, pitch = VECTOR // bytes, k * bytes
    residues = period(k, bytes)
    step, rows, more = k % grid, m // residues, m % residues

    def seen(count: nv.Int, rows: nv.Int) -> nv.Array:
        """The rows of the first residues."""
        return shaped(a, a.dtype, (count, rows, k + (count - 1) * step), (k - step, residues * k, 1))

    whole = nv.cdiv(k + (residues - 1) * step, grid) * grid
    copies = shifted_copies(b, residues, step, whole)
    last = nv.min(more, 1)
    result = shaped(out, out.dtype, (residues, rows + last, n), (down, residues * down, right))
    gemm = ResidueGemm(seen(residues, rows), copies, result, operands, config, acc_dtype, "k", "k", epilogue_op, True)
    of_a: Any = gemm.a
    of_a.divide(seen(nv.max(more, 1), rows + last), more)
    of_a.pitch, of_a.before = pitch, step * bytes
    gemm.b = TmaOperand(copies, config.tile_n, config.tile_k, major="k", defined=True)
    gemm.epilogue = ResidueEpilogue(result, config.cols, buffers=1, op=epilogue_op, operands=operands)
    gemm.epilogue.more = nv.select(more > 0, more, residues)
    gemm.blocks_per_sm = 2 if config.tile_n <= NARROW else 1
    splitk.launch(gemm, gemm.blocks_per_sm * resident_clusters(1, sms), LEAST)
