"""Products of operands that TMA can't read, where a copy of them would take longer than the product.

The split-K kernel, but its producer warpgroup loads by its threads into the same ring of swizzled tiles:

    cp.async      rows that start at multiples of 4 bytes: slices are asked for as far ahead as there are slots
    elements      any strides and alignment: a thread asks for half of its elements of an operand's slice before it waits

Tiles are as narrow as results of few rows or columns (`config`), so a matrix is read once, and nearly at the memory's
speed. Copies would read it, write it, and read it again.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm import splitk, splitk_parts
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from nvdsl.lang.packing import pair_vector

NARROW, SQUARE = (
    Config(64, tile_n, stages=stages, schedule="splitk", consumers=1, split=1, parts=128, store_buffers=1)
    for tile_n, stages in ((16, 6), (64, 4))
)
THREADS = 128
"""That load."""
TURNS = 2
"""In which a thread asks for its elements of an operand's slice."""
LEAST = 2
"""Slices of a block's part, at least, where several blocks share a tile."""
MOST = 4
"""Slices that a block loads, one after the other, up to which nothing is copied first: copies, which are launches of
their own, take as long as loading about so many."""
PAIR = 2
"""Elements that cp.async brings."""


def config(n: int) -> Config:
    """The tiles of a result of ``n`` columns and at least as many rows."""
    return NARROW if n <= NARROW.tile_n else SQUARE


def pays(problem: GemmProblem, sms: int) -> bool:
    """Whether loading by threads takes no longer than copies and a product of these."""
    m, n, k = problem.sizes
    chosen = config(n)
    tiles = problem.batches * nv.cdiv(m, chosen.tile_m) * nv.cdiv(n, chosen.tile_n)
    slices, blocks = nv.cdiv(k, chosen.tile_k), blocks_per_sm(chosen, "k") * sms
    shared = splitk_parts.parts(tiles, slices, 1, blocks, chosen.parts, LEAST)
    each = nv.cdiv(tiles * shared, blocks) * nv.cdiv(slices, shared)
    return problem.a.dtype.bits == 16 and each <= MOST


