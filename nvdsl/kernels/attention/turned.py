"""Operands of 8 bits for P V: V with its keys contiguous, and weights in the order of the registers that have them.

wgmma takes B of 8 bits with K contiguous only (PTX ISA, wgmma.mma_async): here K are the keys, and rows of V lie in
memory key by key. The producer's four warps turn each tile over, as FlashAttention-3 does (Shah et al., arXiv
2407.08608, section 3.3): ldmatrix transposes pairs of bytes, and a permutation of bytes takes the pairs apart.

An accumulator's thread has the columns 2 c, 2 c + 1 and 8 + 2 c, 8 + 2 c + 1 of 16 keys; as an A operand it has four
neighbours. A product over keys is the same in any order of them, so that V is turned into this order, and the weights
stay where they are:

    keys        0  1  8  9 | 2  3 10 11 | 4  5 12 13 | 6  7 14 15
    thread c       0       |     1      |     2      |     3
"""

from __future__ import annotations

from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.kernels.attention.config import swizzle
from nvdsl.kernels.attention.load import Loads, States
from nvdsl.kernels.attention.sequences import Sequence
from nvdsl.kernels.attention.tiles import Place, Steps
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.lang.fragment import Fragment
from nvdsl.lang.packing import as_words
from nvdsl.lang.tile import Tile
from nvdsl.layout import E, Layout
from nvdsl.layout.tile import TileLayout
from nvdsl.ops import smem

WARPS = 4
"""Of the producer's warpgroup: each turns a part of a tile."""
EVEN, ODD = 0x6420, 0x7531
"""Bytes of two words, as `_bytes` selects them."""


