"""Layers in a row, without a way to global memory between them: a producer, and consumers of 64 rows each.

    producer     rows of x | W0, W1, W2, ... of the layers, slice by slice, as far ahead as the ring allows
    consumer     x -> registers | x = activation(x @ W0.T + b0) | x = activation(x @ W1.T + b1) | ... | x -> out

A consumer's sums, once activated and converted, are wgmma's A operand of the next layer in the very registers where
they are (PTX ISA, wgmma: the fragments of D and A). So nothing but the weights moves through shared memory. All blocks
read the same weights at about the same time, from L2. While one consumer activates, another one multiplies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.contiguous import pack
from nvdsl.kernels.blocks.linear_combination import activated
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.mlp.config import SLICE, WGMMA_ROWS, MlpConfig

Activation = Callable[[Any], Any] | None
Rows = nv.Shaped[nv.Array, "rows", ...]
STORED, TURNS = 1, 8
"""Named barriers: one for each consumer; and those of `nv.Turns`."""


class Weights:
    """The weights of all layers: one array (layers, width, width), or one of (width, width) for each layer. Made in the
    host function. ``major``: "k" where they are stored (out, in), "mn" where (in, out). ``parts``: blocks that load
    them together."""

    def __init__(self, arrays: Sequence[nv.Array], width: int, major: str, parts: int) -> None:
        self.stacked = arrays[0].ndim == 3
        self.layers = arrays[0].shape[0] if self.stacked else len(arrays)
        self.operands = [TmaOperand(x, width, SLICE, major=major, parts=parts) for x in arrays]
        self.slices = range(0, width, SLICE)

    def allocate(self, stages: int) -> nv.TileStack:
        """The slots, in the kernel."""
        first, *others = self.operands
        first.allocate(stages)
        for operand in others:
            operand.stack = first.stack
        return first.stack

    def load(self, ring: nv.Ring, state: nv.PipelineState, rank: nv.Int) -> nv.PipelineState:
        """Load all layers, one after the other. By one thread. Returns the ring's next position."""
        if self.stacked:
            for layer in nv.range(self.layers, unroll=False):
                state = self._load_layer(self.operands[0], layer, ring, state, rank)
        else:
            for operand in self.operands:
                state = self._load_layer(operand, 0, ring, state, rank)
        return state

    def _load_layer(
        self, operand: TmaOperand, layer: nv.Int, ring: nv.Ring, state: nv.PipelineState, rank: nv.Int
    ) -> nv.PipelineState:
        mask = (1 << operand.parts) - 1
        for k in nv.range(self.slices.start, self.slices.stop, SLICE, unroll=False):  # a producer has few registers
            operand.load(state.stage, ring.acquire(state), layer, 0, k, operand.stored, part=rank, mask=mask)
            state = state.next()
        return state

    def multiply(self, x: nv.Fragment, ring: nv.Ring, state: nv.PipelineState) -> tuple[Any, nv.PipelineState]:
        """Issue ``x @ weights.T`` of the layer whose first slot is ``state``. Returns the sums, not complete yet, and
        the next layer's first slot."""
        sums = nv.accumulator(WGMMA_ROWS, x.shape[1])
        for k in self.slices:
            ring.wait(state)
            last = k == self.slices[-1]  # a layer's products are one group
            sums = sums.mma(x[:, k : k + SLICE], self.operands[0].b(state.stage), commit=last)
            state = state.next()
        return sums, state


@nv.jit
def mlp(
    x: Rows,
    out: Rows,
    *parameters: Any,
    config: MlpConfig,
    blocks: int,
    major: str,
    weights: int,
    activation: Activation,
    output_activation: Activation,
    copied: bool = False,
    turned_x: bool | None = None,
    turned_out: bool | None = None,
) -> None:
    """``parameters``: the arrays of the `Weights`, ``weights`` of them; then none, one of (layers, width), or one of
    (width,) or None for each layer: the biases. ``blocks``: of the grid at most.

    ``copied``: TMA can't read the weights, and copies are made; of ``x`` and ``out`` it is so where ``turned_x`` and
    ``turned_out``, whether neighbours along the columns are nearer, are no None."""
    result = out
    if turned_x is not None:
        x = packed(x, turned_x)
    if turned_out is not None:
        out = nv.empty(out.shape, out.dtype)
    arrays = [packed(one, False) for one in parameters[:weights]] if copied else parameters[:weights]
    _forward(x, out, Weights(arrays, x.shape[1], major, config.cluster), parameters[weights:], config, blocks,
             activation, output_activation)  # fmt: skip
    if turned_out is not None:
        pack.__wrapped__(out, result, turned=False)


def packed(array: nv.Array, turned: bool) -> nv.Array:
    """A C-contiguous copy; ``turned``: see `pack`."""
    copy = nv.empty(array.shape, array.dtype)
    pack.__wrapped__(array, copy, turned=turned)
    return copy


