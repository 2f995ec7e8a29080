"""Products of operands that TMA can't read, where a copy of them would take longer than the product.

The split-K kernel, but its producer warpgroup loads by its threads into the same ring of swizzled tiles:

    cp.async      rows that start at multiples of 4 bytes: slices are asked for as far ahead as there are slots
    elements      any strides and alignment: a thread asks for half of its elements of a slice before it waits

Such results have few rows or columns: a matrix is read once, and what that takes is the time. Copies would read it,
write it, and read it again.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm import splitk
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.gemm.problem import Matrix
from nvdsl.lang.packing import pair_vector


def _tiles(cols: int, stages: int) -> Config:
    return Config(64, cols, stages=stages, schedule="splitk", consumers=1, split=1, parts=128, store_buffers=1)


PAIRS, ELEMENTS = (_tiles(16, 8), _tiles(32, 5), _tiles(64, 4)), (_tiles(16, 6), _tiles(32, 4))
"""The tiles of results of up to so many columns, by how operands are loaded. A slice's lines are touched again for the
next one: rings that leave memory to L1 are faster than deeper ones."""
THREADS = 128
"""That load."""
TURNS = 2
"""In which a thread asks for its elements of an operand's slice."""
LEAST = 2
"""Slices of a block's part, at least, where several blocks share a tile."""
PAIR = 2
"""Elements that cp.async brings."""


def config(n: int, pairs: bool) -> Config | None:
    """The tiles of a result of ``n`` columns and at least as many rows; None where copies are faster. Where tiles would
    have to be wider, a slice takes longer to load than to copy."""
    return next((tiles for tiles in (PAIRS if pairs else ELEMENTS) if n <= tiles.tile_n), None)


class ElementOperand(TmaOperand):
    """The tiles of an operand of any strides and alignment: (mn, k), of which neighbours along K are near."""

    def __init__(
        self, array: nv.Array, mn: int, k: int, *, major: str, parts: int = 1, defined: bool = True
    ) -> None:
        self.array, self.major, self.dtype, self.k, self.parts = array, major, array.dtype, k, parts
        self.rows, self.cols = (mn, k) if major == "k" else (k, mn)
        self.panel, self.each = 128 // array.dtype.bytes, k * array.dtype.bytes
        self.stored_cols = nv.cdiv(self.cols, self.panel) * self.panel
        self.stored, self.may_miss, self.usual = mn, False, mn
        self.batched = array.ndim == 3

    def bring(self, stage: Any, batch: Any, mn: Any, k: Any) -> None:
        """Copy the tile at (``mn``, ``k``) into a slot: zeros beyond K; beyond the last row others of the array."""
        (thread,) = opaque(nv.warpgroup_thread())  # places are not kept from slice to slice: they are many registers
        pairs = self.cols // PAIR
        for turn in range(TURNS):
            nv.sync_warp()  # else all would be asked for at once, with more registers than there are
            places = [divmod(thread + i * THREADS, pairs) for i in range(turn, self.rows * pairs // THREADS, TURNS)]
            asked = [[self._element(batch, mn + row, k + x * PAIR + j) for j in range(PAIR)] for row, x in places]
            for (row, x), (low, high) in zip(places, asked, strict=True):
                self.stack[stage].store_vector(pair_vector(low, high, self.dtype), (row, x * PAIR))

    def brought(self, full: nv.Mbarrier) -> None:
        """Arrive for what this thread has brought. The consumers order it before what wgmma reads."""
        full.arrive()

    def _element(self, batch: Any, mn: Any, k: Any) -> Any:
        rows, cols = self.array.shape[-2:]
        at = nv.min(mn, rows - 1), nv.min(k, cols - 1)
        return nv.select(k < cols, self.array[(batch, *at) if self.batched else at], self.dtype(0))


class PairOperand(ElementOperand):
    """The tiles of an operand of which neighbours along the last axis lie in pairs, at multiples of 4 bytes: (mn, k)
    or (k, mn)."""

    def bring(self, stage: Any, batch: Any, mn: Any, k: Any) -> None:
        """Start to copy the tile at (``mn``, ``k``) into a slot: zeros beyond K; beyond the last row others of the
        array."""
        rows, cols = self.array.shape[-2:]
        units = self.cols // PAIR
        row, unit = nv.warpgroup_thread() // units, nv.warpgroup_thread() % units
        col = unit * PAIR
        for i in range(0, self.rows, THREADS // units):
            if self.major == "k":
                at, inside = (nv.min(mn + row + i, rows - 1), k + col), k + col < cols
            else:
                at, inside = (k + row + i, nv.min(mn + col, cols - PAIR)), k + row + i < rows
            place = self.stack[stage].elements((row + i, col), PAIR)
            valid = nv.select(inside, PAIR, 0)
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
    """out[..., M, N] = A[..., M, K] @ B[..., K, N] of 16-bit types. ``a_major``, ``b_major``: the axis along which
    neighbours are near, the last one of what is given: A as (M, K) or (K, M), B as (N, K) or (K, N). ``pairs``: that
    axis is contiguous and even, and rows start at multiples of 4 bytes; else strides are any, and the axis is K.
    Threads store the result."""
    nv.require(
        pairs or a_major == b_major == "k",
        f"elements of operands with {a_major} and {b_major} last",
        rule="elements are loaded along K",
        fix='pass A as (M, K) and B as (N, K), or pairs=True',
    )
    kind = PairGemm if pairs else ElementGemm
    gemm = kind(a, b, out, operands, config, acc_dtype, a_major, b_major, epilogue_op, True)
    gemm.blocks_per_sm = 2 if pairs else 3
    splitk.launch(gemm, gemm.blocks_per_sm * resident_clusters(1, sms), LEAST)