class TurnedLoads(Loads):
    """`Loads` of 8-bit elements. ``load`` is the whole warpgroup's: one thread loads, and all turn V."""

    together = True

    def _allocate_values(self) -> None:
        """Rings of V as it is loaded, and of V turned."""
        config, size = self.config, self.config.sizes[1]
        fits = size % (16 * WARPS) == 0 or config.tile_n % (32 * WARPS) == 0
        nv.require(fits, f"tiles of {config.tile_n} keys and {size} columns", rule="each warp turns a part of a tile")
        self._loaded = nv.Ring(config.stages, bytes=self.V.bytes, consumers=WARPS, sync=False)
        self._turned = nv.smem((config.stages, size, config.tile_n), self.dtype, swizzle=swizzle(config.tile_n))
        self.v_ring = nv.Ring(config.stages, bytes=0, consumers=self._warps, producers=WARPS, sync=False)

    def values(self, stage: Any) -> Any:
        return self._turned[stage].T

    def begin(self) -> States:
        qs, ks, vs = super().begin()
        return qs, ks, self._loaded.producer_state(), self._loaded.consumer_state(), vs

    def load(self, states: States, place: Place, way: Sequence, steps: Steps) -> States:
        qs, ks, loading, loaded, vs = states
        one = nv.warpgroup_thread() == 0
        key = steps.top * self.config.tile_n
        if one:
            there = self.where(place, way, key)
            self.load_k(ks, there, place)
            self.load_q(qs, place, way)
            self.load_v(loading, there, place)
        qs, ks, loading = qs.next(), ks.next(), loading.next()
        if self._ways.ragged:
            self._loaded.wait(loaded)
            self.clear(self.V[loaded.stage], way.keys - key, 0, 128)
        for _ in nv.range(steps.count - 1, unroll=False):
            key = key - self.config.tile_n
            if one:
                there = self.where(place, way, key)
                self.load_k(ks, there, place)
                self.load_v(loading, there, place)
            self._turn(loaded, vs)
            ks, loading, loaded, vs = ks.next(), loading.next(), loaded.next(), vs.next()
        self._turn(loaded, vs)
        return qs, ks, loading, loaded.next(), vs.next()

    def load_v(self, state: nv.PipelineState, there: list[tuple[Any, Any]], place: Place) -> None:
        self._boxes(self._v, self.V[state.stage], self._loaded.acquire(state), there, place)

    def _turn(self, loaded: nv.PipelineState, vs: nv.PipelineState) -> None:
        """Turn a tile of V: 16 columns of 32 keys at a time."""
        keys, size = self.config.tile_n, self.config.sizes[1]
        warp, lane = nv.warpgroup_thread() // 32, nv.lane_id()
        self._loaded.wait(loaded)
        full = self.v_ring.acquire(vs, expect=False)
        nv.sync_warp()
        source, turned = _pairs(self.V[loaded.stage]), self._turned[vs.stage]
        # The eight rows of a matrix that is stored lie in eight banks: they are the even columns of V, and from the
        # ninth column on the odd ones; or the odd ones, and then the even ones.
        row, col = 2 * (lane % 8) + (lane // 8 % 2 ^ lane % 8 // 4), lane // 16 * 16
        if self.config.queue and size > 128:
            (col,) = opaque(col)  # no addresses are kept from tile to tile: beside the queue's numbers they spilled
        some = nv.select(lane < 16, EVEN, ODD)
        others = EVEN + ODD - some
        own_columns = size % (16 * WARPS) == 0
        columns, groups = (size // WARPS, keys) if own_columns else (size, keys // WARPS)
        for at in range(0, columns, 16):
            for first in range(0, groups, 32):
                column: Any = at + (warp * columns if own_columns else 0)
                key: Any = first + (0 if own_columns else warp * groups)
                a, b, c, d = source.ldmatrix((key, column // 2), 4, transpose=True, matrices=Layout(4, E(8, 0)))
                words = [_bytes(x, y, which) for x, y in ((a, b), (c, d)) for which in (some, others)]
                smem.stmatrix(turned.pointer(turned.layout.offset(column + row, key + col)), words)
        nv.fence_proxy_async()
        nv.sync_warp()
        full.arrive(predicate=lane == 0)
        self._loaded.release(loaded, lane == 0)


def held(tile: nv.Tile) -> Fragment:
    """64 rows of 8-bit elements in shared memory as an A operand in registers."""
    lane, warp = opaque(nv.lane_id(), nv.warpgroup_thread() // 32)  # else LLVM keeps addresses from tile to tile
    row, col = warp * 16 + lane % 16, lane // 16 * 16
    places = [tile.pointer(tile.layout.offset(row, col + at)) for at in range(0, tile.shape[1], 32)]
    return Fragment(*tile.shape, tile.dtype, [[smem.ldmatrix(place, 4) for place in places]])


def operand(weights: Any, dtype: nv.DType) -> Fragment:
    """64 rows of weights, in f32, as an A operand of 8 bits, beside `TurnedLoads.values`."""
    (elements,) = weights.registers()
    steps = []
    for first in range(0, len(elements), 16):  # 32 keys: two rows of four times two neighbours
        pairs = [elements[at : at + 2] for at in range(first, first + 16, 2)]  # (block of 8 keys, row)
        steps.append([_packed(pairs[i] + pairs[i + 2], dtype) for i in (0, 1, 4, 5)])
    return Fragment(weights.m, weights.n, dtype, [steps])


def _packed(elements: list[Any], dtype: nv.DType) -> Any:
    (word,) = as_words([dtype(nv.vector(elements))], dtype)
    return word


def _pairs(tile: nv.Tile) -> Tile:
    """The tile's bytes as pairs of them."""
    rows, cols = tile.shape
    return Tile(TileLayout.of(rows, cols // 2, 2, tile.swizzle), nv.u16, tile.offset)


def _bytes(a: Any, b: Any, selector: Any) -> Any:
    """Bytes of ``a`` (0 to 3) and ``b`` (4 to 7) by the digits of a selector (PTX ISA, prmt)."""

    def meaning(x: Any, y: Any, digits: Any) -> Any:
        x, y, digits = (word.view(np.uint32) for word in (x, y, digits))
        given = np.stack([word >> 8 * i & 0xFF for word in (x, y) for i in range(4)])
        found = sum(
            np.uint32(1 << 8 * i) * np.take_along_axis(given, (digits >> 4 * i & 7)[None].astype(np.int64), 0)[0]
            for i in range(4)
        )
        return np.asarray(found, np.uint32).view(np.int32)

    return nv.ptx("prmt.b32 $0, $1, $2, $3;", a, b, selector, result=nv.i32, meaning=meaning, volatile=False)