def _forward(
    x: nv.Array,
    out: nv.Array,
    weights: Weights,
    biases: Sequence[nv.Array | None],
    config: MlpConfig,
    blocks: int,
    activation: Activation,
    output_activation: Activation,
) -> None:
    (rows, width), layers, dtype = x.shape, weights.layers, x.dtype
    tiles = nv.cdiv(rows, config.rows * config.cluster)
    step = nv.min(tiles, blocks // config.cluster)
    x_tma = nv.TMA(x, tile=(config.rows, width), swizzle=128)
    out_tma = nv.TMA(out, tile=(WGMMA_ROWS, width), swizzle=128)
    warps = 4 * config.consumers
    nv.require(
        config.stages > len(weights.slices) or config.halves == 1,
        f"{config} for layers of {width}",
        rule="the next layer's first slot is waited for before this layer's are free",
        fix=f"stages={len(weights.slices) + 1}",
    )

    @nv.kernel(grid=step * config.cluster, block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        tile_stack = nv.smem((config.tiles, config.rows, width), dtype, swizzle=128)
        slots = weights.allocate(config.stages)
        x_ring = nv.Ring(config.tiles, bytes=tile_stack.bytes, consumers=warps, sync=False)
        w_ring = nv.Ring(config.stages, bytes=slots.bytes, consumers=warps * config.cluster, sync=False)
        bias = nv.smem(layers * width, nv.f32) if biases else None
        if bias is not None:
            fill(bias, biases, width, config.threads)
        if config.cluster > 1:
            nv.cluster_sync()
        else:
            nv.sync_threads()
        rank = nv.cluster_rank() if config.cluster > 1 else 0
        turns = nv.Turns(config.consumers, barrier=TURNS) if config.turns and config.consumers > 1 else None
        first = nv.block_id.x // config.cluster

        def start(tile: nv.Int) -> nv.Int:
            return (tile * config.cluster + rank) * config.rows

        def produce() -> None:
            xs, ws = x_ring.producer_state(), w_ring.producer_state()
            for tile in nv.range(first, tiles, step, unroll=False):
                x_tma.load(tile_stack[xs.stage], x_ring.acquire(xs), (start(tile), 0))
                ws, xs = weights.load(w_ring, ws, rank), xs.next()

        def release(state: nv.PipelineState) -> None:
            """The slots of a layer, from ``state`` on, in all blocks that share them."""
            lane = nv.lane_id()
            for _ in weights.slices:
                if config.cluster == 1:
                    w_ring.release(state, lane == 0)
                else:
                    w_ring.release(state, lane < config.cluster, rank=lane)
                state = state.next()

        def finished(sums: Any, number: nv.Int, activation: Activation) -> Any:
            """A layer's values, as A of the next one."""
            if bias is not None:
                sums = sums + nv.column_vector(bias, number * width, width)[None, :]
            return (sums if activation is None else sums.map(functools.partial(activated, activation))).to(dtype)

        def layer(
            xs: list[Any], number: nv.Int, state: nv.PipelineState, me: nv.Int, activation: Activation, last: bool
        ) -> tuple[list[Any], nv.PipelineState]:
            """While the first half of the rows is activated, the second one is multiplied."""
            if turns is not None:
                turns.wait(me)
            sums, (following, *_) = zip(*(weights.multiply(x, w_ring, state) for x in xs), strict=True)
            if turns is not None:
                turns.pass_on(me)
            values = []
            for left, half in zip(reversed(range(len(xs))), sums, strict=True):
                nv.wgmma_wait(left)
                if left == 0:
                    release(state)
                values.append(finished(half, number, activation))
                if left > 0 and not last:
                    w_ring.wait(following)  # here it keeps ptxas from waiting for the second half before this line
            return values, following

        def consume(me: nv.Int) -> None:
            xs, ws = x_ring.consumer_state(), w_ring.consumer_state()
            if turns is not None:
                turns.begin(me)
            for tile in nv.range(first, tiles, step, unroll=False):
                x_ring.wait(xs)
                tops = [me * config.consumer_rows + half * WGMMA_ROWS for half in range(config.halves)]
                mine = [tile_stack[xs.stage].rows(top, WGMMA_ROWS) for top in tops]
                values = [nv.fragment(part) for part in mine]
                for number in nv.range(layers - 1, unroll=False):
                    values, ws = layer(values, number, ws, me, activation, False)
                values, ws = layer(values, layers - 1, ws, me, output_activation, True)
                nv.sync_warp()  # the warp has read its rows of x
                for part, half in zip(mine, values, strict=True):
                    half.store(part)
                nv.fence_proxy_async()
                nv.named_barrier_sync(STORED + me, 128)
                if nv.warpgroup_thread() == 0:
                    for top, part in zip(tops, mine, strict=True):
                        out_tma.store(part, (start(tile) + top, 0))
                    nv.bulk_commit_group()
                    nv.bulk_wait_group(0, read=True)
                x_ring.release(xs, nv.lane_id() == 0)
                xs = xs.next()
            if turns is not None:
                turns.end(me)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(config.registers[0])
            if nv.warpgroup_thread() == 0:
                produce()
        else:
            nv.setmaxnreg_inc(config.registers[1])
            consume(nv.warpgroup_id() - 1)
        if config.cluster > 1:
            nv.cluster_sync()

    kernel()


def fill(bias: nv.Array, rows: Sequence[nv.Array | None], width: int, threads: int) -> None:
    """Copy all layers' biases to ``bias``, one after the other, as f32; zeros where a layer has none."""
    if rows[0] is not None and rows[0].ndim == 2:
        for i in nv.range(nv.thread_id.x, bias.shape[0], threads):
            bias[i] = nv.f32(rows[0][i // width, i % width])
        return
    for number, row in enumerate(rows):
        for i in nv.range(nv.thread_id.x, width, threads):
            bias[number * width + i] = 0.0 if row is None else nv.f32(row[i])
