"""Examples of the Pythonic layer: tiles, accumulators, rings, whole-tile copies, arrays."""

from __future__ import annotations

import itertools

import nvdsl as nv
from nvdsl.lang.fragment import operand_of
from nvdsl.ops import tma
from tests.sim.examples import address, example

# --- tiles, accumulators, pipelines, arrays


@example("smem.smem")
def _tiles(k):
    found = []
    for dtype, swizzle in itertools.product((nv.f16, nv.f32, nv.i8), (0, 16, 32, 64, 128)):
        tile = nv.smem((8, 128), dtype, swizzle=swizzle)
        tile[k.t // 16, k.t % 16] = k.i
        nv.sync_threads()
        found.append(tile[7 - k.t // 16, k.t % 16])
    return found


@example("tile.Tile.__getitem__", "tile.Tile.__setitem__", "tile.Tile.T", "tile.Tile.rows", "tile.Tile.cols",
         "tile_stack.TileStack.__getitem__")  # fmt: skip
def _elements(k):
    stack = nv.smem((2, 64, 64), nv.f16, swizzle=128)
    row = k.t // 128 * 8  # 0, which only the kernel knows
    for tile in (stack[0], stack[row + 1], k.A.T, k.A.rows(8, 16), k.A.rows(row, 16), k.B.cols(0, 64)):
        tile[k.t // 16, k.t % 16] = k.f
        nv.sync_threads()
    return [stack[1][k.t // 16, k.t % 16], k.A.T[k.t // 16, k.t % 16]]


@example("tile.Tile.address", "tile.Tile.pointer", "tile.Tile.panel", "tile.Tile.operand")
def _places(k):
    k.A.panel(0)
    return [k.A.address, nv.i32(address(k.A.pointer(k.i)))]


@example("tile.Tile.__matmul__", "accumulator.accumulator", "accumulator.Accumulator.__iadd__",
         "accumulator.Accumulator.mma", "accumulator.Accumulator.blocks")  # fmt: skip
def _products(k):
    k.fill()
    acc = nv.accumulator(64, 64, nv.f32)
    acc = acc.mma(k.A, k.B, commit=False)
    acc = acc.mma(k.A.T, k.B.T, scale_d=k.i > 0)
    for _ in nv.range(2):
        acc += k.A @ k.B
    nv.wgmma_wait(0)
    return acc.registers()[0]


@example("accumulator.Accumulator.undefined")
def _undefined(k):
    k.fill()
    acc = nv.accumulator(64, 64, nv.f32).undefined().mma(k.A, k.B, scale_d=False)
    nv.wgmma_wait(0)
    return acc.registers()[0]


@example("accumulator.Accumulator.registers", "matrix.Matrix.elements",
         "accumulator.Accumulator.with_registers")  # fmt: skip
def _registers(k):
    found = []
    for dtype in (nv.f32, nv.f16):
        acc = k.product(dtype).map(lambda x: x + 1.0)
        found += [value for _, _, value in acc.elements()]
    return found


@example("matrix.Matrix.store", "accumulator.Accumulator.words", "fragment.Fragment.words")
def _stores(k):
    for dtype in (nv.f32, nv.f16):
        k.product(dtype).store(k.halves, (0, 0))
        nv.sync_threads()
    tile = nv.smem((64, 24), nv.f16, swizzle=16)
    for dtype in (nv.f16, nv.bf16):
        nv.accumulator(64, 24).to(dtype).store(tile)
        nv.sync_threads()


@example("matrix.Matrix.__getitem__", "matrix.Matrix.rows", "matrix.Matrix.cols",
         "matrix.Matrix.to", "matrix.packed", "fragment.packed_fragment", "fragment.fragment",
         "fragment_vector.row_vector",
         "fragment_vector.column_vector", "fragment_vector.FragmentVector.__getitem__",
         "fragment_vector.FragmentVector.to", "fragment_vector.FragmentVector.values",
         "fragment_vector.FragmentVector.elements", "fragment_vector.FragmentVector.store")  # fmt: skip
def _tensors(k):
    x = nv.fragment(k.halves, (nv.block_id.x, 0), (64, 32), clip=True)
    y = nv.where(x.rows >= x.cols + nv.block_id.x, x.to(nv.f32)[:, 0:32] * 2.0, 0.0)
    v = nv.row_vector(k.f, 0, 64).to(nv.f32)[:, None]
    v = v + nv.column_vector(k.halves, (0, nv.block_id.x), 32)[None, :].to(nv.f32)
    tile = nv.smem((64, 32), nv.f16, swizzle=64)
    y.store(tile)
    nv.sync_threads()
    y = y + v + nv.fragment(tile).to(nv.f32).map(lambda x: x + 1.0)
    y.max(1).store(k.halves, (0, 0), clip=True)
    return [*y.sum(1).values(), *(x for _, x in y.sum(1).elements()), *(x for _, _, x in y.elements())]


@example("matrix.Matrix.sum", "matrix.Matrix.max", "matrix.Matrix.min", "matrix.Matrix.any", "matrix.Matrix.all",
         "fragment_vector.FragmentVector.total")  # fmt: skip
def _reductions(k):
    x = k.product()
    scratch = nv.smem(4 * 64, nv.f32)
    found = [x.sum(1), x.sum(0, scratch=scratch), x.max(1), x.min(1)]
    found += [x.sum(1, partial=True).total(), (x > 0.0).any(1).to(nv.f32), (x > 0.0).all(1).to(nv.f32)]
    return [value for vector in found for value in vector.values()]


@example("accumulator.Accumulator.fragment", "matrix.Matrix.__matmul__", "accumulator.Accumulator.operand",
         "fragment.Fragment.registers", "fragment.Fragment.operand", "fragment.operand_of")  # fmt: skip
def _fragments(k):
    found = []
    for dtype in (nv.f16, nv.bf16):
        fragment = k.product().fragment(dtype)
        assert len(fragment.registers[0]) == 4
        B = nv.smem((64, 64), dtype, swizzle=128)
        for i in nv.range(32):
            B[2 * i + k.t // 64, k.t % 64] = 0.0
        nv.fence_proxy_async()
        nv.sync_threads()
        acc = nv.accumulator(64, 64, nv.f32)
        acc += fragment @ B
        acc += operand_of([nv.i32(0)] * 16, dtype) @ B
        nv.wgmma_wait(0)
        found += acc.registers()[0]
    return found


@example("pipeline.PipelineState.next", "pipeline.PipelineState.advance", "pipeline.Ring.producer_state",
         "pipeline.Ring.consumer_state", "pipeline.Ring.acquire", "pipeline.Ring.wait",
         "pipeline.Ring.release")  # fmt: skip
def _rings(k):
    ring = nv.Ring(2, bytes=k.A.bytes, consumers=1)
    produced, consumed = ring.producer_state(), ring.consumer_state()
    for _ in nv.range(3):
        if k.first:
            k.a_tma.load(k.A, ring.acquire(produced), (0, 0))
        ring.wait(consumed)
        nv.sync_threads()
        ring.release(consumed, k.first)
        produced, consumed = produced.next(), consumed.next()
    return [produced.stage, consumed.phase]


@example("tma.TMA.load", "tma.TMA.store", "tma.TMA.reduce_add", "tma.TMA.prefetch", "tma.TMA.prefetch_tile")
def _tile_copies(k):
    k.a_tma.prefetch()
    k.a_tma.prefetch_tile((0, 0))
    k.bars[0].arrive_expect_tx(k.A.bytes, k.first)
    if k.first:
        k.a_tma.load(k.A, k.bars[0], (0, 0), l2_hint=tma.L2_EVICT_FIRST)
    k.bars[0].wait(0)
    if k.first:
        k.a_tma.store(k.A, (64, 0))
        tma.bulk_commit_group()
        tma.bulk_wait_group(0)
        k.a_tma.reduce_add(k.A, (0, 0))
        tma.bulk_commit_group()
        tma.bulk_wait_group(0)


@example("array.Array.__getitem__", "array.Array.__setitem__", "array.Array.view")
def _arrays(k):
    part = k.halves.view((k.t // 128 * 2, 0), (64, 64))
    part[k.t // 64, k.t % 64] = k.f
    return [part[k.t // 64, k.t % 64], k.halves[2:4, :][k.t // 64, k.t % 64]]


@example("tile.Tile.store_vector", "tile.Tile.vector")
def _tile_vectors(k):
    k.A.store_vector(k.halves.load_vector((k.t, 0), 8), (k.t % 64, 8))
    nv.sync_threads()
    return [k.A.vector((k.t % 64, 8 + k.t // 128 * 4), 4)]


@example("tile.Tile.elements", "ops.cp_async.cp_async", "ops.cp_async.cp_async_commit", "ops.cp_async.cp_async_wait",
         "ops.cp_async.cp_async_arrive")  # fmt: skip
def _async_copies(k):
    full = nv.Mbarriers(1, arrivals=128)[0]
    nv.cp_async(k.A.elements((k.t % 64, k.t // 64 * 4), 4), 0, k.halves, (k.t, 0), 4)
    nv.cp_async_commit()
    nv.cp_async_wait(0)
    nv.sync_threads()
    nv.cp_async(k.A.elements((k.t % 64, 16 + k.t // 64 * 8), 8), 0, k.halves, (k.t, 0), 8, valid=k.t % 8)
    nv.cp_async_arrive(full)
    full.wait(0)
    return [k.A.vector((k.t % 64, 16), 8)]


@example("tile.Tile.at", "array.Array.at", "remote.Remote.__getitem__", "remote.Remote.__setitem__",
         "remote.Remote.vector", "remote.Remote.store_vector", "remote.Remote.store_async", "ops.st_async.st_async",
         "remote.remote")  # fmt: skip
def _remote(k):
    line, came = nv.smem((512,), nv.f32), nv.Mbarriers(1, arrivals=1, sync=False)[0]
    nv.cluster_sync()
    there, tile = line.at(0), k.A.at(0)
    if nv.cluster_rank() == 0:
        there[k.t] = k.f
        tile.store_vector(nv.vector([k.f, k.f], nv.f16), (k.t % 64, k.t // 64 * 2))
        came.arrive_expect_tx(16 * 128, k.first)
        nv.smem((512,), nv.f32).at(0).store_async(nv.vector([k.f] * 4), k.t * 4, came)
        came.wait(0)
    nv.cluster_sync()
    found = [there[k.t], tile.vector((k.t % 64, k.t // 64 * 2), 2)]
    nv.cluster_sync()
    return found


@example("copies.copy")
def _copies(k):
    nv.copy(k.halves[0:64, 0:64], k.A)
    nv.sync_threads()
    nv.copy(k.A[8:16, :], k.halves[k.t // 128 : k.t // 128 + 8, 0:64])


@example("array.Array.windows")
def _windows(k):
    return k.halves.windows(32)[1, 2, k.t % 64]


@example("array.Array.vector", "array.Array.load_vector", "array.Array.store_vector")
def _vectors(k):
    found = []
    for count in (1, 2, 4, 8):
        found.append(k.halves.vector((k.t, 0), count))
        k.halves.store_vector(found[-1], (k.t, 8))
    return found


@example("warp_fragment.load_a", "warp_fragment.load_b", "warp_fragment.check_warps", "warp_fragment.elements_of",
         "warp_fragment.WarpFragment.layout", "warp_fragment.WarpFragment.elements", "warp_fragment.WarpFragment.step",
         "warp_fragment.WarpFragment.__matmul__", "warp_accumulator.warp_accumulator",
         "warp_accumulator.WarpAccumulator.layout", "warp_accumulator.WarpAccumulator.__iadd__",
         "warp_accumulator.WarpAccumulator.mma", "warp_accumulator.WarpAccumulator.registers",
         "warp_accumulator.WarpAccumulator.__matmul__",
         "warp_accumulator.WarpAccumulator.with_registers", "warp_accumulator.WarpAccumulator.fragment",
         "warp_accumulator.WarpAccumulator.store")  # fmt: skip
def _of_a_warp(k):
    k.fill()
    acc = nv.warp_accumulator(16, 16)
    a = nv.load_a(k.A, (0, 16), (16, 32))
    for _ in nv.range(2):
        acc += a @ nv.load_b(k.B, (0, 8), (32, 16))
    acc += (acc + 1.0).to(nv.f16) @ nv.load_b(k.B, (0, 0), (16, 16))
    acc = acc.map(lambda x: x + 1.0).mma(acc.fragment(nv.f16), nv.load_b(k.B, (0, 0), (16, 16)))
    nv.sync_threads()
    acc.store(k.A, (k.t // 32 * 16, 0))
    return [*acc.registers(), *(x for _, _, x in a.elements())]


@example("matrices.ldmatrix", "matrices.stmatrix")
def _matrices_of_a_tile(k):
    k.fill()
    row = k.t // 32 * 16
    words = k.A.ldmatrix((row, 8), 4, transpose=True)
    k.B.stmatrix(words[:2], (row, 0))
    return words
