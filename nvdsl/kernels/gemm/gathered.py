"""Products of operands that TMA can't read, where a copy of them would take longer than the product.

The split-K kernel, but its producer warpgroup loads by its threads: elements of any strides and alignment, two at a
time along K, into the same ring of swizzled tiles. Each thread asks for all of its elements of an operand's slice
before it waits for one. That takes some 1.7 us for a slice, where copies, a launch for each operand, take 6 us or more.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.kernels.blocks.direct_epilogue import cut
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm import splitk, splitk_parts
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.gemm.problem import GemmProblem
from nvdsl.lang.packing import pair_vector

CONFIG = Config(64, 64, stages=4, schedule="splitk", consumers=1, split=1, parts=32, store_buffers=1)
THREADS, LOADED = 128, 6
"""Threads that load, and their named barrier."""
LEAST = 2
"""Slices of a block's part, at least, where several clusters share a tile."""
MOST = 4
"""Slices that a block loads, one after the other, up to which nothing is copied first: copies, which are launches of
their own, take as long as loading about so many."""


def pays(problem: GemmProblem, sms: int) -> bool:
    """Whether loading by threads takes no longer than copies and a product of these."""
    m, n, k = problem.sizes
    tiles = problem.batches * nv.cdiv(m, CONFIG.tile_m) * nv.cdiv(n, CONFIG.tile_n)
    slices, clusters = nv.cdiv(k, CONFIG.tile_k), _clusters(sms)
    shared = splitk_parts.parts(tiles, slices, CONFIG.split, clusters, CONFIG.parts, LEAST)
    each = nv.cdiv(tiles * shared, clusters) * nv.cdiv(slices, CONFIG.split * shared)
    return problem.a.dtype.bits == 16 and each <= MOST


def _clusters(sms: int) -> int:
    """That run at the same time, where two blocks share an SM."""
    return 2 * resident_clusters(CONFIG.split, sms)


class ThreadOperand(TmaOperand):
    """The tiles of an operand of any strides and alignment, stored with K contiguous.

    ``array``: (mn, k) or (k, mn), of which the last axis is the one along which neighbours are near."""

    def __init__(
        self, array: nv.Array, mn: int, k: int, *, major: str, parts: int = 1, defined: bool = True
    ) -> None:
        self.array, self.near = array, major
        self.rows, self.cols, self.k, self.parts = mn, k, k, parts
        self.major, self.dtype = "k", array.dtype
        self.panel, self.each = 128 // array.dtype.bytes, k * array.dtype.bytes
        self.stored, self.stored_cols, self.may_miss, self.usual = mn, k, False, mn
        self.batched = array.ndim == 3
        self.extents = array.shape[-2:] if major == "k" else array.shape[:-3:-1]

    @property
    def turns(self) -> range:
        """In how many a tile is loaded: rows of K each need an address, and so registers."""
        return range(1 if self.near == "k" else 2)

    def fetch(self, batch: Any, mn: Any, k: Any, turn: int) -> list[tuple[Any, Any, Any, Any]]:
        """Ask for a thread's part of the tile at (``mn``, ``k``): row, column, and two neighbours along K each. Zeros
        beyond K; beyond the last row others of the array."""
        (thread,) = opaque(nv.warpgroup_thread())  # places are not kept from slice to slice: they are many registers
        found = []
        pairs = self.cols // 2
        for i in range(turn, self.rows * pairs // THREADS, len(self.turns)):
            number = thread + i * THREADS
            row, pair = number // pairs, number % pairs
            if self.near != "k":
                row, pair = number % self.rows, number // self.rows
            found.append((row, pair * 2, *(self._element(batch, mn + row, k + pair * 2 + j) for j in (0, 1))))
        return found

    def _element(self, batch: Any, mn: Any, k: Any) -> Any:
        rows, cols = self.extents
        at = nv.min(mn, rows - 1), nv.min(k, cols - 1)
        at = at if self.near == "k" else at[::-1]
        value = self.array[(batch, *at) if self.batched else at]
        return nv.select(k < cols, value, self.dtype(0))

    def keep(self, stage: Any, fetched: list[tuple[Any, Any, Any, Any]]) -> None:
        """Write what `fetch` returned into a slot."""
        tile = self.stack[stage]
        for row, col, low, high in fetched:
            tile.store_vector(pair_vector(low, high, self.dtype), (row, col))


class ThreadMainloop(Mainloop):
    """`Mainloop` of operands that a warpgroup loads."""

    def start(self, *_: Any) -> None:
        """Nothing is loaded before the block's threads have met."""

    def load(
        self, state: nv.PipelineState, batch: Any, row: Any, col: Any, first: Any = 0, last: Any = None, **_: Any
    ) -> nv.PipelineState:
        """By all threads of a warpgroup."""
        for step in nv.range(first, self.steps if last is None else last, unroll=False):
            full = self.ring.acquire(state, expect=False)
            for x, at in ((self.a, row), (self.b, col)):
                for turn in x.turns:  # type: ignore[attr-defined]
                    nv.sync_warp()  # else all would be asked for at once, with more registers than there are
                    x.keep(state.stage, x.fetch(batch, at, step * x.k, turn))  # type: ignore[attr-defined]
            nv.fence_proxy_async()
            nv.named_barrier_sync(LOADED, THREADS)
            if nv.warpgroup_thread() == 0:
                full.arrive()
            state = state.next()
        return state


class ThreadGemm(Gemm):
    operand, mainloop, loaders = ThreadOperand, ThreadMainloop, THREADS


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    sms: int,
    a_major: str,
    b_major: str,
    direct_store: bool = False,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[..., M, N] = A[..., M, K] @ B[..., K, N] of 16-bit types. ``a_major``, ``b_major``: along what neighbours are
    near; A is given as (M, K) or (K, M), B as (N, K) or (K, N), with any strides."""
    direct_store = direct_store or cut(out)
    gemm = ThreadGemm(a, b, out, operands, CONFIG, acc_dtype, a_major, b_major, epilogue_op, direct_store)
    if a_major == "k":  # else registers don't suffice for two
        gemm.blocks_per_sm = 2
    splitk.launch(gemm, gemm.blocks_per_sm * resident_clusters(CONFIG.split, sms), LEAST)