class ElementOperand(TmaOperand):
    """The tiles of an operand of any strides and alignment, stored with K contiguous.

    ``array``: (mn, k) or (k, mn), of which the last axis is the one along which neighbours are near."""

    turns = True
    """Whether tiles are stored with K contiguous, however the array is."""

    def __init__(
        self, array: nv.Array, mn: int, k: int, *, major: str, parts: int = 1, defined: bool = True
    ) -> None:
        self.array, self.near, self.dtype, self.k, self.parts = array, major, array.dtype, k, parts
        self.major = "k" if self.turns else major
        self.rows, self.cols = (mn, k) if self.major == "k" else (k, mn)
        self.panel, self.each = 128 // array.dtype.bytes, k * array.dtype.bytes
        self.stored_cols = nv.cdiv(self.cols, self.panel) * self.panel
        self.stored, self.may_miss, self.usual = mn, False, mn
        self.batched = array.ndim == 3

    def bring(self, stage: Any, batch: Any, mn: Any, k: Any) -> None:
        """Copy the tile at (``mn``, ``k``) into a slot: zeros beyond K; beyond the last row others of the array."""
        (thread,) = opaque(nv.warpgroup_thread())  # places are not kept from slice to slice: they are many registers
        for turn in range(TURNS):
            nv.sync_warp()  # else all would be asked for at once, with more registers than there are
            for row, col, low, high in self._fetch(thread, batch, mn, k, turn):
                self.stack[stage].store_vector(pair_vector(low, high, self.dtype), (row, col))

    def brought(self, full: nv.Mbarrier) -> None:
        """Arrive for what this thread has brought. The consumers order it before what wgmma reads."""
        full.arrive()

    def _fetch(self, thread: Any, batch: Any, mn: Any, k: Any, turn: int) -> list[tuple[Any, Any, Any, Any]]:
        """Ask for a thread's elements: row, column, and two neighbours along K each."""
        found = []
        pairs = self.cols // PAIR
        for i in range(turn, self.rows * pairs // THREADS, TURNS):
            number = thread + i * THREADS
            row, pair = number // pairs, number % pairs
            if self.near != "k":
                row, pair = number % self.rows, number // self.rows
            found.append((row, pair * PAIR, *(self._element(batch, mn + row, k + pair * PAIR + j) for j in (0, 1))))
        return found

    def _element(self, batch: Any, mn: Any, k: Any) -> Any:
        rows, cols = self.array.shape[-2:] if self.near == "k" else self.array.shape[:-3:-1]
        at = nv.min(mn, rows - 1), nv.min(k, cols - 1)
        at = at if self.near == "k" else at[::-1]
        value = self.array[(batch, *at) if self.batched else at]
        return nv.select(k < cols, value, self.dtype(0))


class PairOperand(ElementOperand):
    """The tiles of an operand of which neighbours along the last axis lie in pairs, at multiples of 4 bytes."""

    turns = False

    def bring(self, stage: Any, batch: Any, mn: Any, k: Any) -> None:
        """Start to copy the tile at (``mn``, ``k``) into a slot; zeros beyond the array."""
        rows, cols = self.array.shape[-2:]
        top, left = (mn, k) if self.major == "k" else (k, mn)
        units = self.cols // PAIR
        down = THREADS // units  # rows of the tile that all threads have a pair of
        row, col = nv.warpgroup_thread() // units, nv.warpgroup_thread() % units * PAIR
        width = nv.select(left + col < cols, PAIR, 0)
        for i in range(0, self.rows, down):
            at = top + row + i, left + col
            valid = nv.select(at[0] < rows, width, 0)
            place = self.stack[stage].elements((row + i, col), PAIR)
            nv.cp_async(place, 0, self.array, (batch, *at) if self.batched else at, PAIR, valid=valid)

    def brought(self, full: nv.Mbarrier) -> None:
        nv.cp_async_arrive(full)


class ThreadMainloop(Mainloop):
    """`Mainloop` of operands that a warpgroup loads."""

    fillers = THREADS

    def start(self, *_: Any) -> None:
        """Nothing is loaded before the block's threads have met."""

    def load(
        self, state: nv.PipelineState, batch: Any, row: Any, col: Any, first: Any = 0, last: Any = None, **_: Any
    ) -> nv.PipelineState:
        """By all threads of a warpgroup."""
        for step in nv.range(first, self.steps if last is None else last, unroll=False):
            full = self.ring.acquire(state, expect=False)
            for x, at in ((self.a, row), (self.b, col)):
                x.bring(state.stage, batch, at, step * x.k)  # type: ignore[attr-defined]
            self.a.brought(full)  # type: ignore[attr-defined]
            state = state.next()
        return state

    def wait(self, slot: nv.PipelineState) -> None:
        """Until all threads have brought theirs. The fence is here, since those that load would wait at one until the
        slices ahead have come, too."""
        super().wait(slot)
        nv.fence_proxy_async()


class ElementGemm(Gemm):
    operand, mainloop, loaders = ElementOperand, ThreadMainloop, THREADS


class PairGemm(ElementGemm):
    operand = PairOperand


def blocks_per_sm(config: Config, a_major: str) -> int:
    """That run at the same time: as far as registers suffice."""
    return 3 if config.tile_n < 64 else 2 if a_major == "k" else 1


def in_pairs(x: Matrix) -> bool:
    """Whether pairs of neighbours along the last axis lie at multiples of 4 bytes."""
    return x.aligned and x.strides[-1] == 1 and all(n % PAIR == 0 for n in (x.shape[-1], *x.strides[:-1]))


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    config: Config,
    sms: int,
    pairs: bool,
    a_major: str,
    b_major: str,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[..., M, N] = A[..., M, K] @ B[..., K, N] of 16-bit types. ``a_major``, ``b_major``: along what neighbours are
    near; A is given as (M, K) or (K, M), B as (N, K) or (K, N). ``pairs``: that axis is contiguous and even, and rows
    start at multiples of 4 bytes; else strides are any. Threads store the result."""
    kind = PairGemm if pairs else ElementGemm
    gemm = kind(a, b, out, operands, config, acc_dtype, a_major, b_major, epilogue_op, True)
    gemm.blocks_per_sm = blocks_per_sm(config, a_major)
    splitk.launch(gemm, gemm.blocks_per_sm * resident_clusters(1, sms), LEAST)
